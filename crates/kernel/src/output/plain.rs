//! A message as other parsers read it without looking anything up: UTF-8, entities and default attributes in place, no
//! XML declaration and no DTD, or one that says nothing but which attributes are IDs.

use super::fragment::push_standalone;
use crate::xml::{Limits, Reader, Sink, Tag, XmlError};

/// Writes a message in its plain form. With `ids`, and if the message's DTD declares attributes of type ID, a document
/// type declaration with just these comes first.
pub fn plain(reader: &mut Reader, xml: &[u8], limits: &Limits, ids: bool) -> Result<Vec<u8>, XmlError> {
    let mut sink = Plain { ids, ..Plain::default() };
    reader.read(xml, limits, &mut sink)?;
    Ok(sink.out)
}

/// Copies the document's children.
#[derive(Default)]
struct Plain {
    ids: bool,
    declarations: Vec<u8>,
    depth: u32,
    root: u32,
    children: Vec<(u32, u32)>,
    out: Vec<u8>,
}

impl Plain {
    fn leaf(&mut self, start: u32, end: u32) {
        if self.depth == 0 {
            self.children.push((start, end));
        }
    }
}

impl Sink for Plain {
    fn id_attribute(&mut self, element: &[u8], attribute: &[u8]) {
        if self.ids {
            for part in [b"<!ATTLIST ", element, b" ", attribute, b" ID #IMPLIED>"] {
                self.declarations.extend_from_slice(part);
            }
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        if self.depth == 0 {
            self.root = tag.start;
            if !self.declarations.is_empty() {
                for part in [b"<!DOCTYPE ", tag.name(), b" [", &self.declarations, b"]>"] {
                    self.out.extend_from_slice(part);
                }
            }
        }
        self.depth += 1;
    }

    fn end(&mut self, _src: &[u8], _at: u32, past: u32) {
        self.depth -= 1;
        self.leaf(self.root, past);
    }

    fn comment(&mut self, _src: &[u8], start: u32, end: u32) {
        self.leaf(start, end);
    }

    fn instruction(&mut self, _src: &[u8], start: u32, end: u32) {
        self.leaf(start, end);
    }

    fn finish(&mut self, src: &[u8]) {
        for &(start, end) in &self.children {
            push_standalone(&src[start as usize..end as usize], &mut self.out);
        }
    }
}
