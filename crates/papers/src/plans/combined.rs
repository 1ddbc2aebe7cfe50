//! Shared plans over one message (broker §5.2): every path's selections once, by their index of constants; from those
//! that hold to the outputs of the joins they lead to; and from these to what is returned, from streams grouped once.

use super::checks::Checks;
use super::profile::{Kind, Profile};
use super::set::Set;
use super::sharing::{Input, Joined, Lists, SelIx, Sharing};
use super::streams::Streams;
use std::ops::Range;
use twigcast_kernel::internals::{Message, NodeIx, NodeValue, Returned, Search, StrId, TooMuch};

/// Nodes noted for selections that one message may cause.
const MAX_NOTES: usize = 1 << 26;
const END: u32 = u32::MAX;

/// Memory of one thread.
#[derive(Default)]
pub struct Combined {
    stamp: u32,
    /// By selection the bound nodes that satisfy it, as a list in `notes`, and that list in order: a range of `sorted`.
    heads: Vec<Head>,
    notes: Vec<(NodeIx, u32)>,
    met: Vec<SelIx>,
    sorted: Vec<NodeIx>,
    /// By node the constant that its value is, once it has been looked up.
    strings: Vec<Option<Option<StrId>>>,
    groups: Vec<Grouped>,
    /// What a search has found for the bound nodes of an output, return by return.
    found: Vec<NodeIx>,
    value: Vec<u8>,
}

#[derive(Clone, Default)]
struct Head {
    stamp: u32,
    last: u32,
    range: Option<(u32, u32)>,
}

/// A return stream by bound nodes, these ascending with the ends of their groups.
#[derive(Default)]
struct Grouped {
    stamp: u32,
    ends: Vec<(NodeIx, u32)>,
    nodes: Vec<NodeIx>,
    pairs: Vec<(NodeIx, NodeIx)>,
}

impl Grouped {
    fn get(&self, bound: NodeIx) -> &[NodeIx] {
        match self.ends.binary_search_by_key(&bound, |e| e.0) {
            Ok(at) => {
                let from = if at == 0 { 0 } else { self.ends[at - 1].1 };
                &self.nodes[from as usize..self.ends[at].1 as usize]
            }
            Err(_) => &[],
        }
    }
}

/// What does not change while a message is looked at.
#[derive(Clone, Copy)]
pub struct Over<'a, 'm> {
    pub set: &'a Set,
    pub streams: &'a Streams,
    pub message: Message<'m>,
}

/// Called for each result that binds nodes, with these.
pub type Found<'f> = dyn FnMut(&Joined, &[NodeIx], &mut dyn Returned<'_>) + 'f;

impl Combined {
    pub fn run(
        &mut self,
        over: Over<'_, '_>,
        checks: &mut Checks,
        profile: &mut Profile,
        found: &mut Found<'_>,
    ) -> Result<(), TooMuch> {
        let sharing = &over.set.sharing;
        self.begin(sharing, over.message.nodes.len());
        let before = profile.enter(Kind::Selection, 0);
        for input in sharing.inputs() {
            self.select(over, input, checks, profile);
            if self.notes.len() > MAX_NOTES {
                return Err(TooMuch);
            }
        }
        profile.leave(before);
        let mut bound = vec![];
        for i in 0..self.met.len() {
            let leads = &sharing.sel(self.met[i]).leads;
            if leads.is_empty() {
                continue;
            }
            let candidates = self.members(sharing, self.met[i]);
            for &output in leads {
                let before = profile.enter(Kind::Semijoin, candidates.len());
                self.qualified(over, output, candidates.clone(), checks, &mut bound);
                profile.leave(before);
                if bound.is_empty() {
                    continue;
                }
                for &id in &sharing.output(output).results {
                    let result = sharing.result(id);
                    let kind =
                        if matches!(result.lists, Lists::Twigs(_)) { Kind::ReturnSelect } else { Kind::OuterJoin };
                    let before = profile.enter(kind, bound.len());
                    let mut lists = Returning { run: self, over, checks, profile, result };
                    found(result, &bound, &mut lists);
                    profile.leave(before);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, sharing: &Sharing, nodes: usize) {
        if self.stamp == u32::MAX {
            self.heads.clear();
            self.groups.clear();
            self.stamp = 0;
        }
        self.stamp += 1;
        let (sels, groups) = sharing.bounds();
        self.heads.resize(sels, Head::default());
        self.groups.resize_with(groups, Grouped::default);
        self.notes.clear();
        self.met.clear();
        self.sorted.clear();
        self.strings.clear();
        self.strings.resize(nodes, None);
    }

    /// The selections on one input, all at once.
    fn select(&mut self, over: Over<'_, '_>, input: &Input, checks: &mut Checks, profile: &mut Profile) {
        let Over { set, streams, message } = over;
        let stream = streams.get(input.path);
        if stream.is_empty() {
            return;
        }
        if profile.is_on {
            profile.costs[Kind::Selection as usize].tuples += stream.len() as u64;
        }
        for tuple in 0..stream.len() as u32 {
            let bound = stream.node(tuple, input.field);
            if let Some(sel) = input.plain {
                self.note(sel, bound);
            }
            for indexed in &input.indexed {
                let node = stream.node(tuple, indexed.field);
                if indexed.twig.nodes.is_empty() {
                    self.look_up(over, indexed.number, node, bound);
                } else {
                    let mut nodes = vec![];
                    // the twigs of selections are short; one that is not is searched for as far as it takes
                    if Search::new(message, u32::MAX).each(&indexed.twig, node, |n| nodes.push(n)).is_ok() {
                        nodes.into_iter().for_each(|n| self.look_up(over, indexed.number, n, bound));
                    }
                }
            }
            for &sel in &input.others {
                let tests = set.sharing.sel(sel).tests();
                let passes = tests
                    .iter()
                    .all(|&(field, c)| checks.holds(message, c, set.terms.check(c), stream.node(tuple, field)));
                if passes {
                    self.note(sel, bound);
                }
            }
        }
    }

    /// Notes a bound node for all selections of an index that a value satisfies.
    fn look_up(&mut self, over: Over<'_, '_>, number: u32, node: NodeIx, bound: NodeIx) {
        let mut scratch = std::mem::take(&mut self.value);
        let known = self.strings[node as usize];
        let mut value = NodeValue::known(over.message, node, &mut scratch, known);
        let sharing = &over.set.sharing;
        sharing.atoms.satisfied(number, over.message.constants, &mut value, |atom| {
            self.note(sharing.sel_of_atom(atom), bound);
        });
        self.strings[node as usize] = value.known_string();
        self.value = scratch;
    }

    #[inline]
    fn note(&mut self, sel: SelIx, bound: NodeIx) {
        let head = &mut self.heads[sel as usize];
        if head.stamp != self.stamp {
            *head = Head { stamp: self.stamp, last: END, range: None };
            self.met.push(sel);
        } else if self.notes[head.last as usize].0 == bound {
            return;
        }
        self.notes.push((bound, head.last));
        head.last = self.notes.len() as u32 - 1;
    }

    /// The bound nodes that satisfy a selection, in document order, each once: a range of `sorted`.
    fn members(&mut self, sharing: &Sharing, sel: SelIx) -> Range<u32> {
        let head = &mut self.heads[sel as usize];
        if head.stamp != self.stamp {
            return 0..0;
        }
        if let Some((from, to)) = head.range {
            return from..to;
        }
        let from = self.sorted.len();
        let mut at = head.last;
        while at != END {
            let (node, next) = self.notes[at as usize];
            self.sorted.push(node);
            at = next;
        }
        self.sorted[from..].reverse();
        // in order: duplicates came one after the other and were not noted; else they are anywhere
        if !sharing.input_of(sel).ordered {
            self.sorted[from..].sort_unstable();
            let mut kept = from;
            for i in from..self.sorted.len() {
                if i == from || self.sorted[i] != self.sorted[kept - 1] {
                    self.sorted[kept] = self.sorted[i];
                    kept += 1;
                }
            }
            self.sorted.truncate(kept);
        }
        let range = (from as u32, self.sorted.len() as u32);
        head.range = Some(range);
        range.0..range.1
    }

    /// The nodes among `candidates` that an output has.
    fn qualified(
        &mut self,
        over: Over<'_, '_>,
        output: u32,
        candidates: Range<u32>,
        checks: &mut Checks,
        bound: &mut Vec<NodeIx>,
    ) {
        let sharing = &over.set.sharing;
        let output = sharing.output(output);
        bound.clear();
        bound.extend_from_slice(&self.sorted[candidates.start as usize..candidates.end as usize]);
        for (sels, wanted) in [(&output.others, true), (&output.anti, false)] {
            for &sel in sels.iter() {
                let range = self.members(sharing, sel);
                let members = &self.sorted[range.start as usize..range.end as usize];
                bound.retain(|node| members.binary_search(node).is_ok() == wanted);
            }
        }
        for &check in &output.wheres {
            bound.retain(|&node| checks.holds(over.message, check, over.set.terms.check(check), node));
        }
    }

    /// Group-by: made when it is first asked for.
    fn group(&mut self, over: Over<'_, '_>, id: u32, checks: &mut Checks, profile: &mut Profile) {
        let grouped = &mut self.groups[id as usize];
        if grouped.stamp == self.stamp {
            return;
        }
        let Over { set, streams, message } = over;
        let by = set.sharing.group(id);
        let stream = streams.get(by.path);
        let before = profile.enter(Kind::GroupBy, stream.len());
        let passes = |checks: &mut Checks, tuple: u32| {
            by.tests.iter().all(|&(f, c)| checks.holds(message, c, set.terms.check(c), stream.node(tuple, f)))
        };
        let pairs = &mut grouped.pairs;
        pairs.clear();
        for tuple in 0..stream.len() as u32 {
            if by.tests.is_empty() || passes(checks, tuple) {
                pairs.push((stream.node(tuple, by.field), stream.last(tuple)));
            }
        }
        if !by.ordered {
            pairs.sort_unstable();
        }
        if !by.distinct {
            pairs.dedup();
        }
        grouped.stamp = self.stamp;
        grouped.ends.clear();
        grouped.nodes.clear();
        for &(bound, node) in pairs.iter() {
            if grouped.ends.last().map(|e| e.0) != Some(bound) {
                grouped.ends.push((bound, 0));
            }
            grouped.nodes.push(node);
            if let Some(last) = grouped.ends.last_mut() {
                last.1 = grouped.nodes.len() as u32;
            }
        }
        profile.leave(before);
    }
}

/// What one result returns.
struct Returning<'r, 'a, 'm> {
    run: &'r mut Combined,
    over: Over<'a, 'm>,
    checks: &'r mut Checks,
    profile: &'r mut Profile,
    result: &'a Joined,
}

impl<'m> Returned<'m> for Returning<'_, '_, 'm> {
    fn nodes<'s>(&'s mut self, r: u32, bound: &'s NodeIx) -> &'s [NodeIx] {
        let Returning { run, over, checks, profile, result } = self;
        let Some(at) = r.checked_sub(result.itself as u32) else { return std::slice::from_ref(bound) };
        match &result.lists {
            Lists::Groups(groups) => {
                let id = groups[at as usize];
                run.group(*over, id, checks, profile);
                run.groups[id as usize].get(*bound)
            }
            Lists::Twigs(twigs) => {
                let id = twigs[at as usize];
                run.found.clear();
                checks.select(over.message, id, over.set.terms.twig(id), *bound, &mut run.found);
                &run.found
            }
        }
    }

    fn message(&self, _r: u32) -> (usize, Message<'m>) {
        (0, self.over.message)
    }
}
