//! The reader on arbitrary bytes: it never panics, its SIMD and portable forms say the same, every span lies in the
//! document and on character boundaries, and the plain form of a document reads as the document itself.
//!
//! Run it from `crates/kernel` (needs a nightly compiler and `cargo install cargo-fuzz`), with the W3C suite, which the
//! conformance tests unpack, as the first corpus:
//!
//! ```sh
//! cargo +nightly fuzz run reader fuzz/corpus/reader $(find ../../.cache/xmlconf -type d) -- \
//!     -max_len=4096 -dict=fuzz/xml.dict -max_total_time=1200
//! ```
#![no_main]

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use libfuzzer_sys::fuzz_target;
use twigcast_kernel::xml::{
    decode_attribute, Limits, NsId, Reader, Sink, Tag, Text, XmlError, CODES,
};

/// Hashes what a document says, and not how: two forms of it hash alike.
#[derive(Default)]
struct Digest {
    hash: DefaultHasher,
    plain: Vec<u8>,
    text: Vec<u8>,
    uris: Vec<Vec<u8>>,
    depth: usize,
    /// Every span so far is UTF-8; of a message that is refused they need not be.
    utf8: bool,
}

impl Digest {
    fn span(&mut self, src: &[u8], start: u32, end: u32) {
        assert!(src[start as usize..end as usize].len() == (end - start) as usize);
        assert!(src[..start as usize].len() <= self.plain.len());
        self.utf8 &= std::str::from_utf8(&src[start as usize..end as usize]).is_ok();
    }
    fn flush(&mut self) {
        if !self.text.is_empty() {
            ("text", &self.text).hash(&mut self.hash);
            self.text.clear();
        }
    }
    fn uri(&self, ns: NsId) -> Vec<u8> {
        if ns == NsId::NONE {
            Vec::new()
        } else {
            self.uris[ns.0 as usize - 1].clone()
        }
    }
}

impl Sink for Digest {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        assert!(!uri.is_empty());
        self.uris.push(uri.to_vec());
        NsId(self.uris.len() as u32)
    }
    fn begin(&mut self, src: &[u8]) {
        self.plain = src.to_vec();
    }
    fn start(&mut self, tag: &Tag<'_>) {
        self.flush();
        self.depth += 1;
        self.span(tag.src, tag.start, tag.end);
        self.span(tag.src, tag.local, tag.name_end);
        assert!(tag.src[tag.start as usize] == b'<' && tag.src[tag.end as usize - 1] == b'>');
        ("start", self.uri(tag.ns), tag.local()).hash(&mut self.hash);
        for attr in tag.attrs {
            self.span(tag.src, attr.local, attr.name_end);
            self.span(tag.src, attr.value, attr.value_end);
            let raw = &tag.src[attr.value as usize..attr.value_end as usize];
            let mut value = Vec::new();
            decode_attribute(raw, &mut value);
            assert!(!attr.plain || value == raw);
            let local = &tag.src[attr.local as usize..attr.name_end as usize];
            (self.uri(attr.ns), local, value).hash(&mut self.hash);
        }
    }
    fn end(&mut self, _: &[u8], at: u32, past: u32) {
        self.flush();
        assert!(at <= past && past as usize <= self.plain.len());
        self.depth -= 1;
        "end".hash(&mut self.hash);
    }
    fn text(&mut self, text: &Text<'_>) {
        assert!(self.depth > 0 && text.start < text.end);
        self.span(text.src, text.start, text.end);
        text.decode(&mut self.text);
    }
    fn comment(&mut self, src: &[u8], start: u32, end: u32) {
        self.flush();
        self.span(src, start, end);
        ("comment", &src[start as usize..end as usize]).hash(&mut self.hash);
    }
    fn instruction(&mut self, src: &[u8], start: u32, end: u32) {
        self.flush();
        self.span(src, start, end);
        ("instruction", &src[start as usize..end as usize]).hash(&mut self.hash);
    }
}

fn read(reader: &mut Reader, data: &[u8]) -> (Result<u64, XmlError>, Vec<u8>) {
    let limits = Limits {
        max_depth: 64,
        max_attributes: 40,
        max_expansion: 1 << 16,
        ..Limits::default()
    };
    let mut digest = Digest {
        utf8: true,
        ..Digest::default()
    };
    let result = reader.read(data, &limits, &mut digest).map(|()| {
        assert!(digest.depth == 0 && digest.utf8);
        digest.hash.finish()
    });
    if let Err(e) = &result {
        assert!(CODES.iter().any(|(code, _)| *code == e.code));
        assert!(e.offset <= data.len() as u64 && e.line > 0 && e.column > 0);
    }
    (result, digest.plain)
}

fuzz_target!(|data: &[u8]| {
    let (result, plain) = read(&mut Reader::new(), data);
    assert_eq!(result, read(&mut Reader::portable(), data).0);
    if let Ok(hash) = result {
        // Other encodings keep their declaration, which does not fit the plain form.
        if plain != data && !plain.starts_with(b"<?xml") {
            assert_eq!(read(&mut Reader::new(), &plain).0, Ok(hash));
        }
    }
});
