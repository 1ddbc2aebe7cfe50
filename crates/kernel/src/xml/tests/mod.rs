//! Each rule of the reader with a document that breaks it and, where that is less than obvious, one that does not.
//! Everything is read twice, with SIMD and without.

mod encodings;
mod entities;
mod limits;
mod namespaces;
mod positions;
mod syntax;

use super::*;

/// What a document says, written out: `<{uri}name a="v">`, `</>`, text in `«»`, comments and instructions as they are.
#[derive(Default)]
struct Trace {
    out: String,
    text: Vec<u8>,
    uris: Vec<String>,
}

impl Trace {
    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.out += &format!("«{}»", String::from_utf8_lossy(&self.text));
            self.text.clear();
        }
    }
    fn name(&self, ns: NsId, local: &[u8]) -> String {
        let uri = if ns == NsId::NONE { String::new() } else { format!("{{{}}}", self.uris[ns.0 as usize - 1]) };
        uri + &String::from_utf8_lossy(local)
    }
}

impl Sink for Trace {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.uris.push(String::from_utf8_lossy(uri).into_owned());
        NsId(self.uris.len() as u32)
    }
    fn start(&mut self, tag: &Tag<'_>) {
        self.flush();
        self.out += &format!("<{}", self.name(tag.ns, tag.local()));
        for attr in tag.attrs {
            let mut value = Vec::new();
            decode_attribute(&tag.src[attr.value as usize..attr.value_end as usize], &mut value);
            let name = self.name(attr.ns, &tag.src[attr.local as usize..attr.name_end as usize]);
            self.out += &format!(" {name}={:?}", String::from_utf8_lossy(&value));
        }
        self.out.push('>');
    }
    fn end(&mut self, _: &[u8], _: u32, _: u32) {
        self.flush();
        self.out += "</>";
    }
    fn text(&mut self, text: &Text<'_>) {
        text.decode(&mut self.text);
    }
    fn comment(&mut self, src: &[u8], start: u32, end: u32) {
        self.flush();
        self.out += &String::from_utf8_lossy(&src[start as usize..end as usize]);
    }
    fn instruction(&mut self, src: &[u8], start: u32, end: u32) {
        self.comment(src, start, end);
    }
}

fn read_with(doc: &[u8], limits: &Limits) -> Result<String, XmlError> {
    let both = [Reader::new(), Reader::portable()].map(|mut reader| {
        let mut trace = Trace::default();
        reader.read(doc, limits, &mut trace).map(|()| trace.out)
    });
    assert_eq!(both[0], both[1], "SIMD and portable differ");
    let [read, _] = both;
    read
}

fn read(doc: impl AsRef<[u8]>) -> Result<String, XmlError> {
    read_with(doc.as_ref(), &Limits::default())
}

/// Checks that a document says what it should.
#[track_caller]
fn says(doc: impl AsRef<[u8]>, expected: &str) {
    let doc = doc.as_ref();
    assert_eq!(read(doc).as_deref(), Ok(expected), "{}", String::from_utf8_lossy(doc));
}

/// Checks that a document is refused with a code at an offset.
#[track_caller]
fn refuses(doc: impl AsRef<[u8]>, code: &str, offset: u64) {
    let doc = doc.as_ref();
    let error = read(doc).expect_err(&String::from_utf8_lossy(doc));
    assert_eq!((error.code, error.offset), (code, offset), "{}: {error}", String::from_utf8_lossy(doc));
}
