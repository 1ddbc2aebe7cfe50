//! Queries by the pairs of columns on which a stored and a new message must agree. A query is a conjunction of such
//! pairs; all of them lie in one tree of sorted sets, so that the queries within a given set are found by walking over
//! what the set satisfies (the shared matcher of conjunctions, with pairs for predicates).

use super::{BlockIx, ColumnIx, QueryIx, Time};
use hashbrown::HashMap;

pub type PairIx = u32;

/// A part that a message can play in a query (see [`super::query::Role`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub query: QueryIx,
    pub new: u32,
    pub stored: u32,
}

/// Entries by the block of the stored message, then by that of the new one.
type Entries = HashMap<BlockIx, HashMap<BlockIx, Vec<Entry>>>;

#[derive(Default)]
struct Node {
    /// Ascending by pair.
    children: Vec<(PairIx, u32)>,
    entries: Entries,
}

/// How far from a new message the stored ones of a pair can be.
#[derive(Clone, Copy, Default, Debug)]
pub struct Reach {
    pub back: Time,
    pub ahead: Time,
}

impl Reach {
    pub fn widen(&mut self, other: Reach) {
        self.back = self.back.max(other.back);
        self.ahead = self.ahead.max(other.ahead);
    }

    pub fn around(self, time: Time) -> (Time, Time) {
        (time.saturating_sub(self.back), time.saturating_add(self.ahead))
    }
}

#[derive(Default)]
pub struct Index {
    pairs: HashMap<(ColumnIx, ColumnIx), PairIx>,
    reach: Vec<Reach>,
    nodes: Vec<Node>,
    /// Entries without pairs, by the blocks alone.
    scans: HashMap<BlockIx, HashMap<BlockIx, Vec<Entry>>>,
    scan_reach: HashMap<BlockIx, Reach>,
}

impl Index {
    pub fn add(
        &mut self,
        pairs: &[(ColumnIx, ColumnIx)],
        (stored, new): (BlockIx, BlockIx),
        entry: Entry,
        reach: Reach,
    ) {
        self.widen(pairs, new, reach);
        let entries = if pairs.is_empty() {
            // here the new message leads the way: its blocks are at hand
            self.scans.entry(new).or_default().entry(stored).or_default()
        } else {
            let node = self.node(pairs);
            self.nodes[node as usize].entries.entry(stored).or_default().entry(new).or_default()
        };
        entries.push(entry);
    }

    /// Some query with these pairs has a wider window now.
    pub fn widen(&mut self, pairs: &[(ColumnIx, ColumnIx)], new: BlockIx, reach: Reach) {
        for pair in pairs {
            let id = self.pair(*pair);
            self.reach[id as usize].widen(reach);
        }
        if pairs.is_empty() {
            self.scan_reach.entry(new).or_default().widen(reach);
        }
    }

    pub fn remove(&mut self, pairs: &[(ColumnIx, ColumnIx)], (stored, new): (BlockIx, BlockIx), query: QueryIx) {
        let (entries, outer, inner) = if pairs.is_empty() {
            (&mut self.scans, new, stored)
        } else {
            let node = self.node(pairs);
            (&mut self.nodes[node as usize].entries, stored, new)
        };
        let Some(lists) = entries.get_mut(&outer) else { return };
        if let Some(list) = lists.get_mut(&inner) {
            list.retain(|e| e.query != query);
            if list.is_empty() {
                lists.remove(&inner);
            }
        }
        if lists.is_empty() {
            entries.remove(&outer);
        }
    }

    fn pair(&mut self, pair: (ColumnIx, ColumnIx)) -> PairIx {
        let next = self.reach.len() as PairIx;
        let id = *self.pairs.entry(pair).or_insert(next);
        if id == next {
            self.reach.push(Reach::default());
        }
        id
    }

    fn node(&mut self, pairs: &[(ColumnIx, ColumnIx)]) -> u32 {
        let mut ids: Vec<PairIx> = pairs.iter().map(|&p| self.pair(p)).collect();
        ids.sort_unstable();
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0u32;
        for id in ids {
            let children = &self.nodes[at as usize].children;
            at = match children.binary_search_by_key(&id, |c| c.0) {
                Ok(i) => children[i].1,
                Err(i) => {
                    let node = self.nodes.len() as u32;
                    self.nodes.push(Node::default());
                    self.nodes[at as usize].children.insert(i, (id, node));
                    node
                }
            };
        }
        at
    }

    /// The number of a pair of columns (of a stored message, of a new one) that some query joins.
    #[inline]
    pub fn find(&self, stored: ColumnIx, new: ColumnIx) -> Option<PairIx> {
        self.pairs.get(&(stored, new)).copied()
    }

    #[inline]
    pub fn reach(&self, pair: PairIx) -> Reach {
        self.reach[pair as usize]
    }

    /// Would these pairs alone satisfy some query?
    pub fn any_within(&self, pairs: &[PairIx]) -> bool {
        let mut found = false;
        self.walk(pairs, &mut |node| found |= !node.entries.is_empty());
        found
    }

    /// Calls `f` for the entries that pairs satisfy, of messages that match these blocks: `stored` ascending, and what
    /// `is_new` says.
    pub fn within(
        &self,
        pairs: &[PairIx],
        stored: &[BlockIx],
        new: &[BlockIx],
        is_new: impl Fn(BlockIx) -> bool,
        mut f: impl FnMut(Entry),
    ) {
        self.walk(pairs, &mut |node| {
            let mut inner = |lists: &HashMap<BlockIx, Vec<Entry>>| {
                if lists.len() <= new.len() {
                    lists.iter().filter(|l| is_new(*l.0)).for_each(|l| l.1.iter().for_each(|&e| f(e)));
                } else {
                    new.iter().filter_map(|b| lists.get(b)).for_each(|l| l.iter().for_each(|&e| f(e)));
                }
            };
            if node.entries.len() <= stored.len() {
                let all = node.entries.iter().filter(|e| stored.binary_search(e.0).is_ok());
                all.for_each(|e| inner(e.1));
            } else {
                stored.iter().filter_map(|b| node.entries.get(b)).for_each(&mut inner);
            }
        });
    }

    fn walk<'a>(&'a self, pairs: &[PairIx], f: &mut impl FnMut(&'a Node)) {
        if let Some(root) = self.nodes.first() {
            self.walk_from(root, pairs, f);
        }
    }

    /// As deep as the longest conjunction of a query.
    fn walk_from<'a>(&'a self, node: &'a Node, pairs: &[PairIx], f: &mut impl FnMut(&'a Node)) {
        let mut visit = |child: u32, rest: &[PairIx]| {
            let child = &self.nodes[child as usize];
            if !child.entries.is_empty() {
                f(child);
            }
            if !child.children.is_empty() && !rest.is_empty() {
                self.walk_from(child, rest, f);
            }
        };
        if node.children.len() < pairs.len() {
            for &(pair, child) in &node.children {
                if let Ok(at) = pairs.binary_search(&pair) {
                    visit(child, &pairs[at + 1..]);
                }
            }
        } else {
            for (at, pair) in pairs.iter().enumerate() {
                if let Ok(i) = node.children.binary_search_by_key(pair, |c| c.0) {
                    visit(node.children[i].1, &pairs[at + 1..]);
                }
            }
        }
    }

    /// What a new message that matches a block has to be compared with though no value leads there: entries by the
    /// block of the stored message, and how far these can be.
    pub fn scans(&self, new: BlockIx) -> Option<(&HashMap<BlockIx, Vec<Entry>>, Reach)> {
        let lists = self.scans.get(&new)?;
        Some((lists, self.scan_reach.get(&new).copied().unwrap_or_default()))
    }
}
