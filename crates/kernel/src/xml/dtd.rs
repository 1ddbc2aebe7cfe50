//! The internal subset of a DOCTYPE (XML 1.0 §2.8, §3.2 to §4.2). Everything is checked; what is kept is what
//! changes the content of a document: entities, attribute defaults and attribute types.

use std::rc::Rc;

use super::attlist::Attributes;
use super::chars::{at, skip_space};
use super::decode::{char_number, predefined};
use super::entities::{enter, Budget, General, Kind, Place, Table};
use super::error::{code, fault, show_char, Fault, Result};
use super::markup;
use super::models;
use super::names;
use super::scan::Portable;

/// What an internal subset declares.
#[derive(Default)]
pub(super) struct Dtd {
    pub general: General,
    pub attributes: Attributes,
    parameter: Table,
}

impl Dtd {
    /// Can the document be read as it is?
    pub fn changes_nothing(&self) -> bool {
        self.general.table.is_empty() && !self.attributes.matter
    }
}

pub(super) fn bad(at: usize, message: impl Into<String>) -> Box<Fault> {
    fault(code::BAD_DOCTYPE, at, message)
}

/// Reads `S? '>'`.
pub(super) fn close(text: &[u8], i: usize, what: &str) -> Result<usize> {
    let end = skip_space(text, i);
    if at(text, end) == b'>' {
        return Ok(end + 1);
    }
    Err(bad(end, format!("{} in {what}", show_char(text, end))))
}

/// Reads white space and then a name with at most one colon (or, unless `colon`, with none).
pub(super) fn name(text: &[u8], i: usize, colon: bool, max_name: u32) -> Result<(usize, usize)> {
    let start = markup::spaced(text, i, code::BAD_DOCTYPE)?;
    name_at(text, start, colon, max_name)
}

pub(super) fn name_at(text: &[u8], start: usize, colon: bool, max_name: u32) -> Result<(usize, usize)> {
    let end = if colon { names::qname_end(text, start) } else { names::ncname_end(text, start) };
    if end == start || at(text, end) == b':' {
        return Err(fault(code::BAD_NAME, end, format!("{} is wrong in a name", show_char(text, end))));
    }
    markup::check_length(start, end, max_name)?;
    Ok((start, end))
}

/// A text being read: the document, or the replacement text of a parameter entity.
struct Frame {
    text: Rc<[u8]>,
    pos: usize,
    id: usize,
}

pub(super) struct Subset<'a, 'b> {
    pub dtd: Dtd,
    pub budget: &'a mut Budget<'b>,
    /// False after a reference to a parameter entity that is not read: it might have declared things before.
    pub processing: bool,
    pub max_name: u32,
}

/// Reads the internal subset of `src` from `start`, the offset past `[`. Answers what it declares and the offset past
/// the `>` of the DOCTYPE.
pub(super) fn read(
    src: &[u8],
    start: usize,
    external: bool,
    standalone: bool,
    budget: &mut Budget<'_>,
) -> Result<(Dtd, usize)> {
    let max_name = budget.limits.max_name;
    let general = General { standalone, unread: external, ..General::default() };
    let dtd = Dtd { general, ..Dtd::default() };
    let mut subset = Subset { dtd, budget, processing: true, max_name };
    let mut frames: Vec<Frame> = Vec::new();
    let mut outermost = start;
    let mut pos = start;
    loop {
        let frame = frames.last().map(|frame| (frame.text.clone(), frame.pos));
        let (text, from): (&[u8], usize) = match &frame {
            Some((text, from)) => (text, *from),
            None => (src, pos),
        };
        let i = skip_space(text, from);
        let past = match (at(text, i), &frame) {
            (b']', None) => {
                let past = close(src, i + 1, "a document type declaration")?;
                return Ok((subset.dtd, past));
            }
            (b'%', _) => {
                let here = if frame.is_some() { outermost } else { i };
                let (entity, past) = subset.parameter_reference(text, i, &frames, here)?;
                match frames.last_mut() {
                    Some(top) => top.pos = past,
                    None => {
                        pos = past;
                        outermost = i;
                    }
                }
                if let Some(entity) = entity {
                    frames.push(entity);
                }
                continue;
            }
            (_, Some(_)) if i >= text.len() => {
                if let Some(done) = frames.pop() {
                    subset.dtd.parameter.get(done.id).open = false;
                }
                continue;
            }
            (_, None) if i >= text.len() => Err(bad(i, "the internal subset is not closed")),
            (_, None) => subset.declaration(text, i, Place::Document(0)),
            (_, Some(_)) => subset.declaration(text, i, Place::Entity(outermost)),
        };
        let past = past.map_err(|mut fault| {
            if frame.is_some() {
                fault.at = outermost;
                fault.related = None;
                fault.message.push_str(" (inside a parameter entity)");
            }
            fault
        })?;
        match frames.last_mut() {
            Some(top) => top.pos = past,
            None => pos = past,
        }
    }
}

impl Subset<'_, '_> {
    /// Reads a reference between declarations. Answers its text, if that is to be read, and the offset past it.
    fn parameter_reference(
        &mut self,
        text: &[u8],
        i: usize,
        frames: &[Frame],
        here: usize,
    ) -> Result<(Option<Frame>, usize)> {
        let (start, end) = name_at(text, i + 1, false, self.max_name).map_err(|mut fault| {
            fault.at = here;
            fault
        })?;
        if at(text, end) != b';' {
            return Err(fault(code::BAD_REFERENCE, here, "the parameter-entity reference does not end with ;"));
        }
        let name = &text[start..end];
        self.dtd.general.unread = true;
        let Some(id) = self.dtd.parameter.find(name) else {
            if self.dtd.general.standalone && frames.is_empty() {
                return markup::undeclared(name, here);
            }
            self.processing = self.dtd.general.standalone;
            return Ok((None, end + 1));
        };
        let entity = self.dtd.parameter.get(id);
        match enter(entity, name, here)? {
            Some(text) => {
                self.budget.spend(text.len() as u64 + 1, here)?;
                self.budget.check_depth(frames.len() + 1, here)?;
                Ok((Some(Frame { text, pos: 0, id }), end + 1))
            }
            None => {
                self.processing = self.dtd.general.standalone;
                Ok((None, end + 1))
            }
        }
    }

    /// Reads one declaration, comment or processing instruction; answers the offset past it.
    fn declaration(&mut self, text: &[u8], i: usize, place: Place) -> Result<usize> {
        let rest = &text[i..];
        if rest.starts_with(b"<!--") {
            markup::comment::<Portable>(text, i)
        } else if rest.starts_with(b"<?") {
            markup::instruction::<Portable>(text, i, self.max_name)
        } else if rest.starts_with(b"<!ELEMENT") {
            let (_, end) = name(text, i + 9, true, self.max_name)?;
            models::content(text, markup::spaced(text, end, code::BAD_DOCTYPE)?, self.max_name)
        } else if rest.starts_with(b"<!ATTLIST") {
            self.attributes(text, i + 9, place)
        } else if rest.starts_with(b"<!ENTITY") {
            self.entity(text, i + 8, place)
        } else if rest.starts_with(b"<!NOTATION") {
            self.notation(text, i + 10)
        } else if rest.starts_with(b"<![") {
            Err(bad(i, "a conditional section in the internal subset"))
        } else {
            Err(bad(i, format!("{} begins no declaration", show_char(text, i))))
        }
    }

    fn notation(&mut self, text: &[u8], i: usize) -> Result<usize> {
        let (_, end) = name(text, i, false, self.max_name)?;
        let start = markup::spaced(text, end, code::BAD_DOCTYPE)?;
        if !text[start..].starts_with(b"PUBLIC") {
            return match markup::external_id(text, start, code::BAD_DOCTYPE)? {
                Some(past) => close(text, past, "a notation declaration"),
                None => Err(bad(start, "a notation needs SYSTEM or PUBLIC")),
            };
        }
        let public = markup::spaced(text, start + 6, code::BAD_DOCTYPE)?;
        let past = markup::public_literal(text, public, code::BAD_DOCTYPE)?;
        let system = skip_space(text, past);
        if system > past && matches!(at(text, system), b'"' | b'\'') {
            let past = markup::literal(text, system, code::BAD_DOCTYPE)?;
            return close(text, past, "a notation declaration");
        }
        close(text, past, "a notation declaration")
    }

    fn entity(&mut self, text: &[u8], i: usize, place: Place) -> Result<usize> {
        let mut start = markup::spaced(text, i, code::BAD_DOCTYPE)?;
        let parameter = at(text, start) == b'%';
        if parameter {
            start = markup::spaced(text, start + 1, code::BAD_DOCTYPE)?;
        }
        let (start, end) = name_at(text, start, false, self.max_name)?;
        let value = markup::spaced(text, end, code::BAD_DOCTYPE)?;
        let (kind, past) = if let Some(past) = markup::external_id(text, value, code::BAD_DOCTYPE)? {
            let word = skip_space(text, past);
            if !parameter && word > past && text[word..].starts_with(b"NDATA") {
                let (_, past) = name(text, word + 5, false, self.max_name)?;
                (Kind::Unparsed, past)
            } else {
                (Kind::External, past)
            }
        } else {
            let past = markup::literal(text, value, code::BAD_DOCTYPE)?;
            (self.value(&text[value + 1..past - 1], value + 1, place)?, past)
        };
        let past = close(text, past, "an entity declaration")?;
        let name = &text[start..end];
        if self.processing {
            let inside = !place.is_document();
            if parameter {
                self.dtd.parameter.declare(name, kind, inside);
            } else if predefined(name).is_none() {
                self.dtd.general.table.declare(name, kind, inside);
            }
        }
        Ok(past)
    }

    /// The replacement text of an entity value: character references and (inside parameter entities, where they
    /// are allowed) parameter-entity references replaced, references to general entities left.
    fn value(&mut self, raw: &[u8], offset: usize, place: Place) -> Result<Kind> {
        let mut frames: Vec<Frame> = Vec::new();
        let value = self.value_in(raw, offset, place, &mut frames);
        for frame in frames {
            self.dtd.parameter.get(frame.id).open = false;
        }
        value
    }

    fn value_in(&mut self, raw: &[u8], offset: usize, place: Place, frames: &mut Vec<Frame>) -> Result<Kind> {
        let mut out = Vec::with_capacity(raw.len());
        let mut known = true;
        let mut i = 0;
        loop {
            let frame = frames.last().map(|frame| (frame.text.clone(), frame.pos));
            let (text, pos): (&[u8], usize) = match &frame {
                Some((text, pos)) => (text, *pos),
                None => (raw, i),
            };
            let here = if frame.is_some() { offset } else { offset + pos };
            let mut past = pos + 1;
            let mut inner = None;
            match at(text, pos) {
                _ if pos >= text.len() => match frames.pop() {
                    Some(done) => {
                        self.dtd.parameter.get(done.id).open = false;
                        continue;
                    }
                    None => break,
                },
                b'&' if at(text, pos + 1) == b'#' => {
                    let moved = |mut fault: Box<Fault>| {
                        fault.at = here;
                        fault
                    };
                    past = markup::char_reference(text, pos).map_err(moved)?;
                    let number = char_number(&text[pos + 2..past - 1]);
                    if let Some(c) = number.and_then(char::from_u32) {
                        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                }
                b'&' => {
                    let end = names::ncname_end(text, pos + 1);
                    if end == pos + 1 || at(text, end) != b';' {
                        return Err(fault(code::BAD_REFERENCE, here, "& that begins no reference in an entity value"));
                    }
                    past = end + 1;
                    out.extend_from_slice(&text[pos..past]);
                }
                b'%' => {
                    if place.is_document() {
                        return Err(bad(
                            here,
                            "% inside a declaration of the internal subset; write &#37; for a plain %",
                        ));
                    }
                    let (entity, end) = self.parameter_reference(text, pos, frames, here)?;
                    known &= entity.is_some();
                    inner = entity;
                    past = end;
                }
                b'\r' if place.is_document() => {
                    out.push(b'\n');
                    past += usize::from(at(text, pos + 1) == b'\n');
                }
                c => out.push(c),
            }
            match frames.last_mut() {
                Some(top) => top.pos = past,
                None => i = past,
            }
            frames.extend(inner);
        }
        // A value with a part that is not read cannot be told: it is skipped like an external entity.
        Ok(if known { Kind::Internal(out.into()) } else { Kind::External })
    }
}
