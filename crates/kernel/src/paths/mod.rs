//! Linear location paths, matched for all subscriptions at once.
//!
//! A [`PathMatcher`] says which of the paths of a [`PathIndex`] a message contains. The [`Trie`](trie::Trie) is ours: one
//! look-up per element, whatever the number of paths.

pub(crate) mod align;
pub(crate) mod bypass;
pub(crate) mod hits;
pub(crate) mod index;
pub(crate) mod laminar;
pub(crate) mod runs;
pub(crate) mod segment;
pub(crate) mod sets;
pub(crate) mod tab;
pub(crate) mod table;
pub(crate) mod trie;

use crate::names::Sym;
use crate::sorted::Sorter;
use index::PathIndex;

/// One step of a path: a test, and whether it is reached by `//`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Step(pub u32);

impl Step {
    const DESCENDANT: u32 = 1 << 31;

    pub fn new(descendant: bool, test: Sym) -> Step {
        Step(test | if descendant { Self::DESCENDANT } else { 0 })
    }
    #[inline(always)]
    pub fn descendant(self) -> bool {
        self.0 & Self::DESCENDANT != 0
    }
    #[inline(always)]
    pub fn test(self) -> Sym {
        self.0 & !Self::DESCENDANT
    }
}

/// Number of a distinct path.
pub type PathId = u32;

pub const NONE: u32 = u32::MAX;

/// Finds the subscriptions whose paths a message contains, from the events of the message.
///
/// It follows a [`PathIndex`], which does not change while a message is read.
pub trait PathMatcher: Send {
    /// Catches up with the index. Called between messages.
    fn sync(&mut self, index: &PathIndex);
    /// Begins a message.
    fn begin(&mut self, index: &PathIndex);
    fn open(&mut self, index: &PathIndex, sym: Sym);
    fn close(&mut self);
    /// Whether nothing below the current node can match, so that names need not even be looked up.
    fn is_dead(&self) -> bool {
        false
    }
    /// Opens an element below a dead node.
    fn open_dead(&mut self) {}
    /// Whether attributes of the current element matter.
    fn wants_attributes(&self) -> bool {
        true
    }
    /// Whether text, comments and PIs in the current element matter.
    fn wants_leaves(&self) -> bool {
        true
    }
    /// Whether the value of the current node matters.
    fn wants_values(&self) -> bool;
    /// Visits a node without children.
    #[inline(always)]
    fn leaf(&mut self, index: &PathIndex, sym: Sym) {
        self.open(index, sym);
        self.close();
    }
    /// Notes the value of the current node. It may be looked at later, but not after `catch_up` or `deliver`.
    #[inline(always)]
    fn value(&mut self, index: &PathIndex, sym: Sym) {
        self.leaf(index, sym);
    }
    /// Looks the noted values up.
    fn catch_up(&mut self, _index: &PathIndex) {}
    /// Appends the subscriptions that the message satisfies, in no particular order. Ends the message.
    fn deliver(&mut self, index: &PathIndex, out: &mut Vec<u32>);
    /// As `deliver`, in ascending order.
    fn deliver_sorted(&mut self, index: &PathIndex, sorter: &mut Sorter, out: &mut Vec<u32>) {
        let from = out.len();
        self.deliver(index, out);
        sorter.sort(out, from, index.sub_bound());
    }
    /// Prepares `has`, after `deliver`.
    fn mark(&mut self) {}
    /// Whether the message that was delivered last satisfies this subscription.
    fn has(&self, sub: u32) -> bool;
    /// Announces that `has` will be called.
    #[inline(always)]
    fn expect(&self, _sub: u32) {}
    /// Whether late additions to the index have cost more than folding them in would.
    fn is_overworked(&self, _index: &PathIndex) -> bool {
        false
    }
    /// Returns the number of tag paths cached, and the bytes they take.
    fn cache(&self) -> (usize, usize) {
        (0, 0)
    }
}
