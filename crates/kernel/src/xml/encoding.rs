//! Messages that are not UTF-8: which encoding they are in, their text in UTF-8, and the way back to the bytes.

use super::error::{code, fault, show, Result};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Encoding {
    Utf8,
    Ascii,
    Latin1,
    Windows1252,
    Utf16 { big: bool },
}

/// Windows-1252 from 0x80 to 0x9F; 0 where it has nothing.
const WINDOWS: [u16; 32] = [
    0x20AC, 0, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017D, 0, 0,
    0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0, 0x017E, 0x0178,
];

/// What the first bytes say (XML 1.0 appendix F): the encoding, if it is not one that has ASCII in it, and the
/// length of the byte order mark.
pub(super) fn detect(bytes: &[u8]) -> Result<(Encoding, usize)> {
    match bytes {
        [0xEF, 0xBB, 0xBF, ..] => Ok((Encoding::Utf8, 3)),
        [0, 0, 0xFE, 0xFF, ..] | [0xFF, 0xFE, 0, 0, ..] | [0, 0, 0, b'<', ..] | [b'<', 0, 0, 0, ..] => {
            Err(fault(code::UNSUPPORTED_ENCODING, 0, "UTF-32 is not supported"))
        }
        [0x4C, 0x6F, 0xA7, 0x94, ..] => Err(fault(code::UNSUPPORTED_ENCODING, 0, "EBCDIC is not supported")),
        [0xFE, 0xFF, ..] => Ok((Encoding::Utf16 { big: true }, 2)),
        [0xFF, 0xFE, ..] => Ok((Encoding::Utf16 { big: false }, 2)),
        [0, b'<', ..] => Ok((Encoding::Utf16 { big: true }, 0)),
        [b'<', 0, ..] => Ok((Encoding::Utf16 { big: false }, 0)),
        _ => Ok((Encoding::Utf8, 0)),
    }
}

/// The encoding that a declaration names, given what the bytes say. `at` is where the name stands.
pub(super) fn declared(label: &[u8], at: usize, detected: Encoding, mark: usize) -> Result<Encoding> {
    let label_is = |names: &[&str]| names.iter().any(|name| label.eq_ignore_ascii_case(name.as_bytes()));
    let named = if label_is(&["UTF-8", "UTF8"]) {
        Encoding::Utf8
    } else if label_is(&["US-ASCII", "ASCII"]) {
        Encoding::Ascii
    } else if label_is(&["ISO-8859-1", "ISO_8859-1", "latin1"]) {
        Encoding::Latin1
    } else if label_is(&["windows-1252", "cp1252"]) {
        Encoding::Windows1252
    } else if label_is(&["UTF-16"]) {
        match detected {
            Encoding::Utf16 { .. } => detected,
            _ => Encoding::Utf16 { big: true },
        }
    } else if label_is(&["UTF-16BE"]) {
        Encoding::Utf16 { big: true }
    } else if label_is(&["UTF-16LE"]) {
        Encoding::Utf16 { big: false }
    } else {
        let message = format!("encoding {} is not supported", show(label));
        return Err(fault(code::UNSUPPORTED_ENCODING, at, message));
    };
    let wide = |encoding| matches!(encoding, Encoding::Utf16 { .. });
    let contradicts =
        if wide(named) || wide(detected) { named != detected } else { mark > 0 && named != Encoding::Utf8 };
    if contradicts {
        let message = format!("the message declares {} but its bytes are {}", show(label), detected.name());
        return Err(fault(code::ENCODING_MISMATCH, at, message));
    }
    Ok(named)
}

impl Encoding {
    fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "UTF-8",
            Encoding::Ascii => "US-ASCII",
            Encoding::Latin1 => "ISO-8859-1",
            Encoding::Windows1252 => "Windows-1252",
            Encoding::Utf16 { big: true } => "UTF-16BE",
            Encoding::Utf16 { big: false } => "UTF-16LE",
        }
    }

    /// How many of `bytes` are whole characters, where more may follow.
    pub fn whole(self, bytes: &[u8]) -> usize {
        let Encoding::Utf16 { big } = self else {
            return bytes.len();
        };
        let even = bytes.len() & !1;
        let high = even.checked_sub(if big { 2 } else { 1 }).is_some_and(|i| bytes[i] & 0xFC == 0xD8);
        even - if high { 2 } else { 0 }
    }

    /// Appends `bytes` (without byte order mark) in UTF-8. The offset of a fault is one in `out`.
    pub fn transcode(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.reserve(bytes.len() + bytes.len() / 8);
        let bad = match self {
            Encoding::Utf16 { big } => utf16(bytes, big, out),
            _ => self.single(bytes, out),
        };
        match bad {
            None => Ok(()),
            Some(what) => Err(fault(code::BAD_ENCODING, out.len(), format!("{what} in {}", self.name()))),
        }
    }

    /// Writes bytes of which each is a character; answers what is wrong with them.
    fn single(self, bytes: &[u8], out: &mut Vec<u8>) -> Option<String> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let ascii = ascii_length(rest);
            out.extend_from_slice(&rest[..ascii]);
            rest = &rest[ascii..];
            while let Some(&byte @ 0x80..) = rest.first() {
                let Some(c) = self.char(byte) else {
                    return Some(format!("byte 0x{byte:02X} means nothing"));
                };
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[1..];
            }
        }
        None
    }

    /// The character of one byte, in the encodings in which one byte is one character.
    fn char(self, byte: u8) -> Option<char> {
        match (self, byte) {
            (_, 0..=0x7F) | (Encoding::Latin1, _) | (Encoding::Windows1252, 0xA0..) => Some(char::from(byte)),
            (Encoding::Windows1252, _) => {
                let c = WINDOWS[usize::from(byte) - 0x80];
                char::from_u32(c.into()).filter(|&c| c != '\0')
            }
            _ => None,
        }
    }

    /// How many bytes of a message its UTF-8 text up to some place came from.
    pub fn original_length(self, text: &[u8]) -> usize {
        let chars = || String::from_utf8_lossy(text);
        match self {
            Encoding::Utf8 => text.len(),
            Encoding::Utf16 { .. } => chars().chars().map(|c| c.len_utf16() * 2).sum(),
            _ => chars().chars().count(),
        }
    }
}

/// How many ASCII characters come first.
fn ascii_length(bytes: &[u8]) -> usize {
    let blocks = bytes.chunks_exact(8).take_while(|block| block.is_ascii()).count() * 8;
    blocks + bytes[blocks..].iter().take_while(|byte| byte.is_ascii()).count()
}

/// Writes UTF-16; answers what is wrong with it.
fn utf16(bytes: &[u8], big: bool, out: &mut Vec<u8>) -> Option<String> {
    let unit = |pair: &[u8]| match big {
        true => u16::from_be_bytes([pair[0], pair[1]]),
        false => u16::from_le_bytes([pair[0], pair[1]]),
    };
    let mut rest = bytes;
    while rest.len() >= 2 {
        // Most of most messages is ASCII: eight characters at a time.
        while let Some((block, after)) = rest.split_first_chunk::<16>() {
            let mut ascii = [0; 8];
            let mut high = 0;
            for (to, pair) in ascii.iter_mut().zip(block.chunks_exact(2)) {
                high |= unit(pair);
                *to = unit(pair) as u8;
            }
            if high >= 0x80 {
                break;
            }
            out.extend_from_slice(&ascii);
            rest = after;
        }
        // Then characters one by one, until a block of ASCII may follow.
        for _ in 0..8 {
            let units = rest.chunks_exact(2).take(2).map(unit);
            match char::decode_utf16(units).next() {
                None => break,
                Some(Ok(c)) => {
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    rest = &rest[c.len_utf16() * 2..];
                }
                Some(Err(e)) => return Some(format!("0x{:04X} is half of a surrogate pair", e.unpaired_surrogate())),
            }
        }
    }
    (rest.len() == 1).then(|| "half a character at the end".into())
}
