//! What one query may cost on one message, and the meter that counts it.

use crate::xml::Limits;

/// The steps and bytes that one query may take on one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Nodes visited, and calls of functions.
    pub steps: u64,
    /// Bytes of strings made, read or compared, and of cached results.
    pub bytes: u64,
}

impl Budget {
    pub(crate) fn of(limits: &Limits) -> Budget {
        Budget { steps: limits.max_query_steps, bytes: limits.max_query_bytes }
    }
}

/// Why a subscription failed on a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exceeded {
    Steps,
    Bytes,
    /// A transform was more work than it may be.
    Work,
}

/// A subscription that failed on a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed {
    pub number: u32,
    pub why: Exceeded,
}

/// What an evaluation cost.
pub(super) type Cost = Budget;

/// Counts what an evaluation costs against what is left of a budget.
pub(super) struct Meter {
    left: Budget,
}

impl Meter {
    pub(super) fn new(budget: Budget) -> Meter {
        Meter { left: budget }
    }

    pub(super) fn left(&self) -> Budget {
        self.left
    }

    /// Returns what was paid since `before` was left.
    pub(super) fn since(&self, before: Budget) -> Cost {
        Cost { steps: before.steps - self.left.steps, bytes: before.bytes - self.left.bytes }
    }

    #[inline(always)]
    pub(super) fn steps(&mut self, steps: usize) -> Result<(), Exceeded> {
        self.left.steps = self.left.steps.checked_sub(steps as u64).ok_or(Exceeded::Steps)?;
        Ok(())
    }

    #[inline(always)]
    pub(super) fn bytes(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.left.bytes = self.left.bytes.checked_sub(bytes as u64).ok_or(Exceeded::Bytes)?;
        Ok(())
    }

    pub(super) fn pay(&mut self, cost: Cost) -> Result<(), Exceeded> {
        self.steps(cost.steps as usize)?;
        self.bytes(cost.bytes as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_counts_down_and_says_what_is_exceeded() {
        let mut meter = Meter::new(Budget { steps: 3, bytes: 10 });
        assert_eq!((meter.steps(2), meter.bytes(10)), (Ok(()), Ok(())));
        assert_eq!(meter.since(Budget { steps: 3, bytes: 10 }), Cost { steps: 2, bytes: 10 });
        assert_eq!((meter.steps(2), meter.bytes(1)), (Err(Exceeded::Steps), Err(Exceeded::Bytes)));
        assert_eq!(meter.steps(1), Ok(()));
    }
}
