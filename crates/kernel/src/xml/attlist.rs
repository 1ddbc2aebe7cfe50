//! Attribute-list declarations (XML 1.0 §3.3): which attributes have a default, and which are lists of tokens.

use super::chars::{at, is_space, skip_space};
use super::dtd::{bad, name, Subset};
use super::entities::{collapse, Place};
use super::error::{code, fault, show_char, Result};
use super::markup;
use super::models;
use super::names::Numbered;

/// One attribute of an element type.
pub(super) struct AttributeDef {
    /// Of a type other than CDATA: its value is a list of tokens.
    pub tokens: bool,
    /// Of type ID.
    pub id: bool,
    pub default: Option<Vec<u8>>,
}

#[derive(Default)]
pub(super) struct Attributes {
    names: Numbered,
    elements: Vec<Element>,
    /// Some attribute has a default or a type other than CDATA.
    pub matter: bool,
}

/// The attributes of an element type.
#[derive(Default)]
pub(super) struct Element {
    pub names: Numbered,
    pub attributes: Vec<AttributeDef>,
    /// Those of them that have a default: a tag must not cost what the others are worth.
    pub defaults: Vec<usize>,
}

impl Attributes {
    pub fn element(&self, name: &[u8]) -> Option<&Element> {
        if !self.matter {
            return None;
        }
        self.names.find(name).map(|number| &self.elements[number])
    }

    /// The attributes of type ID: the names of the element and of the attribute, as the DTD writes them.
    pub fn ids(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.elements.iter().enumerate().flat_map(move |(number, element)| {
            let ids = element.attributes.iter().enumerate().filter(|(_, def)| def.id);
            ids.map(move |(attribute, _)| (self.names.name(number), element.names.name(attribute)))
        })
    }

    fn define(&mut self, element: &[u8], name: &[u8], def: AttributeDef) {
        self.matter |= def.tokens || def.default.is_some();
        let (number, new) = self.names.add(element);
        if new {
            self.elements.push(Element::default());
        }
        let element = &mut self.elements[number];
        if element.names.add(name).1 {
            if def.default.is_some() {
                element.defaults.push(element.attributes.len());
            }
            element.attributes.push(def);
        }
    }
}

impl Subset<'_, '_> {
    /// Reads an attribute-list declaration from `i`, the offset past its keyword; answers the offset past it.
    pub(super) fn attributes(&mut self, text: &[u8], i: usize, place: Place) -> Result<usize> {
        let (element, mut i) = name(text, i, true, self.max_name)?;
        let element = element..i;
        loop {
            let start = skip_space(text, i);
            if at(text, start) == b'>' {
                return Ok(start + 1);
            }
            let (start, end) = name(text, i, true, self.max_name)?;
            let kind = markup::spaced(text, end, code::BAD_DOCTYPE)?;
            let (tokens, end_of_type) = models::attribute_type(text, kind, self.max_name)?;
            let default = markup::spaced(text, end_of_type, code::BAD_DOCTYPE)?;
            let (value, past) = self.default(text, default, tokens, place)?;
            i = past;
            if self.processing {
                let def = AttributeDef { tokens, id: &text[kind..end_of_type] == b"ID", default: value };
                self.dtd.attributes.define(&text[element.clone()], &text[start..end], def);
            }
        }
    }

    /// Reads the default of an attribute at `i`; answers the value, if there is one, and the offset past it.
    fn default(&mut self, text: &[u8], mut i: usize, tokens: bool, place: Place) -> Result<(Option<Vec<u8>>, usize)> {
        let rest = &text[i..];
        if rest.starts_with(b"#REQUIRED") || rest.starts_with(b"#IMPLIED") {
            let past = i + if rest.starts_with(b"#REQUIRED") { 9 } else { 8 };
            return self.separated(text, past).map(|past| (None, past));
        }
        if rest.starts_with(b"#FIXED") {
            i = markup::spaced(text, i + 6, code::BAD_DOCTYPE)?;
        }
        let past = markup::literal(text, i, code::BAD_DOCTYPE)?;
        let raw = &text[i + 1..past - 1];
        let place = match place {
            Place::Document(_) => Place::Document(i + 1),
            inside => inside,
        };
        let mut value = Vec::new();
        if self.processing {
            self.dtd.general.attribute(raw, place, self.budget, &mut value)?;
            if tokens {
                collapse(&mut value);
            }
        } else {
            check_default(raw, place, self.max_name)?;
        }
        self.separated(text, past).map(|past| (Some(value), past))
    }

    /// After a default comes white space or the end of the declaration.
    fn separated(&self, text: &[u8], i: usize) -> Result<usize> {
        if is_space(at(text, i)) || at(text, i) == b'>' {
            return Ok(i);
        }
        Err(bad(i, format!("{} after the default of an attribute", show_char(text, i))))
    }
}

/// The syntax of a default that is not processed.
fn check_default(raw: &[u8], place: Place, max_name: u32) -> Result<()> {
    for i in memchr::memchr2_iter(b'&', b'<', raw) {
        if raw[i] == b'<' {
            return Err(fault(code::LT_IN_ATTRIBUTE, place.of(i), "< in an attribute value; write &lt;"));
        }
        markup::reference(raw, i, max_name).map_err(|mut fault| {
            fault.at = place.of(i);
            fault
        })?;
    }
    Ok(())
}
