//! Documents whose DTD changes their content, written anew in plain form: entities expanded, attribute defaults in
//! place, values of token types normalised. The walk then reads that. What is wrong with the document is mostly found
//! by the walk too, and `Map` leads back to the place in the message; here only entities are judged. Markup that has
//! wrong syntax is copied as it is, and nothing after it: the walk is going to stop there.

use std::rc::Rc;

use super::attlist::{Attributes, Element};
use super::chars::{at, skip_space};
use super::dtd::Dtd;
use super::entities::{collapse, enter, escape, unparsed, Budget, General, Kind, Place};
use super::error::{code, fault, Fault, Result};
use super::known::{run_end, Expansion, Known};
use super::limits::ADDRESSABLE;
use super::markup::{self, Reference};
use super::names;
use super::output::{Map, Output};
use super::scan::Portable;

/// A text being read: the document (which has no `text` here) or the replacement text of an entity.
struct Frame {
    text: Option<Rc<[u8]>>,
    pos: usize,
    id: usize,
    /// Elements opened in this text and not closed in it.
    depth: u32,
    place: Place,
    /// For the expansion of an entity: where it begins in the plain form, what had been spent before it, and how many
    /// entities are open inside each other in it.
    from: usize,
    spent: u64,
    levels: usize,
}

pub(super) struct Rewriter<'a, 'b> {
    general: &'a mut General,
    attributes: &'a Attributes,
    budget: &'a mut Budget<'b>,
    out: Output<'a>,
    /// By entity.
    expansions: Vec<Option<Expansion>>,
    known: Known,
    scratch: Vec<u8>,
    /// For each attribute that the DTD declares for the element at hand: the number of the last tag that had it.
    given: Vec<usize>,
    tags: usize,
    /// The document is read in parts, and this is not the last one.
    more: bool,
    /// How far the document has been read.
    read: usize,
}

/// What reading one piece of markup came to.
enum Step {
    Past(usize),
    /// Wrong syntax at or after this offset, up to which everything has been written.
    Stop(usize),
}

impl<'a, 'b> Rewriter<'a, 'b> {
    pub fn new(dtd: &'a mut Dtd, budget: &'a mut Budget<'b>, out: Output<'a>) -> Self {
        let (general, attributes) = (&mut dtd.general, &dtd.attributes);
        let expansions = vec![None; general.table.len()];
        let (known, scratch, given) = (Known::new(), Vec::new(), Vec::new());
        let (tags, more, read) = (0, false, 0);
        Rewriter { general, attributes, budget, out, expansions, known, scratch, given, tags, more, read }
    }

    /// As `run`, for a part of a document at a depth, before which nothing is left. Answers also how far it was read:
    /// to the end, or, if more follows, to markup that is not all there.
    pub fn run_part(mut self, src: &[u8], start: usize, depth: usize, more: bool) -> (Result<bool>, Map, usize) {
        self.more = more;
        let mut complete = self.out.len();
        let result = self.content(src, start, depth as u64, &mut complete);
        let cut_off = matches!(result, Ok(true)) && self.read < src.len();
        let length = if result.is_err() || cut_off { complete } else { self.out.len() };
        (result, self.out.finish(length), self.read)
    }

    /// Rewrites the document from `start`, the offset past its DOCTYPE. Answers false when it met wrong syntax, which
    /// the walk is to report. After a fault, the plain form ends with the last markup before it.
    pub fn run(mut self, src: &[u8], start: usize) -> (Result<bool>, Map) {
        let mut complete = self.out.len();
        let result = self.content(src, start, 0, &mut complete);
        let length = if result.is_err() { complete } else { self.out.len() };
        (result, self.out.finish(length))
    }

    fn content(&mut self, src: &[u8], start: usize, depth: u64, complete: &mut usize) -> Result<bool> {
        let document =
            Frame { text: None, pos: start, id: 0, depth: 0, place: Place::Document(0), from: 0, spent: 0, levels: 0 };
        let mut frames = vec![document];
        let mut depth = depth; // in all frames
        loop {
            let last = frames.len() - 1;
            let frame = &mut frames[last];
            let held = frame.text.clone();
            let text: &[u8] = held.as_deref().unwrap_or(src);
            let place = frame.place;
            let pos = self.text(text, frame.pos, place);
            let here = if place.is_document() { pos } else { place.of(0) };
            if self.out.len() as u64 > ADDRESSABLE {
                return Err(fault(code::LIMIT_EXPANSION, here, "the message expands to 4 GiB or more"));
            }
            *complete = self.out.len();
            if pos >= text.len() {
                if last == 0 {
                    self.read = pos;
                    return Ok(true);
                }
                if frame.depth != 0 {
                    return Err(unbalanced(here));
                }
                self.close(&mut frames);
                continue;
            }
            let spent = self.budget.spent;
            let step = if text[pos] == b'&' {
                if depth == 0 {
                    Step::Stop(pos)
                } else {
                    if last == 0 {
                        let past = self.references(src, pos);
                        if past > pos {
                            frame.pos = past;
                            continue;
                        }
                    }
                    match markup::reference(text, pos, self.budget.limits.max_name) {
                        Err(_) => Step::Stop(pos),
                        Ok((Reference::Char, past)) => {
                            self.out.put(&text[pos..past], pos, place);
                            Step::Past(past)
                        }
                        Ok((Reference::Entity(from, to), past)) => {
                            frame.pos = past;
                            self.open(&text[from..to], here, &mut frames)?;
                            continue;
                        }
                    }
                }
            } else {
                match at(text, pos + 1) {
                    b'!' | b'?' => self.other(text, pos, place),
                    b'/' => {
                        if frame.depth == 0 && last > 0 {
                            return Err(unbalanced(here));
                        }
                        frame.depth = frame.depth.saturating_sub(1);
                        depth = depth.saturating_sub(1);
                        match memchr::memchr(b'>', &text[pos..]) {
                            None => Step::Stop(pos),
                            Some(length) => {
                                self.out.put(&text[pos..=pos + length], pos, place);
                                Step::Past(pos + length + 1)
                            }
                        }
                    }
                    _ => {
                        let (step, empty) = self.tag(text, pos, place)?;
                        frame.depth += u32::from(!empty);
                        depth += u64::from(!empty);
                        step
                    }
                }
            };
            match step {
                Step::Past(past) => frame.pos = past,
                Step::Stop(_) if self.more && last == 0 && text[pos] == b'<' && !markup::is_whole(text, pos) => {
                    self.budget.spent = spent;
                    self.read = pos;
                    return Ok(true);
                }
                Step::Stop(from) => {
                    self.out.put(&text[from..], from, place);
                    return Ok(false);
                }
            }
        }
    }

    /// Writes references of the document to entities known how they expand, and the character data between them, from
    /// `start` on. Answers where it stopped: at a limit too, for the loop above is to report it.
    #[inline]
    fn references(&mut self, src: &[u8], start: usize) -> usize {
        let mut pos = start;
        while let Some((Expansion { part, cost, .. }, past)) = self.known.find(src, pos + 1) {
            if self.out.len() as u64 > ADDRESSABLE || !self.budget.afford(cost) {
                break;
            }
            self.out.repeat(part, pos);
            pos = past;
            // What begins like this may be written differently: see `text`.
            if matches!(at(src, pos), b']' | b'>' | b'\n') {
                break;
            }
            let end = run_end(src, pos);
            self.out.copy(pos, end);
            pos = end;
            if at(src, pos) != b'&' {
                break;
            }
        }
        pos
    }

    /// Opens an entity for a reference in content, unless it is skipped or known how it expands.
    fn open(&mut self, name: &[u8], here: usize, frames: &mut Vec<Frame>) -> Result<()> {
        let Some(id) = self.general.find(name, here)? else {
            return Ok(());
        };
        let depth = frames.len();
        if let Some(expansion) = self.expansions[id] {
            let Expansion { part, cost, levels } = expansion;
            self.budget.spend(cost, here)?;
            self.budget.check_depth(depth + levels, here)?;
            if depth == 1 {
                self.known.add(name, expansion);
            }
            self.out.repeat(part, here);
            if let Some(parent) = frames.last_mut() {
                parent.levels = parent.levels.max(levels + 1);
            }
            return Ok(());
        }
        let spent = self.budget.spent;
        let entity = self.general.table.get(id);
        match enter(entity, name, here)? {
            Some(text) => {
                self.budget.spend(text.len() as u64 + 1, here)?;
                self.budget.check_depth(depth, here)?;
                let (text, place) = (Some(text), Place::Entity(here));
                frames.push(Frame { text, pos: 0, id, depth: 0, place, from: self.out.len(), spent, levels: 0 });
                Ok(())
            }
            None if matches!(entity.kind, Kind::Unparsed) => Err(unparsed(name, here)),
            None => Ok(()),
        }
    }

    /// Closes the entity that has been read to its end.
    fn close(&mut self, frames: &mut Vec<Frame>) {
        let Some(Frame { text, id, from, spent, levels, .. }) = frames.pop() else {
            return;
        };
        self.general.table.get(id).open = false;
        if let Some(parent) = frames.last_mut() {
            parent.levels = parent.levels.max(levels + 1);
        }
        // What begins like this is written differently after `]` or CR: see `text`.
        let depends = |c: &u8| matches!(c, b']' | b'>' | b'\n' | b'&');
        if text.is_some_and(|text| !text.first().is_some_and(depends)) {
            let part = (from, self.out.len());
            self.expansions[id] = Some(Expansion { part, cost: self.budget.spent - spent, levels });
        }
    }

    /// Writes character data up to the next `<` or `&`; answers where that is.
    fn text(&mut self, text: &[u8], start: usize, place: Place) -> usize {
        let end = memchr::memchr2(b'<', b'&', &text[start..]).map_or(text.len(), |length| start + length);
        let mut pos = start;
        // `]]>` of which an entity brought only a part is no CDATA end.
        for part in [&b"]>"[..], b">"] {
            if text[start..end].starts_with(part) && self.out.ends_with(&b"]]"[..3 - part.len()]) {
                self.out.put(&part[..part.len() - 1], pos, place);
                self.out.make(b"&gt;", place.of(pos));
                pos += part.len();
            }
        }
        // Nor are CR and LF one line end when a reference stands between them.
        if text[start..end].starts_with(b"\n") && self.out.ends_with(b"\r") {
            self.out.make(b"&#10;", place.of(pos));
            pos += 1;
        }
        if !place.is_document() {
            // Line ends of the document have been normalised: a CR comes from a reference and is to stay.
            while let Some(length) = memchr::memchr(b'\r', &text[pos..end]) {
                self.out.put(&text[pos..pos + length], pos, place);
                self.out.put(b"&#13;", pos, place);
                pos += length + 1;
            }
        }
        if pos < end {
            self.out.put(&text[pos..end], pos, place);
        }
        end
    }

    /// A comment, processing instruction or CDATA section.
    fn other(&mut self, text: &[u8], pos: usize, place: Place) -> Step {
        let rest = &text[pos..];
        let past = if rest.starts_with(b"<!--") {
            markup::comment::<Portable>(text, pos).ok()
        } else if rest.starts_with(b"<?") {
            markup::instruction::<Portable>(text, pos, self.budget.limits.max_name).ok()
        } else if rest.starts_with(b"<![CDATA[") {
            memchr::memmem::find(rest, b"]]>").map(|length| pos + length + 3)
        } else {
            None
        };
        let Some(past) = past else {
            return Step::Stop(pos);
        };
        let whole = &text[pos..past];
        if !place.is_document() && whole.starts_with(b"<![CDATA[") && whole.contains(&b'\r') {
            // A CR from a reference (see `text`) cannot be written in a CDATA section.
            let mut escaped = Vec::new();
            escape(&whole[9..whole.len() - 3], &mut escaped);
            self.out.put(&escaped, pos, place);
        } else {
            self.out.put(whole, pos, place);
        }
        Step::Past(past)
    }

    /// A start tag; answers where it ends and whether it is an empty-element tag.
    fn tag(&mut self, text: &[u8], start: usize, place: Place) -> Result<(Step, bool)> {
        let name_end = names::qname_end(text, start + 1);
        if name_end == start + 1 {
            return Ok((Step::Stop(start), false));
        }
        let attributes = self.attributes;
        let element = attributes.element(&text[start + 1..name_end]);
        self.tags += 1;
        self.out.put(&text[start..name_end], start, place);
        let mut i = name_end;
        loop {
            let next = skip_space(text, i);
            let empty = at(text, next) == b'/';
            if at(text, next + usize::from(empty)) == b'>' {
                let past = next + usize::from(empty) + 1;
                if let Some(element) = element {
                    self.defaults(element, place.of(next))?;
                }
                self.out.put(&text[i..past], i, place);
                return Ok((Step::Past(past), empty));
            }
            let end = names::qname_end(text, next);
            let equals = skip_space(text, end);
            let open = skip_space(text, equals + 1);
            let quote = at(text, open);
            let close = match quote {
                b'"' | b'\'' => memchr::memchr(quote, &text[open + 1..]).map(|length| open + 1 + length),
                _ => None,
            };
            let (Some(close), true) = (close, next > i && end > next && at(text, equals) == b'=') else {
                return Ok((Step::Stop(i), false));
            };
            self.out.put(&text[i..=open], i, place);
            let def = element.and_then(|element| Some((element, element.names.find(&text[next..end])?)));
            if let Some((element, k)) = def {
                if self.given.len() < element.attributes.len() {
                    self.given.resize(element.attributes.len(), 0);
                }
                self.given[k] = self.tags;
            }
            self.value(text, (open + 1, close), place, def.is_some_and(|(element, k)| element.attributes[k].tokens))?;
            self.out.put(&text[close..=close], close, place);
            i = close + 1;
        }
    }

    /// The value of an attribute.
    fn value(&mut self, text: &[u8], span: (usize, usize), place: Place, tokens: bool) -> Result<()> {
        let raw = &text[span.0..span.1];
        let simple = !raw.iter().any(|c| matches!(c, b'&' | b'\t' | b'\n' | b'\r'));
        let spaced = || raw.starts_with(b" ") || raw.ends_with(b" ") || raw.windows(2).any(|pair| pair == b"  ");
        if simple && !(tokens && spaced()) {
            self.out.put(raw, span.0, place);
            return Ok(());
        }
        let place = match place {
            Place::Document(_) => Place::Document(span.0),
            inside => inside,
        };
        let mut value = std::mem::take(&mut self.scratch);
        value.clear();
        self.general.attribute(raw, place, self.budget, &mut value)?;
        if tokens {
            collapse(&mut value);
        }
        escape(&value, self.out.made(place.of(0)));
        self.scratch = value;
        Ok(())
    }

    /// The attributes that the tag at hand does not give and the DTD does.
    fn defaults(&mut self, element: &Element, here: usize) -> Result<()> {
        for &k in &element.defaults {
            let Some(value) = &element.attributes[k].default else {
                continue;
            };
            if self.given.get(k) == Some(&self.tags) {
                continue;
            }
            let name = element.names.name(k);
            self.budget.spend((name.len() + value.len()) as u64, here)?;
            let out = self.out.made(here);
            out.push(b' ');
            out.extend_from_slice(name);
            out.extend_from_slice(b"=\"");
            escape(value, out);
            out.push(b'"');
        }
        Ok(())
    }
}

fn unbalanced(here: usize) -> Box<Fault> {
    fault(code::UNBALANCED_ENTITY, here, "the entity does not hold whole elements: its tags do not match each other")
}
