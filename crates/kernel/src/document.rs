//! From the bytes of a message to its node table, for whoever matches no paths on the way (see `matcher`).

use crate::names::{Names, COMMENT, INSTRUCTION};
use crate::shapes::nodes::{Nodes, Place};
use crate::shapes::search::Message;
use crate::tagpaths::TooMuch;
use crate::values::constants::Constants;
use crate::xml::{Limits, NsId, Reader, Sink, Tag, Text, XmlError};

/// Reads a message into the node table and hands it on, whole.
pub fn read(
    reader: &mut Reader,
    nodes: &mut Nodes,
    (names, constants): (&Names, &Constants),
    xml: &[u8],
    limits: &Limits,
    run: impl FnMut(Message<'_>) -> Result<(), TooMuch>,
) -> Result<(), XmlError> {
    let mut sink = TableSink { names, constants, nodes, run, done: Ok(()) };
    reader.read(xml, limits, &mut sink)?;
    sink.done.map_err(|TooMuch| XmlError {
        code: "too-much-to-transform",
        message: "the message gives transforms more work than a message may".into(),
        line: 1,
        column: 1,
        offset: 0,
    })
}

/// Fills the node table, and hands the whole message on.
struct TableSink<'a, F> {
    names: &'a Names,
    constants: &'a Constants,
    nodes: &'a mut Nodes,
    run: F,
    done: Result<(), TooMuch>,
}

impl<F: FnMut(Message<'_>) -> Result<(), TooMuch>> Sink for TableSink<'_, F> {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.names.namespace(uri)
    }

    fn begin(&mut self, _src: &[u8]) {
        self.nodes.begin();
    }

    #[inline]
    fn start(&mut self, tag: &Tag<'_>) {
        let names = self.names;
        self.nodes.open(names.symbol(false, tag.ns, tag.local()), tag.start);
        if tag.declares {
            self.nodes.declares();
        }
        for a in tag.attrs {
            let sym = names.symbol(true, a.ns, &tag.src[a.local as usize..a.name_end as usize]);
            let place = Place { start: a.name, end: a.value_end + 1 };
            self.nodes.leaf(sym, (a.value, a.value_end), place, a.plain);
        }
    }

    #[inline]
    fn end(&mut self, _src: &[u8], _at: u32, past: u32) {
        self.nodes.close(past);
    }

    #[inline]
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
        let &mut TableSink { names, constants, .. } = self;
        self.nodes.link(names.bound());
        self.done = (self.run)(Message { src, nodes: self.nodes, names, constants });
    }
}
