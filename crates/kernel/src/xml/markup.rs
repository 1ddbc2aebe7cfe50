//! Syntax that the prolog, the DTD and the content share.

use super::chars::{at, is_char, is_space, skip_space};
use super::decode::{char_number, predefined};
use super::error::{code, fault, show, show_char, Result};
use super::names;
use super::scan::Scan;

pub(super) fn check_length(start: usize, end: usize, max_name: u32) -> Result<()> {
    if end - start > max_name as usize {
        let message = format!("a name of {} bytes; the limit is {max_name}", end - start);
        return Err(fault(code::LIMIT_NAME, start, message));
    }
    Ok(())
}

/// Reads the comment at `start`; answers the offset past it.
#[inline(always)]
pub(super) fn comment<V: Scan>(src: &[u8], start: usize) -> Result<usize> {
    let dashes = V::find_pair(src, start + 4, b'-', b'-');
    if at(src, dashes + 2) == b'>' {
        return Ok(dashes + 3);
    }
    Err(if dashes >= src.len() {
        fault(code::BAD_COMMENT, start, "the comment is not closed")
    } else {
        fault(code::BAD_COMMENT, dashes, "-- inside a comment")
    })
}

/// Reads the processing instruction at `start`; answers the offset past it.
#[inline(always)]
pub(super) fn instruction<V: Scan>(src: &[u8], start: usize, max_name: u32) -> Result<usize> {
    let target = start + 2;
    let end = names::ncname_end(src, target);
    if end == target {
        return Err(fault(code::BAD_PI, target, "<? is not followed by the name of a target"));
    }
    check_length(target, end, max_name)?;
    let name = &src[target..end];
    if name.eq_ignore_ascii_case(b"xml") {
        return Err(if name == b"xml" && is_space(at(src, end)) {
            fault(code::BAD_DECLARATION, start, "an XML declaration is allowed only at the start of a message")
        } else {
            fault(code::BAD_PI, target, format!("the target {} is reserved", show(name)))
        });
    }
    let close = V::find_pair(src, end, b'?', b'>');
    if close >= src.len() {
        return Err(fault(code::BAD_PI, start, "the processing instruction is not closed"));
    }
    if close != end && !is_space(src[end]) {
        let message = format!("{} in the target of a processing instruction", show_char(src, end));
        return Err(fault(code::BAD_PI, end, message));
    }
    Ok(close + 2)
}

/// Is the markup at `start` all there, or wrong whatever may follow?
#[cold]
pub(super) fn is_whole(src: &[u8], start: usize) -> bool {
    let rest = &src[start..];
    if rest.starts_with(b"<!--") {
        return memchr::memmem::find(&rest[4..], b"--").is_some_and(|dashes| 4 + dashes + 2 < rest.len());
    }
    if rest.starts_with(b"<![CDATA[") {
        return memchr::memmem::find(rest, b"]]>").is_some();
    }
    match rest.get(1) {
        None => false,
        Some(b'!') => rest.len() >= b"<!DOCTYPE".len(),
        Some(b'?') => memchr::memmem::find(rest, b"?>").is_some(),
        Some(_) => is_whole_tag(rest),
    }
}

fn is_whole_tag(tag: &[u8]) -> bool {
    let mut i = 1;
    let mut quote = None;
    while let Some(&c) = tag.get(i) {
        match (c, quote) {
            (b'<', _) | (b'>', None) => return true,
            (b'"' | b'\'', None) => quote = Some(c),
            _ if Some(c) == quote => quote = None,
            _ => {}
        }
        i += 1;
    }
    false
}

/// A reference in content or in an attribute value.
pub(super) enum Reference {
    /// To a character, or to a predefined entity.
    Char,
    /// To an entity: the span of its name.
    Entity(usize, usize),
}

/// Reads the reference at `start`, where there is `&`; answers what it is and the offset past it.
#[inline]
pub(super) fn reference(src: &[u8], start: usize, max_name: u32) -> Result<(Reference, usize)> {
    // The shortest first: this is all that most messages have.
    let head = src.get(start + 1..start + 6).unwrap_or(&[]);
    match head {
        [b'a', b'm', b'p', b';', _] => return Ok((Reference::Char, start + 5)),
        [b'l' | b'g', b't', b';', ..] => return Ok((Reference::Char, start + 4)),
        [b'#', ..] => {
            let past = char_reference(src, start)?;
            return Ok((Reference::Char, past));
        }
        _ => {}
    }
    if at(src, start + 1) == b'#' {
        return Ok((Reference::Char, char_reference(src, start)?));
    }
    let name = start + 1;
    let end = names::ncname_end(src, name);
    if end == name || at(src, end) != b';' {
        let message = if end == name {
            "& is not followed by a name or #; write &amp; for a plain &".to_string()
        } else {
            format!("the reference &{} does not end with ;", show(&src[name..end]))
        };
        return Err(fault(code::BAD_REFERENCE, start, message));
    }
    check_length(name, end, max_name)?;
    let what = if predefined(&src[name..end]).is_some() { Reference::Char } else { Reference::Entity(name, end) };
    Ok((what, end + 1))
}

/// Reads the character reference at `start`, where there is `&#`; answers the offset past it.
pub(super) fn char_reference(src: &[u8], start: usize) -> Result<usize> {
    let digits = start + 2;
    let end = digits + src[digits..].iter().take_while(|c| c.is_ascii_alphanumeric()).count();
    let text = &src[digits..end];
    match char_number(text) {
        Some(number) if at(src, end) == b';' => {
            if is_char(number) {
                return Ok(end + 1);
            }
            let message = format!("&#{}; is no character that XML allows", show(text));
            Err(fault(code::BAD_CHAR_REFERENCE, start, message))
        }
        _ => Err(fault(code::BAD_REFERENCE, start, format!("&#{} is not a character reference", show(text)))),
    }
}

#[cold]
#[inline(never)]
pub(super) fn undeclared<T>(name: &[u8], at: usize) -> Result<T> {
    Err(fault(code::UNDECLARED_ENTITY, at, format!("entity {} is not declared", show(name))))
}

/// Reads `SYSTEM "…"` or `PUBLIC "…" "…"` at `start`; answers the offset past it, or nothing where there is
/// neither word.
pub(super) fn external_id(src: &[u8], start: usize, code: &'static str) -> Result<Option<usize>> {
    let rest = &src[start..];
    let mut i = start + 6;
    if rest.starts_with(b"PUBLIC") {
        i = public_literal(src, spaced(src, i, code)?, code)?;
    } else if !rest.starts_with(b"SYSTEM") {
        return Ok(None);
    }
    literal(src, spaced(src, i, code)?, code).map(Some)
}

/// Skips white space, of which there must be some.
pub(super) fn spaced(src: &[u8], i: usize, code: &'static str) -> Result<usize> {
    let after = skip_space(src, i);
    if after == i {
        return Err(fault(code, i, format!("white space is missing before {}", show_char(src, i))));
    }
    Ok(after)
}

/// Reads a quoted string at `i`; answers the offset past it.
pub(super) fn literal(src: &[u8], i: usize, code: &'static str) -> Result<usize> {
    let quote = at(src, i);
    if !matches!(quote, b'"' | b'\'') {
        return Err(fault(code, i, format!("a quoted string is missing before {}", show_char(src, i))));
    }
    match memchr::memchr(quote, &src[i + 1..]) {
        Some(length) => Ok(i + length + 2),
        None => Err(fault(code, i, "the quoted string is not closed")),
    }
}

/// Reads a public identifier at `i`; answers the offset past it.
pub(super) fn public_literal(src: &[u8], i: usize, code: &'static str) -> Result<usize> {
    let past = literal(src, i, code)?;
    let wrong = |&c: &u8| !(c.is_ascii_alphanumeric() || b" \r\n-'()+,./:=?;!*#@$_%".contains(&c));
    match src[i + 1..past - 1].iter().position(wrong) {
        None => Ok(past),
        Some(k) => {
            let message = format!("{} in a public identifier", show_char(src, i + 1 + k));
            Err(fault(code, i + 1 + k, message))
        }
    }
}
