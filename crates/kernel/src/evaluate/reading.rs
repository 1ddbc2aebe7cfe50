//! From the bytes of a message to its tree.

use super::tree::{IdAttribute, Tree};
use crate::names::{Names, COMMENT, INSTRUCTION};
use crate::shapes::nodes::{Nodes, Place};
use crate::xml::{Limits, NsId, Reader, Sink, Tag, Text, XmlError};

/// Reads messages into trees; one per thread.
#[derive(Default)]
pub struct Trees {
    reader: Reader,
    nodes: Nodes,
    id_attributes: Vec<IdAttribute>,
}

impl Trees {
    /// Reads a message and hands its tree to `use_it`. The result counts only if the message turns out to be well-formed.
    pub fn read<T>(
        &mut self,
        xml: &[u8],
        limits: &Limits,
        names: &Names,
        use_it: impl FnOnce(Tree<'_>) -> T,
    ) -> Result<Option<T>, XmlError> {
        self.id_attributes.clear();
        let Trees { reader, nodes, id_attributes } = self;
        let mut sink = TreeSink { nodes, id_attributes, names, use_it: Some(use_it), made: None };
        reader.read(xml, limits, &mut sink)?;
        Ok(sink.made)
    }
}

struct TreeSink<'a, F, T> {
    nodes: &'a mut Nodes,
    id_attributes: &'a mut Vec<IdAttribute>,
    names: &'a Names,
    use_it: Option<F>,
    made: Option<T>,
}

impl<F: FnOnce(Tree<'_>) -> T, T> Sink for TreeSink<'_, F, T> {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.names.namespace(uri)
    }

    fn id_attribute(&mut self, element: &[u8], attribute: &[u8]) {
        self.id_attributes.push((element.into(), attribute.into()));
    }

    fn begin(&mut self, _src: &[u8]) {
        self.nodes.begin();
    }

    fn start(&mut self, tag: &Tag<'_>) {
        self.nodes.open(self.names.symbol(false, tag.ns, tag.local()), tag.start);
        if tag.declares {
            self.nodes.declares();
        }
        for a in tag.attrs {
            let symbol = self.names.symbol(true, a.ns, &tag.src[a.local as usize..a.name_end as usize]);
            let place = Place { start: a.name, end: a.value_end + 1 };
            self.nodes.leaf(symbol, (a.value, a.value_end), place, a.plain);
        }
    }

    fn end(&mut self, _src: &[u8], _at: u32, past: u32) {
        self.nodes.close(past);
    }

    fn text(&mut self, text: &Text<'_>) {
        self.nodes.text(text.start, text.end, text.plain, text.cdata);
    }

    fn comment(&mut self, src: &[u8], start: u32, end: u32) {
        self.nodes.markup(COMMENT, src, Place { start, end });
    }

    fn instruction(&mut self, src: &[u8], start: u32, end: u32) {
        self.nodes.markup(INSTRUCTION, src, Place { start, end });
    }

    fn finish(&mut self, src: &[u8]) {
        self.nodes.finish();
        self.nodes.link(self.names.bound());
        let tree = Tree { src, nodes: self.nodes, names: self.names, id_attributes: self.id_attributes };
        self.made = self.use_it.take().map(|use_it| use_it(tree));
    }
}
