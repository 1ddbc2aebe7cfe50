//! Numbers as whole numbers of 32 bits. Constants are nearly always short decimals (`50`, `12.75`): a column of such is
//! kept as numerators over one power of ten, its scale. It takes half the memory, and twice as many are compared at once.
//!
//! This is exact. Numerators and these powers of ten are doubles without error, and a division rounds correctly, so that
//! the quotient is the double nearest to the decimal: what its literal means. Quotients grow strictly with their
//! numerators (which have 32 bits where doubles have 53), so a value compares with constants as some numerator does.

use super::program::Op;

/// The largest scale.
pub(crate) const MOST: u32 = 9;
const POWERS: [i32; MOST as usize + 1] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// The largest numerator, and the smallest but for its sign: there is a whole number of 32 bits beyond them either way.
const LARGEST: i64 = i32::MAX as i64 - 1;

/// A column of decimals.
#[derive(Clone, Copy)]
pub(crate) struct Decimals<'a> {
    pub scale: u32,
    /// Numerators.
    pub words: &'a [u32],
}

impl Decimals<'_> {
    pub(crate) fn get(&self, i: usize) -> f64 {
        quotient(self.words[i] as i32 as i64, self.scale)
    }

    /// Are they as `numerator` makes them?
    pub(crate) fn are_valid(&self) -> bool {
        self.scale <= MOST && self.words.iter().all(|&m| is_numerator(m as i32 as i64))
    }
}

/// The numerator of a number that has one.
pub(crate) fn numerator(x: f64, scale: u32) -> Option<u32> {
    let m = nearest(x, scale);
    (is_numerator(m) && quotient(m, scale) == x).then_some(m as i32 as u32)
}

/// The numerator of the same number at a scale larger by so many.
pub(crate) fn rescaled(m: u32, by: u32) -> Option<u32> {
    let m = m as i32 as i64 * POWERS[by as usize] as i64;
    is_numerator(m).then_some(m as i32 as u32)
}

fn is_numerator(m: i64) -> bool {
    (-LARGEST..=LARGEST).contains(&m)
}

#[inline(always)]
fn quotient(m: i64, scale: u32) -> f64 {
    m as f64 / POWERS[scale as usize] as f64
}

/// The whole number next to the numerator that a number has, or would have; beyond all numerators for what is beyond
/// their quotients. It is off by less than one.
#[inline(always)]
fn nearest(x: f64, scale: u32) -> i64 {
    const BEYOND: f64 = (1u64 << 31) as f64;
    let m = (x * POWERS[scale as usize] as f64).clamp(-BEYOND, BEYOND);
    (m + 0.5f64.copysign(m)) as i64
}

/// What a value asks of numerators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    Above(i32),
    Below(i32),
    Is(i32),
    IsNot(i32),
}

impl Bound {
    /// The numerators of the constants for which `value op constant` holds.
    #[inline]
    pub(crate) fn new(op: Op, value: f64, scale: u32) -> Bound {
        // no numerator is either
        const LOW: i32 = i32::MIN;
        const HIGH: i32 = i32::MAX;
        if value.is_nan() {
            return match op {
                Op::Lt | Op::Le => Bound::Above(HIGH),
                Op::Gt | Op::Ge => Bound::Below(LOW),
                Op::Eq => Bound::Is(LOW),
                Op::Ne => Bound::IsNot(LOW),
            };
        }
        let near = nearest(value, scale);
        let q = quotient(near, scale);
        let exact = q == value;
        // the last whose quotient is not above the value
        let floor = near - (q > value) as i64;
        let clamp = |m: i64| m.clamp(LOW as i64, HIGH as i64) as i32;
        match op {
            Op::Lt => Bound::Above(clamp(floor)),
            Op::Le => Bound::Above(clamp(floor - exact as i64)),
            Op::Gt => Bound::Below(clamp(floor + !exact as i64)),
            Op::Ge => Bound::Below(clamp(floor + 1)),
            Op::Eq => Bound::Is(if exact { clamp(near) } else { LOW }),
            Op::Ne => Bound::IsNot(if exact { clamp(near) } else { LOW }),
        }
    }

    #[inline(always)]
    pub(crate) fn holds(self, m: u32) -> bool {
        let m = m as i32;
        match self {
            Bound::Above(t) => m > t,
            Bound::Below(t) => m < t,
            Bound::Is(t) => m == t,
            Bound::IsNot(t) => m != t,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPS: [Op; 6] = [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge];

    #[test]
    fn decimals_have_numerators() {
        for (text, scale, m) in [
            ("0.1", 1, 1),
            ("0.3", 1, 3),
            ("-12.75", 2, -1275),
            ("1.005", 3, 1005),
            ("0.000000001", 9, 1),
            ("2147483646", 0, i32::MAX - 1),
            ("-2147483646", 0, -i32::MAX + 1),
            ("21474836.46", 2, i32::MAX - 1),
            ("-0", 0, 0),
        ] {
            assert_eq!(numerator(text.parse().unwrap(), scale), Some(m as u32), "{text}");
            assert_eq!(Decimals { scale, words: &[m as u32] }.get(0), text.parse::<f64>().unwrap());
        }
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1.0 / 3.0];
        let large = [2147483647.0, -2147483647.0, -2147483648.0, 4294967296.0, 1e300, 0.1 + 0.2, 21474836.47];
        for x in odd.into_iter().chain(large) {
            assert!((0..=MOST).all(|scale| numerator(x, scale).is_none()), "{x}");
        }
        assert_eq!(rescaled(-5i32 as u32, 2), Some(-500i32 as u32));
        assert_eq!(rescaled(21_474_837, 2), None);
        assert_eq!(rescaled(3, 9), None);
    }

    /// Values about every numerator: its quotient, and the doubles next to it.
    #[test]
    fn bounds_say_what_comparisons_of_doubles_say() {
        let ms = [0, 1, -1, 3, 7, 10, 99, -1275, 29, 57, 58, 1_000_003, 123_456_789, i32::MAX - 1, -i32::MAX + 1];
        let mut values =
            vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 5e-324, -5e-324, f64::MAX, f64::MIN];
        values.extend([2147483646.5, 2147483647.0, 2147483648.0, 2147483649.0, 1e18, -2147483647.5, -1e18, 0.5, 0.05]);
        for scale in 0..=MOST {
            for m in ms {
                let q = quotient(m as i64, scale);
                values.extend([q, q.next_up(), q.next_down(), q + 0.5 / POWERS[scale as usize] as f64, -q]);
            }
        }
        for scale in 0..=MOST {
            for op in OPS {
                for &v in &values {
                    let bound = Bound::new(op, v, scale);
                    for m in ms {
                        let c = quotient(m as i64, scale);
                        assert_eq!(bound.holds(m as u32), op.holds(v, c), "{v:?} {op:?} {c:?} at {scale}");
                    }
                }
            }
        }
    }
}
