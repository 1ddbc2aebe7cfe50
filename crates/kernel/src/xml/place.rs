//! Where things are in a document of which only a part is in memory.

use super::encoding::Encoding;
use super::error::{code, Fault, XmlError};

/// A place in the document as it was given.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// In bytes, whatever the encoding.
    pub offset: u64,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

impl Place {
    /// That something which begins here is larger than `most` bytes.
    pub fn too_large(self, what: &str, most: u64) -> XmlError {
        let Place { offset, line, column } = self;
        let message = format!("{what} of more than {most} bytes; that is the limit");
        XmlError { code: code::LIMIT_SIZE, message, line, column, offset }
    }

    pub const START: Place = Place { offset: 0, line: 1, column: 1 };

    /// The place after some text of a document in UTF-8, which is not followed by LF if it ends with CR.
    pub fn after(self, text: &[u8]) -> Place {
        Places::new(Encoding::Utf8, 0).after((0, self), text, text.len())
    }
}

/// The places of what is in the buffer.
pub(super) struct Places {
    encoding: Encoding,
    /// Of the text in the buffer.
    here: Place,
    /// Before the text there are names of open elements, in ascending order: offsets, and where each was opened.
    open: Vec<(u32, Place)>,
}

impl Places {
    /// The text begins after a byte order mark of so many bytes.
    pub fn new(encoding: Encoding, mark: usize) -> Places {
        let here = Place { offset: mark as u64, ..Place::START };
        Places { encoding, here, open: Vec::new() }
    }

    /// The place at `to` of a text that has `from` at `from`.
    pub fn after(&self, from: (usize, Place), src: &[u8], to: usize) -> Place {
        let (from, Place { offset, mut line, mut column }) = from;
        let text = &src[from..to.max(from)];
        let mut last = None;
        if memchr::memchr(b'\r', text).is_none() {
            line = line.saturating_add(memchr::memchr_iter(b'\n', text).count() as u32);
            last = memchr::memrchr(b'\n', text);
        } else {
            for end in memchr::memchr2_iter(b'\n', b'\r', text) {
                if text[end] == b'\n' || src.get(from + end + 1) != Some(&b'\n') {
                    line = line.saturating_add(1);
                    last = Some(end);
                }
            }
        }
        let start = last.map_or(0, |end| end + 1);
        if last.is_some() {
            column = 1;
        }
        // A continuation byte is no character of its own.
        let characters = text[start..].iter().filter(|&&b| b & 0xC0 != 0x80).count();
        column = column.saturating_add(characters as u32);
        Place { offset: offset + self.encoding.original_length(text) as u64, line, column }
    }

    /// The error that a fault in the buffer is, whose text begins at `head`.
    pub fn locate(&self, src: &[u8], head: usize, fault: Fault) -> XmlError {
        let of = |at: usize| match self.open.iter().rfind(|entry| entry.0 as usize <= at) {
            Some(entry) if at < head => entry.1,
            _ => self.after((head, self.here), src, at.min(src.len())),
        };
        let Place { offset, line, column } = of(fault.at);
        let mut message = fault.message;
        if let Some((words, at)) = fault.related {
            let Place { line, column, .. } = of(at);
            message = format!("{message} {words} {line}:{column}");
        }
        XmlError { code: fault.code, message, line, column, offset }
    }

    /// Returns a function from offsets of the buffer to places. Asked in ascending order, it costs least.
    pub fn finder<'a>(&'a self, src: &'a [u8], head: usize) -> impl FnMut(usize) -> Place + 'a {
        let mut last = (head, self.here);
        move |at| {
            let at = at.clamp(head, src.len());
            if at < last.0 {
                last = (head, self.here);
            }
            last = (at, self.after(last, src, at));
            last.1
        }
    }

    /// A function from offsets of the buffer to bytes of the document; cheapest in ascending order.
    pub fn offsets<'a>(&'a self, src: &'a [u8], head: usize) -> impl FnMut(usize) -> u64 + 'a {
        let mut last = (head, self.here.offset);
        move |at| {
            let at = at.clamp(head, src.len());
            if at < last.0 {
                last = (head, self.here.offset);
            }
            last = (at, last.1 + self.encoding.original_length(&src[last.0..at]) as u64);
            last.1
        }
    }

    /// The text in the buffer begins at `place`.
    pub fn go(&mut self, place: Place) {
        self.here = place;
    }

    /// The text begins at `to` from now on. `open` has, for each open element, where its name has been in the buffer
    /// (before `head` if it was there before) and where it is going to be.
    pub fn advance(&mut self, src: &[u8], head: usize, to: usize, open: impl Iterator<Item = (usize, u32)>) {
        let mut last = (head, self.here);
        let mut kept = 0;
        let mut fresh = Vec::new();
        for (at, becomes) in open {
            if at < head {
                self.open[kept].0 = becomes;
                kept += 1;
            } else {
                last = (at, self.after(last, src, at));
                fresh.push((becomes, last.1));
            }
        }
        self.open.truncate(kept);
        self.open.append(&mut fresh);
        self.here = self.after(last, src, to);
    }
}
