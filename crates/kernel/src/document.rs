//! From the bytes of a message to its node table, for whoever matches no paths on the way (see `matcher`).

use crate::names::{Names, Sym, COMMENT, INSTRUCTION};
use crate::shapes::nodes::{Nodes, Place};
use crate::shapes::search::Message;
use crate::tagpaths::TooMuch;
use crate::values::constants::Constants;
use crate::xml::{Limits, NsId, Reader, Sink, Tag, Text, XmlError};

/// Gives the names of a message their symbols: `&Names` looks them up, and `&mut Names` enters those that are new.
pub trait Symbols {
    fn namespace(&mut self, uri: &[u8]) -> NsId;
    fn symbol(&mut self, attribute: bool, ns: NsId, local: &[u8]) -> Sym;
    fn names(&self) -> &Names;
}

impl Symbols for &Names {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        Names::namespace(self, uri)
    }

    #[inline(always)]
    fn symbol(&mut self, attribute: bool, ns: NsId, local: &[u8]) -> Sym {
        Names::symbol(self, attribute, ns, local)
    }

    fn names(&self) -> &Names {
        self
    }
}

impl Symbols for &mut Names {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.intern_namespace(uri)
    }

    #[inline]
    fn symbol(&mut self, attribute: bool, ns: NsId, local: &[u8]) -> Sym {
        self.symbol_or_intern(attribute, ns, local)
    }

    fn names(&self) -> &Names {
        self
    }
}

/// Reads a message into the node table and hands it on, whole.
pub fn read<S: Symbols>(
    reader: &mut Reader,
    nodes: &mut Nodes,
    (names, constants): (S, &Constants),
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
struct TableSink<'a, S, F> {
    names: S,
    constants: &'a Constants,
    nodes: &'a mut Nodes,
    run: F,
    done: Result<(), TooMuch>,
}

impl<S: Symbols, F: FnMut(Message<'_>) -> Result<(), TooMuch>> Sink for TableSink<'_, S, F> {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.names.namespace(uri)
    }

    fn begin(&mut self, _src: &[u8]) {
        self.nodes.begin();
    }

    #[inline]
    fn start(&mut self, tag: &Tag<'_>) {
        self.nodes.open(self.names.symbol(false, tag.ns, tag.local()), tag.start);
        if tag.declares {
            self.nodes.declares();
        }
        for a in tag.attrs {
            let sym = self.names.symbol(true, a.ns, &tag.src[a.local as usize..a.name_end as usize]);
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
        let (names, constants) = (self.names.names(), self.constants);
        self.nodes.link(names.bound());
        self.done = (self.run)(Message { src, nodes: self.nodes, names, constants });
    }
}
