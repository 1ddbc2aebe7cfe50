//! A set of nodes, as bits or as a list.

use crate::shapes::bitset::{each, each_within, has, insert, size};
use crate::shapes::nodes::NodeIx;

/// Where the empty set lies.
pub(super) const EMPTY: u32 = u32::MAX;
/// The set is a list, which lies in `lists` at the rest of the number.
pub(super) const LISTED: u32 = 1 << 31;

/// A set of nodes.
#[derive(Clone, Copy)]
pub(super) enum Set<'a> {
    Bits(&'a [u64]),
    List(&'a [NodeIx]),
}

impl<'a> Set<'a> {
    #[inline(always)]
    pub(super) fn new(words: &'a [u64], lists: &'a [u32], width: usize, at: u32) -> Set<'a> {
        if at & LISTED == 0 {
            return Set::Bits(&words[at as usize..at as usize + width]);
        }
        let at = (at & !LISTED) as usize;
        Set::List(&lists[at + 1..at + 1 + lists[at] as usize])
    }

    #[inline(always)]
    pub(super) fn has(self, n: NodeIx) -> bool {
        match self {
            Set::Bits(bits) => has(bits, n),
            Set::List(list) => list.binary_search(&n).is_ok(),
        }
    }

    #[inline(always)]
    pub(super) fn each(self, f: impl FnMut(NodeIx)) {
        match self {
            Set::Bits(bits) => each(bits, f),
            Set::List(list) => list.iter().copied().for_each(f),
        }
    }

    /// Calls `f` for the members from `from` up to `to`, ascending.
    pub(super) fn each_within(self, from: NodeIx, to: NodeIx, f: impl FnMut(NodeIx)) {
        match self {
            Set::Bits(bits) => each_within(bits, from, to, f),
            Set::List(list) => {
                let first = list.partition_point(|&n| n < from);
                list[first..].iter().copied().take_while(|&n| n < to).for_each(f);
            }
        }
    }

    pub(super) fn size(self) -> usize {
        match self {
            Set::Bits(bits) => size(bits) as usize,
            Set::List(list) => list.len(),
        }
    }

    /// Takes all nodes but its members out of a set of bits.
    pub(super) fn retain_in(self, bits: &mut [u64]) {
        match self {
            Set::Bits(set) => bits.iter_mut().zip(set).for_each(|(a, b)| *a &= b),
            Set::List(list) => {
                let both: Vec<NodeIx> = list.iter().copied().filter(|&n| has(bits, n)).collect();
                bits.fill(0);
                both.into_iter().for_each(|n| insert(bits, n));
            }
        }
    }
}
