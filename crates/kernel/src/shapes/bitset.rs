//! Sets of a message's nodes as bits, 64 of them to a word.

use super::nodes::NodeIx;

#[inline(always)]
pub(crate) fn has(set: &[u64], n: NodeIx) -> bool {
    set[n as usize / 64] >> (n % 64) & 1 != 0
}

#[inline(always)]
pub(crate) fn insert(set: &mut [u64], n: NodeIx) {
    set[n as usize / 64] |= 1 << (n % 64);
}

pub(crate) fn size(set: &[u64]) -> u32 {
    set.iter().map(|w| w.count_ones()).sum()
}

/// Inserts the nodes from `from` up to `to`.
pub(crate) fn fill(set: &mut [u64], from: usize, to: usize) {
    if from >= to {
        return;
    }
    let (first, last) = (from / 64, (to - 1) / 64);
    let (low, high) = (!0u64 << (from % 64), !0u64 >> (63 - (to - 1) % 64));
    if first == last {
        set[first] |= low & high;
        return;
    }
    set[first] |= low;
    set[first + 1..last].fill(!0);
    set[last] |= high;
}

/// Calls `f` for the members, ascending.
#[inline(always)]
pub(crate) fn each(set: &[u64], mut f: impl FnMut(NodeIx)) {
    for (i, &word) in set.iter().enumerate() {
        let mut word = word;
        while word != 0 {
            f((i * 64) as NodeIx + word.trailing_zeros());
            word &= word - 1;
        }
    }
}

/// Calls `f` for the members of both sets, ascending.
#[inline(always)]
pub(crate) fn each_of_both(a: &[u64], b: &[u64], mut f: impl FnMut(NodeIx)) {
    for (i, (&a, &b)) in a.iter().zip(b).enumerate() {
        let mut word = a & b;
        while word != 0 {
            f((i * 64) as NodeIx + word.trailing_zeros());
            word &= word - 1;
        }
    }
}

/// Calls `f` for the members from `from` up to `to`, ascending.
pub(crate) fn each_within(set: &[u64], from: NodeIx, to: NodeIx, mut f: impl FnMut(NodeIx)) {
    if from >= to {
        return;
    }
    let first = from as usize / 64;
    each(&set[first..=(to as usize - 1) / 64], |n| {
        let n = n + first as NodeIx * 64;
        if n >= from && n < to {
            f(n);
        }
    });
}
