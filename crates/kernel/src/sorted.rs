//! Sorting the numbers of matched subscriptions: they are distinct and below a known bound, so many of them sort
//! through a bitmap several times faster than by comparison.

#[derive(Default)]
pub struct Sorter {
    bits: Vec<u64>,
}

impl Sorter {
    /// Sorts distinct numbers, all below `bound`.
    pub fn sort(&mut self, ids: &mut [u32], bound: usize) {
        let words = bound / 64 + 1;
        if ids.len() < words / 4 || ids.len() < 64 {
            return ids.sort_unstable();
        }
        self.bits.clear();
        self.bits.resize(words, 0);
        for &id in ids.iter() {
            self.bits[id as usize >> 6] |= 1 << (id & 63);
        }
        let mut at = 0;
        for (w, &bits) in self.bits.iter().enumerate() {
            let mut b = bits;
            while b != 0 {
                ids[at] = (w as u32) << 6 | b.trailing_zeros();
                at += 1;
                b &= b - 1;
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
        for (n, step) in [(0u32, 1u32), (5, 7), (1000, 3), (100_000, 1)] {
            let mut ids: Vec<u32> = (0..n).rev().map(|i| i * step).collect();
            s.sort(&mut ids, (n * step + 1) as usize);
            assert!(ids.is_sorted() && ids.len() == n as usize);
        }
    }
}
