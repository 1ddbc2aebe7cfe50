//! The groupSequence-listSequence format (broker §2.2) as columns: what plans find, before messages are made of it.

use twigcast_kernel::internals::{read, NodeIx, Nodes, OfPlan, Returned, TransformRunner};
use twigcast_kernel::xml::{Limits, Reader, XmlError};
use twigcast_kernel::Engine;

/// Per plan its groups; per group the bound node and a list of nodes for each return path.
#[derive(Default)]
pub struct Groups {
    /// Ends of the plans' groups in `bound`.
    pub group_ends: Vec<u32>,
    pub bound: Vec<NodeIx>,
    /// Ends of the lists in `nodes`, return after return, group after group.
    pub list_ends: Vec<u32>,
    pub nodes: Vec<NodeIx>,
}

impl Groups {
    /// Adds the groups of one plan.
    pub(super) fn add(&mut self, returns: usize, bound: &[NodeIx], lists: &mut dyn Returned<'_>) {
        for node in bound {
            self.bound.push(*node);
            for r in 0..returns as u32 {
                self.nodes.extend_from_slice(lists.nodes(r, node));
                self.list_ends.push(self.nodes.len() as u32);
            }
        }
        self.group_ends.push(self.bound.len() as u32);
    }

    pub fn clear(&mut self) {
        self.group_ends.clear();
        self.bound.clear();
        self.list_ends.clear();
        self.nodes.clear();
    }
}

/// Finds the groups of the kernel's own transforms, to compare them with those of plans.
#[derive(Default)]
pub struct KernelGroups {
    reader: Reader,
    nodes: Nodes,
    runner: TransformRunner,
}

impl KernelGroups {
    /// Appends the groups that new messages would be made of.
    pub fn find(&mut self, engine: &Engine, xml: &[u8], limits: &Limits, out: &mut Groups) -> Result<(), XmlError> {
        let runner = &mut self.runner;
        let (vocabulary, set) = engine.transforms();
        read(&mut self.reader, &mut self.nodes, vocabulary, xml, limits, |message| {
            runner.run(set, message, |_, returns, bound, lists| {
                out.add(returns.len(), bound, &mut OfPlan { returns, lists });
            })
        })
    }

    /// Only reads the message, for comparison.
    pub fn read(&mut self, engine: &Engine, xml: &[u8], limits: &Limits) -> Result<(), XmlError> {
        read(&mut self.reader, &mut self.nodes, engine.transforms().0, xml, limits, |_| Ok(()))
    }
}
