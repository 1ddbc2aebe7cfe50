//! Entities: what they stand for, and what expanding them may cost.

use std::rc::Rc;

use super::chars::at;
use super::decode::decode_text;
use super::error::{code, fault, show, Result};
use super::limits::{Limits, ADDRESSABLE, AMPLIFICATION_FLOOR};
use super::markup::{self, Reference};
use super::names::Numbered;

pub(super) enum Kind {
    /// Its replacement text.
    Internal(Rc<[u8]>),
    /// Never read.
    External,
    /// Declared with NDATA.
    Unparsed,
}

pub(super) struct Entity {
    pub kind: Kind,
    /// Declared inside a parameter entity.
    pub in_parameter: bool,
    /// Being expanded right now.
    pub open: bool,
}

/// The entities of one kind (general or parameter); the first declaration of a name is the one that counts.
#[derive(Default)]
pub(super) struct Table {
    names: Numbered,
    entities: Vec<Entity>,
}

impl Table {
    pub fn declare(&mut self, name: &[u8], kind: Kind, in_parameter: bool) {
        if self.names.add(name).1 {
            self.entities.push(Entity { kind, in_parameter, open: false });
        }
    }
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.names.find(name)
    }
    pub fn len(&self) -> usize {
        self.entities.len()
    }
    pub fn get(&mut self, id: usize) -> &mut Entity {
        &mut self.entities[id]
    }
    pub fn is_empty(&self) -> bool {
        self.entities.is_empty()
    }
}

/// Marks an entity open, unless it is: then it refers to itself. Answers its text.
pub(super) fn enter(entity: &mut Entity, name: &[u8], at: usize) -> Result<Option<Rc<[u8]>>> {
    if entity.open {
        return Err(fault(code::RECURSIVE_ENTITY, at, format!("entity {} refers to itself", show(name))));
    }
    match &entity.kind {
        Kind::Internal(text) => {
            entity.open = true;
            Ok(Some(text.clone()))
        }
        _ => Ok(None),
    }
}

/// What entities and defaults have cost so far.
pub(super) struct Budget<'a> {
    pub limits: &'a Limits,
    /// The most that may be spent.
    most: u64,
    pub spent: u64,
}

impl<'a> Budget<'a> {
    pub fn new(limits: &'a Limits, message: usize) -> Self {
        let times = (message as u64).saturating_mul(limits.max_amplification.into());
        let most = limits.max_expansion.min(ADDRESSABLE).min(times.max(AMPLIFICATION_FLOOR));
        Budget { limits, most, spent: 0 }
    }

    /// For a document read in parts, of which this much has been read and spent: what may be spent grows by
    /// `max_expansion` with each `max_bytes`, so that a large document may hold as many references as its parts could.
    pub fn resumed(limits: &'a Limits, read: u64, spent: u64) -> Self {
        let times = read.saturating_mul(limits.max_amplification.into()).max(AMPLIFICATION_FLOOR);
        let most = limits.max_expansion.saturating_mul(1 + read / limits.max_bytes.max(1)).min(times);
        Budget { limits, most, spent }
    }

    /// Accounts for so many bytes of replacement text or of a default.
    pub fn spend(&mut self, bytes: u64, at: usize) -> Result<()> {
        if self.afford(bytes) {
            return Ok(());
        }
        self.spent = self.spent.saturating_add(bytes);
        let Limits { max_expansion, max_amplification, .. } = *self.limits;
        let message = if self.spent > max_expansion.min(ADDRESSABLE) {
            format!("entities and defaults expand to more than {} bytes", max_expansion.min(ADDRESSABLE))
        } else {
            format!("entities and defaults expand to more than {max_amplification} times the message")
        };
        Err(fault(code::LIMIT_EXPANSION, at, message))
    }

    /// Accounts for them if no limit is crossed.
    #[inline]
    pub fn afford(&mut self, bytes: u64) -> bool {
        let spent = self.spent.saturating_add(bytes);
        if spent <= self.most {
            self.spent = spent;
        }
        spent <= self.most
    }

    pub fn check_depth(&self, depth: usize, at: usize) -> Result<()> {
        if depth > self.limits.max_entity_depth as usize {
            let message = format!("entities nested deeper than {}", self.limits.max_entity_depth);
            return Err(fault(code::LIMIT_ENTITY_DEPTH, at, message));
        }
        Ok(())
    }
}

/// The general entities, with what decides whether one that is not declared may be skipped.
#[derive(Default)]
pub(super) struct General {
    pub table: Table,
    pub standalone: bool,
    /// There is an external subset or a reference to a parameter entity.
    pub unread: bool,
}

impl General {
    /// Looks an entity up for a reference at `at` (WFC: Entity Declared); nothing if it may be skipped.
    pub fn find(&self, name: &[u8], at: usize) -> Result<Option<usize>> {
        let found = self.table.find(name);
        let strict = self.standalone || !self.unread;
        match found {
            None if strict => markup::undeclared(name, at),
            Some(id) if strict && self.table.entities[id].in_parameter => {
                let message = format!("entity {} is declared in a parameter entity only", show(name));
                Err(fault(code::UNDECLARED_ENTITY, at, message))
            }
            _ => Ok(found),
        }
    }

    /// Expands and normalises an attribute value (XML 1.0 §3.3.3) as far as it is done for every type. `place` is
    /// where faults are reported: the offset of `raw` itself when it is part of the document (`Some`), else where
    /// the reference stands that it came from.
    pub fn attribute(&mut self, raw: &[u8], place: Place, budget: &mut Budget<'_>, out: &mut Vec<u8>) -> Result<()> {
        let mut stack: Vec<(Rc<[u8]>, usize, usize)> = Vec::new();
        let result = self.attribute_in(raw, place, budget, out, &mut stack);
        for (_, _, id) in stack {
            self.table.get(id).open = false;
        }
        result
    }

    fn attribute_in(
        &mut self,
        raw: &[u8],
        place: Place,
        budget: &mut Budget<'_>,
        out: &mut Vec<u8>,
        stack: &mut Vec<(Rc<[u8]>, usize, usize)>,
    ) -> Result<()> {
        let max_name = budget.limits.max_name;
        let mut i = 0; // in `raw`
        let mut outermost = place.of(0); // place of the reference in `raw` that is being expanded
        loop {
            let entity = stack.last().map(|top| (top.0.clone(), top.1));
            let (text, pos): (&[u8], usize) = match &entity {
                Some((text, pos)) => (text, *pos),
                None => (raw, i),
            };
            let here = if entity.is_some() { outermost } else { place.of(pos) };
            if pos >= text.len() {
                match stack.pop() {
                    Some((_, _, id)) => self.table.get(id).open = false,
                    None => return Ok(()),
                }
                continue;
            }
            let stop = |c: &u8| matches!(c, b'&' | b'<' | b'\t' | b'\n' | b'\r');
            let run = text[pos..].iter().position(stop).unwrap_or(text.len() - pos);
            out.extend_from_slice(&text[pos..pos + run]);
            let pos = pos + run;
            let here = if entity.is_some() { here } else { place.of(pos) };
            let mut past = pos + 1;
            let mut enter_id = None;
            match at(text, pos) {
                _ if pos >= text.len() => past = pos,
                b'&' => {
                    let (what, end) = markup::reference(text, pos, max_name).map_err(|mut fault| {
                        fault.at = here;
                        fault
                    })?;
                    past = end;
                    match what {
                        Reference::Char => decode_text(&text[pos..end], out),
                        Reference::Entity(from, to) => {
                            enter_id = self.find(&text[from..to], here)?.map(|id| (id, from, to))
                        }
                    }
                }
                b'<' => return Err(fault(code::LT_IN_ATTRIBUTE, here, "< in an attribute value; write &lt;")),
                b'\r' if entity.is_none() && place.is_document() && at(text, pos + 1) == b'\n' => {
                    out.push(b' ');
                    past = pos + 2;
                }
                _ => out.push(b' '),
            }
            match stack.last_mut() {
                Some(top) => top.1 = past,
                None => i = past,
            }
            if let Some((id, from, to)) = enter_id {
                if stack.is_empty() {
                    outermost = here;
                }
                let name = &text[from..to];
                let entity = self.table.get(id);
                match enter(entity, name, here)? {
                    Some(text) => {
                        stack.push((text.clone(), 0, id));
                        budget.spend(text.len() as u64 + 1, here)?;
                        budget.check_depth(stack.len(), here)?;
                    }
                    None if matches!(entity.kind, Kind::Unparsed) => return Err(unparsed(name, here)),
                    None => {
                        let message = format!("external entity {} in an attribute value", show(name));
                        return Err(fault(code::EXTERNAL_ENTITY_IN_ATTRIBUTE, here, message));
                    }
                }
            }
        }
    }
}

pub(super) fn unparsed(name: &[u8], at: usize) -> Box<super::error::Fault> {
    fault(code::UNPARSED_ENTITY, at, format!("a reference to the unparsed entity {}", show(name)))
}

/// Where a piece of text comes from, for the offsets of faults.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// It is the document from this offset on.
    Document(usize),
    /// It came out of an entity, whose outermost reference is at this offset.
    Entity(usize),
}

impl Place {
    pub fn of(self, i: usize) -> usize {
        match self {
            Place::Document(start) => start + i,
            Place::Entity(at) => at,
        }
    }
    pub fn is_document(self) -> bool {
        matches!(self, Place::Document(_))
    }
}

/// Drops leading and trailing spaces and all but one of each run: values of any type but CDATA.
pub(super) fn collapse(value: &mut Vec<u8>) {
    let mut kept = 0;
    for i in 0..value.len() {
        let space = value[i] == b' ';
        if !space || (kept > 0 && value[kept - 1] != b' ') {
            value[kept] = value[i];
            kept += 1;
        }
    }
    if kept > 0 && value[kept - 1] == b' ' {
        kept -= 1;
    }
    value.truncate(kept);
}

/// Writes text so that reading it, in an attribute value or elsewhere, gives `value` again.
pub(super) fn escape(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    let special = |c: &u8| matches!(c, b'&' | b'<' | b'>' | b'"' | b'\'' | b'\t' | b'\n' | b'\r');
    while let Some(i) = rest.iter().position(special) {
        out.extend_from_slice(&rest[..i]);
        let reference = match rest[i] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&#34;",
            b'\'' => "&#39;",
            b'\t' => "&#9;",
            b'\n' => "&#10;",
            _ => "&#13;",
        };
        out.extend_from_slice(reference.as_bytes());
        rest = &rest[i + 1..];
    }
    out.extend_from_slice(rest);
}
