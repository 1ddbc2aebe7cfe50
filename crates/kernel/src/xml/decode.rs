//! Values of character data and attributes that are not plain: references, line ends, normalisation.
//! The input has been read before, so every reference in it is well-formed.

use memchr::{memchr, memchr2};

/// The character data that `raw` stands for: references replaced, CR LF and CR turned to LF (XML 1.0 §2.11).
/// Not for CDATA sections, in which `&` means itself: see [`decode_line_ends`].
pub fn decode_text(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(i) = memchr2(b'&', b'\r', rest) {
        out.extend_from_slice(&rest[..i]);
        rest = if rest[i] == b'&' { reference(&rest[i..], out) } else { line_end(&rest[i..], b'\n', out) };
    }
    out.extend_from_slice(rest);
}

/// The text of a CDATA section, comment or processing instruction: CR LF and CR turned to LF.
pub fn decode_line_ends(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(i) = memchr(b'\r', rest) {
        out.extend_from_slice(&rest[..i]);
        rest = line_end(&rest[i..], b'\n', out);
    }
    out.extend_from_slice(rest);
}

/// The value of an attribute of type CDATA (XML 1.0 §3.3.3): references replaced, each white-space character,
/// unless it comes from a reference, turned to a space.
pub fn decode_attribute(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(i) = rest.iter().position(|c| matches!(c, b'&' | b'\r' | b'\n' | b'\t')) {
        out.extend_from_slice(&rest[..i]);
        rest = match rest[i] {
            b'&' => reference(&rest[i..], out),
            b'\r' => line_end(&rest[i..], b' ', out),
            _ => {
                out.push(b' ');
                &rest[i + 1..]
            }
        };
    }
    out.extend_from_slice(rest);
}

fn line_end<'a>(rest: &'a [u8], becomes: u8, out: &mut Vec<u8>) -> &'a [u8] {
    out.push(becomes);
    if rest.get(1) == Some(&b'\n') {
        &rest[2..]
    } else {
        &rest[1..]
    }
}

/// Replaces the reference that `rest` begins with; answers what follows it. An entity that is not predefined is
/// one the reader may skip (its declaration is in a DTD that is not read), so it stands for nothing.
fn reference<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some(end) = memchr(b';', rest) else {
        out.extend_from_slice(rest);
        return &[];
    };
    let name = &rest[1..end];
    if let Some(byte) = predefined(name) {
        out.push(byte);
    } else if let Some(c) = name.strip_prefix(b"#").and_then(char_number).and_then(char::from_u32) {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    &rest[end + 1..]
}

pub(super) fn predefined(name: &[u8]) -> Option<u8> {
    Some(match name {
        b"amp" => b'&',
        b"lt" => b'<',
        b"gt" => b'>',
        b"quot" => b'"',
        b"apos" => b'\'',
        _ => return None,
    })
}

/// The number of `233` or `xE9`, as it stands between `&#` and `;`. Too large ones saturate.
pub(super) fn char_number(text: &[u8]) -> Option<u32> {
    let (digits, radix) = match text {
        [b'x', hex @ ..] => (hex, 16),
        _ => (text, 10),
    };
    if digits.is_empty() {
        return None;
    }
    digits
        .iter()
        .try_fold(0u32, |number, &c| Some(number.saturating_mul(radix).saturating_add(char::from(c).to_digit(radix)?)))
}
