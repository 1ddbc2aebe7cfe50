//! Plans in, messages in, new messages or groups out.
//!
//! [`Plans`] do not change while messages are read; what does is in an [`Executor`], one per thread.

use super::groups::Groups;
use super::profile::Profile;
use super::run::Runner;
use super::set::Set;
use twigcast_kernel::internals::{make, read, Factory, Nodes};
use twigcast_kernel::transform::{Making, Output};
use twigcast_kernel::xml::{Limits, Reader, XmlError};
use twigcast_kernel::Vocabulary;

/// The plans of all subscriptions.
#[derive(Default)]
pub struct Plans {
    pub vocabulary: Vocabulary,
    pub set: Set,
}

impl Plans {
    /// Adds a subscription: the codes of its plan, the program that they refer to with the constants of its slots, and
    /// what is made of the groups. A shared plan has operators in common with others, else it runs on its own.
    pub fn add(
        &mut self,
        sub: u32,
        codes: &[u32],
        (words, row): (&[u32], &[f64]),
        making: Making,
        shared: bool,
    ) -> Result<(), &'static str> {
        self.set.add(sub, codes, words, row, making, shared, self.vocabulary.known())
    }

    /// False if there is no such subscription.
    pub fn remove(&mut self, sub: u32) -> bool {
        self.set.remove(sub)
    }
}

/// What a thread needs to run plans over messages.
#[derive(Default)]
pub struct Executor {
    reader: Reader,
    nodes: Nodes,
    runner: Runner,
    factory: Factory,
}

impl Executor {
    /// Appends what the plans make of the message, within its budget.
    pub fn transform(&mut self, plans: &Plans, xml: &[u8], limits: &Limits, out: &mut Output) -> Result<(), XmlError> {
        let (runner, factory) = (&mut self.runner, &mut self.factory);
        read(&mut self.reader, &mut self.nodes, plans.vocabulary.parts(), xml, limits, |message| {
            make(factory, limits, out, |found| {
                runner.run(&plans.set, message, &mut |whom, bound, lists| found(whom.subs, whom.making, bound, lists))
            })
        })
    }

    /// Appends the subscriptions that make something of the message.
    pub fn matches(&mut self, plans: &Plans, xml: &[u8], limits: &Limits, out: &mut Vec<u32>) -> Result<(), XmlError> {
        let before = out.len();
        let runner = &mut self.runner;
        let done = read(&mut self.reader, &mut self.nodes, plans.vocabulary.parts(), xml, limits, |message| {
            runner.run(&plans.set, message, &mut |whom, _, _| out.extend_from_slice(whom.subs))
        });
        if done.is_err() {
            out.truncate(before);
        }
        done
    }

    /// Appends the groups that new messages would be made of.
    pub fn groups(&mut self, plans: &Plans, xml: &[u8], limits: &Limits, out: &mut Groups) -> Result<(), XmlError> {
        let runner = &mut self.runner;
        read(&mut self.reader, &mut self.nodes, plans.vocabulary.parts(), xml, limits, |message| {
            runner.run(&plans.set, message, &mut |whom, bound, lists| out.add(whom.returns, bound, lists))
        })
    }

    /// Only reads the message, for comparison.
    pub fn read(&mut self, plans: &Plans, xml: &[u8], limits: &Limits) -> Result<(), XmlError> {
        read(&mut self.reader, &mut self.nodes, plans.vocabulary.parts(), xml, limits, |_| Ok(()))
    }

    /// What operators cost; counts from when it is switched on.
    pub fn profile(&mut self) -> &mut Profile {
        &mut self.runner.profile
    }
}
