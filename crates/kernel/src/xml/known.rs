//! Entities that a document refers to again and again: those with short names, found without hashing or comparing
//! strings. What is not here is found in the table of all entities; a name that takes the place of another costs time
//! and nothing else.

/// Where the expansion of an entity stands in the plain form, to be copied when it is referred to again.
#[derive(Clone, Copy)]
pub(super) struct Expansion {
    pub part: (usize, usize),
    pub cost: u64,
    /// Entities open inside each other in it.
    pub levels: usize,
}

const SLOTS_LOG2: u32 = 6;
/// No name: a name has at most seven bytes here, so that the last byte of its key is 0.
const FREE: u64 = u64::MAX;

pub(super) struct Known {
    slots: [(u64, Expansion); 1 << SLOTS_LOG2],
}

impl Known {
    pub fn new() -> Self {
        Known { slots: [(FREE, Expansion { part: (0, 0), cost: 0, levels: 0 }); 1 << SLOTS_LOG2] }
    }

    /// Takes in an entity whose name has been checked, and may be referred to, in the document.
    pub fn add(&mut self, name: &[u8], expansion: Expansion) {
        if name.len() < 8 {
            let mut bytes = [0; 8];
            bytes[..name.len()].copy_from_slice(name);
            let key = u64::from_le_bytes(bytes);
            self.slots[slot(key)] = (key, expansion);
        }
    }

    /// The entity whose name begins at `start`, and the offset past the `;` after it.
    #[inline(always)]
    pub fn find(&self, src: &[u8], start: usize) -> Option<(Expansion, usize)> {
        let word = word(src, start)?;
        let length = first_zero(word ^ repeated(b';'))?;
        let key = word & ((1 << (8 * length)) - 1);
        let (name, expansion) = self.slots[slot(key)];
        (name == key).then_some((expansion, start + length + 1))
    }
}

#[inline(always)]
fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOTS_LOG2)) as usize
}

/// Where the next `<` or `&` stands from `start` on. For runs that are short, as between references.
#[inline(always)]
pub(super) fn run_end(src: &[u8], start: usize) -> usize {
    let mut i = start;
    for _ in 0..4 {
        let Some(word) = word(src, i) else {
            break;
        };
        let hits = zeros(word ^ repeated(b'<')) | zeros(word ^ repeated(b'&'));
        if hits != 0 {
            return i + hits.trailing_zeros() as usize / 8;
        }
        i += 8;
    }
    memchr::memchr2(b'<', b'&', &src[i..]).map_or(src.len(), |length| i + length)
}

#[inline(always)]
fn word(src: &[u8], start: usize) -> Option<u64> {
    src.get(start..start + 8)?.first_chunk().map(|&bytes| u64::from_le_bytes(bytes))
}

const fn repeated(c: u8) -> u64 {
    0x0101_0101_0101_0101 * c as u64
}

/// The high bit of the first byte that is 0, and of no byte before it.
#[inline(always)]
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(repeated(1)) & !word & repeated(0x80)
}

#[inline(always)]
fn first_zero(word: u64) -> Option<usize> {
    let hits = zeros(word);
    (hits != 0).then_some(hits.trailing_zeros() as usize / 8)
}
