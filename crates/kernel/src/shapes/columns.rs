//! Columns of constants against the values of a message: which rows hold, as bits, 64 together.

use super::block::{number, Pair};
use super::decimals::Bound;
use super::program::Op;

/// Rows that are looked at together.
pub const STRIDE: usize = 64;

/// The rows whose constant the value compares with as the operator says. At most 64 rows.
#[inline]
pub fn compare(op: Op, value: f64, column: &[Pair]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::compare(op, value, column) };
    }
    compare_portably(op, value, column)
}

fn compare_portably(op: Op, value: f64, column: &[Pair]) -> u64 {
    bits(column, |&c| op.holds(value, number(c)))
}

/// Leaves the rows of each mask whose numerator is as the bound says.
#[inline]
pub fn keep_bound(masks: &mut [u64], bound: Bound, column: &[u32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::keep_bound(masks, bound, column) };
    }
    keep(masks, column, |part, _| bits(part, |&m| bound.holds(m)));
}

/// Leaves the rows of each mask for which a test of its part of the column, and of the mask, holds.
#[inline(always)]
pub fn keep<T>(masks: &mut [u64], column: &[T], mut holds: impl FnMut(&[T], u64) -> u64) {
    for (mask, part) in masks.iter_mut().zip(column.chunks(STRIDE)) {
        if *mask != 0 {
            *mask &= holds(part, *mask);
        }
    }
}

/// The rows whose constant is the string.
#[inline]
pub fn equal(id: u32, column: &[u32]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::equal(id, column) };
    }
    bits(column, |&c| c == id)
}

/// The rows for which a test holds.
#[inline(always)]
pub fn bits<T>(column: &[T], mut holds: impl FnMut(&T) -> bool) -> u64 {
    let mut mask = 0;
    for (i, c) in column[..column.len().min(STRIDE)].iter().enumerate() {
        mask |= (holds(c) as u64) << i;
    }
    mask
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{bits, keep, number, Bound, Op, Pair, STRIDE};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2")]
    pub fn compare(op: Op, value: f64, column: &[Pair]) -> u64 {
        // Ordered comparisons: NaN holds nothing but `!=`.
        match op {
            Op::Eq => each::<_CMP_EQ_OQ>(op, value, column),
            Op::Ne => each::<_CMP_NEQ_UQ>(op, value, column),
            Op::Lt => each::<_CMP_LT_OQ>(op, value, column),
            Op::Le => each::<_CMP_LE_OQ>(op, value, column),
            Op::Gt => each::<_CMP_GT_OQ>(op, value, column),
            Op::Ge => each::<_CMP_GE_OQ>(op, value, column),
        }
    }

    #[target_feature(enable = "avx2")]
    fn each<const CMP: i32>(op: Op, value: f64, column: &[Pair]) -> u64 {
        let column = &column[..column.len().min(STRIDE)];
        let v = _mm256_set1_pd(value);
        let (fours, rest) = column.as_chunks::<4>();
        let mut mask = 0;
        for (i, four) in fours.iter().enumerate() {
            // SAFETY: four numbers lie here, and the load needs no alignment.
            let c = unsafe { _mm256_loadu_pd(four.as_ptr().cast()) };
            mask |= (_mm256_movemask_pd(_mm256_cmp_pd::<CMP>(v, c)) as u64) << (4 * i);
        }
        if rest.is_empty() {
            return mask;
        }
        mask | bits(rest, |&c| op.holds(value, number(c))) << (4 * fours.len())
    }

    #[target_feature(enable = "avx2")]
    pub fn keep_bound(masks: &mut [u64], bound: Bound, column: &[u32]) {
        match bound {
            Bound::Above(t) => keep(masks, column, |part, _| eights(part, t, |c, t| _mm256_cmpgt_epi32(c, t))),
            Bound::Below(t) => keep(masks, column, |part, _| eights(part, t, |c, t| _mm256_cmpgt_epi32(t, c))),
            Bound::Is(t) => keep(masks, column, |part, _| eights(part, t, |c, t| _mm256_cmpeq_epi32(c, t))),
            Bound::IsNot(t) => keep(masks, column, |part, _| !eights(part, t, |c, t| _mm256_cmpeq_epi32(c, t))),
        }
    }

    /// At most 64 numerators, eight at a time. Bits beyond them say nothing.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn eights(column: &[u32], t: i32, compare: impl Fn(__m256i, __m256i) -> __m256i) -> u64 {
        let t = _mm256_set1_epi32(t);
        let (eights, rest) = column.as_chunks::<8>();
        let mut mask = 0;
        for (i, eight) in eights.iter().enumerate() {
            // SAFETY: eight words lie here, and the load needs no alignment.
            let c = unsafe { _mm256_loadu_si256(eight.as_ptr().cast()) };
            mask |= (_mm256_movemask_ps(_mm256_castsi256_ps(compare(c, t))) as u32 as u64) << (8 * i);
        }
        if !rest.is_empty() {
            let first = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let there = _mm256_cmpgt_epi32(_mm256_set1_epi32(rest.len() as i32), first);
            // SAFETY: only the words of the rest are read.
            let c = unsafe { _mm256_maskload_epi32(rest.as_ptr().cast(), there) };
            mask |= (_mm256_movemask_ps(_mm256_castsi256_ps(compare(c, t))) as u32 as u64) << (8 * eights.len());
        }
        mask
    }

    #[target_feature(enable = "avx2")]
    pub fn equal(id: u32, column: &[u32]) -> u64 {
        let column = &column[..column.len().min(STRIDE)];
        let v = _mm256_set1_epi32(id as i32);
        let (eights, rest) = column.as_chunks::<8>();
        let mut mask = 0;
        for (i, eight) in eights.iter().enumerate() {
            // SAFETY: eight words lie here, and the load needs no alignment.
            let c = unsafe { _mm256_loadu_si256(eight.as_ptr().cast()) };
            let same = _mm256_castsi256_ps(_mm256_cmpeq_epi32(v, c));
            mask |= (_mm256_movemask_ps(same) as u32 as u64) << (8 * i);
        }
        if rest.is_empty() {
            return mask;
        }
        mask | bits(rest, |&c| c == id) << (8 * eights.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_agree_with_one_by_one() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.5, -1.5, 5e-324, f64::MAX];
        for len in 0..=70 {
            let numbers: Vec<Pair> = (0..len)
                .map(|i| odd[(i * 7 + i / 3) % odd.len()].to_bits())
                .map(|b| [b as u32, (b >> 32) as u32])
                .collect();
            let strings: Vec<u32> =
                (0..len as u32).map(|i| [1, 2, 3, u32::MAX][(i * 5 + i / 4) as usize % 4]).collect();
            for op in [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge] {
                for v in odd {
                    assert_eq!(compare(op, v, &numbers), compare_portably(op, v, &numbers), "{op:?} {v} {len}");
                }
            }
            for id in [1, 2, 3, 4, u32::MAX] {
                assert_eq!(equal(id, &strings), bits(&strings, |&c| c == id));
            }
        }
    }

    #[test]
    fn bounds_agree_with_one_by_one() {
        let some = [0, 1, -1, 7, i32::MAX - 1, -i32::MAX + 1];
        for len in 0..200 {
            let column: Vec<u32> = (0..len).map(|i| some[(i * 5 + i / 4) % some.len()] as u32).collect();
            for t in some.into_iter().chain([i32::MIN, i32::MAX]) {
                for bound in [Bound::Above(t), Bound::Below(t), Bound::Is(t), Bound::IsNot(t)] {
                    let whole = |part: &[u32]| u64::MAX >> (STRIDE - part.len());
                    let mut masks: Vec<u64> = column.chunks(STRIDE).map(whole).collect();
                    keep_bound(&mut masks, bound, &column);
                    let right: Vec<u64> = column.chunks(STRIDE).map(|c| bits(c, |&m| bound.holds(m))).collect();
                    assert_eq!(masks, right, "{bound:?} {len}");
                }
            }
        }
    }
}
