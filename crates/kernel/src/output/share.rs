//! How the budget of a message is shared between the subscriptions that want results of it: who wants most is cut
//! first, so that whoever wants no more than an equal share gets all of it ("water-filling").

/// Why results were left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// The subscription has reached `Limits::max_result_nodes`.
    Nodes,
    /// The subscription has reached `Limits::max_result_bytes`.
    Bytes,
    /// All subscriptions together have reached `Limits::max_message_results`.
    BudgetResults,
    /// All subscriptions together have reached `Limits::max_message_result_bytes`.
    BudgetBytes,
    /// Not all combinations of joined messages could be tried.
    Work,
    /// What is shown of a result takes more steps or bytes to find than a query may.
    Costly,
}

impl Cut {
    /// The code that subscribers see.
    pub fn code(self) -> &'static str {
        match self {
            Cut::Nodes => "limit-result-nodes",
            Cut::Bytes => "limit-result-bytes",
            Cut::BudgetResults => "budget-results",
            Cut::BudgetBytes => "budget-bytes",
            Cut::Work => "too-much-to-correlate",
            Cut::Costly => "query-too-costly",
        }
    }
}

/// Returns the largest share for which the budget suffices if nobody gets more than that, or `u64::MAX` if it suffices
/// for all that is wanted. Each claim is a size and how many subscriptions want as much.
///
/// The share depends on the sizes alone and not on their order. It falls as claims grow or are added, so that a claim
/// which is known to exceed an earlier share may be given as that share plus one.
pub fn share(claims: &mut [(u64, u64)], budget: u64) -> u64 {
    claims.sort_unstable();
    let mut left = budget;
    let mut claimants: u64 = claims.iter().map(|c| c.1).sum();
    for &(size, count) in &*claims {
        if size > left / claimants {
            return left / claimants;
        }
        left -= size * count;
        claimants -= count;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::share;

    fn of(sizes: &[u64], budget: u64) -> u64 {
        share(&mut sizes.iter().map(|&s| (s, 1)).collect::<Vec<_>>(), budget)
    }

    #[test]
    fn the_largest_are_cut_first() {
        assert_eq!(of(&[], 10), u64::MAX);
        assert_eq!(of(&[3, 3, 4], 10), u64::MAX);
        assert_eq!(of(&[1, 100, 100], 11), 5);
        assert_eq!(of(&[2, 5, 9], 13), 6);
        assert_eq!(of(&[1, 1, 1], 2), 0);
        assert_eq!(share(&mut [(7, 3), (1, 2)], 11), 3);
    }

    #[test]
    fn no_share_is_above_the_budget_and_none_below_an_equal_one() {
        let mut state = 7u64;
        let mut dice = |bound: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % bound
        };
        for _ in 0..2_000 {
            let sizes: Vec<u64> = (0..1 + dice(12)).map(|_| dice(40)).collect();
            let budget = dice(120);
            let level = of(&sizes, budget);
            let given = |level: u64| sizes.iter().map(|&s| s.min(level)).sum::<u64>();
            assert!(given(level) <= budget);
            assert!(level == u64::MAX || given(level + 1) > budget);
            assert!(level >= budget / sizes.len() as u64);
            // what exceeds a share need not be known exactly
            let vague: Vec<u64> = sizes.iter().map(|&s| s.min(level.saturating_add(1))).collect();
            assert_eq!(of(&vague, budget), level);
        }
    }
}
