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

/// Entries by the block of the new message, then by that of the stored one.
type Entries = HashMap<BlockIx, ByStored>;
type ByStored = HashMap<BlockIx, Vec<Entry>>;

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
    scans: Entries,
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
            &mut self.scans
        } else {
            let node = self.node(pairs);
            &mut self.nodes[node as usize].entries
        };
        entries.entry(new).or_default().entry(stored).or_default().push(entry);
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
        let entries = if pairs.is_empty() {
            &mut self.scans
        } else {
            let node = self.node(pairs);
            &mut self.nodes[node as usize].entries
        };
        let Some(lists) = entries.get_mut(&new) else { return };
        if let Some(list) = lists.get_mut(&stored) {
            list.retain(|e| e.query != query);
            if list.is_empty() {
                lists.remove(&stored);
            }
        }
        if lists.is_empty() {
            entries.remove(&new);
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
        self.walk(0, pairs, &mut |node| found |= !self.nodes[node as usize].entries.is_empty());
        found
    }

    /// Calls `f` for the nodes whose pairs are all among these, as deep as the longest conjunction of a query.
    fn walk(&self, node: u32, pairs: &[PairIx], f: &mut impl FnMut(u32)) {
        let Some(node) = self.nodes.get(node as usize) else { return };
        let mut visit = |child: u32, rest: &[PairIx]| {
            let entered = &self.nodes[child as usize];
            if !entered.entries.is_empty() {
                f(child);
            }
            if !entered.children.is_empty() && !rest.is_empty() {
                self.walk(child, rest, f);
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

/// Entries for one new message: what depends on its blocks is found once for all stored messages it is compared with.
pub struct Within<'a> {
    index: &'a Index,
    new: &'a [BlockIx],
    nodes: HashMap<u32, Live<'a>>,
}

/// The entries of a node whose new block the message matches: a few of them, or where there are many, by stored block.
#[derive(Default)]
struct Live<'a> {
    few: Vec<(BlockIx, Entry)>,
    many: Vec<&'a ByStored>,
}

/// Stored blocks that are looked at one by one.
const FEW: usize = 16;

impl<'a> Within<'a> {
    /// For a message that matches these blocks, ascending.
    pub fn new(index: &'a Index, new: &'a [BlockIx]) -> Within<'a> {
        Within { index, new, nodes: HashMap::new() }
    }

    /// Calls `f` for the entries that pairs satisfy with a stored message that matches these blocks, ascending.
    pub fn each(&mut self, pairs: &[PairIx], stored: &[BlockIx], mut f: impl FnMut(Entry)) {
        let Within { index, new, nodes } = self;
        index.walk(0, pairs, &mut |node| {
            let live = nodes.entry(node).or_insert_with(|| Live::of(&index.nodes[node as usize].entries, new));
            for (block, entry) in &live.few {
                if stored.binary_search(block).is_ok() {
                    f(*entry);
                }
            }
            for lists in &live.many {
                if lists.len() <= stored.len() {
                    let found = lists.iter().filter(|l| stored.binary_search(l.0).is_ok());
                    found.for_each(|l| l.1.iter().for_each(|&e| f(e)));
                } else {
                    stored.iter().filter_map(|b| lists.get(b)).for_each(|l| l.iter().for_each(|&e| f(e)));
                }
            }
        });
    }
}

impl<'a> Live<'a> {
    fn of(entries: &'a Entries, new: &[BlockIx]) -> Live<'a> {
        let mut live = Live::default();
        let mut add = |lists: &'a ByStored| {
            if lists.len() <= FEW {
                live.few.extend(lists.iter().flat_map(|l| l.1.iter().map(|&e| (*l.0, e))));
            } else {
                live.many.push(lists);
            }
        };
        if entries.len() <= new.len() {
            entries.iter().filter(|e| new.binary_search(e.0).is_ok()).for_each(|e| add(e.1));
        } else {
            new.iter().filter_map(|b| entries.get(b)).for_each(&mut add);
        }
        live
    }
}
