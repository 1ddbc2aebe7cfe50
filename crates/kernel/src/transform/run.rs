//! One thread's way through the transforms: which of them a message satisfies, and what they return of it.

use super::atoms::{AtomIx, NodeValue};
use super::factory::Returned;
use super::groups::Groups;
use super::set::{Binding, Code, Cond, Generic, Led, PlanIx, Return, Set};
use crate::names::is_element;
use crate::shapes::nodes::NodeIx;
use crate::shapes::search::Message;
use crate::shapes::shared::Shared;
use crate::tagpaths::{bits, Hit, Leads, PathIx, TagPaths, TooMuch};
use hashbrown::HashMap;
use std::ops::Range;

/// Work that one message may cause before it is refused: nodes noted for conditions and groups, once for each ancestor
/// that they are noted for.
const MAX_NOTES: usize = 1 << 24;

/// Nodes that return paths with filters have found and that are kept, for transforms that return the same.
const MAX_FOUND: usize = 1 << 22;

#[derive(Default)]
pub struct Runner {
    tag_paths: TagPaths<Leads>,
    /// By node its tag path, and its place among the elements (the document has place 0).
    tag_of: Vec<u32>,
    place: Vec<u32>,
    places: usize,
    /// By condition the nodes that satisfy it, as a list in `notes`; valid with this message's stamp.
    heads: Vec<Head>,
    stamp: u32,
    notes: Vec<(NodeIx, u32)>,
    met: Vec<AtomIx>,
    /// Nodes in order, range by range.
    sorted: Vec<NodeIx>,
    /// Nodes bound by paths that lead to classes without further ado.
    binds: Vec<(PathIx, NodeIx)>,
    groups: Groups,
    generics: HashMap<u32, Vec<bool>>,
    /// Return paths with filters: by step the nodes that pass, and whether it is a `//` step; and what they find.
    steps: HashMap<u32, Vec<(Vec<bool>, bool)>>,
    twigs: HashMap<(u32, NodeIx), Box<[NodeIx]>>,
    /// Nodes in `twigs`.
    found: usize,
    value: Vec<u8>,
}

const END: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Head {
    stamp: u32,
    last: u32,
    /// Where in `sorted` the nodes are, once somebody has asked for them in order.
    range: (u32, u32),
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
        self.place.push(0);
        self.places = 1;
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
            self.place.push(if is_element(rec.sym) {
                self.places += 1;
                self.places as u32 - 1
            } else {
                u32::MAX
            });
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
            let mut value = NodeValue::new(message, n as NodeIx, &mut self.value);
            for &Hit { path: rel, base, mask } in &t.known.hits {
                let mask = mask & live[base as usize / 64];
                if mask == 0 {
                    continue;
                }
                if set.is_returned(rel) {
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
        self.place.clear();
        self.notes.clear();
        self.met.clear();
        self.sorted.clear();
        self.binds.clear();
        self.generics.clear();
        self.steps.clear();
        self.twigs.clear();
        self.found = 0;
    }

    /// The nodes that satisfy a condition, in document order, each once: a range of `sorted`.
    fn members(&mut self, atom: AtomIx) -> (u32, u32) {
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
    fn take(&mut self, set: &Set, message: Message<'_>, led: &Led, candidates: Range<u32>, bound: &mut Vec<NodeIx>) {
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

    /// Does a node that the class's binding path leads to satisfy its other conditions?
    fn satisfies(&mut self, set: &Set, message: Message<'_>, class: u32, node: NodeIx) -> bool {
        let class = set.class(class);
        let binding = set.binding(class.binding);
        // an access condition has been met by being a candidate
        let rest = match class.conds.first() {
            Some(Cond::Atom(_)) => &class.conds[1..],
            _ => &class.conds[..],
        };
        rest.iter().all(|&c| self.holds(set, message, c, node))
            && (binding.filters.is_empty() || self.passes_filters(set, message, binding, node))
    }

    fn holds(&mut self, set: &Set, message: Message<'_>, cond: Cond, node: NodeIx) -> bool {
        match cond {
            Cond::Atom(atom) => {
                let (from, to) = self.members(atom);
                self.sorted[from as usize..to as usize].binary_search(&node).is_ok()
            }
            Cond::Generic(id) => self.generics.entry(id).or_insert_with(|| {
                let (generic, row) = set.generic(id);
                match generic {
                    Generic::Holds(pred) => Shared::satisfying(message, pred, row),
                    Generic::Passes(step) => Shared::passing(message, step, row),
                }
            })[node as usize],
        }
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

    fn message(&self) -> Message<'a> {
        self.lists.message
    }
}

impl<'a> Lists<'a> {
    /// The nodes that are returned of a bound node, in document order, each once.
    pub fn get<'s>(&'s mut self, what: Code, bound: &'s NodeIx) -> &'s [NodeIx] {
        let Lists { runner, set, message } = self;
        match what.get() {
            Return::Itself => std::slice::from_ref(bound),
            Return::Path(rel) => {
                let Runner { groups, place, tag_of, tag_paths, places, .. } = &mut **runner;
                let at = place[*bound as usize];
                if at == u32::MAX {
                    return &[];
                }
                groups.get(rel, at, *places, |node, depth| {
                    let mut up = tag_paths.get(tag_of[node as usize]).depth - depth;
                    let mut node = node;
                    while up > 0 {
                        node = message.nodes.recs[node as usize].parent;
                        up -= 1;
                    }
                    place[node as usize]
                })
            }
            Return::Twig(id) => {
                let Runner { twigs, steps, found, .. } = &mut **runner;
                if *found > MAX_FOUND {
                    twigs.clear();
                    *found = 0;
                }
                twigs.entry((id, *bound)).or_insert_with(|| {
                    let (twig, row) = set.twig(id);
                    let steps = steps.entry(id).or_insert_with(|| {
                        twig.nodes.iter().map(|step| (Shared::passing(*message, step, row), step.deep)).collect()
                    });
                    let nodes = select(*message, steps, *bound);
                    *found += nodes.len() + 8;
                    nodes.into()
                })
            }
        }
    }
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
