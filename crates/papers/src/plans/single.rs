//! A plan on its own (broker §3): operator by operator over lists of path-tuples, from the streams up to the groups.

use super::checks::Checks;
use super::codes::{Op, Top};
use super::profile::{Kind, Profile};
use super::set::{Resolved, Terms};
use super::streams::{Streams, Tuples};
use hashbrown::HashSet;
use twigcast_kernel::internals::{Message, NodeIx, PathIx, Returned, TooMuch};

/// Tuples that the plans of one message may take in all.
const MAX_WORK: usize = 1 << 32;

/// Memory that plans use one after the other.
#[derive(Default)]
pub struct Scratch {
    idle: Vec<Vec<u32>>,
    table: Table,
    pairs: HashSet<(NodeIx, NodeIx)>,
    pub groups: Groups,
    pub work: usize,
}

/// The hash form of joins. Nodes are small numbers, so that the table needs no hash: a node has its own place.
#[derive(Default)]
struct Table {
    stamp: u32,
    seen: Vec<u32>,
    /// By node the first of its tuples, by tuple the next one.
    first: Vec<u32>,
    next: Vec<u32>,
}

const END: u32 = u32::MAX;

impl Table {
    fn begin(&mut self, nodes: usize) {
        if self.stamp == u32::MAX {
            self.seen.clear();
            self.stamp = 0;
        }
        self.stamp += 1;
        if self.seen.len() < nodes {
            self.seen.resize(nodes, 0);
            self.first.resize(nodes, END);
        }
    }

    /// False if the node was there already.
    fn insert(&mut self, node: NodeIx) -> bool {
        std::mem::replace(&mut self.seen[node as usize], self.stamp) != self.stamp
    }

    fn contains(&self, node: NodeIx) -> bool {
        self.seen[node as usize] == self.stamp
    }
}

/// What a plan makes of a message: bound nodes, and for each return path and each of them a list.
#[derive(Default)]
pub struct Groups {
    pub bound: Vec<NodeIx>,
    /// Ends of the lists in `nodes`, those of the first return path first.
    ends: Vec<u32>,
    nodes: Vec<NodeIx>,
}

/// Groups as the message factory reads them.
pub struct Made<'a, 'm> {
    pub groups: &'a Groups,
    pub itself: bool,
    pub message: Message<'m>,
}

impl<'m> Returned<'m> for Made<'_, 'm> {
    fn nodes<'s>(&'s mut self, r: u32, bound: &'s NodeIx) -> &'s [NodeIx] {
        if self.itself && r == 0 {
            return std::slice::from_ref(bound);
        }
        let Ok(at) = self.groups.bound.binary_search(bound) else { return &[] };
        let at = (r as usize - self.itself as usize) * self.groups.bound.len() + at;
        let from = if at == 0 { 0 } else { self.groups.ends[at - 1] };
        &self.groups.nodes[from as usize..self.groups.ends[at] as usize]
    }

    fn message(&self, _r: u32) -> (usize, Message<'m>) {
        (0, self.message)
    }
}

/// One plan over one message.
pub struct Run<'a, 'm> {
    pub terms: &'a Terms,
    pub streams: &'a Streams,
    pub message: Message<'m>,
    pub checks: &'a mut Checks,
    pub scratch: &'a mut Scratch,
    pub profile: &'a mut Profile,
}

impl Run<'_, '_> {
    /// Fills the groups.
    pub fn plan(&mut self, plan: &Resolved) -> Result<(), TooMuch> {
        let mut groups = std::mem::take(&mut self.scratch.groups);
        groups.bound.clear();
        groups.ends.clear();
        groups.nodes.clear();
        let done = match &plan.top {
            Top::ReturnSelect { input, field, twigs } => self.return_select(input, *field, twigs, &mut groups),
            Top::OuterJoinSelect { left, rights, field, merge } => {
                self.outer_join(left, rights, *field, *merge, &mut groups)
            }
        };
        self.scratch.groups = groups;
        done
    }

    /// The nodes that a left plan binds.
    fn bind(&mut self, op: &Op, field: u32, bound: &mut Vec<NodeIx>) -> Result<(), TooMuch> {
        let mut list = self.list();
        let path = self.tuples(op, &mut list)?;
        let stream = self.streams.get(path);
        bound.extend(list.iter().map(|&t| stream.node(t, field)));
        self.scratch.idle.push(list);
        Ok(())
    }

    fn return_select(&mut self, op: &Op, field: u32, twigs: &[u32], groups: &mut Groups) -> Result<(), TooMuch> {
        self.bind(op, field, &mut groups.bound)?;
        let before = self.profile.enter(Kind::ReturnSelect, groups.bound.len());
        for &id in twigs {
            for &node in &groups.bound {
                self.checks.select(self.message, id, self.terms.twig(id), node, &mut groups.nodes);
                groups.ends.push(groups.nodes.len() as u32);
            }
        }
        self.profile.leave(before);
        Ok(())
    }

    fn outer_join(
        &mut self,
        left: &Op,
        rights: &[Op],
        field: u32,
        merge: bool,
        groups: &mut Groups,
    ) -> Result<(), TooMuch> {
        self.bind(left, field, &mut groups.bound)?;
        if groups.bound.is_empty() {
            return Ok(());
        }
        for right in rights {
            // a whole stream is read where it is
            if let Op::Stream(path) = right {
                let stream = self.streams.get(*path);
                self.scratch.work += groups.bound.len();
                self.lists(groups, stream, field, merge, stream.len(), |i| i as u32);
                continue;
            }
            let mut list = self.list();
            let path = self.tuples(right, &mut list)?;
            self.lists(groups, self.streams.get(path), field, merge, list.len(), |i| list[i]);
            self.scratch.idle.push(list);
        }
        Ok(())
    }

    /// One outer join, with `n` tuples on the right.
    fn lists(
        &mut self,
        groups: &mut Groups,
        stream: Tuples<'_>,
        field: u32,
        merge: bool,
        n: usize,
        tuple: impl Fn(usize) -> u32,
    ) {
        let before = self.profile.enter(Kind::OuterJoin, groups.bound.len() + n);
        if merge {
            merge_lists(groups, stream, field, n, tuple);
        } else {
            self.hash_lists(groups, stream, field, n, tuple);
        }
        self.profile.leave(before);
    }

    fn hash_lists(
        &mut self,
        groups: &mut Groups,
        stream: Tuples<'_>,
        field: u32,
        n: usize,
        tuple: impl Fn(usize) -> u32,
    ) {
        let table = &mut self.scratch.table;
        table.begin(self.message.nodes.len());
        table.next.clear();
        table.next.resize(n, END);
        for i in (0..n).rev() {
            let node = stream.node(tuple(i), field) as usize;
            if !table.insert(node as NodeIx) {
                table.next[i] = table.first[node];
            }
            table.first[node] = i as u32;
        }
        for &bound in &groups.bound {
            if table.contains(bound) {
                let mut at = table.first[bound as usize];
                while at != END {
                    groups.nodes.push(stream.last(tuple(at as usize)));
                    at = table.next[at as usize];
                }
            }
            groups.ends.push(groups.nodes.len() as u32);
        }
    }

    fn list(&mut self) -> Vec<u32> {
        let mut list = self.scratch.idle.pop().unwrap_or_default();
        list.clear();
        list
    }

    /// Appends the tuples that an operator puts out, as numbers in the stream of the path that is returned.
    fn tuples(&mut self, op: &Op, list: &mut Vec<u32>) -> Result<PathIx, TooMuch> {
        match op {
            Op::Stream(path) => {
                let n = self.streams.get(*path).len();
                self.scratch.work += n;
                if self.scratch.work > MAX_WORK {
                    return Err(TooMuch);
                }
                list.extend(0..n as u32);
                Ok(*path)
            }
            Op::Selection(input, tests) => {
                let path = self.tuples(input, list)?;
                let before = self.profile.enter(Kind::Selection, list.len());
                let stream = self.streams.get(path);
                let (terms, message) = (self.terms, self.message);
                list.retain(|&tuple| {
                    tests.iter().all(|&(field, check)| {
                        self.checks.holds(message, check, terms.check(check), stream.node(tuple, field))
                    })
                });
                self.profile.leave(before);
                Ok(path)
            }
            Op::DupElim(input, fields, scan) => {
                let path = self.tuples(input, list)?;
                let before = self.profile.enter(Kind::DupElim, list.len());
                self.dupelim(self.streams.get(path), fields, *scan, list);
                self.profile.leave(before);
                Ok(path)
            }
            Op::WhereFilter(input, field, check) => {
                let path = self.tuples(input, list)?;
                let before = self.profile.enter(Kind::WhereFilter, list.len());
                let stream = self.streams.get(path);
                let (terms, message) = (self.terms, self.message);
                list.retain(|&t| self.checks.holds(message, *check, terms.check(*check), stream.node(t, *field)));
                self.profile.leave(before);
                Ok(path)
            }
            Op::Semijoin { left, right, field, merge, anti } => {
                let path = self.tuples(left, list)?;
                if list.is_empty() {
                    return Ok(path);
                }
                let mut matching = self.list();
                let other = self.tuples(right, &mut matching)?;
                let before = self.profile.enter(Kind::Semijoin, list.len() + matching.len());
                self.semijoin(
                    self.streams.get(path),
                    list,
                    self.streams.get(other),
                    &matching,
                    *field,
                    (*merge, *anti),
                );
                self.profile.leave(before);
                self.scratch.idle.push(matching);
                Ok(path)
            }
        }
    }

    fn dupelim(&mut self, stream: Tuples<'_>, fields: &[u32], scan: bool, list: &mut Vec<u32>) {
        let key = |tuple: u32| (stream.node(tuple, fields[0]), stream.node(tuple, fields[fields.len() - 1]));
        if scan {
            list.dedup_by_key(|tuple| key(*tuple));
        } else if fields.len() == 1 {
            let table = &mut self.scratch.table;
            table.begin(self.message.nodes.len());
            list.retain(|&tuple| table.insert(key(tuple).0));
        } else {
            let pairs = &mut self.scratch.pairs;
            pairs.clear();
            list.retain(|&tuple| pairs.insert(key(tuple)));
        }
    }

    fn semijoin(
        &mut self,
        left: Tuples<'_>,
        list: &mut Vec<u32>,
        right: Tuples<'_>,
        matching: &[u32],
        field: u32,
        (merge, anti): (bool, bool),
    ) {
        if merge {
            let mut at = 0;
            list.retain(|&tuple| {
                let bound = left.node(tuple, field);
                while at < matching.len() && right.node(matching[at], field) < bound {
                    at += 1;
                }
                (at < matching.len() && right.node(matching[at], field) == bound) != anti
            });
        } else {
            let table = &mut self.scratch.table;
            table.begin(self.message.nodes.len());
            for &tuple in matching {
                table.insert(right.node(tuple, field));
            }
            list.retain(|&tuple| table.contains(left.node(tuple, field)) != anti);
        }
    }
}

fn merge_lists(groups: &mut Groups, stream: Tuples<'_>, field: u32, n: usize, tuple: impl Fn(usize) -> u32) {
    let mut at = 0;
    for &bound in &groups.bound {
        // bound nodes are few where there are predicates: what lies between is leapt over, in steps that double
        let mut step = 1;
        while at + step < n && stream.node(tuple(at + step), field) < bound {
            at += step;
            step *= 2;
        }
        while at < n && stream.node(tuple(at), field) < bound {
            at += 1;
        }
        while at < n && stream.node(tuple(at), field) == bound {
            groups.nodes.push(stream.last(tuple(at)));
            at += 1;
        }
        groups.ends.push(groups.nodes.len() as u32);
    }
}
