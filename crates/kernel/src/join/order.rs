//! A column in the order of its numbers: what an inequality leads to where no equality leads anywhere.

use super::values::Postings;
use super::{Slot, Time};
use crate::shapes::program::Op;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Messages by the numbers that they have in a column, and all of these by time.
#[derive(Default)]
pub struct Ordered {
    by_number: BTreeSet<(u64, Slot)>,
    by_time: Postings,
}

impl Ordered {
    pub fn insert(&mut self, time: Time, slot: Slot, numbers: impl Iterator<Item = f64>) {
        let before = self.by_number.len();
        self.by_number.extend(numbers.filter(|n| !n.is_nan()).map(|n| (rank(n), slot)));
        if self.by_number.len() > before {
            self.by_time.insert(time, slot);
        }
    }

    pub fn remove(&mut self, time: Time, slot: Slot, numbers: impl Iterator<Item = f64>) {
        for number in numbers.filter(|n| !n.is_nan()) {
            self.by_number.remove(&(rank(number), slot));
        }
        self.by_time.remove(time, slot);
    }

    /// Messages of which some number may stand in `op` to some number given, at times from one to another; each once.
    ///
    /// Both the range of numbers and that of times have all of them, and either may be short: they are walked in step,
    /// and the one that ends first is taken.
    pub fn fitting(&self, op: Op, to: impl Iterator<Item = f64>, (from, until): (Time, Time)) -> Vec<Slot> {
        let to = to.filter(|n| !n.is_nan());
        // some number fits if the outermost one does
        let outermost = match op {
            Op::Lt | Op::Le => to.reduce(f64::max),
            _ => to.reduce(f64::min),
        };
        let Some(limit) = outermost.map(rank) else { return vec![] };
        let bounds = match op {
            Op::Lt => (Unbounded, Excluded((limit, Slot::MIN))),
            Op::Le => (Unbounded, Included((limit, Slot::MAX))),
            Op::Gt => (Excluded((limit, Slot::MAX)), Unbounded),
            Op::Ge => (Included((limit, Slot::MIN)), Unbounded),
            Op::Eq | Op::Ne => (Unbounded, Unbounded),
        };
        let numbers = self.by_number.range(bounds).map(|n| n.1);
        let mut times = self.by_time.slots(self.by_time.between(from, until));
        let (mut fitting, mut timely) = (vec![], vec![]);
        for slot in numbers {
            fitting.push(slot);
            let Some(slot) = times.next() else { return timely };
            timely.push(slot);
        }
        fitting.sort_unstable();
        fitting.dedup();
        fitting
    }
}

/// Numbers as integers of the same order; both zeros are one.
fn rank(number: f64) -> u64 {
    let bits = (number + 0.0).to_bits();
    bits ^ if bits >> 63 == 1 { u64::MAX } else { 1 << 63 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ordered: &Ordered, op: Op, to: &[f64], times: (Time, Time)) -> Vec<Slot> {
        let mut found = ordered.fitting(op, to.iter().copied(), times);
        found.sort_unstable();
        found
    }

    #[test]
    fn numbers_lead_to_messages() {
        let mut ordered = Ordered::default();
        let values: [&[f64]; 5] = [&[1.0], &[-2.0, 7.5], &[f64::NAN], &[-0.0], &[f64::INFINITY]];
        for (slot, numbers) in values.iter().enumerate() {
            ordered.insert(slot as Time, slot as Slot, numbers.iter().copied());
        }
        let all = (Time::MIN, Time::MAX);
        assert_eq!(found(&ordered, Op::Lt, &[0.0], all), [1]);
        assert_eq!(found(&ordered, Op::Le, &[0.0], all), [1, 3]);
        assert_eq!(found(&ordered, Op::Gt, &[7.0, 9.0], all), [1, 4]);
        assert_eq!(found(&ordered, Op::Ge, &[f64::INFINITY], all), [4]);
        assert_eq!(found(&ordered, Op::Lt, &[f64::NAN], all), [0u32; 0]);
        // a short time is the shorter way, whatever the numbers
        assert_eq!(found(&ordered, Op::Gt, &[-9.0], (3, 3)), [3]);
        ordered.remove(1, 1, values[1].iter().copied());
        assert_eq!(found(&ordered, Op::Lt, &[0.5], all), [3]);
    }
}
