//! Messages deeper than a mask of depths can tell apart (see `transform::paths`): rare, so block by block, and step by
//! step over the whole table of nodes.

use super::witness::{Bindings, Variable};
use crate::shapes::nodes::NodeIx;
use crate::shapes::program::{Pred, Program, Twig};
use crate::shapes::search::Message;
use crate::shapes::shared::Shared;
use crate::transform::paths::{LinearPath, Refused};
use crate::transform::run::select;
use std::sync::Arc;

/// Nodes that may be looked at for one message, and pairs of nodes that its bindings may have.
const MAX_LOOKS: usize = 1 << 27;
const MAX_PAIRS: usize = 1 << 24;

/// A block as it was given. Those that differ in constants only have the same words.
pub struct Pattern {
    pub words: Arc<[u32]>,
    pub row: Box<[f64]>,
}

type Steps = Vec<(Vec<bool>, bool)>;
/// Roots, the paths to the other variables, and the constants as these have them.
type Parts = (Vec<NodeIx>, Vec<Twig>, Vec<u64>);

pub struct Deep<'a> {
    message: Message<'a>,
    looks: usize,
    pairs: usize,
}

impl<'a> Deep<'a> {
    pub fn new(message: Message<'a>) -> Deep<'a> {
        Deep { message, looks: 0, pairs: 0 }
    }

    /// The nodes that a path leads to from the document.
    pub fn column(&mut self, path: &LinearPath) -> Result<Vec<NodeIx>, Refused> {
        let Message { nodes, names, .. } = self.message;
        let passing =
            |test: crate::shapes::program::Test| nodes.recs.iter().map(|r| test.passes(names, r.sym)).collect();
        let steps: Steps = path.steps().iter().map(|&(test, deep)| (passing(test), deep)).collect();
        self.select(&steps, 0)
    }

    pub fn bindings(&mut self, pattern: &Pattern, variables: &[Variable]) -> Result<Bindings, Refused> {
        let (roots, returns, row) = self.parts(pattern)?;
        if roots.is_empty() {
            return Ok(Bindings::default());
        }
        let mut found = vec![roots.clone()];
        let mut edges = vec![];
        for (variable, twig) in variables[1..].iter().zip(&returns) {
            let steps = self.steps(twig, &row)?;
            let mut pairs: Vec<(NodeIx, NodeIx)> = vec![];
            for &parent in &found[variable.parent as usize] {
                pairs.extend(self.select(&steps, parent)?.into_iter().map(|node| (parent, node)));
                if self.pairs + pairs.len() > MAX_PAIRS {
                    return Err(Refused::TooMuch);
                }
            }
            self.pairs += pairs.len();
            let mut nodes: Vec<NodeIx> = pairs.iter().map(|p| p.1).collect();
            nodes.sort_unstable();
            nodes.dedup();
            found.push(nodes);
            edges.push(pairs);
        }
        Ok(Bindings { roots, edges })
    }

    fn parts(&mut self, pattern: &Pattern) -> Result<Parts, Refused> {
        let none = || (vec![], vec![], vec![]);
        let Ok(Program { pred: Pred::And(parts), slots }) = Program::decode(&pattern.words, self.message.names) else {
            return Ok(none());
        };
        let row: Vec<u64> = slots.iter().zip(&pattern.row).map(|(slot, &x)| slot.word(x)).collect();
        let [Pred::Exists(root), Pred::And(conditions), Pred::Or(others)] = &parts[..] else { return Ok(none()) };
        let steps = self.steps(root, &row)?;
        let mut roots = self.select(&steps, 0)?;
        for condition in conditions {
            self.look(self.message.nodes.len())?;
            let holds = Shared::satisfying(self.message, condition, &row);
            roots.retain(|&node| holds[node as usize]);
        }
        let twig = |p: &Pred| if let Pred::Exists(twig) = p { Some(twig.clone()) } else { None };
        Ok((roots, others.iter().filter_map(twig).collect(), row))
    }

    fn steps(&mut self, twig: &Twig, row: &[u64]) -> Result<Steps, Refused> {
        self.look(twig.nodes.len() * self.message.nodes.len())?;
        Ok(twig.nodes.iter().map(|step| (Shared::passing(self.message, step, row), step.deep)).collect())
    }

    fn select(&mut self, steps: &Steps, from: NodeIx) -> Result<Vec<NodeIx>, Refused> {
        let below = self.message.nodes.recs[from as usize].end - from;
        self.look(steps.len() * below as usize)?;
        Ok(select(self.message, steps, from))
    }

    fn look(&mut self, nodes: usize) -> Result<(), Refused> {
        self.looks += nodes;
        if self.looks > MAX_LOOKS {
            return Err(Refused::TooMuch);
        }
        Ok(())
    }
}
