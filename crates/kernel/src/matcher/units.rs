//! A large document as many small messages: each unit, with the tags of the elements around it, is matched as if it
//! were alone. So a value leads to the few subscriptions that ask for it in this unit, and not to a search through all.
//!
//! Where few units have all the paths and values that some pattern needs, units are read lightly at first, by their
//! paths and values alone; the table of nodes is made for those that may match, by reading them again.

use super::{Deliver, Matcher, MessageSink, PathMatcher};
use crate::chunk::automaton::{Automaton, Keep, StateId};
use crate::engine::Engine;
use crate::names;
use crate::shapes::candidates::Item;
use crate::shapes::necessary::{Necessary, Question};
use crate::values::number::number;
use crate::xml::{Attr, Limits, NsId, Reader, Sink, Tag, Text, XmlError};

/// What lies between units is matched when there is this much of it.
const BETWEEN: u32 = 1 << 14;
/// To match a unit alone, the elements around it are opened again: small ones deep down are matched together, with this
/// many bytes for each of these elements.
const WORTH: usize = 16;
/// Where most units are looked at closely, every so many is nevertheless read lightly, to see whether that still holds.
const PROBE: u32 = 16;

/// Which elements are units, what has been found in those so far, and the elements that are open around the next one.
pub struct Units {
    automaton: Automaton,
    around: Vec<Around>,
    /// Their start tags, when the last unit ended.
    head: Vec<u8>,
    /// So many elements, the outermost ones, are no units where the document begins.
    free: usize,
    /// By number: it has been found.
    seen: Vec<bool>,
    found: Vec<u32>,
    /// How many of 256 units that were read lightly had to be looked at closely, of late.
    close: u32,
    /// Units that were not read lightly, since the last one that was.
    heavy: u32,
    again: Again,
    values: Values,
    necessary: Necessary,
}

/// To read units again.
struct Again {
    reader: Reader,
    xml: Vec<u8>,
    error: Option<XmlError>,
}

struct Around {
    state: StateId,
    start: u32,
    end: u32,
    local: u32,
    name_end: u32,
    ns: NsId,
    attrs: Vec<Attr>,
    declares: bool,
}

impl Around {
    fn of(tag: &Tag<'_>, state: StateId) -> Around {
        let &Tag { start, end, local, name_end, ns, declares, .. } = tag;
        Around { state, start, end, local, name_end, ns, attrs: tag.attrs.to_vec(), declares }
    }

    fn tag<'a>(&'a self, src: &'a [u8]) -> Tag<'a> {
        let &Around { start, end, local, name_end, ns, declares, .. } = self;
        Tag { src, start, end, local, name_end, ns, attrs: &self.attrs, declares }
    }
}

/// The values of open elements that some path asks for, as far as they are read.
#[derive(Default)]
struct Values {
    depth: u32,
    open: Vec<Open>,
    texts: Vec<Run>,
    scratch: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Open {
    depth: u32,
    /// Its first run of text.
    from: u32,
    asked: Question,
}

#[derive(Clone, Copy)]
struct Run {
    start: u32,
    end: u32,
    plain: bool,
    cdata: bool,
}

impl Values {
    fn clear(&mut self) {
        self.depth = 0;
        self.open.clear();
        self.texts.clear();
    }

    /// The value of the element that ends, and what is asked of it.
    #[inline(always)]
    fn close<'a>(&'a mut self, src: &'a [u8]) -> Option<(&'a [u8], Question)> {
        let &Open { depth, from, asked } = self.open.last()?;
        if depth != self.depth {
            return None;
        }
        self.open.pop();
        let value = match &self.texts[from as usize..] {
            [] => b"",
            [run] if run.plain => &src[run.start as usize..run.end as usize],
            runs => {
                self.scratch.clear();
                for &Run { start, end, plain, cdata } in runs {
                    Text { src, start, end, plain, cdata }.decode(&mut self.scratch);
                }
                &self.scratch
            }
        };
        Some((value, asked))
    }
}

impl Units {
    /// The steps of `units` are symbols of the engine that matches.
    pub fn new(units: Vec<Keep>) -> Units {
        Units {
            automaton: Automaton::new(units),
            around: vec![],
            head: vec![],
            free: 0,
            seen: vec![],
            found: vec![],
            close: 0,
            heavy: 0,
            again: Again { reader: Reader::new(), xml: vec![], error: None },
            values: Values::default(),
            necessary: Necessary::default(),
        }
    }

    /// A document begins. Its outermost `free` elements, up to the first that ends, are no units. By number: is the
    /// subscription not looked for any more?
    pub fn begin(&mut self, free: usize, found: &[bool]) {
        self.free = free;
        self.seen.clear();
        self.seen.extend_from_slice(found);
    }

    pub(super) fn read<P: PathMatcher>(
        &mut self,
        message: MessageSink<'_, P, true>,
        reader: &mut Reader,
        xml: &[u8],
    ) -> Result<(), XmlError> {
        let free = self.free;
        self.around.clear();
        self.head.clear();
        self.found.clear();
        self.seen.resize(message.engine.bound(), false);
        let Necessary { changes, .. } = &mut self.necessary;
        let changed = message.engine.changed.since(changes);
        self.necessary.update(message.engine.bound(), changed);
        let limits = message.limits;
        // What a prolog says does not go with a unit that is read again.
        let is_bare = !matches!(xml, [b'<', b'?' | b'!', ..]) && xml.starts_with(b"<");
        let sink =
            &mut UnitSink { message, units: self, is_bare, light: false, inside: 0, from: 0, needs: false, free };
        reader.read(xml, limits, sink)?;
        self.again.error.take().map_or(Ok(()), Err)
    }

    fn is_light(&mut self) -> bool {
        self.heavy += 1;
        let light = self.close < 128 || self.heavy > PROBE;
        if light {
            self.heavy = 0;
        }
        light
    }
}

impl Matcher {
    /// Appends the numbers of the subscriptions that some unit of the document satisfies, or what lies between units,
    /// each once, in ascending order. On an error nothing is appended.
    pub fn read_units(
        &mut self,
        engine: &Engine,
        xml: &[u8],
        limits: &Limits,
        units: &mut Units,
        out: &mut Vec<u32>,
    ) -> Result<(), XmlError> {
        let mut scratch = vec![];
        self.drive(engine, xml, limits, Deliver::Matches, &mut scratch, Some(units))?;
        units.found.sort_unstable();
        out.append(&mut units.found);
        Ok(())
    }
}

struct UnitSink<'a, P> {
    message: MessageSink<'a, P, true>,
    units: &'a mut Units,
    /// The document has nothing before its root element.
    is_bare: bool,
    /// The unit at hand is read lightly.
    light: bool,
    /// Open elements of the unit at hand.
    inside: u32,
    /// What has not been matched yet begins here.
    from: u32,
    /// Paths and values alone do not decide what is being read.
    needs: bool,
    /// So many of the open elements, the outermost, are no units.
    free: usize,
}

impl<P: PathMatcher> UnitSink<'_, P> {
    /// An element that is neither a unit nor in one, or a unit.
    #[inline(never)]
    fn outside(&mut self, tag: &Tag<'_>) {
        let units = &mut *self.units;
        let names = &self.message.engine.index.names;
        units.automaton.trim(units.around.iter_mut().map(|one| &mut one.state));
        let sym = names.symbol(false, tag.ns, tag.local());
        let from = units.around.last().map_or(Automaton::ROOT, |one| one.state);
        let state = units.automaton.step(names, from, sym);
        if units.automaton.state(state).kept.is_empty() || units.around.len() < self.free {
            units.around.push(Around::of(tag, state));
        } else {
            self.inside = 1;
        }
    }

    /// Matches what has been read since the last time, in the tags of the elements that are open.
    #[inline(never)]
    fn turn(&mut self, src: &[u8], past: u32) {
        for _ in 0..self.units.around.len() {
            self.close(src, past, past);
        }
        self.collect(src, past);
        self.light = self.is_bare && self.units.is_light();
        self.begin_message(src);
        let Units { around, head, .. } = &mut *self.units;
        head.clear();
        for one in &*around {
            head.extend_from_slice(&src[one.start as usize..one.end as usize]);
        }
        let around = std::mem::take(around);
        for one in &around {
            self.open(&one.tag(src));
        }
        self.units.around = around;
        self.from = past;
    }

    fn begin_message(&mut self, src: &[u8]) {
        let MessageSink { engine, paths, .. } = &mut self.message;
        paths.begin(&engine.index);
        self.needs = false;
        if self.light {
            self.units.values.clear();
            self.units.necessary.begin();
        } else {
            self.message.begin(src);
        }
    }

    fn collect(&mut self, src: &[u8], past: u32) {
        if self.light {
            let needs = self.decide() | self.needs;
            let close = &mut self.units.close;
            *close = *close - *close / 16 + 16 * u32::from(needs);
            if needs {
                self.read_again(src, past);
            }
        } else {
            self.message.finish(src);
        }
        let Units { seen, found, .. } = &mut *self.units;
        for number in self.message.out.drain(..) {
            if !std::mem::replace(&mut seen[number as usize], true) {
                found.push(number);
            }
        }
    }

    /// Finds the subscriptions to paths. May there be others?
    fn decide(&mut self) -> bool {
        let MessageSink { engine, table, paths, out, .. } = &mut self.message;
        let Units { necessary, seen, .. } = &mut *self.units;
        table.items.clear();
        paths.deliver(&engine.index, &mut table.items);
        let (mut marked, mut may) = (false, false);
        for &item in &table.items {
            match engine.item(item) {
                Item::Guard => {}
                Item::Subscription => out.push(item),
                Item::Bucket(_) if may => {}
                Item::Bucket(bucket) => {
                    if !std::mem::replace(&mut marked, true) {
                        paths.mark();
                    }
                    may = engine.store.guards(bucket).all(|guard| paths.has(guard))
                        && necessary.may_hold(&engine.store, item, bucket, |sub| seen[sub as usize]);
                }
            }
        }
        may
    }

    /// Reads what has been read lightly since the last time.
    #[inline(never)]
    fn read_again(&mut self, src: &[u8], past: u32) {
        let Units { around, head, again, .. } = &mut *self.units;
        again.xml.clear();
        again.xml.extend_from_slice(head);
        again.xml.extend_from_slice(&src[self.from as usize..past as usize]);
        for one in around.iter().rev() {
            again.xml.extend_from_slice(b"</");
            again.xml.extend_from_slice(&src[one.start as usize + 1..one.name_end as usize]);
            again.xml.push(b'>');
        }
        let MessageSink { engine, table, paths, limits, attributes, out, .. } = &mut self.message;
        paths.begin(&engine.index);
        let (engine, limits, attributes) = (*engine, *limits, *attributes);
        let deliver = Deliver::Matches;
        let mut sink = MessageSink::<P, true> { engine, table, paths: &mut **paths, limits, attributes, deliver, out };
        if let Err(error) = again.reader.read(&again.xml, limits, &mut sink) {
            again.error.get_or_insert(error);
        }
    }

    #[inline(always)]
    fn open(&mut self, tag: &Tag<'_>) {
        if !self.light {
            return self.message.start(tag);
        }
        let MessageSink { engine, paths, attributes, .. } = &mut self.message;
        let Units { values, necessary, .. } = &mut *self.units;
        let index = &engine.index;
        let sym = index.names.symbol(false, tag.ns, tag.local());
        paths.open(index, sym);
        values.depth += 1;
        let asked = necessary.open(sym, values.depth);
        if asked.is_any() | paths.wants_values() {
            values.open.push(Open { depth: values.depth, from: values.texts.len() as u32, asked });
        }
        if *attributes && !tag.attrs.is_empty() && (necessary.wants_attributes() || paths.wants_attributes()) {
            self.attributes(tag);
        }
    }

    #[inline(always)]
    fn close(&mut self, src: &[u8], at: u32, past: u32) {
        if !self.light {
            return self.message.end(src, at, past);
        }
        let Units { values, necessary, .. } = &mut *self.units;
        necessary.close(values.depth);
        if let Some((value, asked)) = values.close(src) {
            value_of(&mut self.message, necessary, value, asked);
            if values.open.is_empty() {
                values.texts.clear();
            }
        }
        values.depth -= 1;
        self.message.paths.close();
    }

    fn attributes(&mut self, tag: &Tag<'_>) {
        for a in tag.attrs {
            let MessageSink { engine, paths, .. } = &mut self.message;
            let Units { values, necessary, .. } = &mut *self.units;
            let sym = engine.index.names.symbol(true, a.ns, &tag.src[a.local as usize..a.name_end as usize]);
            paths.open(&engine.index, sym);
            let asked = necessary.attribute(sym, values.depth);
            if asked.is_any() | paths.wants_values() {
                let raw = &tag.src[a.value as usize..a.value_end as usize];
                if a.plain {
                    value_of(&mut self.message, necessary, raw, asked);
                } else {
                    values.scratch.clear();
                    crate::xml::decode_attribute(raw, &mut values.scratch);
                    value_of(&mut self.message, necessary, &values.scratch, asked);
                }
            }
            self.message.paths.close();
        }
    }

    fn other(&mut self) {
        self.needs |= self.light && self.message.paths.wants_leaves();
    }
}

/// The value of the current node: as a step of the path to it, if some subscription compares with it, and as `asked`.
#[inline(always)]
fn value_of<P: PathMatcher>(
    message: &mut MessageSink<'_, P, true>,
    necessary: &mut Necessary,
    value: &[u8],
    asked: Question,
) {
    let MessageSink { engine: Engine { constants, index, .. }, paths, .. } = message;
    let on_path = paths.wants_values();
    let string = constants.find(value);
    let on_numbers = on_path && constants.has_numbers();
    let x = if on_numbers | asked.number { number(value) } else { f64::NAN };
    necessary.value(asked, string, x);
    if on_path {
        if let Some(id) = string {
            paths.leaf(index, names::string_value(id));
        }
        if let Some(id) = constants.find_number(x) {
            paths.leaf(index, names::number_value(id));
        }
    }
}

impl<P: PathMatcher> Sink for UnitSink<'_, P> {
    #[inline(always)]
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.message.namespace(uri)
    }

    fn begin(&mut self, src: &[u8]) {
        self.light = self.is_bare && self.units.is_light();
        self.begin_message(src);
    }

    #[inline(always)]
    fn start(&mut self, tag: &Tag<'_>) {
        if self.inside > 0 {
            self.inside += 1;
        } else {
            self.outside(tag);
        }
        self.open(tag);
    }

    #[inline(always)]
    fn end(&mut self, src: &[u8], at: u32, past: u32) {
        self.close(src, at, past);
        if self.inside > 1 {
            self.inside -= 1;
        } else if self.inside == 1 {
            self.inside = 0;
            if (past - self.from) as usize >= WORTH * self.units.around.len() {
                self.turn(src, past);
            }
        } else {
            self.units.around.pop();
            self.free = self.free.min(self.units.around.len());
            if past - self.from > BETWEEN {
                self.turn(src, past);
            }
        }
    }

    #[inline(always)]
    fn text(&mut self, text: &Text<'_>) {
        if !self.light {
            return self.message.text(text);
        }
        let values = &mut self.units.values;
        if !values.open.is_empty() {
            let &Text { start, end, plain, cdata, .. } = text;
            values.texts.push(Run { start, end, plain, cdata });
        }
        self.needs |= self.message.paths.wants_leaves();
    }

    fn comment(&mut self, src: &[u8], start: u32, end: u32) {
        if self.light {
            self.other();
        } else {
            self.message.comment(src, start, end);
        }
    }

    fn instruction(&mut self, src: &[u8], start: u32, end: u32) {
        if self.light {
            self.other();
        } else {
            self.message.instruction(src, start, end);
        }
    }

    fn finish(&mut self, src: &[u8]) {
        self.collect(src, src.len() as u32);
    }
}
