//! One plan at a time, step by step over the whole table of nodes: for messages that are too much work for all at once, so
//! that a plan which takes too long fails alone.
//!
//! Half of the work that a message may cause is parted equally, so that a plan which needs no more than its share is
//! complete whatever the others take. Those that need more are tried again, one after the other, with what is left.

use super::factory::Returned;
use super::run::select;
use super::set::{Plan, Spec};
use crate::evaluate::Groups;
use crate::shapes::nodes::NodeIx;
use crate::shapes::program::Twig;
use crate::shapes::search::Message;
use crate::shapes::shared::Shared;
use crate::tagpaths::TooMuch;

/// Nodes that may be looked at for one plan, and for all plans of a message.
const PLAN_LOOKS: usize = 1 << 25;
const MESSAGE_LOOKS: usize = 1 << 27;

/// By step the nodes that pass it, and whether it is a `//` step.
type Steps = Vec<(Vec<bool>, bool)>;

/// Evaluates plans on one message.
pub(crate) struct Alone<'a> {
    message: Message<'a>,
    looks: usize,
    /// Where `looks` must stop for the plan that is being evaluated.
    most: usize,
    /// The equal share of each plan.
    share: usize,
}

/// The nodes that a plan binds, and what it returns of each: the list of return r for bound node b ends at
/// `ends[b * returns + r]`.
pub(crate) struct Found<'a> {
    message: Message<'a>,
    pub(crate) bound: Vec<NodeIx>,
    returns: usize,
    nodes: Vec<NodeIx>,
    ends: Vec<u32>,
}

impl<'a> Found<'a> {
    /// What a query has found; of each bound node it returns so many lists.
    pub(crate) fn of(message: Message<'a>, returns: usize, Groups { bound, nodes, ends }: Groups) -> Found<'a> {
        Found { message, bound, returns, nodes, ends }
    }
}

impl<'a> Returned<'a> for Found<'a> {
    fn nodes<'s>(&'s mut self, r: u32, bound: &'s NodeIx) -> &'s [NodeIx] {
        let Ok(place) = self.bound.binary_search(bound) else { return &[] };
        let at = place * self.returns + r as usize;
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.nodes[from as usize..self.ends[at] as usize]
    }

    fn message(&self, _r: u32) -> (usize, Message<'a>) {
        (0, self.message)
    }
}

impl<'a> Alone<'a> {
    pub(crate) fn new(message: Message<'a>, plans: usize) -> Alone<'a> {
        Alone { message, looks: 0, most: 0, share: PLAN_LOOKS.min(MESSAGE_LOOKS / 2 / plans.max(1)) }
    }

    /// Returns what a plan finds in the message, within an equal share of the work.
    pub(crate) fn within_share(&mut self, plan: &Plan) -> Result<Found<'a>, TooMuch> {
        self.plan(plan, self.share)
    }

    /// Returns what a plan finds in the message, with what is left of the work.
    pub(crate) fn with_the_rest(&mut self, plan: &Plan) -> Result<Found<'a>, TooMuch> {
        self.plan(plan, PLAN_LOOKS)
    }

    fn plan(&mut self, plan: &Plan, looks: usize) -> Result<Found<'a>, TooMuch> {
        let mut found = Found::of(self.message, plan.returns.len(), Groups::default());
        self.most = MESSAGE_LOOKS.min(self.looks + looks);
        let Ok(spec) = Spec::decode(&plan.words, self.message.names) else { return Ok(found) };
        let steps = self.steps(&spec.binding, &plan.row)?;
        found.bound = self.select(&steps, 0)?;
        for condition in &spec.conditions {
            if found.bound.is_empty() {
                return Ok(found);
            }
            self.look(self.message.nodes.len())?;
            let holds = Shared::satisfying(self.message, condition, &plan.row);
            found.bound.retain(|&node| holds[node as usize]);
        }
        let returns = spec.returns.iter().map(|twig| self.steps(twig, &plan.row)).collect::<Result<Vec<_>, _>>()?;
        for &node in &found.bound {
            for steps in &returns {
                found.nodes.extend(self.select(steps, node)?);
                found.ends.push(found.nodes.len() as u32);
            }
        }
        Ok(found)
    }

    fn steps(&mut self, twig: &Twig, row: &[u64]) -> Result<Steps, TooMuch> {
        self.look(twig.nodes.len() * self.message.nodes.len())?;
        Ok(twig.nodes.iter().map(|step| (Shared::passing(self.message, step, row), step.deep)).collect())
    }

    fn select(&mut self, steps: &Steps, from: NodeIx) -> Result<Vec<NodeIx>, TooMuch> {
        let below = self.message.nodes.recs[from as usize].end - from;
        self.look(1 + steps.len() * below as usize)?;
        Ok(select(self.message, steps, from))
    }

    /// Counts nodes that will be looked at, unless they are too many.
    fn look(&mut self, nodes: usize) -> Result<(), TooMuch> {
        if self.looks + nodes > self.most {
            return Err(TooMuch);
        }
        self.looks += nodes;
        Ok(())
    }
}
