//! A message in, new messages out.
//!
//! A [`Set`] of transforms does not change while messages are transformed; what does is in a [`Transformer`], one per
//! thread.

use super::alone::{self, Alone};
use super::factory::{Factory, Making, Returned, TooLong};
use super::run::{OfPlan, Runner};
use super::set::{Plan, PlanIx, Set};
use crate::evaluate::{Budget, Exceeded, Failed, Queries, Scratch, Tree};
use crate::output::results::{MOST_BYTES, MOST_NODES};
use crate::output::share::{share, Cut};
use crate::shapes::nodes::NodeIx;
use crate::shapes::search::Message;
use crate::tagpaths::TooMuch;
use crate::xml::Limits;
use hashbrown::HashSet;

/// New messages, or what they would be made of, as columns.
#[derive(Default)]
pub struct Output {
    /// Subscriptions, each with the number of its message.
    pub subs: Vec<u32>,
    pub payload_of: Vec<u32>,
    /// Messages, one after the other, and where they end.
    pub bytes: Vec<u8>,
    pub ends: Vec<u32>,
    /// By message why it is not there, if it is not.
    pub cuts: Vec<Option<Cut>>,
    /// Bytes that all subscriptions together get: a message counts as often as it is wanted.
    pub delivered: u64,
}

impl Output {
    pub(crate) fn clear(&mut self) {
        self.truncate([0; 4]);
    }

    /// Subscriptions, ascending, each with the number of its message.
    pub(crate) fn sorted(&self) -> Vec<(u32, u32)> {
        let mut all: Vec<(u32, u32)> = self.subs.iter().copied().zip(self.payload_of.iter().copied()).collect();
        all.sort_unstable();
        all
    }

    fn mark(&self) -> [usize; 4] {
        [self.subs.len(), self.bytes.len(), self.ends.len(), self.delivered as usize]
    }

    fn truncate(&mut self, [subs, bytes, ends, delivered]: [usize; 4]) {
        self.subs.truncate(subs);
        self.payload_of.truncate(subs);
        self.bytes.truncate(bytes);
        self.ends.truncate(ends);
        self.cuts.truncate(ends);
        self.delivered = delivered as u64;
    }

    /// The message that has been appended, or why it was not, is for these.
    fn end(&mut self, subs: &[u32], cut: Option<Cut>) {
        let number = self.ends.len() as u32;
        let from = self.ends.last().map_or(0, |&e| e as usize);
        self.delivered += (self.bytes.len() - from) as u64 * subs.len() as u64;
        self.ends.push(self.bytes.len() as u32);
        self.cuts.push(cut);
        self.subs.extend_from_slice(subs);
        self.payload_of.resize(self.subs.len(), number);
    }
}

/// How the budget of a message is given out.
enum Shares {
    /// Everybody gets what he wants, until that is more than the budget.
    All,
    /// Nothing is given out: what is wanted is counted, as sizes and how many want as much.
    Counted(Vec<(u64, u64)>),
    /// Everybody gets no more bytes than this; or nobody gets anything, since there are more of them than there may be
    /// results.
    Bytes(u64),
    Nothing,
}

/// Called for each plan that binds nodes of a message: the subscriptions of the plan, what is made of its groups, the bound
/// nodes in document order, and their lists.
pub type Found<'f> = dyn FnMut(&[u32], &Making, &[NodeIx], &mut dyn Returned<'_>) + 'f;

/// Appends the new messages of one message to `out`, within its budget; on an error nothing is appended. `find` calls what
/// it is given for each plan; it is called again where the plans want more than the budget.
pub fn make(
    factory: &mut Factory,
    limits: &Limits,
    out: &mut Output,
    find: impl FnMut(&mut Found<'_>) -> Result<(), TooMuch>,
) -> Result<(), TooMuch> {
    factory.begin(0);
    let before = out.mark();
    let done = Maker { limits, factory, before, out, shares: Shares::All }.make_all(find);
    if done.is_err() {
        out.truncate(before);
    }
    done
}

/// Makes the new messages of one message.
struct Maker<'a> {
    limits: &'a Limits,
    factory: &'a mut Factory,
    before: [usize; 4],
    out: &'a mut Output,
    shares: Shares,
}

impl Maker<'_> {
    fn budget(&self) -> (u64, u64) {
        let (results, bytes) = (self.limits.max_message_results as u64, self.limits.max_message_result_bytes as u64);
        (results.min(MOST_NODES as u64), bytes.min(MOST_BYTES as u64))
    }

    fn make_all(&mut self, mut find: impl FnMut(&mut Found<'_>) -> Result<(), TooMuch>) -> Result<(), TooMuch> {
        if self.run(&mut find)? {
            return Ok(());
        }
        // it is more than the budget: once more to see who wants how much, and again to give that out
        self.out.truncate(self.before);
        self.shares = Shares::Counted(vec![]);
        self.run(&mut find)?;
        self.divide();
        self.run(&mut find)?;
        Ok(())
    }

    /// Makes what all transforms ask for. False if it became more than the budget: then not all is there.
    fn run(&mut self, find: &mut impl FnMut(&mut Found<'_>) -> Result<(), TooMuch>) -> Result<bool, TooMuch> {
        let mut fits = true;
        find(&mut |subs, making, bound, lists| fits = fits && self.make(subs, making, bound, lists))?;
        Ok(fits)
    }

    /// Makes one message. False if there is no room for it.
    fn make(&mut self, subs: &[u32], making: &Making, bound: &[NodeIx], lists: &mut dyn Returned<'_>) -> bool {
        let own = self.limits.max_result_bytes as u64;
        let (results, bytes) = self.budget();
        let share = match self.shares {
            Shares::All | Shares::Counted(_) => bytes,
            Shares::Bytes(share) => share,
            Shares::Nothing => {
                self.out.end(subs, Some(Cut::BudgetResults));
                return true;
            }
        };
        let start = self.out.bytes.len();
        let made = self.factory.make(making, bound, lists, own.min(share) as usize, &mut self.out.bytes);
        let cut = match made {
            Ok(()) => None,
            Err(TooLong) if own <= share => Some(Cut::Bytes),
            Err(TooLong) => Some(Cut::BudgetBytes),
        };
        if let Shares::Counted(claims) = &mut self.shares {
            let size = (self.out.bytes.len() - start) as u64;
            claims.push((if cut == Some(Cut::BudgetBytes) { bytes + 1 } else { size }, subs.len() as u64));
            self.out.bytes.truncate(start);
            return true;
        }
        self.out.end(subs, cut);
        let given = (self.out.subs.len() - self.before[0]) as u64;
        let too_much = given > results || self.out.delivered - self.before[3] as u64 > bytes;
        !matches!(self.shares, Shares::All) || !(too_much || cut == Some(Cut::BudgetBytes))
    }

    /// Divides the budget between those who were counted.
    fn divide(&mut self) {
        let (results, bytes) = self.budget();
        let Shares::Counted(claims) = &mut self.shares else { return };
        let wanted: u64 = claims.iter().map(|c| c.1).sum();
        self.shares = if wanted > results { Shares::Nothing } else { Shares::Bytes(share(claims, bytes).min(bytes)) };
    }
}

/// What evaluates the queries of transforms over a message. The nodes of each symbol are linked.
pub struct Evaluator<'a> {
    pub queries: &'a Queries,
    pub tree: Tree<'a>,
    pub budget: Budget,
    pub scratch: &'a mut Scratch,
}

/// What a thread needs to transform messages.
#[derive(Default)]
pub struct Transformer {
    runner: Runner,
    factory: Factory,
    /// The message is too much work for all plans at once.
    alone: bool,
    /// Plans that have found something, where it matters who has not.
    served: HashSet<PlanIx>,
    /// Subscriptions that took too much on the message.
    failed: Vec<Failed>,
}

impl Transformer {
    /// Before a message: nothing has failed on it yet.
    pub fn begin(&mut self) {
        self.failed.clear();
    }

    /// Looks at a message, before anything is made of it. True if for that the nodes of each symbol have to be linked.
    pub fn look(&mut self, set: &Set, message: Message<'_>) -> bool {
        self.alone = self.runner.scan(set, message).is_err();
        self.alone || set.uses_links()
    }

    /// Appends what the transforms make of the message, within its budget.
    pub fn transform(
        &mut self,
        set: &Set,
        message: Message<'_>,
        mut evaluator: Evaluator<'_>,
        limits: &Limits,
        out: &mut Output,
    ) {
        let Transformer { runner, factory, alone, served, failed } = self;
        // what is found is never refused: a plan that is too much work fails
        let _ = make(factory, limits, out, |found| {
            failed.clear();
            find(runner, *alone, served, failed, set, message, &mut evaluator, found);
            Ok(())
        });
    }

    /// Appends the subscriptions that make something of the message.
    pub fn match_all(&mut self, set: &Set, message: Message<'_>, mut evaluator: Evaluator<'_>, out: &mut Vec<u32>) {
        let Transformer { runner, alone, served, failed, .. } = self;
        let mut found = |subs: &[u32], _: &Making, _: &[NodeIx], _: &mut dyn Returned<'_>| out.extend_from_slice(subs);
        find(runner, *alone, served, failed, set, message, &mut evaluator, &mut found);
    }

    /// Returns the subscriptions that took too much on the message.
    pub fn failed(&self) -> &[Failed] {
        &self.failed
    }
}

/// Calls `found` for each plan that binds nodes of the message, and for those that want to know that there are none.
#[expect(clippy::too_many_arguments, reason = "the parts of a Transformer, which its caller has taken apart")]
fn find(
    runner: &mut Runner,
    alone: bool,
    served: &mut HashSet<PlanIx>,
    failed: &mut Vec<Failed>,
    set: &Set,
    message: Message<'_>,
    evaluator: &mut Evaluator<'_>,
    found: &mut Found<'_>,
) {
    served.clear();
    let note_served = set.wanting_empty().next().is_some();
    let mut give = |id: PlanIx, plan: &Plan, lists: Result<alone::Found<'_>, Exceeded>| match lists {
        Ok(mut lists) => {
            let bound = lists.bound.clone();
            if !bound.is_empty() {
                served.insert(id);
                found(&plan.subs, &plan.making, &bound, &mut lists);
            }
        }
        Err(why) => {
            served.insert(id);
            failed.extend(plan.subs.iter().map(|&number| Failed { number, why }));
        }
    };
    for &id in set.residual() {
        let plan = set.plan(id);
        let Some(query) = plan.query else { continue };
        let Evaluator { queries, tree, budget, scratch } = evaluator;
        let returns = queries.returns(query).unwrap_or(0);
        let groups = queries.groups(query, *tree, *budget, scratch);
        give(id, plan, groups.map(|groups| alone::Found::of(message, returns, groups)));
    }
    if alone {
        let patterns = || set.plans().filter(|(_, plan)| plan.query.is_none());
        let mut alone = Alone::new(message, patterns().count());
        let mut larger = vec![];
        for (id, plan) in patterns() {
            match alone.within_share(plan) {
                Ok(lists) => give(id, plan, Ok(lists)),
                Err(TooMuch) => larger.push((id, plan)),
            }
        }
        for (id, plan) in larger {
            give(id, plan, alone.with_the_rest(plan).map_err(|TooMuch| Exceeded::Work));
        }
    } else {
        runner.plans(set, message, |id, returns, bound, lists| {
            let plan = set.plan(id);
            if note_served {
                served.insert(id);
            }
            found(&plan.subs, &plan.making, bound, &mut OfPlan { returns, lists });
        });
    }
    for id in set.wanting_empty().filter(|id| !served.contains(id)) {
        let plan = set.plan(id);
        found(&plan.wanting_empty, &plan.making, &[], &mut Nothing(message));
    }
}

/// What is returned where nothing is bound.
struct Nothing<'a>(Message<'a>);

impl<'a> Returned<'a> for Nothing<'a> {
    fn nodes<'s>(&'s mut self, _r: u32, _bound: &'s NodeIx) -> &'s [NodeIx] {
        &[]
    }

    fn message(&self, _r: u32) -> (usize, Message<'a>) {
        (0, self.0)
    }
}
