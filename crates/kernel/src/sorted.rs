//! The numbers of matched subscriptions in ascending order: they are distinct and below a known bound, so many of them
//! sort through a bitmap several times faster than by comparison.

use crate::bits::expand;
#[cfg(target_arch = "x86_64")]
use crate::bits::{expand_avx2, has_avx2};

/// A bitmap of numbers, empty between messages.
#[derive(Default)]
pub struct Sorter {
    bits: Vec<u64>,
}

impl Sorter {
    /// Whether so many numbers below `bound` are better sorted here than by comparison.
    pub fn suits(count: usize, bound: usize) -> bool {
        count >= 64 && count >= bound / 256
    }

    /// Sorts the numbers in `out` from `from` on, which are distinct and below `bound`.
    pub fn sort(&mut self, out: &mut Vec<u32>, from: usize, bound: usize) {
        if !Self::suits(out.len() - from, bound) {
            return out[from..].sort_unstable();
        }
        self.fit(bound);
        self.add(&out[from..]);
        out.truncate(from);
        self.drain(out);
    }

    /// Sorts distinct numbers below `bound` in their place.
    pub fn sort_within(&mut self, ids: &mut [u32], bound: usize) {
        if ids.is_sorted() {
            return;
        }
        if !Self::suits(ids.len(), bound) {
            return ids.sort_unstable();
        }
        self.fit(bound);
        self.add(ids);
        let mut sorted = Vec::with_capacity(ids.len() + 64);
        self.drain(&mut sorted);
        ids.copy_from_slice(&sorted);
    }

    /// Room for numbers below `bound`.
    pub fn fit(&mut self, bound: usize) {
        self.bits.resize(bound / 64 + 1, 0);
    }

    #[inline(always)]
    pub fn add(&mut self, ids: &[u32]) {
        for &id in ids {
            self.bits[id as usize >> 6] |= 1 << (id & 63);
        }
    }

    /// Appends the numbers to `out`.
    pub fn drain(&mut self, out: &mut Vec<u32>) {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.drain_avx2(out) };
        }
        self.drain_with(out, expand);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt,bmi1")]
    unsafe fn drain_avx2(&mut self, out: &mut Vec<u32>) {
        // SAFETY: the caller checked for these features.
        self.drain_with(out, |bits, base, out| unsafe { expand_avx2(bits, base, out) });
    }

    #[inline(always)]
    fn drain_with(&mut self, out: &mut Vec<u32>, expand: impl Fn(u64, u32, &mut Vec<u32>)) {
        for (w, bits) in self.bits.iter_mut().enumerate() {
            let b = std::mem::take(bits);
            if b != 0 {
                expand(b, (w as u32) << 6, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sorter;

    #[test]
    fn few_and_many_come_out_in_order() {
        let mut s = Sorter::default();
        for (n, step) in [(0u32, 1u32), (5, 7), (1000, 3), (100_000, 1), (70, 100), (1000, 3)] {
            let mut ids: Vec<u32> = [7].into_iter().chain((0..n).rev().map(|i| i * step)).collect();
            s.sort(&mut ids, 1, (n * step + 1) as usize);
            assert_eq!(ids[0], 7);
            assert_eq!(ids[1..], (0..n).map(|i| i * step).collect::<Vec<_>>());
        }
    }
}
