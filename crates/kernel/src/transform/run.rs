//! One thread's way through the transforms: which of them a message satisfies, and what they return of it.

use super::atoms::{AtomIx, NodeValue};
use super::conditions::{search_fuel, Known};
use super::factory::Returned;
use super::groups::Groups;
use super::set::{Code, PlanIx, Return, Set};
use crate::shapes::nodes::NodeIx;
use crate::shapes::program::Twig;
use crate::shapes::search::{Message, Row, Search};
use crate::shapes::shared::Shared;
use crate::tagpaths::{bits, Hit, Leads, PathIx, TagPaths, TooMuch};
use hashbrown::HashMap;

/// Work that one message may cause before it is refused: nodes noted for conditions and groups, once for each ancestor
/// that they are noted for.
const MAX_NOTES: usize = 1 << 24;

/// Nodes that return paths with filters have found and that are kept, for transforms that return the same.
pub(super) const MAX_FOUND: usize = 1 << 22;

#[derive(Default)]
pub struct Runner {
    pub(super) tag_paths: TagPaths<Leads>,
    /// By node its tag path.
    pub(super) tag_of: Vec<u32>,
    /// By condition the nodes that satisfy it, as a list in `notes`; valid with this message's stamp.
    pub(super) heads: Vec<Head>,
    pub(super) stamp: u32,
    pub(super) notes: Vec<(NodeIx, u32)>,
    met: Vec<AtomIx>,
    /// Nodes in order, range by range.
    pub(super) sorted: Vec<NodeIx>,
    /// Nodes bound by paths that lead to classes without further ado.
    binds: Vec<(PathIx, NodeIx)>,
    pub(super) groups: Groups,
    pub(super) generics: HashMap<u32, Known>,
    /// By condition that is not in the index the nodes that satisfy it, where that was asked of one with many nodes to
    /// look at; how many there are; and the numbers that long values are.
    pub(super) asked: HashMap<AtomIx, Box<[NodeIx]>>,
    pub(super) asked_nodes: usize,
    pub(super) values: HashMap<NodeIx, f64>,
    /// Return paths with filters, and what they find.
    steps: HashMap<u32, Steps>,
    twigs: HashMap<(u32, NodeIx), Box<[NodeIx]>>,
    /// Nodes in `twigs`.
    found: usize,
    pub(super) value: Vec<u8>,
}

pub(super) const END: u32 = u32::MAX;

#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) stamp: u32,
    pub(super) last: u32,
    /// Where in `sorted` the nodes are, once somebody has asked for them in order.
    pub(super) range: (u32, u32),
}

impl Head {
    const NONE: Head = Head { stamp: 0, last: END, range: (END, END) };
}

impl Runner {
    /// Calls `found` for each plan that binds nodes of the message, with these nodes in document order.
    pub fn run(
        &mut self,
        set: &Set,
        message: Message<'_>,
        found: impl FnMut(PlanIx, &[Code], &[NodeIx], &mut Lists<'_>),
    ) -> Result<(), TooMuch> {
        self.scan(set, message)?;
        self.plans(set, message, found);
        Ok(())
    }

    /// As `run`, of the message that was scanned last.
    pub fn plans(
        &mut self,
        set: &Set,
        message: Message<'_>,
        mut found: impl FnMut(PlanIx, &[Code], &[NodeIx], &mut Lists<'_>),
    ) {
        let mut bound = vec![];
        for i in 0..self.met.len() {
            let classes = set.led_to_by_atom(self.met[i]);
            if classes.is_empty() {
                continue;
            }
            let (from, to) = self.members(self.met[i]);
            for led in classes {
                self.take(set, message, led, from..to, &mut bound);
                self.give(set, message, led.class, &bound, &mut found);
            }
        }
        let mut binds = std::mem::take(&mut self.binds);
        binds.sort_unstable();
        for same in binds.chunk_by(|a, b| a.0 == b.0) {
            let from = self.sorted.len();
            self.sorted.extend(same.iter().map(|b| b.1));
            let to = self.sorted.len();
            for led in set.led_to_by_bind(same[0].0) {
                self.take(set, message, led, from as u32..to as u32, &mut bound);
                self.give(set, message, led.class, &bound, &mut found);
            }
        }
        self.binds = binds;
    }

    /// The binding paths that lead to a node of the message that was run last.
    pub(crate) fn binds_at(&self, node: NodeIx) -> &[PathIx] {
        &self.tag_paths.get(self.tag_of[node as usize]).known.bound
    }

    /// Tag paths, conditions that hold and nodes of return paths, in one pass over the nodes.
    pub fn scan(&mut self, set: &Set, message: Message<'_>) -> Result<(), TooMuch> {
        self.begin(set);
        let nodes = message.nodes;
        // by depth the node on the way to this one, and a bit for whether somebody asks for what is below it
        let mut ancestors: Vec<NodeIx> = vec![0; 64];
        let mut live = vec![0u64];
        let everywhere = set.filters_ancestors();
        let document = self.tag_paths.document(
            |leads| leads.is_known(&set.rels, &set.binds),
            |tags, leads| leads.look(tags, &set.rels, &set.binds, message.names),
        );
        live[0] = !document.known.bound.is_empty() as u64;
        let led = document.known.bound.iter().filter(|&&bind| !set.led_to_by_bind(bind).is_empty());
        self.binds.extend(led.map(|&bind| (bind, 0)));
        self.tag_of.push(0);
        let mut noted = 0;
        for n in 1..nodes.len() {
            let rec = &nodes.recs[n];
            let parent = self.tag_of[rec.parent as usize];
            let tag = self.tag_paths.child(
                parent,
                rec.sym,
                |leads| leads.is_known(&set.rels, &set.binds),
                |tags, leads| leads.look(tags, &set.rels, &set.binds, message.names),
            )?;
            self.tag_of.push(tag);
            let t = self.tag_paths.get(tag);
            let depth = t.depth as usize;
            if depth == ancestors.len() {
                ancestors.resize(depth + 64, 0);
                live.push(0);
            }
            ancestors[depth] = n as NodeIx;
            // nobody asks for conditions or groups of nodes that no path binds
            let wanted = everywhere || !t.known.bound.is_empty();
            let (word, bit) = (&mut live[depth / 64], depth % 64);
            *word = *word & !(1 << bit) | (wanted as u64) << bit;
            for &bind in &t.known.bound {
                if !set.led_to_by_bind(bind).is_empty() {
                    self.binds.push((bind, n as NodeIx));
                }
            }
            let known = nodes.known_constant(n as NodeIx);
            let mut value = NodeValue::known(message, n as NodeIx, &mut self.value, known);
            for &Hit { path: rel, base, mask } in &t.known.hits {
                let mask = mask & live[base as usize / 64];
                if mask == 0 {
                    continue;
                }
                if set.is_returned(rel) || set.atoms.checks(rel) {
                    self.groups.hit(n as NodeIx, Hit { path: rel, base, mask });
                    noted += mask.count_ones() as usize;
                }
                if !set.atoms.test(rel) {
                    continue;
                }
                let (heads, notes, met, stamp) = (&mut self.heads, &mut self.notes, &mut self.met, self.stamp);
                set.atoms.satisfied(rel, message.constants, &mut value, |atom| {
                    let head = &mut heads[atom as usize];
                    if head.stamp != stamp {
                        *head = Head { stamp, ..Head::NONE };
                        met.push(atom);
                    }
                    for bit in bits(mask) {
                        notes.push((ancestors[(base + bit) as usize], head.last));
                        head.last = notes.len() as u32 - 1;
                    }
                });
            }
            if noted + self.notes.len() > MAX_NOTES {
                return Err(TooMuch);
            }
        }
        Ok(())
    }

    fn begin(&mut self, set: &Set) {
        if self.stamp == u32::MAX {
            self.heads.clear();
            self.stamp = 0;
        }
        self.stamp += 1;
        self.heads.resize(set.atoms.bound(), Head::NONE);
        self.tag_paths.begin();
        self.groups.begin(set.rels.len());
        self.tag_of.clear();
        self.asked.clear();
        self.asked_nodes = 0;
        self.values.clear();
        self.notes.clear();
        self.met.clear();
        self.sorted.clear();
        self.binds.clear();
        self.generics.clear();
        self.steps.clear();
        self.twigs.clear();
        self.found = 0;
    }

    fn give(
        &mut self,
        set: &Set,
        message: Message<'_>,
        class: u32,
        bound: &[NodeIx],
        found: &mut impl FnMut(PlanIx, &[Code], &[NodeIx], &mut Lists<'_>),
    ) {
        if bound.is_empty() {
            return;
        }
        for (plan, returns) in set.given(class) {
            found(plan, returns, bound, &mut Lists { runner: self, set, message });
        }
    }
}

/// The ancestor of a node at a depth.
pub(super) fn climb(
    tag_paths: &TagPaths<Leads>,
    tag_of: &[u32],
    message: Message<'_>,
    mut node: NodeIx,
    depth: u32,
) -> NodeIx {
    for _ in depth..tag_paths.get(tag_of[node as usize]).depth {
        node = message.nodes.recs[node as usize].parent;
    }
    node
}

/// What return paths find.
pub struct Lists<'a> {
    runner: &'a mut Runner,
    set: &'a Set,
    message: Message<'a>,
}

/// The lists of one plan.
pub struct OfPlan<'l, 'a> {
    pub returns: &'l [Code],
    pub lists: &'l mut Lists<'a>,
}

impl<'a> Returned<'a> for OfPlan<'_, 'a> {
    fn nodes<'s>(&'s mut self, r: u32, bound: &'s NodeIx) -> &'s [NodeIx] {
        self.lists.get(self.returns[r as usize], bound)
    }

    fn message(&self, _r: u32) -> (usize, Message<'a>) {
        (0, self.lists.message)
    }
}

impl<'a> Lists<'a> {
    /// The nodes that are returned of a bound node, in document order, each once.
    pub fn get<'s>(&'s mut self, what: Code, bound: &'s NodeIx) -> &'s [NodeIx] {
        let Lists { runner, set, message } = self;
        match what.get() {
            Return::Itself => std::slice::from_ref(bound),
            Return::Path(rel) => {
                let Runner { groups, tag_of, tag_paths, .. } = &mut **runner;
                groups.get(rel, *bound, |node, depth| climb(tag_paths, tag_of, *message, node, depth))
            }
            Return::Twig(id) => {
                let Runner { twigs, steps, found, .. } = &mut **runner;
                if *found > MAX_FOUND {
                    twigs.clear();
                    *found = 0;
                }
                twigs.entry((id, *bound)).or_insert_with(|| {
                    let (twig, row) = set.twig(id);
                    let nodes = of_twig(*message, twig, row, *bound, steps.entry(id).or_default());
                    *found += nodes.len() + 8;
                    nodes.into()
                })
            }
        }
    }
}

/// What the nodes of a return path with filters cost so far, and by step the nodes that pass and whether it is a `//` step,
/// once that was found out.
#[derive(Default)]
struct Steps {
    spent: u32,
    passing: Option<Vec<(Vec<bool>, bool)>>,
}

/// The nodes that a return path with filters finds from a node, in document order.
fn of_twig(message: Message<'_>, twig: &Twig, row: Row<'_>, bound: NodeIx, steps: &mut Steps) -> Vec<NodeIx> {
    if steps.passing.is_none() {
        let left = search_fuel(message).saturating_sub(steps.spent);
        let mut search = Search::new(message, left);
        if let Ok(nodes) = search.collect(twig, bound, row) {
            steps.spent += left - search.fuel() + 1;
            return nodes;
        }
    }
    let make = || twig.nodes.iter().map(|step| (Shared::passing(message, step, row), step.deep)).collect();
    select(message, steps.passing.get_or_insert_with(make), bound)
}

/// The nodes that steps find from a node, in document order.
pub fn select(message: Message<'_>, steps: &[(Vec<bool>, bool)], from: NodeIx) -> Vec<NodeIx> {
    let recs = &message.nodes.recs;
    let base = from as usize;
    let len = recs[base].end as usize - base;
    let mut found = vec![false; len];
    found[0] = true;
    for (passing, deep) in steps {
        let mut below = vec![false; len];
        for i in 1..len {
            let p = recs[base + i].parent as usize - base;
            below[i] = found[p] || *deep && below[p];
        }
        found = below.iter().enumerate().map(|(i, &b)| b && passing[base + i]).collect();
    }
    (0..len).filter(|&i| found[i]).map(|i| (base + i) as NodeIx).collect()
}
