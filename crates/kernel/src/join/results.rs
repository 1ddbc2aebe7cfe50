//! What a message completes: results as they are found, within the message's budget, and as columns.

use super::payload::Payloads;
use super::state::Doc;
use super::{QueryIx, Slot};
use crate::output::results::MOST_NODES;
use crate::output::share::{share, Cut};
use crate::shapes::nodes::NodeIx;
use crate::xml::Limits;
use hashbrown::{HashMap, HashSet};
use std::rc::Rc;

/// Results as columns; lists end where the next one begins.
#[derive(Default)]
pub struct Results {
    /// The messages' labels, once each, in the order in which results first name them.
    pub labels: Vec<Box<[u8]>>,
    /// Per result the places of its messages in the above, block by block.
    pub messages: Vec<u32>,
    pub message_ends: Vec<u32>,
    pub nodes: Vec<NodeIx>,
    pub node_ends: Vec<u32>,
    pub subscribers: Vec<u32>,
    pub subscriber_ends: Vec<u32>,
    /// Subscribers that do not get all results of a message, and why.
    pub cuts: Vec<(u32, Cut)>,
    pub payloads: Payloads,
    places: HashMap<u64, u32>,
}

impl Results {
    pub fn len(&self) -> usize {
        self.subscriber_ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.subscriber_ends.is_empty()
    }

    pub(super) fn push<'a>(&mut self, found: &Found, docs: impl Iterator<Item = &'a Doc>) {
        for doc in docs {
            let place = *self.places.entry(doc.number).or_insert_with(|| {
                self.labels.push(doc.label.clone());
                self.labels.len() as u32 - 1
            });
            self.messages.push(place);
        }
        self.message_ends.push(self.messages.len() as u32);
        self.nodes.extend_from_slice(&found.nodes);
        self.node_ends.push(self.nodes.len() as u32);
        self.subscribers.extend_from_slice(&found.asking);
        self.subscriber_ends.push(self.subscribers.len() as u32);
    }
}

/// A result; they are put out in this order, for they are found in that of hash tables.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    pub query: QueryIx,
    pub numbers: Box<[u64]>,
    pub nodes: Box<[NodeIx]>,
    pub slots: Box<[Slot]>,
    pub asking: Rc<[u32]>,
}

/// The results of one message, counted while they are found.
///
/// At first all are taken, in whatever order they come. If that becomes too much ([`Gathered::is_full`]) they have to be
/// found once more, in the order of the joined messages' arrival ([`Gathered::begin_again`]), so that it does not depend
/// on hash tables which ones are left out: each subscriber then gets no more than its share, which falls while claims
/// grow, and nothing more is looked for on behalf of subscribers that have had theirs.
#[derive(Default)]
pub(super) struct Gathered {
    pub found: Vec<Found>,
    /// Results with each subscriber counted that gets one.
    given: usize,
    of_query: HashMap<QueryIx, usize>,
    full: bool,
    shares: Option<Shares>,
    own: usize,
    budget: usize,
    /// Subscribers for whom not everything could be tried.
    unfinished: Vec<u32>,
}

struct Shares {
    share: usize,
    of: HashMap<u32, usize>,
    /// Subscribers that could have had more.
    cut: HashSet<u32>,
}

impl Gathered {
    pub fn new(limits: &Limits) -> Gathered {
        let budget = (limits.max_message_results as usize).min(MOST_NODES);
        Gathered { own: limits.max_result_nodes as usize, budget, ..Gathered::default() }
    }

    /// Too much was found to go on like this.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Not everything was looked at, since that would be too much.
    pub fn give_up(&mut self) {
        self.full = true;
    }

    /// Most pairs of a query and a message that are looked at together.
    pub fn most_hits(&self) -> usize {
        self.budget.saturating_mul(4).max(1 << 16)
    }

    pub fn begin_again(&mut self) {
        let shares = Shares { share: self.own.min(self.budget), of: HashMap::new(), cut: HashSet::new() };
        let (own, budget) = (self.own, self.budget);
        *self = Gathered { own, budget, shares: Some(shares), ..Gathered::default() };
    }

    /// Of the subscribers that ask, those that could get another result.
    pub fn still_asking(&self, asking: impl Iterator<Item = u32>) -> Rc<[u32]> {
        match &self.shares {
            Some(shares) => asking.filter(|sub| !shares.cut.contains(sub)).collect(),
            None => asking.collect(),
        }
    }

    /// Takes a result for its subscribers. False if no more are wanted for these.
    pub fn push(&mut self, mut one: Found) -> bool {
        let Some(shares) = &mut self.shares else {
            let count = self.of_query.entry(one.query).or_default();
            *count += 1;
            self.given += one.asking.len();
            self.full |= *count > self.own || self.given > self.budget;
            self.found.push(one);
            return !self.full;
        };
        let mut more = false;
        let asking = one.asking.clone();
        let mut getting: Vec<u32> = vec![];
        for &sub in asking.iter() {
            let count = shares.of.entry(sub).or_default();
            if *count < shares.share {
                *count += 1;
                getting.push(sub);
                more = true;
            } else {
                shares.cut.insert(sub);
            }
        }
        self.given += getting.len();
        if !getting.is_empty() {
            if getting.len() < asking.len() {
                one.asking = getting.into();
            }
            self.found.push(one);
        }
        if self.given > self.budget + self.budget / 4 {
            self.divide();
        }
        more
    }

    /// Divides the budget between those who have results so far, and takes from those who have more than their share.
    fn divide(&mut self) {
        let Some(shares) = &mut self.shares else { return };
        let more = |(sub, &count): (&u32, &usize)| ((count + shares.cut.contains(sub) as usize) as u64, 1);
        let mut claims: Vec<(u64, u64)> = shares.of.iter().map(more).collect();
        let share = share(&mut claims, self.budget as u64).min(shares.share as u64) as usize;
        if share == shares.share {
            return;
        }
        shares.share = share;
        let before = std::mem::take(&mut shares.of);
        self.given = 0;
        self.found.retain_mut(|one| {
            let fits = |sub: &u32| {
                let count = shares.of.entry(*sub).or_default();
                *count += 1;
                *count <= share
            };
            let getting: Vec<u32> = one.asking.iter().copied().filter(fits).collect();
            self.given += getting.len();
            if getting.len() < one.asking.len() {
                one.asking = getting.into();
            }
            !one.asking.is_empty()
        });
        for (sub, count) in before {
            if count > share {
                shares.cut.insert(sub);
            }
            shares.of.insert(sub, count.min(share));
        }
    }

    /// Not everything could be tried for these.
    pub fn unfinished(&mut self, asking: &[u32]) {
        self.unfinished.extend_from_slice(asking);
    }

    /// Ends the search: the results, and the subscribers that do not get all of theirs.
    pub fn finish(mut self) -> (Vec<Found>, Vec<(u32, Cut)>) {
        if self.given > self.budget {
            self.divide();
        }
        let mut cuts = vec![];
        if let Some(shares) = &self.shares {
            let reason = if shares.share == self.own { Cut::Nodes } else { Cut::BudgetResults };
            cuts.extend(shares.cut.iter().map(|&sub| (sub, reason)));
        }
        self.unfinished.sort_unstable();
        self.unfinished.dedup();
        let known = |sub: &u32| self.shares.as_ref().is_some_and(|shares| shares.cut.contains(sub));
        cuts.extend(self.unfinished.iter().filter(|sub| !known(sub)).map(|&sub| (sub, Cut::Work)));
        cuts.sort_unstable_by_key(|cut| cut.0);
        self.found.sort_unstable();
        (self.found, cuts)
    }
}
