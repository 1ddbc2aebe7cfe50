//! A message as other parsers read it without looking anything up: UTF-8, entities and default attributes in place, no
//! XML declaration and no DTD.

use super::fragment::push_standalone;
use crate::xml::{Limits, Reader, Sink, Tag, XmlError};

pub fn plain(reader: &mut Reader, xml: &[u8], limits: &Limits) -> Result<Vec<u8>, XmlError> {
    let mut sink = Plain::default();
    reader.read(xml, limits, &mut sink)?;
    Ok(sink.out)
}

/// Copies the document's children.
#[derive(Default)]
struct Plain {
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
    fn start(&mut self, tag: &Tag<'_>) {
        if self.depth == 0 {
            self.root = tag.start;
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
