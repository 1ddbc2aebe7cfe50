//! Content models and attribute types: the grammar of ELEMENT and ATTLIST declarations (XML 1.0 §3.2, §3.3).
//! Only checked, since the reader does not validate.

use super::chars::{at, skip_space};
use super::dtd::{close, name_at};
use super::error::{code, fault, show_char, Fault, Result};
use super::markup;
use super::names;

fn bad(text: &[u8], i: usize, what: &str) -> Box<Fault> {
    fault(code::BAD_DOCTYPE, i, format!("{} in {what}", show_char(text, i)))
}

/// Reads the content model at `i` and the `>` after it; answers the offset past that.
pub(super) fn content(text: &[u8], i: usize, max_name: u32) -> Result<usize> {
    let rest = &text[i..];
    let past = if rest.starts_with(b"EMPTY") {
        i + 5
    } else if rest.starts_with(b"ANY") {
        i + 3
    } else if rest.starts_with(b"(") {
        let first = skip_space(text, i + 1);
        if text[first..].starts_with(b"#PCDATA") {
            mixed(text, first + 7, max_name)?
        } else {
            children(text, i, max_name)?
        }
    } else {
        return Err(bad(text, i, "an element declaration, where EMPTY, ANY or ( is needed"));
    };
    close(text, past, "an element declaration")
}

/// Reads the rest of `(#PCDATA)`, `(#PCDATA)*` or `(#PCDATA | a | b)*`.
fn mixed(text: &[u8], i: usize, max_name: u32) -> Result<usize> {
    let mut i = skip_space(text, i);
    let mut named = false;
    while at(text, i) == b'|' {
        let (_, end) = name_at(text, skip_space(text, i + 1), true, max_name)?;
        named = true;
        i = skip_space(text, end);
    }
    if at(text, i) != b')' {
        return Err(bad(text, i, "a mixed content model"));
    }
    match at(text, i + 1) {
        b'*' => Ok(i + 2),
        _ if named => Err(bad(text, i + 1, "a mixed content model with names, which must end with )*")),
        _ => Ok(i + 1),
    }
}

fn occurrence(text: &[u8], i: usize) -> usize {
    i + usize::from(matches!(at(text, i), b'?' | b'*' | b'+'))
}

/// Reads nested groups such as `(a, (b | c)*, d?)+`. The open groups are a list and not a recursion, so depth costs
/// memory only.
fn children(text: &[u8], start: usize, max_name: u32) -> Result<usize> {
    let mut separators: Vec<u8> = Vec::new(); // of each open group; 0 while it has none yet
    let mut i = start;
    loop {
        // A particle.
        i = skip_space(text, i);
        if at(text, i) == b'(' {
            separators.push(0);
            i += 1;
            continue;
        }
        let (_, end) = name_at(text, i, true, max_name)?;
        i = occurrence(text, end);
        // What follows it.
        loop {
            i = skip_space(text, i);
            let c = at(text, i);
            let Some(separator) = separators.last_mut() else {
                return Ok(i);
            };
            match c {
                b')' => {
                    i = occurrence(text, i + 1);
                    separators.pop();
                    if separators.is_empty() {
                        return Ok(i);
                    }
                }
                b',' | b'|' if *separator == 0 || *separator == c => {
                    *separator = c;
                    i += 1;
                    break;
                }
                _ => return Err(bad(text, i, "a content model")),
            }
        }
    }
}

/// Reads the type of an attribute at `i`; answers whether its values are tokens, and the offset past it.
pub(super) fn attribute_type(text: &[u8], i: usize, max_name: u32) -> Result<(bool, usize)> {
    if at(text, i) == b'(' {
        return alternatives(text, i, false, max_name).map(|past| (true, past));
    }
    let end = names::ncname_end(text, i);
    match &text[i..end] {
        b"CDATA" => Ok((false, end)),
        b"ID" | b"IDREF" | b"IDREFS" | b"ENTITY" | b"ENTITIES" | b"NMTOKEN" | b"NMTOKENS" => Ok((true, end)),
        b"NOTATION" => {
            let open = markup::spaced(text, end, code::BAD_DOCTYPE)?;
            if at(text, open) != b'(' {
                return Err(bad(text, open, "a NOTATION type, where ( is needed"));
            }
            alternatives(text, open, true, max_name).map(|past| (true, past))
        }
        _ => Err(bad(text, i, "an attribute declaration, where a type is needed")),
    }
}

/// Reads `(a | b | c)`: name tokens, or names of notations.
fn alternatives(text: &[u8], open: usize, notations: bool, max_name: u32) -> Result<usize> {
    let mut i = open;
    loop {
        let start = skip_space(text, i + 1);
        let end = if notations { names::ncname_end(text, start) } else { names::nmtoken_end(text, start) };
        if end == start {
            return Err(bad(text, start, "a list of alternatives"));
        }
        markup::check_length(start, end, max_name)?;
        i = skip_space(text, end);
        match at(text, i) {
            b'|' => {}
            b')' => return Ok(i + 1),
            _ => return Err(bad(text, i, "a list of alternatives")),
        }
    }
}
