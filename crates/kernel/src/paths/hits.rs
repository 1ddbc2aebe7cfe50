//! A set of positions: those that one message has matched so far, or those to refine a partition by.

use super::laminar::{Interval, Laminar};
use crate::bits::gather;
#[cfg(target_arch = "x86_64")]
use crate::bits::{gather_avx2, has_avx2};
use crate::sorted::Sorter;

/// A bitmap with a summary, so that both dense and sparse sets cost what they hold.
pub struct Hits {
    bits: Vec<u64>,
    /// One bit per word of `bits` that may be non-zero.
    dirty: Vec<u64>,
    /// All ones. A constant would make the compiler call memset for what are mostly a few words.
    full: u64,
}

impl Default for Hits {
    fn default() -> Self {
        Hits { bits: vec![], dirty: vec![], full: std::hint::black_box(!0) }
    }
}

/// Words with more runs of ones than this are taken bit by bit.
const RUNS: u32 = 2;

/// The bits `from..=to` of a word.
#[inline(always)]
fn mask(from: u32, to: u32) -> u64 {
    (!0 << (from & 63)) & (!0 >> (63 - (to & 63)))
}

impl Hits {
    /// Room for the positions of `l`.
    pub fn fit(&mut self, l: &Laminar) {
        let words = l.len() / 64 + 1;
        if self.bits.len() < words {
            self.bits.resize(words, 0);
            self.dirty.resize(words / 64 + 1, 0);
        }
    }

    #[inline(always)]
    pub fn set(&mut self, (a, b): Interval) {
        let (w0, w1) = (a >> 6, (b - 1) >> 6);
        if w0 == w1 {
            self.bits[w0 as usize] |= mask(a, b - 1);
            self.dirty[w0 as usize >> 6] |= 1 << (w0 & 63);
            return;
        }
        let full = self.full;
        let words = &mut self.bits[w0 as usize..=w1 as usize];
        let last = words.len() - 1;
        words[0] |= mask(a, 63);
        words[1..last].iter_mut().for_each(|w| *w = full);
        words[last] |= mask(0, b - 1);
        let (d0, d1) = (w0 as usize >> 6, w1 as usize >> 6);
        if d0 == d1 {
            self.dirty[d0] |= mask(w0, w1);
        } else {
            self.dirty[d0] |= mask(w0, 63);
            self.dirty[d0 + 1..d1].fill(!0);
            self.dirty[d1] |= mask(0, w1);
        }
    }

    #[inline(always)]
    pub fn set_one(&mut self, p: u32) {
        let w = (p >> 6) as usize;
        self.bits[w] |= 1 << (p & 63);
        self.dirty[w >> 6] |= 1 << (w & 63);
    }

    pub fn unset(&mut self, (a, b): Interval) {
        let (w0, w1) = ((a >> 6) as usize, ((b - 1) >> 6) as usize);
        if w0 == w1 {
            self.bits[w0] &= !mask(a, b - 1);
        } else {
            self.bits[w0] &= !mask(a, 63);
            self.bits[w0 + 1..w1].fill(0);
            self.bits[w1] &= !mask(0, b - 1);
        }
    }

    /// The first position at or after `from`.
    pub fn first(&self, from: u32) -> Option<u32> {
        let mut w = (from >> 6) as usize;
        let word = self.bits.get(w)? & (!0 << (from & 63));
        if word != 0 {
            return Some((w as u32) << 6 | word.trailing_zeros());
        }
        w += 1;
        let mut d = w >> 6;
        let mut dirty = self.dirty.get(d)? & (!0 << (w & 63));
        loop {
            while dirty == 0 {
                d += 1;
                dirty = *self.dirty.get(d)?;
            }
            let w = d << 6 | dirty.trailing_zeros() as usize;
            if self.bits[w] != 0 {
                return Some((w as u32) << 6 | self.bits[w].trailing_zeros());
            }
            dirty &= dirty - 1;
        }
    }

    /// The first position in `from..to` that is not in the set; `to` if there is none.
    pub fn first_unset(&self, from: u32, to: u32) -> u32 {
        let mut p = from;
        while p < to {
            let unset = !self.bits[(p >> 6) as usize] >> (p & 63);
            if unset != 0 {
                return to.min(p + unset.trailing_zeros());
            }
            p = (p | 63) + 1;
        }
        to
    }

    /// One past the last position in `from..to` that is in the set; `from` if there is none.
    pub fn past_last(&self, from: u32, to: u32) -> u32 {
        let mut p = to;
        while p > from {
            let set = self.bits[((p - 1) >> 6) as usize] << (63 - ((p - 1) & 63));
            if set != 0 {
                return from.max(p - set.leading_zeros());
            }
            p = (p - 1) & !63;
        }
        from
    }

    pub fn clear(&mut self) {
        for (d, dirty) in self.dirty.iter_mut().enumerate() {
            let mut m = std::mem::take(dirty);
            while m != 0 {
                self.bits[d << 6 | m.trailing_zeros() as usize] = 0;
                m &= m - 1;
            }
        }
    }

    pub fn count(&self) -> usize {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.count_avx2() };
        }
        self.count_with()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt,bmi1")]
    unsafe fn count_avx2(&self) -> usize {
        self.count_with()
    }

    #[inline(always)]
    fn count_with(&self) -> usize {
        let mut count = 0;
        for (d, &dirty) in self.dirty.iter().enumerate() {
            let mut m = dirty;
            while m != 0 {
                count += self.bits[d << 6 | m.trailing_zeros() as usize].count_ones() as usize;
                m &= m - 1;
            }
        }
        count
    }

    /// Appends the subscriptions at the positions to `out` and clears the set.
    pub fn drain(&mut self, l: &Laminar, out: &mut Vec<u32>) {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.drain_avx2(l, out) };
        }
        self.drain_with(l, out, |out, ids| out.extend_from_slice(ids), |out, bits, ids| gather(bits, ids, out));
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt,bmi1")]
    unsafe fn drain_avx2(&mut self, l: &Laminar, out: &mut Vec<u32>) {
        // SAFETY: the caller checked for these features.
        let some = |out: &mut Vec<u32>, bits, ids: &[u32]| unsafe { gather_avx2(bits, ids, out) };
        self.drain_with(l, out, |out, ids| out.extend_from_slice(ids), some);
    }

    /// The same, in ascending order.
    pub fn drain_sorted(&mut self, l: &Laminar, bound: usize, sorter: &mut Sorter, out: &mut Vec<u32>) {
        if !Sorter::suits(self.count(), bound) {
            let from = out.len();
            self.drain(l, out);
            return out[from..].sort_unstable();
        }
        sorter.fit(bound);
        let some = |sorter: &mut Sorter, mut bits: u64, ids: &[u32]| {
            while bits != 0 {
                sorter.add(&ids[bits.trailing_zeros() as usize..][..1]);
                bits &= bits - 1;
            }
        };
        self.drain_with(l, sorter, |sorter, ids| sorter.add(ids), some);
        sorter.drain(out);
    }

    /// Positions mostly come in long runs: `take` is given the subscriptions of one, `some` those of a word of
    /// positions with the bits that count.
    #[inline(always)]
    fn drain_with<T>(
        &mut self,
        l: &Laminar,
        out: &mut T,
        take: impl Fn(&mut T, &[u32]),
        some: impl Fn(&mut T, u64, &[u32]),
    ) {
        let mut run = 0..0;
        for (d, dirty) in self.dirty.iter_mut().enumerate() {
            let mut m = std::mem::take(dirty);
            while m != 0 {
                let w = d << 6 | m.trailing_zeros() as usize;
                m &= m - 1;
                let mut b = std::mem::take(&mut self.bits[w]);
                if let Some(dead) = l.dead.get(w) {
                    b &= !dead;
                }
                let at = w << 6;
                if b == !0 {
                    if run.end != at {
                        take(out, &l.perm[run]);
                        run = at..at;
                    }
                    run.end += 64;
                } else if (b & !(b << 1)).count_ones() > RUNS {
                    take(out, &l.perm[run]);
                    run = 0..0;
                    some(out, b, &l.perm[at..l.perm.len().min(at + 64)]);
                } else {
                    while b != 0 {
                        let from = b.trailing_zeros() as usize;
                        let length = (!(b >> from)).trailing_zeros() as usize;
                        if run.end != at + from {
                            take(out, &l.perm[run]);
                            run = at + from..at + from;
                        }
                        run.end += length;
                        b &= b.wrapping_add(1 << from); // the carry takes the run away, and stops at its end
                    }
                }
            }
        }
        take(out, &l.perm[run]);
    }
}
