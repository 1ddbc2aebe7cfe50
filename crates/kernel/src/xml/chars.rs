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
#[inline]
pub(crate) fn first_char(bytes: &[u8]) -> Option<char> {
    let tail = |i: usize| bytes.get(i).filter(|&&c| c & 0xC0 == 0x80).map(|&c| u32::from(c & 0x3F));
    let lead = u32::from(*bytes.first()?);
    let (number, least) = match lead {
        0..=0x7F => (lead, 0),
        0xC0..=0xDF => ((lead & 0x1F) << 6 | tail(1)?, 0x80),
        0xE0..=0xEF => ((lead & 0xF) << 12 | tail(1)? << 6 | tail(2)?, 0x800),
        0xF0..=0xF7 => ((lead & 7) << 18 | tail(1)? << 12 | tail(2)? << 6 | tail(3)?, 0x10000),
        _ => return None,
    };
    // A longer form than needed is not UTF-8; neither are surrogates nor numbers beyond Unicode.
    char::from_u32(number).filter(|_| number >= least)
}

/// Checks that `src[from..to]` is UTF-8 and holds only XML characters. Answers where it stopped: `to`, or, unless
/// this is the `last` stretch, the start of a character that `to` cuts in two. Control characters are looked for only
/// where there are any (`controls`).
#[inline(never)]
pub(crate) fn verify(src: &[u8], from: usize, to: usize, last: bool, controls: bool) -> Result<usize> {
    let part = &src[from..to];
    let (good, cut) = match std::str::from_utf8(part) {
        Ok(_) => (part.len(), None),
        Err(e) => (e.valid_up_to(), Some(e.error_len())),
    };
    if let Some(i) = first_illegal(&part[..good], controls) {
        let c = first_char(&part[i..]).map_or(0, u32::from);
        return Err(fault(code::BAD_CHAR, from + i, format!("character U+{c:04X} is not allowed in XML")));
    }
    match cut {
        None => Ok(to),
        Some(None) if !last => Ok(from + good),
        Some(_) => {
            let byte = part[good];
            Err(fault(code::NOT_UTF8, from + good, format!("byte 0x{byte:02X} is not valid UTF-8 here")))
        }
    }
}

/// Where valid UTF-8 holds what is not `Char`: a control character, U+FFFE or U+FFFF.
fn first_illegal(text: &[u8], controls: bool) -> Option<usize> {
    let control = if controls { first_control(text) } else { None };
    let before = &text[..control.unwrap_or(text.len())];
    // U+FFFE and U+FFFF are EF BF BE and EF BF BF, of which the first byte is the rarest.
    memchr::memchr_iter(0xEF, before).find(|&i| before[i + 1] == 0xBF && before[i + 2] >= 0xBE).or(control)
}

/// Where there is a control character that is no white space. Without a branch per byte, so that SIMD serves.
fn first_control(text: &[u8]) -> Option<usize> {
    let is_control = |c: u8| (c < 0x20) & (c != b'\t') & (c != b'\n') & (c != b'\r');
    let any = |part: &[u8]| part.iter().fold(false, |any, &c| any | is_control(c));
    let mut parts = text.chunks(64).enumerate();
    let (i, part) = parts.find(|(_, part)| any(part))?;
    part.iter().position(|&c| is_control(c)).map(|k| i * 64 + k)
}
