//! Documents whose DTD changes their content, written anew in plain form: entities expanded, attribute defaults in
//! place, values of token types normalised. The walk then reads that. What is wrong with the document is mostly found
//! by the walk too, and `Map` leads back to the place in the message; here only entities are judged. Markup that has
//! wrong syntax is copied as it is, and nothing after it: the walk is going to stop there.

use std::rc::Rc;

use super::chars::{at, skip_space};
use super::dtd::{Attributes, Dtd, Element};
use super::entities::{collapse, enter, escape_attribute, unparsed, Budget, General, Kind, Place};
use super::error::{code, fault, Fault, Result};
use super::limits::ADDRESSABLE;
use super::markup::{self, Reference};
use super::names;
use super::scan::Portable;

/// From offsets of the plain form to offsets of the document.
#[derive(Default)]
pub(super) struct Map {
    /// Where a stretch begins in the plain form and in the document, and whether it was copied byte for byte.
    stretches: Vec<(usize, usize, bool)>,
}

impl Map {
    fn original(&self, at: usize) -> usize {
        let next = self.stretches.partition_point(|stretch| stretch.0 <= at);
        match next.checked_sub(1).map(|i| self.stretches[i]) {
            Some((plain, document, true)) => document + (at - plain),
            Some((_, document, false)) => document,
            None => at,
        }
    }

    /// A fault of the walk over the plain form, as one of the document.
    pub fn back(&self, mut fault: Box<Fault>) -> Box<Fault> {
        fault.at = self.original(fault.at);
        fault.related = fault.related.map(|(words, at)| (words, self.original(at)));
        fault
    }

    fn copied(&mut self, plain: usize, document: usize) {
        if let Some(&(p, d, true)) = self.stretches.last() {
            if plain - p == document.wrapping_sub(d) {
                return;
            }
        }
        self.stretches.push((plain, document, true));
    }

    fn made(&mut self, plain: usize, document: usize) {
        if self
            .stretches
            .last()
            .is_none_or(|&(_, d, copied)| copied || d != document)
        {
            self.stretches.push((plain, document, false));
        }
    }
}

/// A text being read: the document (`entity` is none) or the replacement text of an entity.
struct Frame {
    text: Option<Rc<[u8]>>,
    pos: usize,
    id: usize,
    /// Elements opened in this text and not closed in it.
    depth: u32,
    place: Place,
}

pub(super) struct Rewriter<'a, 'b> {
    pub general: &'a mut General,
    pub attributes: &'a Attributes,
    pub budget: &'a mut Budget<'b>,
    pub out: &'a mut Vec<u8>,
    pub map: &'a mut Map,
    scratch: Vec<u8>,
    /// For each attribute that the DTD declares for the element at hand: the number of the last tag that had it.
    given: Vec<usize>,
    tags: usize,
}

/// What reading one piece of markup came to.
enum Step {
    Past(usize),
    /// Wrong syntax at or after this offset, up to which everything has been written.
    Stop(usize),
}

impl<'a, 'b> Rewriter<'a, 'b> {
    pub fn new(
        dtd: &'a mut Dtd,
        budget: &'a mut Budget<'b>,
        out: &'a mut Vec<u8>,
        map: &'a mut Map,
    ) -> Self {
        out.clear();
        let (general, attributes) = (&mut dtd.general, &dtd.attributes);
        Rewriter {
            general,
            attributes,
            budget,
            out,
            map,
            scratch: Vec::new(),
            given: Vec::new(),
            tags: 0,
        }
    }

    /// Copies a span of the document, such as a comment of the prolog.
    pub fn copy(&mut self, src: &[u8], start: usize, end: usize) {
        self.emit(&src[start..end], start, Place::Document(0));
    }

    /// Writes bytes that stand at `pos` of the text at hand.
    fn emit(&mut self, bytes: &[u8], pos: usize, place: Place) {
        match place {
            Place::Document(_) => self.map.copied(self.out.len(), pos),
            Place::Entity(at) => self.map.made(self.out.len(), at),
        }
        self.out.extend_from_slice(bytes);
    }

    /// Rewrites the document from `start`, the offset past its DOCTYPE. Answers false when it met wrong syntax, which
    /// the walk is to report. After a fault, the plain form ends with the last markup before it.
    pub fn run(&mut self, src: &[u8], start: usize) -> Result<bool> {
        let mut complete = self.out.len();
        let result = self.content(src, start, &mut complete);
        if result.is_err() {
            self.out.truncate(complete);
        }
        result
    }

    fn content(&mut self, src: &[u8], start: usize, complete: &mut usize) -> Result<bool> {
        let document = Frame {
            text: None,
            pos: start,
            id: 0,
            depth: 0,
            place: Place::Document(0),
        };
        let mut frames = vec![document];
        let mut depth = 0u64; // in all frames
        loop {
            let last = frames.len() - 1;
            let frame = &mut frames[last];
            let held = frame.text.clone();
            let text: &[u8] = held.as_deref().unwrap_or(src);
            let place = frame.place;
            let pos = self.text(text, frame.pos, place);
            *complete = self.out.len();
            let here = if place.is_document() {
                pos
            } else {
                place.of(0)
            };
            if pos >= text.len() {
                if last == 0 {
                    return Ok(true);
                }
                if frame.depth != 0 {
                    return Err(unbalanced(here));
                }
                let id = frame.id;
                frames.pop();
                self.general.table.get(id).open = false;
                continue;
            }
            let step = if text[pos] == b'&' {
                if depth == 0 {
                    Step::Stop(pos)
                } else {
                    match markup::reference(text, pos, self.budget.limits.max_name) {
                        Err(_) => Step::Stop(pos),
                        Ok((Reference::Char, past)) => {
                            self.emit(&text[pos..past], pos, place);
                            Step::Past(past)
                        }
                        Ok((Reference::Entity(from, to), past)) => {
                            frame.pos = past;
                            if let Some((id, text)) =
                                self.open(&text[from..to], here, frames.len())?
                            {
                                frames.push(Frame {
                                    text: Some(text),
                                    pos: 0,
                                    id,
                                    depth: 0,
                                    place: Place::Entity(here),
                                });
                            }
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
                                self.emit(&text[pos..=pos + length], pos, place);
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
                Step::Stop(from) => {
                    self.emit(&text[from..], from, place);
                    return Ok(false);
                }
            }
            if self.out.len() as u64 > ADDRESSABLE {
                return Err(fault(
                    code::LIMIT_EXPANSION,
                    here,
                    "the message expands to 4 GiB or more",
                ));
            }
        }
    }

    /// Opens an entity for a reference in content; nothing if it is skipped.
    fn open(
        &mut self,
        name: &[u8],
        here: usize,
        depth: usize,
    ) -> Result<Option<(usize, Rc<[u8]>)>> {
        let Some(id) = self.general.find(name, here)? else {
            return Ok(None);
        };
        let entity = self.general.table.get(id);
        match enter(entity, name, here)? {
            Some(text) => {
                self.budget.spend(text.len(), here)?;
                self.budget.check_depth(depth, here)?;
                Ok(Some((id, text)))
            }
            None if matches!(entity.kind, Kind::Unparsed) => Err(unparsed(name, here)),
            None => Ok(None),
        }
    }

    /// Writes character data up to the next `<` or `&`; answers where that is.
    fn text(&mut self, text: &[u8], start: usize, place: Place) -> usize {
        let end =
            memchr::memchr2(b'<', b'&', &text[start..]).map_or(text.len(), |length| start + length);
        let mut pos = start;
        // `]]>` of which an entity brought only a part is no CDATA end.
        for part in [&b"]>"[..], b">"] {
            if text[start..end].starts_with(part) && self.out.ends_with(&b"]]"[..3 - part.len()]) {
                self.emit(&part[..part.len() - 1], pos, place);
                self.emit(b"&gt;", pos, Place::Entity(place.of(pos)));
                pos += part.len();
            }
        }
        if !place.is_document() {
            // Line ends of the document have been normalised: a CR comes from a reference and is to stay.
            while let Some(length) = memchr::memchr(b'\r', &text[pos..end]) {
                self.emit(&text[pos..pos + length], pos, place);
                self.emit(b"&#13;", pos, place);
                pos += length + 1;
            }
        }
        if pos < end {
            self.emit(&text[pos..end], pos, place);
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
            escape_attribute(&whole[9..whole.len() - 3], &mut escaped);
            self.emit(&escaped, pos, place);
        } else {
            self.emit(whole, pos, place);
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
        self.emit(&text[start..name_end], start, place);
        let mut i = name_end;
        loop {
            let next = skip_space(text, i);
            let empty = at(text, next) == b'/';
            if at(text, next + usize::from(empty)) == b'>' {
                let past = next + usize::from(empty) + 1;
                if let Some(element) = element {
                    self.defaults(element, place.of(next))?;
                }
                self.emit(&text[i..past], i, place);
                return Ok((Step::Past(past), empty));
            }
            let end = names::qname_end(text, next);
            let equals = skip_space(text, end);
            let open = skip_space(text, equals + 1);
            let quote = at(text, open);
            let close = match quote {
                b'"' | b'\'' => {
                    memchr::memchr(quote, &text[open + 1..]).map(|length| open + 1 + length)
                }
                _ => None,
            };
            let (Some(close), true) = (close, next > i && end > next && at(text, equals) == b'=')
            else {
                return Ok((Step::Stop(i), false));
            };
            self.emit(&text[i..=open], i, place);
            let def =
                element.and_then(|element| element.find(&text[next..end]).map(|k| (element, k)));
            if let Some((element, k)) = def {
                if self.given.len() < element.attributes.len() {
                    self.given.resize(element.attributes.len(), 0);
                }
                self.given[k] = self.tags;
            }
            self.value(
                text,
                (open + 1, close),
                place,
                def.is_some_and(|(element, k)| element.attributes[k].tokens),
            )?;
            self.emit(&text[close..=close], close, place);
            i = close + 1;
        }
    }

    /// The value of an attribute.
    fn value(
        &mut self,
        text: &[u8],
        span: (usize, usize),
        place: Place,
        tokens: bool,
    ) -> Result<()> {
        let raw = &text[span.0..span.1];
        let simple = !raw
            .iter()
            .any(|c| matches!(c, b'&' | b'\t' | b'\n' | b'\r'));
        if simple && !tokens {
            self.emit(raw, span.0, place);
            return Ok(());
        }
        let place = match place {
            Place::Document(_) => Place::Document(span.0),
            inside => inside,
        };
        let mut value = std::mem::take(&mut self.scratch);
        value.clear();
        self.general
            .attribute(raw, place, self.budget, &mut value)?;
        if tokens {
            collapse(&mut value);
        }
        self.map.made(self.out.len(), place.of(0));
        escape_attribute(&value, self.out);
        self.scratch = value;
        Ok(())
    }

    /// The attributes that the tag at hand does not give and the DTD does.
    fn defaults(&mut self, element: &Element, here: usize) -> Result<()> {
        for (k, def) in element.attributes.iter().enumerate() {
            let Some(value) = &def.default else { continue };
            if self.given.get(k) != Some(&self.tags) {
                self.budget.spend(def.name.len() + value.len(), here)?;
                self.map.made(self.out.len(), here);
                self.out.push(b' ');
                self.out.extend_from_slice(&def.name);
                self.out.extend_from_slice(b"=\"");
                escape_attribute(value, self.out);
                self.out.push(b'"');
            }
        }
        Ok(())
    }
}

fn unbalanced(here: usize) -> Box<Fault> {
    fault(
        code::UNBALANCED_ENTITY,
        here,
        "the entity does not hold whole elements: its tags do not match each other",
    )
}
