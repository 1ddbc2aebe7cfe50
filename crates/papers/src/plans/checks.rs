//! What selections and filters ask of single nodes: a search from the node first; where that takes long, or positions
//! count, for all nodes of the message at once.

use hashbrown::HashMap;
use twigcast_kernel::internals::{select, Condition, Message, Node, NodeIx, Pred, Search, Sets, StrId, Twig};

/// Nodes that one search may visit.
const FUEL: u32 = 1 << 10;

/// What is asked, with the constants it is asked with.
pub enum Check {
    /// The node's value is a constant: by far the commonest of filters.
    Is(StrId, Node, Box<[u64]>),
    /// The filters on a step that has found the node.
    Passes(Node, Box<[u64]>),
    Holds(Pred, Box<[u64]>),
}

pub type CheckIx = u32;

impl Check {
    pub fn passes(step: &Node, row: &[u64]) -> Check {
        if let [pred] = &step.filters[..] {
            match Condition::of(pred, row) {
                Some((twig, Condition::Is(constant))) if twig.nodes.is_empty() => {
                    return Check::Is(constant, step.clone(), row.into());
                }
                _ => {}
            }
        }
        Check::Passes(step.clone(), row.into())
    }

    /// The filters of a selection.
    pub fn step(&self) -> Option<(&Node, &[u64])> {
        match self {
            Check::Is(_, step, row) | Check::Passes(step, row) => Some((step, row)),
            Check::Holds(..) => None,
        }
    }
}

/// What has been found out of a message.
#[derive(Default)]
pub struct Checks {
    by_node: HashMap<CheckIx, Vec<bool>>,
    steps: HashMap<u32, Vec<(Vec<bool>, bool)>>,
    value: Vec<u8>,
}

impl Checks {
    pub fn begin(&mut self) {
        self.by_node.clear();
        self.steps.clear();
    }

    pub fn holds(&mut self, message: Message<'_>, id: CheckIx, check: &Check, node: NodeIx) -> bool {
        if let Check::Is(constant, ..) = check {
            let value = message.nodes.value(message.src, node, &mut self.value);
            return value == message.constants.get(*constant);
        }
        if let Some(known) = self.by_node.get(&id) {
            return known[node as usize];
        }
        let mut search = Search::new(message, FUEL);
        let found = match check {
            Check::Is(..) => None,
            Check::Passes(step, _) if step.positional => None,
            Check::Passes(step, row) => {
                let mut all = Ok(true);
                for filter in &step.filters {
                    all = search.holds(filter, node, (1, 1), row);
                    if !matches!(all, Ok(true)) {
                        break;
                    }
                }
                all.ok()
            }
            Check::Holds(pred, row) => search.holds(pred, node, (1, 1), row).ok(),
        };
        found.unwrap_or_else(|| {
            self.by_node.entry(id).or_insert_with(|| match check {
                Check::Is(_, step, row) | Check::Passes(step, row) => Sets::passing(message, step, row),
                Check::Holds(pred, row) => Sets::satisfying(message, pred, row),
            })[node as usize]
        })
    }

    /// Appends the nodes that a twig finds from a node, in document order.
    pub fn select(
        &mut self,
        message: Message<'_>,
        id: u32,
        (twig, row): (&Twig, &[u64]),
        from: NodeIx,
        out: &mut Vec<NodeIx>,
    ) {
        if !self.steps.contains_key(&id) {
            if let Ok(found) = Search::new(message, FUEL).collect(twig, from, row) {
                out.extend(found);
                return;
            }
        }
        let steps = self
            .steps
            .entry(id)
            .or_insert_with(|| twig.nodes.iter().map(|step| (Sets::passing(message, step, row), step.deep)).collect());
        out.extend(select(message, steps, from));
    }
}
