//! Transforms in, messages in, new messages out.
//!
//! [`Transforms`] do not change while messages are transformed; what does is in a [`Transformer`], one per thread.

use super::factory::{Factory, Making, Returned, TooLong};
use super::paths::Refused;
use super::run::{OfPlan, Runner};
use super::set::Set;
use crate::names::{Names, COMMENT, INSTRUCTION};
use crate::output::results::{MOST_BYTES, MOST_NODES};
use crate::output::share::{share, Cut};
use crate::shapes::nodes::{NodeIx, Nodes, Place};
use crate::shapes::search::Message;
use crate::values::constants::Constants;
use crate::xml::{Limits, NsId, Reader, Sink, Tag, Text, XmlError};

#[derive(Default)]
pub struct Transforms {
    names: Names,
    constants: Constants,
    pub set: Set,
}

impl Transforms {
    pub fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// Returns what programs are decoded with: the names, and how many string constants there are.
    #[cfg(feature = "internals")]
    pub fn known(&self) -> (&Names, usize) {
        (&self.names, self.constants.len())
    }

    /// The number of a string constant, as rows hold it.
    pub fn string(&mut self, value: &[u8]) -> u32 {
        self.constants.intern(value)
    }

    /// Adds a subscription: see `Set::add`.
    pub fn add(&mut self, sub: u32, words: &[u32], row: &[f64], making: Making) -> Result<(), &'static str> {
        self.set.add(sub, words, row, making, &self.names, self.constants.len())
    }

    /// False if there is no such subscription.
    pub fn remove(&mut self, sub: u32) -> bool {
        self.set.remove(sub)
    }
}

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
    find: impl FnMut(&mut Found<'_>) -> Result<(), Refused>,
) -> Result<(), Refused> {
    factory.begin();
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

    fn make_all(&mut self, mut find: impl FnMut(&mut Found<'_>) -> Result<(), Refused>) -> Result<(), Refused> {
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
    fn run(&mut self, find: &mut impl FnMut(&mut Found<'_>) -> Result<(), Refused>) -> Result<bool, Refused> {
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

#[derive(Default)]
pub struct Transformer {
    reader: Reader,
    nodes: Nodes,
    runner: Runner,
    factory: Factory,
}

impl Transformer {
    /// Appends what the transforms make of the message, within its budget.
    pub fn transform(
        &mut self,
        transforms: &Transforms,
        xml: &[u8],
        limits: &Limits,
        out: &mut Output,
    ) -> Result<(), XmlError> {
        let (runner, factory) = (&mut self.runner, &mut self.factory);
        read(&mut self.reader, &mut self.nodes, transforms, xml, limits, |message| {
            make(factory, limits, out, |found| {
                runner.run(&transforms.set, message, |id, returns, bound, lists| {
                    let plan = transforms.set.plan(id);
                    found(&plan.subs, &plan.making, bound, &mut OfPlan { returns, lists });
                })
            })
        })
    }

    /// Appends the subscriptions that make something of the message.
    pub fn matches(
        &mut self,
        transforms: &Transforms,
        xml: &[u8],
        limits: &Limits,
        out: &mut Vec<u32>,
    ) -> Result<(), XmlError> {
        let before = out.len();
        let runner = &mut self.runner;
        let done = read(&mut self.reader, &mut self.nodes, transforms, xml, limits, |message| {
            runner.run(&transforms.set, message, |id, _, _, _| out.extend_from_slice(&transforms.set.plan(id).subs))
        });
        if done.is_err() {
            out.truncate(before);
        }
        done
    }
}

/// Reads a message into the node table and hands it on, whole.
pub fn read(
    reader: &mut Reader,
    nodes: &mut Nodes,
    transforms: &Transforms,
    xml: &[u8],
    limits: &Limits,
    run: impl FnMut(Message<'_>) -> Result<(), Refused>,
) -> Result<(), XmlError> {
    let mut sink = TableSink { transforms, nodes, run, done: Ok(()) };
    reader.read(xml, limits, &mut sink)?;
    sink.done.map_err(|refused| XmlError {
        code: refused.code(),
        message: refused.text().into(),
        line: 1,
        column: 1,
        offset: 0,
    })
}

/// Fills the node table, and hands the whole message on.
struct TableSink<'a, F> {
    transforms: &'a Transforms,
    nodes: &'a mut Nodes,
    run: F,
    done: Result<(), Refused>,
}

impl<F: FnMut(Message<'_>) -> Result<(), Refused>> Sink for TableSink<'_, F> {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.transforms.names.namespace(uri)
    }

    fn begin(&mut self, _src: &[u8]) {
        self.nodes.begin();
    }

    #[inline]
    fn start(&mut self, tag: &Tag<'_>) {
        let names = &self.transforms.names;
        self.nodes.open(names.symbol(false, tag.ns, tag.local()), tag.start);
        if tag.declares {
            self.nodes.declares();
        }
        for a in tag.attrs {
            let sym = names.symbol(true, a.ns, &tag.src[a.local as usize..a.name_end as usize]);
            let place = Place { start: a.name, end: a.value_end + 1 };
            self.nodes.leaf(sym, (a.value, a.value_end), place, a.plain);
        }
    }

    #[inline]
    fn end(&mut self, _src: &[u8], _at: u32, past: u32) {
        self.nodes.close(past);
    }

    #[inline]
    fn text(&mut self, text: &Text<'_>) {
        self.nodes.text(text.start, text.end, text.plain, text.cdata);
    }

    fn comment(&mut self, src: &[u8], start: u32, end: u32) {
        self.nodes.markup(COMMENT, src, Place { start, end });
    }

    fn instruction(&mut self, src: &[u8], start: u32, end: u32) {
        self.nodes.markup(INSTRUCTION, src, Place { start, end });
    }

    fn finish(&mut self, src: &[u8]) {
        self.nodes.finish();
        let Transforms { names, constants, .. } = self.transforms;
        self.nodes.link(names.bound());
        self.done = (self.run)(Message { src, nodes: self.nodes, names, constants });
    }
}
