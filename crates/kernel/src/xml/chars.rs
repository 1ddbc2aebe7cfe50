//! Which characters a document may hold (XML 1.0 §2.2).

use super::error::{code, fault, Result};

/// `Char` of XML 1.0.
pub(crate) fn is_char(c: u32) -> bool {
    matches!(c, 0x9 | 0xA | 0xD | 0x20..=0xD7FF | 0xE000..=0xFFFD | 0x10000..=0x10FFFF)
}

#[inline(always)]
pub(crate) fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\n' | b'\t' | b'\r')
}

/// The byte at `i`, or 0 past the end. NUL is never legal, so every check that expects something fails on it.
#[inline(always)]
pub(crate) fn at(src: &[u8], i: usize) -> u8 {
    if i < src.len() {
        src[i]
    } else {
        0
    }
}

#[inline(always)]
pub(crate) fn skip_space(src: &[u8], mut i: usize) -> usize {
    while is_space(at(src, i)) {
        i += 1;
    }
    i
}

/// The first character of some bytes that may not be UTF-8.
pub(crate) fn first_char(bytes: &[u8]) -> Option<char> {
    let head = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(e) => std::str::from_utf8(&head[..e.valid_up_to()]).unwrap_or(""),
    };
    valid.chars().next()
}

/// Checks that `src[from..to]` is UTF-8 and holds only XML characters. Answers where it stopped: `to`, or, unless
/// this is the `last` stretch, the start of a character that `to` cuts in two.
pub(crate) fn verify(src: &[u8], from: usize, to: usize, last: bool) -> Result<usize> {
    let part = &src[from..to];
    let (good, cut) = match std::str::from_utf8(part) {
        Ok(_) => (part.len(), None),
        Err(e) => (e.valid_up_to(), Some(e.error_len())),
    };
    if let Some(i) = first_illegal(&part[..good]) {
        let c = first_char(&part[i..]).map_or(0, u32::from);
        return Err(fault(
            code::BAD_CHAR,
            from + i,
            format!("character U+{c:04X} is not allowed in XML"),
        ));
    }
    match cut {
        None => Ok(to),
        Some(None) if !last => Ok(from + good),
        Some(_) => {
            let byte = part[good];
            Err(fault(
                code::NOT_UTF8,
                from + good,
                format!("byte 0x{byte:02X} is not valid UTF-8 here"),
            ))
        }
    }
}

/// Where valid UTF-8 holds what is not `Char`: a control character, U+FFFE or U+FFFF.
fn first_illegal(text: &[u8]) -> Option<usize> {
    let control = text.iter().position(|&c| c < 0x20 && !is_space(c));
    let before = &text[..control.unwrap_or(text.len())];
    memchr::memmem::find_iter(before, b"\xEF\xBF")
        .find(|i| before[i + 2] >= 0xBE)
        .or(control)
}
