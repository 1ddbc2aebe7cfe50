//! Names (XML 1.0 5th edition §2.3). ASCII goes by table (or by SIMD, see `scan`), the rest by the ranges.

use std::collections::HashMap;

use super::chars::{at, first_char};

const START: u8 = 1;
const REST: u8 = 2;

/// ASCII characters of an NCName; the colon is no part of one.
static CLASS: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut c = 0;
    while c < 128 {
        let b = c as u8;
        if b.is_ascii_alphabetic() || b == b'_' {
            table[c] = START | REST;
        } else if b.is_ascii_digit() || b == b'-' || b == b'.' {
            table[c] = REST;
        }
        c += 1;
    }
    table
};

#[inline(always)]
pub(crate) fn is_ascii_rest(c: u8) -> bool {
    CLASS[c as usize] & REST != 0
}

fn is_start(c: char) -> bool {
    matches!(c,
        'A'..='Z' | 'a'..='z' | '_'
        | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}'
        | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}'
        | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
}

fn is_rest(c: char) -> bool {
    is_start(c) || matches!(c, '0'..='9' | '-' | '.' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

/// Does an NCName start at `i`?
#[inline(always)]
pub(crate) fn starts(src: &[u8], i: usize) -> bool {
    let c = at(src, i);
    CLASS[c as usize] & START != 0 || (c >= 0x80 && starts_wide(src, i))
}

#[cold]
#[inline(never)]
fn starts_wide(src: &[u8], i: usize) -> bool {
    first_char(&src[i..]).is_some_and(is_start)
}

/// Where an NCName that `i` lies in ends. For names that hold more than ASCII.
#[cold]
#[inline(never)]
pub(crate) fn end_wide(src: &[u8], mut i: usize) -> usize {
    loop {
        let c = at(src, i);
        if c < 0x80 {
            if !is_ascii_rest(c) {
                return i;
            }
            i += 1;
        } else {
            match first_char(&src[i..]) {
                Some(c) if is_rest(c) => i += c.len_utf8(),
                _ => return i,
            }
        }
    }
}

/// Where the NCName at `start` ends; `start` itself if there is none.
pub(crate) fn ncname_end(src: &[u8], start: usize) -> usize {
    if starts(src, start) {
        end_wide(src, start)
    } else {
        start
    }
}

/// Where the QName at `start` ends; `start` itself if there is none.
pub(crate) fn qname_end(src: &[u8], start: usize) -> usize {
    let end = ncname_end(src, start);
    if end > start && at(src, end) == b':' {
        let local = ncname_end(src, end + 1);
        if local > end + 1 {
            return local;
        }
    }
    end
}

/// Where the Nmtoken at `start` ends; `start` itself if there is none.
pub(crate) fn nmtoken_end(src: &[u8], start: usize) -> usize {
    let mut end = start;
    loop {
        end = end_wide(src, end);
        if at(src, end) != b':' {
            return end;
        }
        end += 1;
    }
}

/// Names numbered from 0 in the order of their arrival. Few are searched one by one, which is faster; many by hash,
/// with a secret key, so that a message cannot choose names that collide.
#[derive(Default)]
pub(crate) struct Numbered {
    names: Vec<Box<[u8]>>,
    /// While they are few: a digest of each.
    digests: Vec<u64>,
    index: HashMap<Box<[u8]>, usize>,
}

/// Both ends of a name and its length: few names that differ have the same.
#[inline(always)]
fn digest(name: &[u8]) -> u64 {
    let ends = match name {
        [a, b, c, d, ..] => {
            let tail = name.last_chunk().map_or(0, |&tail| u32::from_le_bytes(tail));
            u64::from(u32::from_le_bytes([*a, *b, *c, *d])) | u64::from(tail) << 32
        }
        [a, b, c] => u64::from(u32::from_le_bytes([*a, *b, *c, 0])),
        [a, b] => u64::from(u32::from_le_bytes([*a, *b, 0, 0])),
        [a] => u64::from(*a),
        [] => 0,
    };
    ends ^ (name.len() as u64) << 56
}

impl Numbered {
    const FEW: usize = 8;

    pub fn find(&self, name: &[u8]) -> Option<usize> {
        if self.names.len() <= Self::FEW {
            let digest = digest(name);
            let same = |i: &usize| self.digests[*i] == digest && *self.names[*i] == *name;
            (0..self.digests.len()).find(same)
        } else {
            self.index.get(name).copied()
        }
    }

    /// Its number, and whether it is new.
    pub fn add(&mut self, name: &[u8]) -> (usize, bool) {
        if let Some(number) = self.find(name) {
            return (number, false);
        }
        let number = self.names.len();
        self.names.push(name.into());
        if number < Self::FEW {
            self.digests.push(digest(name));
        } else if number == Self::FEW {
            self.index.extend(self.names.iter().cloned().zip(0..));
        } else {
            self.index.insert(name.into(), number);
        }
        (number, true)
    }

    pub fn name(&self, number: usize) -> &[u8] {
        &self.names[number]
    }
}
