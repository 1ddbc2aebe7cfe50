//! One thread's matching: a message's events drive the path engine and fill the node table; when the message is whole,
//! the buckets that its paths reached are checked, and then the queries of the subscriptions that have one.

use crate::engine::Engine;
use crate::evaluate::{self, Failed, IdAttribute, TextId};
use crate::join::witness::{self, Witness};
use crate::names::{self, Names, Sym, COMMENT, INSTRUCTION, TEXT};
use crate::output::results::{Collector, Results};
use crate::paths::trie::Trie;
use crate::paths::PathMatcher;
use crate::shapes::candidates::Candidates;
use crate::shapes::nodes::{Nodes, Place, NO_CONSTANT};
use crate::shapes::store::Scratch;
use crate::sorted::Sorter;
use crate::transform::set::Set;
use crate::transform::{Output, Transformer};
use crate::values::number::number;
use crate::xml::{Limits, NsId, Reader, Sink, Tag, Text, XmlError};

mod units;
mod watch;
mod whole;

pub use units::Units;

/// What a thread needs to match messages: working memory, and the path cache.
pub struct Matcher {
    reader: Reader,
    paths: Box<dyn Drive>,
    pub(crate) table: Table,
}

/// The message as patterns see it.
#[derive(Default)]
pub(crate) struct Table {
    nodes: Nodes,
    pub(crate) scratch: Scratch,
    value: Vec<u8>,
    items: Vec<u32>,
    candidates: Candidates,
    /// Changes of items heard of.
    changes: u64,
    transformer: Transformer,
    made: Output,
    blocks: witness::Scratch,
    collector: Collector,
    pub(crate) sorter: Sorter,
    evaluation: evaluate::Scratch,
    texting: evaluate::Scratch,
    id_attributes: Vec<IdAttribute>,
    failed: Vec<Failed>,
}

enum Deliver<'a> {
    Nothing,
    /// In no particular order.
    Matches,
    Ascending,
    /// What the matched subscriptions select, too.
    Results(&'a mut Results),
}

/// The streams that a message comes by, and where goes what correlations see of it.
pub struct Seen<'a> {
    pub streams: &'a [u32],
    pub witness: &'a mut Witness,
}

/// A path of [`Engine::add_text`], and where goes the text of the first node that it selects, if there is one.
pub struct FirstText<'a> {
    pub path: TextId,
    pub value: &'a mut Option<Vec<u8>>,
}

/// What is asked of a message beside its matches.
#[derive(Default)]
pub struct Beside<'a> {
    pub seen: Option<Seen<'a>>,
    pub text: Option<FirstText<'a>>,
}

/// What is asked of a message.
struct Asking<'a> {
    deliver: Deliver<'a>,
    beside: Beside<'a>,
}

impl<'a> From<Deliver<'a>> for Asking<'a> {
    fn from(deliver: Deliver<'a>) -> Asking<'a> {
        Asking { deliver, beside: Beside::default() }
    }
}

impl Matcher {
    pub fn new(engine: &Engine) -> Matcher {
        Matcher::with_paths(Trie::new(&engine.index, engine.cache_bytes))
    }

    /// Returns a matcher that matches paths in this way.
    pub fn with_paths(paths: impl PathMatcher + 'static) -> Matcher {
        Matcher { reader: Reader::new(), paths: Box::new(paths), table: Table::default() }
    }

    /// Appends the numbers of the subscriptions that the message satisfies to `out`, each once, in ascending order.
    /// On an error nothing is appended.
    pub fn read_sorted(
        &mut self,
        engine: &Engine,
        xml: &[u8],
        limits: &Limits,
        out: &mut Vec<u32>,
    ) -> Result<(), XmlError> {
        self.run(engine, xml, limits, Deliver::Ascending.into(), out)
    }

    /// As `read_sorted`, or in no particular order, which costs less; and finds what else is asked of the message.
    pub(crate) fn read_beside(
        &mut self,
        engine: &Engine,
        xml: &[u8],
        limits: &Limits,
        (sorted, beside): (bool, Beside<'_>),
        out: &mut Vec<u32>,
    ) -> Result<(), XmlError> {
        let deliver = if sorted { Deliver::Ascending } else { Deliver::Matches };
        self.run(engine, xml, limits, Asking { deliver, beside }, out)
    }

    /// Reads the message and finds out which paths it contains, without collecting the subscriptions.
    pub fn recognise(&mut self, engine: &Engine, xml: &[u8], limits: &Limits) -> Result<(), XmlError> {
        self.run(engine, xml, limits, Deliver::Nothing.into(), &mut vec![])
    }

    /// As `read_sorted`, and appends what each of the subscriptions selects to `results`, if there are such; and finds what
    /// else is asked of the message.
    pub fn process(
        &mut self,
        engine: &Engine,
        xml: &[u8],
        limits: &Limits,
        out: &mut Vec<u32>,
        results: Option<&mut Results>,
        beside: Beside<'_>,
    ) -> Result<(), XmlError> {
        let Some(results) = results else {
            return self.run(engine, xml, limits, Asking { deliver: Deliver::Ascending, beside }, out);
        };
        let matches = results.len();
        let read = self.run(engine, xml, limits, Asking { deliver: Deliver::Results(results), beside }, out);
        if read.is_err() {
            results.truncate(matches);
        }
        read
    }

    /// Finds what correlations see of a message, and nothing else. A message that they have no blocks for is not read.
    pub fn witness(&mut self, engine: &Engine, xml: &[u8], limits: &Limits, seen: Seen<'_>) -> Result<(), XmlError> {
        if !engine.blocks.read(seen.streams) {
            seen.witness.clear();
            return Ok(());
        }
        let beside = Beside { seen: Some(seen), text: None };
        self.run(engine, xml, limits, Asking { deliver: Deliver::Nothing, beside }, &mut vec![])
    }

    fn run(
        &mut self,
        engine: &Engine,
        xml: &[u8],
        limits: &Limits,
        asking: Asking<'_>,
        out: &mut Vec<u32>,
    ) -> Result<(), XmlError> {
        let from = out.len();
        let read = self.drive(engine, xml, limits, asking, out, None);
        if read.is_err() {
            out.truncate(from);
            self.table.failed.clear();
        }
        read
    }

    /// Returns the subscriptions whose queries could not be evaluated on the last message: these took too much.
    pub fn failed(&self) -> &[Failed] {
        &self.table.failed
    }

    fn drive(
        &mut self,
        engine: &Engine,
        xml: &[u8],
        limits: &Limits,
        asking: Asking<'_>,
        out: &mut Vec<u32>,
        units: Option<&mut Units>,
    ) -> Result<(), XmlError> {
        self.table.id_attributes.clear();
        self.table.failed.clear();
        let reading = Reading { engine, table: &mut self.table, reader: &mut self.reader, xml, limits, asking, out };
        self.paths.drive(reading, units)
    }

    /// Late additions have cost more than `Engine::fold` would.
    pub fn is_overworked(&self, engine: &Engine) -> bool {
        self.paths.is_overworked(engine)
    }

    /// Number of tag paths cached, and the bytes they take.
    pub fn cache(&self) -> (usize, usize) {
        self.paths.cache()
    }
}

/// One message to read, and where its matches go.
struct Reading<'a> {
    engine: &'a Engine,
    table: &'a mut Table,
    reader: &'a mut Reader,
    xml: &'a [u8],
    limits: &'a Limits,
    asking: Asking<'a>,
    out: &'a mut Vec<u32>,
}

/// A path matcher with the sink that is compiled for it: calling one costs a virtual call per message, none per event.
trait Drive: Send {
    fn drive(&mut self, reading: Reading<'_>, units: Option<&mut Units>) -> Result<(), XmlError>;
    fn is_overworked(&self, engine: &Engine) -> bool;
    fn cache(&self) -> (usize, usize);
}

impl<P: PathMatcher> Drive for P {
    fn drive(&mut self, reading: Reading<'_>, units: Option<&mut Units>) -> Result<(), XmlError> {
        let Reading { engine, table, reader, xml, limits, asking, out } = reading;
        let Asking { deliver, beside: Beside { seen, text } } = asking;
        let paths = self;
        paths.sync(&engine.index);
        paths.begin(&engine.index);
        // Two instances of the sink, so that subscriptions to mere paths do not pay for the node table.
        let mere_paths = !engine.has_patterns && !engine.gates.any();
        let results = matches!(deliver, Deliver::Results(_));
        // units are messages for filters only
        let transforms = Some(&engine.transforms).filter(|set| !set.is_empty() && units.is_none());
        let seen = seen.and_then(|seen| {
            seen.witness.clear();
            engine.blocks.read(seen.streams).then_some(seen)
        });
        let numbered = results || transforms.is_some() || seen.is_some() || text.is_some();
        let attributes = engine.uses_attributes || numbered; // they count in the numbers of nodes
        table.transformer.begin();
        macro_rules! sink {
            ($table:literal) => {
                MessageSink::<P, $table> {
                    engine,
                    table,
                    paths,
                    transforms,
                    seen,
                    text,
                    limits,
                    attributes,
                    deliver,
                    out,
                }
            };
        }
        if let Some(units) = units {
            let sink = sink!(true);
            units.read(sink, reader, xml)
        } else if numbered || !mere_paths {
            let mut sink = sink!(true);
            reader.read(xml, limits, &mut sink)
        } else {
            let mut sink = sink!(false);
            reader.read(xml, limits, &mut sink)
        }
    }

    fn is_overworked(&self, engine: &Engine) -> bool {
        PathMatcher::is_overworked(self, &engine.index)
    }

    fn cache(&self) -> (usize, usize) {
        PathMatcher::cache(self)
    }
}

struct MessageSink<'a, P, const TABLE: bool> {
    engine: &'a Engine,
    table: &'a mut Table,
    paths: &'a mut P,
    /// If there are any.
    transforms: Option<&'a Set>,
    /// If some block reads a stream of the message.
    seen: Option<Seen<'a>>,
    text: Option<FirstText<'a>>,
    limits: &'a Limits,
    /// Attributes belong into the node table.
    attributes: bool,
    deliver: Deliver<'a>,
    out: &'a mut Vec<u32>,
}

impl<P: PathMatcher, const TABLE: bool> MessageSink<'_, P, TABLE> {
    #[inline(always)]
    fn names(&self) -> &Names {
        &self.engine.index.names
    }

    /// The text node before this event is whole.
    #[inline(always)]
    fn end_text(&mut self, src: &[u8]) {
        if TABLE && self.table.nodes.text_is_open() && self.paths.wants_leaves() {
            self.whole_text(src);
        }
    }

    fn whole_text(&mut self, src: &[u8]) {
        self.paths.open(&self.engine.index, TEXT);
        if self.paths.wants_values() {
            self.value(src, self.table.nodes.last());
        }
        self.paths.close();
    }

    /// The value of a node as a step of the path to it, if some subscription compares with it.
    fn value(&mut self, src: &[u8], node: u32) {
        let Table { nodes, value, .. } = self.table;
        let constants = &self.engine.constants;
        let id = nodes.constant(src, constants, node, value);
        if id != NO_CONSTANT {
            self.paths.value(&self.engine.index, names::string_value(id));
        }
        if constants.has_numbers() {
            if let Some(id) = constants.find_number(number(nodes.value(src, node, value))) {
                self.paths.value(&self.engine.index, names::number_value(id));
            }
        }
    }

    #[inline(always)]
    fn attributes(&mut self, tag: &Tag<'_>) {
        let matter = self.paths.wants_attributes();
        if !matter && !TABLE {
            return;
        }
        let index = &self.engine.index;
        for a in tag.attrs {
            let sym = index.names.symbol(true, a.ns, &tag.src[a.local as usize..a.name_end as usize]);
            if !TABLE {
                self.paths.leaf(index, sym);
                continue;
            }
            let place = Place { start: a.name, end: a.value_end + 1 };
            let node = self.table.nodes.leaf(sym, (a.value, a.value_end), place, a.plain);
            if matter {
                self.paths.open(index, sym);
                if self.paths.wants_values() {
                    self.value(tag.src, node);
                }
                self.paths.close();
            }
        }
    }

    fn other(&mut self, sym: Sym, src: &[u8], place: Place) {
        self.end_text(src);
        if TABLE {
            self.table.nodes.markup(sym, src, place);
        }
        if self.paths.wants_leaves() {
            self.paths.open(&self.engine.index, sym);
            if TABLE && self.paths.wants_values() {
                self.value(src, self.table.nodes.last());
            }
            self.paths.close();
        }
    }
}

impl<P: PathMatcher, const TABLE: bool> Sink for MessageSink<'_, P, TABLE> {
    #[inline(always)]
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.names().namespace(uri)
    }

    fn id_attribute(&mut self, element: &[u8], attribute: &[u8]) {
        self.table.id_attributes.push((element.into(), attribute.into()));
    }

    fn begin(&mut self, _src: &[u8]) {
        if TABLE {
            self.table.nodes.begin();
        }
    }

    #[inline(always)]
    fn start(&mut self, tag: &Tag<'_>) {
        if !TABLE && self.paths.is_dead() {
            return self.paths.open_dead();
        }
        self.end_text(tag.src);
        let sym = self.names().symbol(false, tag.ns, tag.local());
        self.paths.open(&self.engine.index, sym);
        if TABLE {
            self.table.nodes.open(sym, tag.start);
            if tag.declares {
                self.table.nodes.declares();
            }
        }
        if !tag.attrs.is_empty() && (!TABLE || self.attributes) {
            self.attributes(tag);
        }
    }

    #[inline(always)]
    fn end(&mut self, src: &[u8], _at: u32, past: u32) {
        self.end_text(src);
        if TABLE {
            if self.paths.wants_values() {
                self.value(src, self.table.nodes.current());
            }
            self.table.nodes.close(past);
        }
        self.paths.close();
    }

    #[inline(always)]
    fn text(&mut self, text: &Text<'_>) {
        if TABLE {
            self.table.nodes.text(text.start, text.end, text.plain, text.cdata);
        } else if self.paths.wants_leaves() {
            self.paths.leaf(&self.engine.index, TEXT);
        }
    }

    fn comment(&mut self, src: &[u8], start: u32, end: u32) {
        self.other(COMMENT, src, Place { start, end });
    }

    fn instruction(&mut self, src: &[u8], start: u32, end: u32) {
        self.other(INSTRUCTION, src, Place { start, end });
    }

    fn finish(&mut self, src: &[u8]) {
        if TABLE {
            return self.finish_table(src);
        }
        let index = &self.engine.index;
        match self.deliver {
            Deliver::Nothing => self.paths.catch_up(index),
            Deliver::Ascending => self.paths.deliver_sorted(index, &mut self.table.sorter, self.out),
            Deliver::Matches | Deliver::Results(_) => self.paths.deliver(index, self.out),
        }
    }
}
