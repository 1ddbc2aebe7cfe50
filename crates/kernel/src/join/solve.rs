//! The bindings by which messages satisfy a query, each tuple of those that it shows once (SEMANTICS 21).
//!
//! Where each variable of a block has one node in the message there is nothing to search: values decide, and what the
//! block asks of the structure has been seen when it matched. Elsewhere variables are bound one by one, below the
//! binding of their parents; what is shown comes first, so that the rest only has to exist.

use super::query::{Form, Place};
use super::state::Doc;
use super::values::Values;
use super::witness::Variable;
use super::{BlockIx, ValueIx};
use crate::shapes::nodes::NodeIx;
use crate::shapes::program::Op;
use crate::values::number::number;
use hashbrown::HashSet;

/// Bindings tried for one combination of messages; hostile ones could ask for more than there is time.
const MAX_TRIED: u32 = 1 << 22;

struct Step {
    place: Place,
    variable: Variable,
    /// The step that binds the parent; none for the root of a block.
    parent: Option<usize>,
    /// Comparisons that are known with this step: (place of one step, operator, place of the other).
    checks: Vec<(usize, Op, usize)>,
}

pub struct Plan {
    steps: Vec<Step>,
    shown: Box<[usize]>,
    /// With so many steps all that is shown is bound.
    shown_by: usize,
}

impl Plan {
    pub fn new(form: &Form) -> Plan {
        let mut steps: Vec<Step> = vec![];
        let mut add = |place: Place| {
            let variables = &form.blocks[place.block as usize];
            let mut line = vec![place.variable];
            while variables[line[line.len() - 1] as usize].parent != line[line.len() - 1] {
                line.push(variables[line[line.len() - 1] as usize].parent);
            }
            let mut parent = None;
            for v in line.into_iter().rev() {
                let place = Place { block: place.block, variable: v };
                let at = steps.iter().position(|s| s.place == place).unwrap_or_else(|| {
                    steps.push(Step { place, variable: variables[v as usize], parent, checks: vec![] });
                    steps.len() - 1
                });
                parent = Some(at);
            }
            parent.unwrap_or(0)
        };
        let shown: Box<[usize]> = form.shown.iter().map(|&p| add(p)).collect();
        let checks: Vec<_> = form.comparisons.iter().map(|c| (add(c.left), c.op, add(c.right))).collect();
        for check in checks {
            steps[check.0.max(check.2)].checks.push(check);
        }
        let shown_by = shown.iter().map(|s| s + 1).max().unwrap_or(0);
        Plan { steps, shown, shown_by }
    }

    /// Does the message leave a choice in binding the variables of one of its blocks?
    pub fn needs_bindings(&self, block: u32, doc: &Doc) -> bool {
        let mut own = self.steps.iter().filter(|s| s.place.block == block);
        own.any(|s| doc.cells_of(s.variable.column).len() != 1)
    }

    /// Calls `emit` with the shown nodes of each result, until it says that no more are wanted. False if there was too
    /// much to try.
    pub fn solve(
        &self,
        blocks: &[BlockIx],
        docs: &[&Doc],
        values: &Values,
        emit: impl FnMut(&[NodeIx]) -> bool,
    ) -> bool {
        let free: Vec<bool> = (0..docs.len()).map(|b| self.needs_bindings(b as u32, docs[b])).collect();
        let bound = vec![(0, 0); self.steps.len()];
        let tuple = vec![0; self.shown.len()];
        let found = HashSet::new();
        let mut search =
            Search { plan: self, blocks, docs, values, free, bound, tuple, found, emit, tried: 0, enough: false };
        search.bind(0);
        search.tried < MAX_TRIED
    }
}

struct Search<'a, F> {
    plan: &'a Plan,
    blocks: &'a [BlockIx],
    docs: &'a [&'a Doc],
    values: &'a Values,
    /// By message: its bindings have to be searched.
    free: Vec<bool>,
    /// By step: node and value.
    bound: Vec<(NodeIx, ValueIx)>,
    tuple: Vec<NodeIx>,
    found: HashSet<Box<[NodeIx]>>,
    emit: F,
    tried: u32,
    /// No more results are wanted.
    enough: bool,
}

impl<F: FnMut(&[NodeIx]) -> bool> Search<'_, F> {
    /// Binds the variables from a step on; true if that could be done and nothing more can come of it.
    fn bind(&mut self, at: usize) -> bool {
        if at == self.plan.shown_by {
            for (i, &s) in self.plan.shown.iter().enumerate() {
                self.tuple[i] = self.bound[s].0;
            }
            if self.found.contains(&self.tuple[..]) {
                return true;
            }
        }
        let Some(step) = self.plan.steps.get(at) else {
            self.found.insert(self.tuple[..].into());
            self.enough = !(self.emit)(&self.tuple);
            return true;
        };
        let doc = self.docs[step.place.block as usize];
        if !self.free[step.place.block as usize] {
            let node = doc.cells_of(step.variable.column)[0].node;
            return self.try_node(at, node);
        }
        let Some(bindings) = doc.bindings_of(self.blocks[step.place.block as usize]) else { return false };
        match step.parent {
            None => self.try_all(at, bindings.roots.iter().copied()),
            Some(parent) => {
                let above = self.bound[parent].0;
                self.try_all(at, bindings.below(step.place.variable as usize, above))
            }
        }
    }

    fn try_all(&mut self, at: usize, nodes: impl Iterator<Item = NodeIx>) -> bool {
        for node in nodes {
            // once all that is shown is bound, one way to bind the rest is enough
            if self.try_node(at, node) && at >= self.plan.shown_by || self.enough {
                return true;
            }
        }
        false
    }

    fn try_node(&mut self, at: usize, node: NodeIx) -> bool {
        self.tried += 1;
        if self.tried >= MAX_TRIED {
            return true;
        }
        let step = &self.plan.steps[at];
        let doc = self.docs[step.place.block as usize];
        self.bound[at] = (node, doc.value_of(step.variable.column, node));
        let holds = |&(one, op, other): &(usize, Op, usize)| self.compare(self.bound[one].1, op, self.bound[other].1);
        step.checks.iter().all(holds) && self.bind(at + 1)
    }

    fn compare(&self, one: ValueIx, op: Op, other: ValueIx) -> bool {
        match op {
            Op::Eq => one == other,
            Op::Ne => one != other,
            _ => op.holds(number(self.values.get(one)), number(self.values.get(other))),
        }
    }
}
