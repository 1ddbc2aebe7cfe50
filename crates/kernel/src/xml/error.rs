//! Why a message was refused: a stable code, plain words, and the place.

use std::fmt;

/// The first error of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlError {
    /// One of [`CODES`].
    pub code: &'static str,
    pub message: String,
    /// 1-based.
    pub line: u32,
    /// 1-based, in characters.
    pub column: u32,
    /// Byte offset in the message as it was given, whatever its encoding.
    pub offset: u64,
}

impl fmt::Display for XmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.line, self.column, self.code, self.message)
    }
}

impl std::error::Error for XmlError {}

macro_rules! codes {
    ($($name:ident = $code:literal, $means:literal;)*) => {
        pub(crate) mod code {
            $(pub const $name: &str = $code;)*
        }
        /// Every code the reader can give, with what it means.
        pub static CODES: &[(&str, &str)] = &[$(($code, $means)),*];
    };
}

codes! {
    NOT_UTF8 = "not-utf8", "the bytes are not valid UTF-8";
    BAD_ENCODING = "bad-encoding", "the bytes are not valid in the declared or detected encoding";
    UNSUPPORTED_ENCODING = "unsupported-encoding", "an encoding other than UTF-8, UTF-16, ISO-8859-1, US-ASCII and Windows-1252";
    ENCODING_MISMATCH = "encoding-mismatch", "the declared encoding contradicts the bytes";
    BAD_CHAR = "bad-char", "a character that XML does not allow";
    BAD_NAME = "bad-name", "something that should be a name is not one";
    BAD_TAG = "bad-tag", "a start tag or end tag with wrong syntax";
    BAD_ATTRIBUTE = "bad-attribute", "an attribute with wrong syntax";
    LT_IN_ATTRIBUTE = "lt-in-attribute", "a < in an attribute value, directly or through an entity";
    DUPLICATE_ATTRIBUTE = "duplicate-attribute", "two attributes of one element with the same name";
    MISMATCHED_TAG = "mismatched-tag", "an end tag that does not match the open element";
    UNCLOSED_ELEMENT = "unclosed-element", "the message ends inside an element";
    BAD_REFERENCE = "bad-reference", "an & that begins no well-formed reference";
    BAD_CHAR_REFERENCE = "bad-char-reference", "a character reference to something that is no XML character";
    UNDECLARED_ENTITY = "undeclared-entity", "a reference to an entity that is not declared";
    RECURSIVE_ENTITY = "recursive-entity", "an entity that refers to itself";
    UNPARSED_ENTITY = "unparsed-entity", "a reference to an unparsed (NDATA) entity";
    EXTERNAL_ENTITY_IN_ATTRIBUTE = "external-entity-in-attribute", "a reference to an external entity in an attribute value";
    UNBALANCED_ENTITY = "unbalanced-entity", "an entity whose text does not hold whole elements";
    CDATA_END_IN_TEXT = "cdata-end-in-text", "]]> in character data";
    BAD_CDATA = "bad-cdata", "a CDATA section that is misplaced or not closed";
    BAD_COMMENT = "bad-comment", "a comment that is not closed or holds --";
    BAD_PI = "bad-pi", "a processing instruction that is not closed or has a reserved or wrong target";
    BAD_MARKUP = "bad-markup", "a < that begins no markup";
    BAD_DECLARATION = "bad-declaration", "a wrong XML declaration, or one that is not at the start";
    BAD_DOCTYPE = "bad-doctype", "a wrong or misplaced document type declaration";
    TEXT_OUTSIDE_ROOT = "text-outside-root", "text before or after the root element";
    MULTIPLE_ROOTS = "multiple-roots", "a second root element";
    NO_ROOT = "no-root", "no root element";
    UNDECLARED_PREFIX = "undeclared-prefix", "a namespace prefix that is not declared";
    BAD_NAMESPACE = "bad-namespace", "a namespace declaration that Namespaces in XML forbids";
    LIMIT_SIZE = "limit-size", "the message is larger than max_bytes";
    LIMIT_DEPTH = "limit-depth", "elements nested deeper than max_depth";
    LIMIT_ATTRIBUTES = "limit-attributes", "an element with more than max_attributes attributes";
    LIMIT_NAME = "limit-name", "a name longer than max_name bytes";
    LIMIT_EXPANSION = "limit-expansion", "entities expand beyond max_expansion or max_amplification";
    LIMIT_ENTITY_DEPTH = "limit-entity-depth", "entities nested deeper than max_entity_depth";
}

/// An error at an offset of the buffer being read; `locate` turns it into an [`XmlError`].
#[derive(Debug)]
pub(crate) struct Fault {
    pub code: &'static str,
    pub message: String,
    pub at: usize,
    /// A second place that the message ends with, such as "opened at 3:5".
    pub related: Option<(&'static str, usize)>,
}

/// Boxed: the happy path then carries one pointer.
pub(crate) type Result<T> = std::result::Result<T, Box<Fault>>;

#[cold]
#[inline(never)]
pub(crate) fn fault(code: &'static str, at: usize, message: impl Into<String>) -> Box<Fault> {
    Box::new(Fault { code, message: message.into(), at, related: None })
}

impl Fault {
    pub fn related(mut self: Box<Self>, words: &'static str, at: usize) -> Box<Self> {
        self.related = Some((words, at));
        self
    }
}

/// Line and column (both from 1, column in characters) of an offset in UTF-8 bytes. CR, LF and CR LF end a line.
pub(crate) fn line_column(src: &[u8], at: usize) -> (u32, u32) {
    let before = &src[..at.min(src.len())];
    let mut line = 1u32;
    let mut start = 0;
    for end in memchr::memchr2_iter(b'\n', b'\r', before) {
        let crlf = before[end] == b'\r' && src.get(end + 1) == Some(&b'\n');
        if !crlf {
            line += 1;
            start = end + 1;
        }
    }
    // A continuation byte is not a character of its own, and a byte order mark is none at all.
    let mut column = before[start..].iter().filter(|&&b| b & 0xC0 != 0x80).count() as u32 + 1;
    if line == 1 && before.starts_with(b"\xEF\xBB\xBF") {
        column -= 1;
    }
    (line, column)
}

/// A name (or anything else from a message) as it may be shown in a message: lossy, and not endless.
pub(crate) fn show(bytes: &[u8]) -> String {
    const MOST: usize = 60;
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST)]).into_owned();
    if bytes.len() > MOST {
        text.push('…');
    }
    text
}

/// The character at `at` as it may be shown in a message.
pub(crate) fn show_char(src: &[u8], at: usize) -> String {
    match src.get(at..).and_then(super::chars::first_char) {
        None if at >= src.len() => "the end of the message".into(),
        None => format!("byte 0x{:02X}", src[at]),
        Some(c) if c < ' ' || c == '\u{7f}' => format!("U+{:04X}", c as u32),
        Some(c) => format!("'{c}'"),
    }
}
