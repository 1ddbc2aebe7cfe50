//! What stands before the root element: XML declaration, comments, processing instructions, DOCTYPE.
//! Read on its own, because it decides how the rest is read.

use super::chars::{at, is_space, skip_space};
use super::error::{code, fault, show, show_char, Result};
use super::markup;
use super::names;
use super::scan::Portable;

/// A comment or processing instruction to be delivered.
#[derive(Clone, Copy)]
pub(super) struct Misc {
    pub start: u32,
    pub end: u32,
    pub comment: bool,
}

#[derive(Default, Clone, Copy, Debug)]
pub(super) struct Declaration {
    /// Offset past `?>`; 0 if there is no declaration.
    pub end: usize,
    /// Span of the encoding name.
    pub encoding: Option<(usize, usize)>,
    pub standalone: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Doctype {
    /// Has an external subset, which is never read.
    pub external: bool,
    /// Offset past `[`, where there is an internal subset.
    pub subset: Option<usize>,
}

/// Is there an XML declaration at `start`? (`<?xml-stylesheet` is none.)
pub(super) fn has_declaration(src: &[u8], start: usize) -> bool {
    src[start..].starts_with(b"<?xml") && is_space(at(src, start + 5))
}

/// Are there enough bytes to tell the encoding of the document, as far as its start can tell it? An XML declaration has
/// to be whole: it ends at the first `>` outside of quotes. A `<` ends a broken one, since it has no place in it.
pub(super) fn shows_encoding(head: &[u8]) -> bool {
    const BEFORE: usize = 8; // A byte order mark and `<?xml`.
    if head.contains(&0) {
        return head.len() >= BEFORE && head.contains(&b'>');
    }
    let text = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    if head.len() < BEFORE || !text.starts_with(b"<?xml") {
        return head.len() >= BEFORE;
    }
    let mut quote = None;
    text[5..].iter().any(|&c| match quote {
        _ if c == b'<' => true,
        Some(open) => {
            quote = (c != open).then_some(open);
            false
        }
        None if matches!(c, b'"' | b'\'') => {
            quote = Some(c);
            false
        }
        None => c == b'>',
    })
}

/// Says nothing that matters, and says it in front of most short messages.
const COMMONEST: &[u8] = br#"<?xml version="1.0"?>"#;

/// Reads the XML declaration at `start` (XML 1.0 §2.8), where `has_declaration`.
pub(super) fn declaration(src: &[u8], start: usize) -> Result<Declaration> {
    let mut read = Declaration::default();
    if src[start..].starts_with(COMMONEST) {
        read.end = start + COMMONEST.len();
        return Ok(read);
    }
    let mut i = start + 5;
    let mut next = 0; // which of version, encoding, standalone may come
    loop {
        let after = skip_space(src, i);
        if src[after.min(src.len())..].starts_with(b"?>") {
            if next == 0 {
                return Err(fault(code::BAD_DECLARATION, after, "the XML declaration gives no version"));
            }
            read.end = after + 2;
            return Ok(read);
        }
        let name_end = names::ncname_end(src, after);
        let name = &src[after..name_end];
        let Some(which) = [&b"version"[..], b"encoding", b"standalone"].iter().position(|known| *known == name) else {
            let message = if name.is_empty() {
                format!("{} is wrong in an XML declaration", show_char(src, after))
            } else {
                format!("{} is no part of an XML declaration", show(name))
            };
            return Err(fault(code::BAD_DECLARATION, after, message));
        };
        if which < next || (next == 0 && which != 0) || after == i {
            let message = if after == i { "white space is missing before" } else { "this is not the place for" };
            return Err(fault(code::BAD_DECLARATION, after, format!("{message} {}", show(name))));
        }
        next = which + 1;
        let equals = skip_space(src, name_end);
        let open = skip_space(src, equals + 1);
        let quote = at(src, open);
        let close =
            memchr::memchr2(quote, b'<', src.get(open + 1..).unwrap_or(&[])).map_or(src.len(), |k| open + 1 + k);
        if at(src, equals) != b'=' || !matches!(quote, b'"' | b'\'') || at(src, close) != quote {
            let message = format!("{} needs = and a quoted value", show(name));
            return Err(fault(code::BAD_DECLARATION, name_end, message));
        }
        let value = &src[open + 1..close];
        let good = match which {
            0 => {
                matches!(value, [b'1', b'.', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
            }
            1 => {
                read.encoding = Some((open + 1, close));
                value.first().is_some_and(u8::is_ascii_alphabetic)
                    && value.iter().all(|&c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-'))
            }
            _ => {
                read.standalone = value == b"yes";
                matches!(value, b"yes" | b"no")
            }
        };
        if !good {
            let message = format!("{} cannot be \"{}\"", show(name), show(value));
            return Err(fault(code::BAD_DECLARATION, open + 1, message));
        }
        i = close + 1;
    }
}

/// Reads comments, processing instructions and the DOCTYPE from `start` up to the root element (or to an internal
/// subset). Answers where it stopped. Anything that is none of these is left to the walk to report.
pub(super) fn misc(
    src: &[u8],
    start: usize,
    found: &mut Vec<Misc>,
    doctype: &mut Option<Doctype>,
    max_name: u32,
) -> Result<usize> {
    let mut i = start;
    loop {
        i = skip_space(src, i);
        if at(src, i) != b'<' || !matches!(at(src, i + 1), b'!' | b'?') {
            return Ok(i);
        }
        let rest = &src[i..];
        let comment = rest.starts_with(b"<!--");
        if comment || rest.starts_with(b"<?") {
            let end = if comment {
                markup::comment::<Portable>(src, i)?
            } else {
                markup::instruction::<Portable>(src, i, max_name)?
            };
            found.push(Misc { start: i as u32, end: end as u32, comment });
            i = end;
        } else if rest.starts_with(b"<!DOCTYPE") && doctype.is_none() {
            let (read, end) = open_doctype(src, i, max_name)?;
            *doctype = Some(read);
            i = end;
            if read.subset.is_some() {
                return Ok(i);
            }
        } else {
            return Ok(i);
        }
    }
}

/// Reads a DOCTYPE up to its `>` or, where it has an internal subset, its `[`.
fn open_doctype(src: &[u8], start: usize, max_name: u32) -> Result<(Doctype, usize)> {
    let bad = |at: usize, message: &str| fault(code::BAD_DOCTYPE, at, message);
    let after = start + b"<!DOCTYPE".len();
    let name = skip_space(src, after);
    if name == after {
        return Err(bad(after, "white space is missing after <!DOCTYPE"));
    }
    let end = names::qname_end(src, name);
    if end == name || at(src, end) == b':' {
        return Err(bad(name, "<!DOCTYPE is not followed by the name of the root element"));
    }
    markup::check_length(name, end, max_name)?;
    let mut i = skip_space(src, end);
    let mut external = false;
    if let Some(past) = markup::external_id(src, i, code::BAD_DOCTYPE)? {
        if i == end {
            return Err(bad(i, "white space is missing before the external identifier"));
        }
        external = true;
        i = skip_space(src, past);
    }
    match at(src, i) {
        b'>' => Ok((Doctype { external, subset: None }, i + 1)),
        b'[' => Ok((Doctype { external, subset: Some(i + 1) }, i + 1)),
        _ => Err(bad(i, &format!("{} is wrong in a document type declaration", show_char(src, i)))),
    }
}
