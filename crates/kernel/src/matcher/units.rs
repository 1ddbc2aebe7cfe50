//! A large document as many small messages: each unit, with the tags of the elements around it, is matched as if it
//! were alone. So a value leads to the few subscriptions that ask for it in this unit, and not to a search through all.
//!
//! Where few units have all the names and values that some subscription needs, units are read lightly at first
//! ([`watch`](super::watch)), and closely, by reading them again, if they may match.

use super::watch::Watch;
use super::{Deliver, Matcher, MessageSink};
use crate::chunk::automaton::{Automaton, Keep, StateId};
use crate::engine::Engine;
use crate::paths::PathMatcher;
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
    watch: Watch,
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
            watch: Watch::default(),
        }
    }

    /// A document, or the next part of one, begins. Its outermost `free` elements, up to the first that ends, are no units.
    /// By number: is the subscription not looked for any more? (Then it will not be again.)
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
        self.again.error = None;
        self.seen.resize(message.engine.bound(), false);
        let can_watch = self.watch.prepare(message.engine, &self.seen);
        let limits = message.limits;
        // What a prolog says does not go with a unit that is read again.
        let is_bare = !matches!(xml, [b'<', b'?' | b'!', ..]) && xml.starts_with(b"<");
        let can_watch = can_watch && is_bare;
        let sink = &mut UnitSink { message, units: self, can_watch, light: false, inside: 0, from: 0, free };
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
        let read = self.drive(engine, xml, limits, Deliver::Matches.into(), &mut scratch, Some(units));
        // a query that fails on one unit may hold on another
        let failed = &mut self.table.failed;
        failed.retain(|one| read.is_ok() && !units.seen[one.number as usize]);
        failed.sort_unstable_by_key(|one| one.number);
        failed.dedup_by_key(|one| one.number);
        read?;
        units.found.sort_unstable();
        out.append(&mut units.found);
        Ok(())
    }
}

struct UnitSink<'a, P> {
    message: MessageSink<'a, P, true>,
    units: &'a mut Units,
    /// Units may be read lightly.
    can_watch: bool,
    /// The unit at hand is read lightly.
    light: bool,
    /// Open elements of the unit at hand.
    inside: u32,
    /// What has not been matched yet begins here.
    from: u32,
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
        self.light = self.can_watch && self.units.is_light();
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
        if self.light {
            self.units.watch.begin();
        } else {
            let MessageSink { engine, paths, .. } = &mut self.message;
            paths.begin(&engine.index);
            self.message.begin(src);
        }
    }

    fn collect(&mut self, src: &[u8], past: u32) {
        if self.light {
            let Units { watch, seen, close, .. } = &mut *self.units;
            let may = watch.may_hold(self.message.engine, seen);
            *close = *close - *close / 16 + 16 * u32::from(may);
            if !may {
                return;
            }
            self.read_again(src, past);
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
        let mut sink = MessageSink::<P, true> {
            engine,
            table,
            paths: &mut **paths,
            transforms: None,
            seen: None,
            text: None,
            limits,
            attributes,
            deliver,
            out,
        };
        if let Err(error) = again.reader.read(&again.xml, limits, &mut sink) {
            again.error.get_or_insert(error);
        }
    }

    #[inline(always)]
    fn open(&mut self, tag: &Tag<'_>) {
        if self.light {
            let Engine { index, constants, .. } = self.message.engine;
            self.units.watch.start(&index.names, constants, tag);
        } else {
            self.message.start(tag);
        }
    }

    #[inline(always)]
    fn close(&mut self, src: &[u8], at: u32, past: u32) {
        if self.light {
            self.units.watch.end(&self.message.engine.constants, src);
        } else {
            self.message.end(src, at, past);
        }
    }
}

impl<P: PathMatcher> Sink for UnitSink<'_, P> {
    #[inline(always)]
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.message.namespace(uri)
    }

    fn id_attribute(&mut self, element: &[u8], attribute: &[u8]) {
        self.message.id_attribute(element, attribute);
    }

    fn begin(&mut self, src: &[u8]) {
        self.light = self.can_watch && self.units.is_light();
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
        if self.light {
            self.units.watch.text(text);
        } else {
            self.message.text(text);
        }
    }

    fn comment(&mut self, src: &[u8], start: u32, end: u32) {
        if !self.light {
            self.message.comment(src, start, end);
        }
    }

    fn instruction(&mut self, src: &[u8], start: u32, end: u32) {
        if !self.light {
            self.message.instruction(src, start, end);
        }
    }

    fn finish(&mut self, src: &[u8]) {
        self.collect(src, src.len() as u32);
    }
}
