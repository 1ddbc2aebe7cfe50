//! Transforms in, messages in, new messages out.
//!
//! [`Transforms`] do not change while messages are transformed; what does is in a [`Transformer`], one per thread.

use super::factory::{Factory, Key, Template};
use super::run::{Refused, Runner};
use super::set::{PlanIx, Set};
use crate::names::{Names, COMMENT, INSTRUCTION};
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

    /// The number of a string constant, as rows hold it.
    pub fn string(&mut self, value: &[u8]) -> u32 {
        self.constants.intern(value)
    }

    /// Adds a subscription: see `Set::add`.
    pub fn add(
        &mut self,
        sub: u32,
        words: &[u32],
        row: &[f64],
        order: Vec<Key>,
        template: Template,
    ) -> Result<(), &'static str> {
        self.set.add(sub, words, row, (order, template), &self.names, self.constants.len())
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
    /// Messages that were longer than they may be.
    pub cut: Vec<u32>,
}

/// The groupSequence-listSequence format: per plan its groups, per group the bound node and a list for each return.
#[derive(Default)]
pub struct GroupColumns {
    pub plans: Vec<PlanIx>,
    /// Ends of the plans' groups in `bound`.
    pub group_ends: Vec<u32>,
    pub bound: Vec<NodeIx>,
    /// Ends of the lists in `nodes`, return after return, group after group.
    pub list_ends: Vec<u32>,
    pub nodes: Vec<NodeIx>,
}

impl GroupColumns {
    pub fn clear(&mut self) {
        self.plans.clear();
        self.group_ends.clear();
        self.bound.clear();
        self.list_ends.clear();
        self.nodes.clear();
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
    /// Appends what the transforms make of the message.
    pub fn transform(
        &mut self,
        transforms: &Transforms,
        xml: &[u8],
        limits: &Limits,
        out: &mut Output,
    ) -> Result<(), XmlError> {
        let before = (out.subs.len(), out.bytes.len(), out.ends.len(), out.cut.len());
        let (runner, factory) = (&mut self.runner, &mut self.factory);
        let most = limits.max_result_bytes as usize;
        let done = read(&mut self.reader, &mut self.nodes, transforms, xml, limits, |message| {
            factory.begin();
            runner.run(&transforms.set, message, |id, _, bound, lists| {
                let plan = transforms.set.plan(id);
                if !factory.make(plan, bound, lists, most, &mut out.bytes) {
                    out.cut.push(out.ends.len() as u32);
                }
                let number = out.ends.len() as u32;
                out.ends.push(out.bytes.len() as u32);
                out.subs.extend_from_slice(&plan.subs);
                out.payload_of.resize(out.subs.len(), number);
            })
        });
        if done.is_err() {
            out.subs.truncate(before.0);
            out.payload_of.truncate(before.0);
            out.bytes.truncate(before.1);
            out.ends.truncate(before.2);
            out.cut.truncate(before.3);
        }
        done
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

    /// Appends the nodes that transforms would make new messages of.
    pub fn groups(
        &mut self,
        transforms: &Transforms,
        xml: &[u8],
        limits: &Limits,
        out: &mut GroupColumns,
    ) -> Result<(), XmlError> {
        let runner = &mut self.runner;
        read(&mut self.reader, &mut self.nodes, transforms, xml, limits, |message| {
            runner.run(&transforms.set, message, |id, returns, bound, lists| {
                out.plans.push(id);
                for node in bound {
                    out.bound.push(*node);
                    for &what in returns {
                        out.nodes.extend_from_slice(lists.get(what, node));
                        out.list_ends.push(out.nodes.len() as u32);
                    }
                }
                out.group_ends.push(out.bound.len() as u32);
            })
        })
    }

    /// Only reads the message, for comparison.
    pub fn read(&mut self, transforms: &Transforms, xml: &[u8], limits: &Limits) -> Result<(), XmlError> {
        read(&mut self.reader, &mut self.nodes, transforms, xml, limits, |_| Ok(()))
    }
}

/// Reads a message into the node table and hands it on, whole.
pub(crate) fn read(
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
