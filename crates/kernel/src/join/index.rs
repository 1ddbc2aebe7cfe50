//! Queries by the pairs of columns on which a stored and a new message must agree. A query is a conjunction of such
//! pairs; all of them lie in one tree of sorted sets, so that the queries within a given set are found by walking over
//! what the set satisfies (the shared matcher of conjunctions, with pairs for predicates).

use super::query::{Order, Role};
use super::{BlockIx, ColumnIx, QueryIx, SetIx, Time};
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
/// Blocks of stored messages, and how many roles have them.
type Tied = HashMap<BlockIx, u32>;

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
    /// By pair the blocks that roles with it tie: of the new message, of the stored one, and how many roles.
    tied: Vec<HashMap<BlockIx, Tied>>,
    nodes: Vec<Node>,
    /// Entries without pairs, by an order; and these by the column of the new message.
    orders: HashMap<Order, Ordering>,
    orders_of: HashMap<ColumnIx, Vec<Order>>,
    /// Entries without either, by the blocks alone.
    scans: Entries,
    scan_reach: HashMap<BlockIx, Reach>,
}

#[derive(Default)]
struct Ordering {
    entries: Entries,
    reach: Reach,
}

impl Index {
    /// `stored` and `new` are the blocks of the role.
    pub fn add(&mut self, role: &Role, (stored, new): (BlockIx, BlockIx), query: QueryIx) {
        let entry = Entry { query, new: role.new, stored: role.stored };
        for &pair in &role.pairs {
            let id = self.pair(pair);
            *self.tied[id as usize].entry(new).or_default().entry(stored).or_default() += 1;
        }
        self.entries(role).entry(new).or_default().entry(stored).or_default().push(entry);
    }

    fn entries(&mut self, role: &Role) -> &mut Entries {
        if !role.pairs.is_empty() {
            let node = self.node(&role.pairs);
            &mut self.nodes[node as usize].entries
        } else if let Some(order) = role.order {
            &mut self.ordering(order).entries
        } else {
            &mut self.scans
        }
    }

    fn ordering(&mut self, order: Order) -> &mut Ordering {
        self.orders.entry(order).or_insert_with(|| {
            self.orders_of.entry(order.new).or_default().push(order);
            Ordering::default()
        })
    }

    /// Some query with this role has a wider window now.
    pub fn widen(&mut self, role: &Role, new: BlockIx, reach: Reach) {
        for pair in &role.pairs {
            let id = self.pair(*pair);
            self.reach[id as usize].widen(reach);
        }
        if role.pairs.is_empty() {
            match role.order {
                Some(order) => self.ordering(order).reach.widen(reach),
                None => self.scan_reach.entry(new).or_default().widen(reach),
            }
        }
    }

    pub fn remove(&mut self, role: &Role, (stored, new): (BlockIx, BlockIx), query: QueryIx) {
        for &pair in &role.pairs {
            let id = self.pair(pair);
            let by_new = &mut self.tied[id as usize];
            let Some(tied) = by_new.get_mut(&new) else { continue };
            if let Some(count) = tied.get_mut(&stored) {
                *count -= 1;
                if *count == 0 {
                    tied.remove(&stored);
                }
            }
            if tied.is_empty() {
                by_new.remove(&new);
            }
        }
        let entries = self.entries(role);
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
            self.tied.push(HashMap::new());
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

    /// What queries with this pair ask of stored messages, if the new message matches these blocks.
    pub(crate) fn ties(&self, pair: PairIx, new: &[BlockIx]) -> Ties<'_> {
        let tied = &self.tied[pair as usize];
        if tied.len() <= new.len() {
            Ties(tied.iter().filter(|t| new.binary_search(t.0).is_ok()).map(|t| t.1).collect())
        } else {
            Ties(new.iter().filter_map(|block| tied.get(block)).collect())
        }
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

    /// The orders in which stored messages can be to a column of a new one.
    pub fn orders(&self, new: ColumnIx) -> &[Order] {
        self.orders_of.get(&new).map_or(&[], |orders| orders)
    }

    /// What a new message that matches these blocks, ascending, has to be compared with by an order, and how far away.
    pub fn ordered(&self, order: &Order, new: &[BlockIx]) -> Option<(Live<'_>, Reach)> {
        let ordering = self.orders.get(order)?;
        let live = Live::of(&ordering.entries, new);
        (!live.is_empty()).then_some((live, ordering.reach))
    }

    /// What a new message that matches a block has to be compared with though no value leads there: entries by the
    /// block of the stored message, and how far these can be.
    pub fn scans(&self, new: BlockIx) -> Option<(&HashMap<BlockIx, Vec<Entry>>, Reach)> {
        let lists = self.scans.get(&new)?;
        Some((lists, self.scan_reach.get(&new).copied().unwrap_or_default()))
    }
}

/// Blocks of which a stored message has to match one.
pub(crate) struct Ties<'a>(Vec<&'a Tied>);

impl Ties<'_> {
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockIx> + '_ {
        self.0.iter().flat_map(|tied| tied.keys().copied())
    }

    /// Is one of them in a set, ascending?
    pub(crate) fn meet(&self, set: &[BlockIx]) -> bool {
        self.0.iter().any(|tied| match tied.len() <= set.len() {
            true => tied.keys().any(|block| set.binary_search(block).is_ok()),
            false => set.iter().any(|block| tied.contains_key(block)),
        })
    }
}

/// Entries for one new message: what depends on its blocks is found once for all stored messages it is compared with.
pub struct Within<'a> {
    index: &'a Index,
    new: &'a [BlockIx],
    nodes: HashMap<u32, Live<'a>>,
    /// By a pair that is all that two messages agree in, and the set of the stored one's blocks: a value that very many
    /// messages have leads to few such.
    single: HashMap<(PairIx, SetIx), Box<[Entry]>>,
}

/// The entries of a node whose new block the message matches: a few of them, or where there are many, by stored block.
#[derive(Default)]
pub struct Live<'a> {
    few: Vec<(BlockIx, Entry)>,
    many: Vec<&'a ByStored>,
}

/// Stored blocks that are looked at one by one.
const FEW: usize = 16;

impl<'a> Within<'a> {
    /// For a message that matches these blocks, ascending.
    pub fn new(index: &'a Index, new: &'a [BlockIx]) -> Within<'a> {
        Within { index, new, nodes: HashMap::new(), single: HashMap::new() }
    }

    /// Calls `f` for the entries that pairs satisfy with a stored message that matches these blocks, ascending.
    pub fn each(&mut self, pairs: &[PairIx], stored: &[BlockIx], mut f: impl FnMut(Entry)) {
        let Within { index, new, nodes, .. } = self;
        index.walk(0, pairs, &mut |node| {
            let live = nodes.entry(node).or_insert_with(|| Live::of(&index.nodes[node as usize].entries, new));
            live.each(stored, &mut f);
        });
    }

    /// The entries that one pair satisfies with a stored message that matches a set of blocks; `set` is its number.
    pub fn of_single<'s>(&mut self, pair: PairIx, set: SetIx, stored: impl FnOnce() -> &'s [BlockIx]) -> &[Entry] {
        if !self.single.contains_key(&(pair, set)) {
            let mut found = vec![];
            self.each(&[pair], stored(), |entry| found.push(entry));
            self.single.insert((pair, set), found.into());
        }
        &self.single[&(pair, set)]
    }
}

impl<'a> Live<'a> {
    fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }

    /// Calls `f` for the entries whose stored block is among these, ascending.
    pub fn each(&self, stored: &[BlockIx], mut f: impl FnMut(Entry)) {
        for (block, entry) in &self.few {
            if stored.binary_search(block).is_ok() {
                f(*entry);
            }
        }
        for lists in &self.many {
            if lists.len() <= stored.len() {
                let found = lists.iter().filter(|l| stored.binary_search(l.0).is_ok());
                found.for_each(|l| l.1.iter().for_each(|&e| f(e)));
            } else {
                stored.iter().filter_map(|b| lists.get(b)).for_each(|l| l.iter().for_each(|&e| f(e)));
            }
        }
    }

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
