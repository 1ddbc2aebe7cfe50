//! Which nodes satisfy the conditions of a class: those that the index has led to are checked for the rest, each on its
//! own, so that what a condition costs depends on how often it is asked and not on the message.

use super::atoms::{AtomIx, Condition, NodeValue};
use super::run::{climb, Runner, END, MAX_FOUND};
use super::set::{Binding, Cond, Generic, Led, Set};
use crate::shapes::nodes::NodeIx;
use crate::shapes::search::{Message, Search};
use crate::shapes::shared::Shared;
use crate::tagpaths::bits;
use crate::values::number::number;
use hashbrown::HashMap;
use std::ops::Range;

/// A condition is tested on up to this many nodes one by one; on more, it is evaluated for all nodes at once.
const FEW: usize = 8;

/// What is known of a predicate in a message.
pub(super) enum Known {
    /// Nothing: nodes are searched, as long as that visits no more nodes than this.
    Search(u32),
    /// Whether each node satisfies it.
    All(Vec<bool>),
}

/// How many nodes the search for one predicate may visit in a message before it is evaluated for all nodes at once.
pub(super) fn search_fuel(message: Message<'_>) -> u32 {
    message.nodes.len() as u32
}

/// The number that a node's value is. Values of many pieces are made once.
fn number_of(message: Message<'_>, node: NodeIx, known: &mut HashMap<NodeIx, f64>, scratch: &mut Vec<u8>) -> f64 {
    match message.nodes.plain_value(message.src, node) {
        Some(value) => number(value),
        None => *known.entry(node).or_insert_with(|| number(message.nodes.value(message.src, node, scratch))),
    }
}

impl Runner {
    /// The nodes that satisfy a condition, in document order, each once: a range of `sorted`.
    pub(super) fn members(&mut self, atom: AtomIx) -> (u32, u32) {
        let head = &mut self.heads[atom as usize];
        if head.stamp != self.stamp {
            return (0, 0);
        }
        if head.range.0 != END {
            return head.range;
        }
        let (sorted, notes) = (&mut self.sorted, &self.notes);
        let from = sorted.len();
        let mut at = head.last;
        while at != END {
            let (node, next) = notes[at as usize];
            sorted.push(node);
            at = next;
        }
        sorted[from..].sort_unstable();
        let mut kept = from;
        for i in from..sorted.len() {
            if i == from || sorted[i] != sorted[kept - 1] {
                sorted[kept] = sorted[i];
                kept += 1;
            }
        }
        sorted.truncate(kept);
        head.range = (from as u32, kept as u32);
        head.range
    }

    /// The nodes among `candidates` that a class binds.
    pub(super) fn take(
        &mut self,
        set: &Set,
        message: Message<'_>,
        led: &Led,
        candidates: Range<u32>,
        bound: &mut Vec<NodeIx>,
    ) {
        bound.clear();
        for i in candidates {
            let node = self.sorted[i as usize];
            let tag = self.tag_of[node as usize];
            if self.tag_paths.get(tag).known.bound.binary_search(&led.path).is_ok()
                && (led.plain || self.satisfies(set, message, led.class, node))
            {
                bound.push(node);
            }
        }
    }

    /// Returns whether a node that the binding path of a class leads to satisfies the other conditions of the class.
    fn satisfies(&mut self, set: &Set, message: Message<'_>, class: u32, node: NodeIx) -> bool {
        let class = set.class(class);
        let binding = set.binding(class.binding);
        // the index led to this node by its access condition, which therefore holds
        let rest = match class.conds.first() {
            Some(Cond::Atom(_)) => &class.conds[1..],
            _ => &class.conds[..],
        };
        rest.iter().all(|&c| self.holds(set, message, c, node))
            && (binding.filters.is_empty() || self.passes_filters(set, message, binding, node))
    }

    fn holds(&mut self, set: &Set, message: Message<'_>, cond: Cond, node: NodeIx) -> bool {
        match cond {
            Cond::Atom(atom) if set.atoms.is_indexed(atom) => {
                let (from, to) = self.members(atom);
                self.sorted[from as usize..to as usize].binary_search(&node).is_ok()
            }
            Cond::Atom(atom) => self.check(set, message, atom, node),
            Cond::Generic(id) => {
                let (generic, row) = set.generic(id);
                let known = self.generics.entry(id).or_insert(Known::Search(search_fuel(message)));
                if let (Generic::Holds(pred), Known::Search(fuel)) = (generic, &mut *known) {
                    let mut search = Search::new(message, *fuel);
                    if let Ok(holds) = search.holds(pred, node, (1, 1), row) {
                        *fuel = search.fuel().saturating_sub(1);
                        return holds;
                    }
                }
                if let Known::Search(_) = known {
                    *known = Known::All(match generic {
                        Generic::Holds(pred) => Shared::satisfying(message, pred, row),
                        Generic::Passes(step) => Shared::passing(message, step, row),
                    });
                }
                matches!(known, Known::All(all) if all[node as usize])
            }
        }
    }

    /// Checks a condition that is not in the index at the nodes that its path finds from a node.
    fn check(&mut self, set: &Set, message: Message<'_>, atom: AtomIx, node: NodeIx) -> bool {
        let (rel, condition) = (set.atoms.rel(atom), set.atoms.condition(atom));
        let Runner { groups, tag_of, tag_paths, value, asked, asked_nodes, values, .. } = self;
        let climb = |node, depth| climb(tag_paths, tag_of, message, node, depth);
        if let Condition::Number(op, x) = condition {
            let number = |node| number_of(message, node, values, value);
            return groups.numbers(rel, node, climb, number).is_some_and(|numbers| numbers.hold(op, x));
        }
        let nodes = groups.get(rel, node, climb);
        let mut holds = |node| condition.holds(message.constants, &mut NodeValue::new(message, node, value));
        if nodes.len() <= FEW || condition == Condition::Exists {
            return nodes.iter().any(|&node| holds(node));
        }
        // a node may be looked at from many ancestors
        if *asked_nodes > MAX_FOUND {
            asked.clear();
            *asked_nodes = 0;
        }
        let known = asked.entry(atom).or_insert_with(|| {
            let mut found: Vec<NodeIx> = vec![];
            for &(node, base, mask) in groups.hits(rel) {
                if holds(node) {
                    found.extend(bits(mask).map(|bit| climb(node, base + bit)));
                }
            }
            found.sort_unstable();
            found.dedup();
            *asked_nodes += found.len();
            found.into()
        });
        known.binary_search(&node).is_ok()
    }

    /// Is there a way for the binding path from the document to the node over nodes that pass its filters?
    fn passes_filters(&mut self, set: &Set, message: Message<'_>, binding: &Binding, node: NodeIx) -> bool {
        let tag = self.tag_of[node as usize];
        let depth = self.tag_paths.get(tag).depth as usize;
        let mut ancestors = vec![0 as NodeIx; depth + 1];
        let mut at = node;
        for d in (0..=depth).rev() {
            ancestors[d] = at;
            at = message.nodes.recs[at as usize].parent;
        }
        let tags = self.tag_paths.tags(tag).to_vec();
        let filter = |step: usize, depth: usize| {
            let mut filters = binding.filters.iter().filter(|f| f.0 as usize == step);
            filters.all(|&(_, cond)| self.holds(set, message, cond, ancestors[depth]))
        };
        set.binds.get(binding.path).contexts(&tags, message.names, filter).has_document()
    }
}
