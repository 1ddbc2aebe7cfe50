//! One thread's way through the plans: the streams of a message, then plan by plan, then those that share.

use super::checks::Checks;
use super::combined::{Combined, Over};
use super::profile::{Kind, Profile};
use super::set::Set;
use super::single::{Made, Run, Scratch};
use super::streams::Streams;
use twigcast_kernel::internals::{Making, Message, NodeIx, Returned, TooMuch};

#[derive(Default)]
pub struct Runner {
    streams: Streams,
    checks: Checks,
    scratch: Scratch,
    combined: Combined,
    pub profile: Profile,
}

/// Whom the groups of a plan are for, and what is made of them.
#[derive(Clone, Copy)]
pub struct For<'a> {
    pub subs: &'a [u32],
    pub making: &'a Making,
    pub returns: usize,
}

/// Called for each plan that binds nodes of a message, with these nodes in document order.
pub type Found<'f> = dyn FnMut(For<'_>, &[NodeIx], &mut dyn Returned<'_>) + 'f;

impl Runner {
    pub fn run(&mut self, set: &Set, message: Message<'_>, found: &mut Found<'_>) -> Result<(), TooMuch> {
        if set.is_empty() {
            return Ok(());
        }
        let Runner { streams, checks, scratch, combined, profile } = self;
        checks.begin();
        profile.begin();
        let before = profile.enter(Kind::Paths, message.nodes.len());
        streams.read(&set.terms.paths, message)?;
        profile.leave(before);
        let streams = &*streams;
        scratch.work = 0;
        for single in set.singles.iter().flatten() {
            let plan = &single.plan;
            Run { terms: &set.terms, streams, message, checks, scratch, profile }.plan(plan)?;
            let groups = &scratch.groups;
            if !groups.bound.is_empty() {
                let (subs, making) = (&[single.sub][..], &plan.making);
                let whom = For { subs, making, returns: plan.returns() };
                found(whom, &groups.bound, &mut Made { groups, itself: plan.itself, message });
            }
        }
        if !set.sharing.is_empty() {
            let over = Over { set, streams, message };
            combined.run(over, checks, profile, &mut |result, bound, lists| {
                let (subs, making) = (&result.subs[..], &result.making);
                let whom = For { subs, making, returns: result.returns() };
                found(whom, bound, lists);
            })?;
        }
        profile.end();
        Ok(())
    }
}
