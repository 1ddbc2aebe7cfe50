//! What the reader tells its consumer. All positions are byte offsets into one buffer, the *plain* document:
//! the message itself when it is UTF-8 and its DTD declares nothing that changes content, otherwise its
//! equivalent in UTF-8 with entities expanded and default attributes in place (see `rewrite`). So a consumer
//! can keep spans instead of copies, whatever the message looked like.

use super::place::Place;

/// A namespace as the consumer numbers it. The reader compares namespaces by their text; it keeps the
/// consumer's number beside each binding so that no name is looked up twice. A consumer numbers only the
/// namespaces it knows and answers `OTHER` for the rest, so hostile messages cannot grow its tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NsId(pub u32);

impl NsId {
    /// No namespace.
    pub const NONE: NsId = NsId(0);
    /// Some namespace the consumer has no number for.
    pub const OTHER: NsId = NsId(u32::MAX);
}

/// One attribute. Namespace declarations are not attributes and never appear here.
#[derive(Clone, Copy, Debug)]
pub struct Attr {
    /// Offset of the qualified name.
    pub name: u32,
    /// Offset of the local part of the name (equal to `name` where there is no prefix).
    pub local: u32,
    /// Offset past the name.
    pub name_end: u32,
    /// Offset of the value, inside the quotes.
    pub value: u32,
    /// Offset past the value.
    pub value_end: u32,
    pub ns: NsId,
    /// The value holds no reference, tab, CR or LF: its bytes are its value. Else see `decode_attribute`.
    pub plain: bool,
}

/// A start tag (or an empty-element tag, which is followed by `end` at once).
#[derive(Clone, Copy, Debug)]
pub struct Tag<'a> {
    /// The plain document.
    pub src: &'a [u8],
    /// Offset of `<`.
    pub start: u32,
    /// Offset past `>`.
    pub end: u32,
    /// Offset of the local part of the name.
    pub local: u32,
    /// Offset past the name. The qualified name starts at `start + 1`.
    pub name_end: u32,
    pub ns: NsId,
    pub attrs: &'a [Attr],
    /// This tag declares namespaces.
    pub declares: bool,
}

impl<'a> Tag<'a> {
    #[inline(always)]
    pub fn local(&self) -> &'a [u8] {
        &self.src[self.local as usize..self.name_end as usize]
    }
    #[inline(always)]
    pub fn name(&self) -> &'a [u8] {
        &self.src[self.start as usize + 1..self.name_end as usize]
    }
}

/// A run of character data between two pieces of markup, or the inside of a CDATA section. Adjacent runs with
/// no comment, PI or tag between them are one text node.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    pub src: &'a [u8],
    pub start: u32,
    pub end: u32,
    /// The run holds no reference and no CR: its bytes are its value. Else see `decode_text`.
    pub plain: bool,
    pub cdata: bool,
}

impl<'a> Text<'a> {
    #[inline(always)]
    pub fn raw(&self) -> &'a [u8] {
        &self.src[self.start as usize..self.end as usize]
    }
    /// Appends the value of the run, whatever its kind.
    #[inline]
    pub fn decode(&self, out: &mut Vec<u8>) {
        if self.plain {
            out.extend_from_slice(self.raw());
        } else if self.cdata {
            super::decode::decode_line_ends(self.raw(), out);
        } else {
            super::decode::decode_text(self.raw(), out);
        }
    }
}

/// The consumer of a document. Everything but `start` and `end` has a default that ignores the event; the
/// constants let the reader leave out work that the consumer does not want (checks are never left out).
pub trait Sink {
    /// The consumer's number for a namespace name. Called once per declaration, with the normalised value.
    #[inline(always)]
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        let _ = uri;
        NsId::OTHER
    }
    /// The plain document, once, before any other event.
    #[inline(always)]
    fn begin(&mut self, src: &[u8]) {
        let _ = src;
    }
    /// The plain document, once, after all other events: values can still be read from their spans. An error may
    /// still follow where the document had to be rewritten.
    #[inline(always)]
    fn finish(&mut self, src: &[u8]) {
        let _ = src;
    }
    /// An attribute that the DTD declares as an ID, by the names of its element and of itself as the DTD writes them.
    /// Called before `begin`, and only where a document is read as a whole ([`Reader`](super::Reader)).
    #[inline(always)]
    fn id_attribute(&mut self, element: &[u8], attribute: &[u8]) {
        let _ = (element, attribute);
    }
    /// Called last, once the document has been read as a whole without an error. `place` leads from offsets of the
    /// plain document to places in the message as it was given; asked in ascending order, it costs least. What an
    /// entity brought is where the reference to the entity is.
    #[inline(always)]
    fn locate(&mut self, place: &mut dyn FnMut(u32) -> Place) {
        let _ = place;
    }
    /// A document that is read in parts ([`Stream`](super::Stream)) goes on in another buffer, in which its text begins
    /// at `next`. All that has been told lies before `read` in this one, and its offsets mean nothing from now on.
    /// `offset` leads from them to the bytes of the document as it was given; asked in ascending order, it costs least.
    #[inline(always)]
    fn turn(&mut self, src: &[u8], read: u32, next: u32, offset: &mut dyn FnMut(u32) -> u64) {
        let _ = (src, read, next, offset);
    }
    fn start(&mut self, tag: &Tag<'_>);
    /// `at` is the offset of the end tag's `<` (for an empty-element tag: the offset past it), `past` the
    /// offset past the element.
    fn end(&mut self, src: &[u8], at: u32, past: u32);
    /// Never empty, and only inside the root element.
    #[inline(always)]
    fn text(&mut self, text: &Text<'_>) {
        let _ = text;
    }
    /// `start..end` covers `<!--` to `-->`.
    #[inline(always)]
    fn comment(&mut self, src: &[u8], start: u32, end: u32) {
        let _ = (src, start, end);
    }
    /// `start..end` covers `<?` to `?>`. The XML declaration is not a PI.
    #[inline(always)]
    fn instruction(&mut self, src: &[u8], start: u32, end: u32) {
        let _ = (src, start, end);
    }
}
