//! Rows whose decimals lie on the right side of bounds, found and delivered in one pass: of eight rows together all
//! columns are compared, and the subscriptions of those that hold are packed side by side. There is no branch that
//! depends on what holds, which nobody could predict.

use super::decimals::Bound;

/// So many columns are looked at together at the most.
pub(crate) const MOST: usize = 4;

/// A column, and what is asked of its numerators: to be above, once the bits in `flip` are turned over. That makes the
/// larger ones the smaller ones.
#[derive(Clone, Copy, Default)]
pub(crate) struct Side<'a> {
    column: &'a [u32],
    flip: i32,
    above: i32,
}

impl<'a> Side<'a> {
    /// None for a bound that is none in the proper sense.
    #[inline(always)]
    pub(crate) fn new(column: &'a [u32], bound: Bound) -> Option<Side<'a>> {
        match bound {
            Bound::Above(t) => Some(Side { column, flip: 0, above: t }),
            Bound::Below(t) => Some(Side { column, flip: !0, above: !t }),
            Bound::Is(_) | Bound::IsNot(_) => None,
        }
    }
}

/// Appends the subscriptions, other than `NONE`, of the rows that hold. False if nothing has been done: there are too
/// many columns, or the processor lacks what it takes.
#[inline]
pub(crate) fn deliver(sides: &[Side<'_>], subs: &[u32], out: &mut Vec<u32>) -> bool {
    #[cfg(target_arch = "x86_64")]
    if crate::bits::has_avx2() {
        // SAFETY: the processor has what the functions are compiled for.
        unsafe {
            match *sides {
                [a] => avx2::pack([a], subs, out),
                [a, b] => avx2::pack([a, b], subs, out),
                [a, b, c] => avx2::pack([a, b, c], subs, out),
                [a, b, c, d] => avx2::pack([a, b, c, d], subs, out),
                _ => return false,
            }
        }
        return true;
    }
    let _ = (sides, subs, out);
    false
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::Side;
    use crate::bits::INDEXES;
    use crate::paths::NONE;
    use std::arch::x86_64::*;

    const EIGHT: usize = 8;

    #[target_feature(enable = "avx2,bmi1,popcnt")]
    pub(crate) fn pack<const N: usize>(sides: [Side<'_>; N], subs: &[u32], out: &mut Vec<u32>) {
        assert!(sides.iter().all(|side| side.column.len() == subs.len()));
        let mut flips = [_mm256_setzero_si256(); N];
        let mut bounds = flips;
        for (i, side) in sides.iter().enumerate() {
            flips[i] = _mm256_set1_epi32(side.flip);
            bounds[i] = _mm256_set1_epi32(side.above);
        }
        const { assert!(NONE == !0) }; // all bits, to turn others over
        let none = _mm256_set1_epi32(NONE as i32);
        out.reserve(subs.len() + EIGHT);
        let mut len = out.len();
        let whole = subs.len() / EIGHT * EIGHT;
        let mut at = 0;
        while at < whole {
            // SAFETY: eight words lie there in each column, for they are all as long; loads need no alignment.
            let sub = unsafe { _mm256_loadu_si256(subs.as_ptr().add(at).cast()) };
            let mut holds = _mm256_xor_si256(_mm256_cmpeq_epi32(sub, none), none);
            for (i, side) in sides.iter().enumerate() {
                // SAFETY: as above.
                let m = unsafe { _mm256_loadu_si256(side.column.as_ptr().add(at).cast()) };
                let m = _mm256_xor_si256(m, flips[i]);
                holds = _mm256_and_si256(holds, _mm256_cmpgt_epi32(m, bounds[i]));
            }
            // SAFETY: no more have been written than rows were looked at, and room is for eight more than there are.
            len += unsafe { put(sub, bits(holds), out.as_mut_ptr().add(len)) };
            at += EIGHT;
        }
        if at < subs.len() {
            let first = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let there = _mm256_cmpgt_epi32(_mm256_set1_epi32((subs.len() - at) as i32), first);
            // SAFETY: only the words that are there are read.
            let sub = unsafe { _mm256_maskload_epi32(subs.as_ptr().add(at).cast(), there) };
            let mut holds = _mm256_xor_si256(_mm256_cmpeq_epi32(sub, none), none);
            for (i, side) in sides.iter().enumerate() {
                // SAFETY: as above.
                let m = unsafe { _mm256_maskload_epi32(side.column.as_ptr().add(at).cast(), there) };
                let m = _mm256_xor_si256(m, flips[i]);
                holds = _mm256_and_si256(holds, _mm256_cmpgt_epi32(m, bounds[i]));
            }
            // SAFETY: as above.
            len += unsafe { put(sub, bits(_mm256_and_si256(holds, there)), out.as_mut_ptr().add(len)) };
        }
        // SAFETY: all up to here have been written.
        unsafe { out.set_len(len) };
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn bits(mask: __m256i) -> usize {
        _mm256_movemask_ps(_mm256_castsi256_ps(mask)) as usize
    }

    /// Writes the subscriptions that the bits stand for, and whatever up to the eighth; answers how many they are.
    ///
    /// # Safety
    /// There is room for eight, and of the bits none is beyond the eighth.
    #[target_feature(enable = "avx2,popcnt")]
    #[inline]
    unsafe fn put(subs: __m256i, bits: usize, to: *mut u32) -> usize {
        // SAFETY: a row of the table has eight entries.
        let order = unsafe { _mm256_loadu_si256(INDEXES[bits].as_ptr().cast()) };
        // SAFETY: the caller says that there is room.
        unsafe { _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(subs, order)) };
        bits.count_ones() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::NONE;

    #[test]
    fn rows_are_delivered_as_one_by_one() {
        let some = [0, 1, -1, 7, 8, i32::MAX - 1, -i32::MAX + 1];
        for len in 0..100usize {
            let column = |k: usize| -> Vec<u32> {
                (0..len).map(|i| some[(i * (5 + 2 * k) + i / (3 + k)) % some.len()] as u32).collect()
            };
            let columns: Vec<Vec<u32>> = (0..MOST).map(column).collect();
            let subs: Vec<u32> = (0..len as u32).map(|i| if i % 11 == 3 { NONE } else { 1000 + i }).collect();
            for t in some.into_iter().chain([i32::MIN, i32::MAX]) {
                for asked in 0..1 << MOST {
                    let bounds: Vec<Bound> = (0..MOST)
                        .map(|k| if asked >> k & 1 == 1 { Bound::Above(t) } else { Bound::Below(t) })
                        .collect();
                    for n in 1..=MOST {
                        let sides: Vec<Side<'_>> = (0..n).map(|k| Side::new(&columns[k], bounds[k]).unwrap()).collect();
                        let mut found = vec![7];
                        if deliver(&sides, &subs, &mut found) {
                            let right = (0..len).filter(|&i| (0..n).all(|k| bounds[k].holds(columns[k][i])));
                            let right: Vec<u32> = right.map(|i| subs[i]).filter(|&sub| sub != NONE).collect();
                            assert_eq!(found[1..], right[..], "{len} {t} {asked} {n}");
                        }
                    }
                }
            }
        }
        assert!(Side::new(&[], Bound::Is(1)).is_none() && !deliver(&[], &[], &mut vec![]));
    }
}
