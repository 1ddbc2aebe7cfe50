//! The constants that subscriptions compare with, numbered, so that a value of a message is looked up once and then
//! compared as a number.

use crate::names::{number_value, string_value, Sym, VALUE};
use hashbrown::hash_table::Entry;
use hashbrown::{HashMap, HashTable};

/// Number of a string constant.
pub type StrId = u32;

#[derive(Default)]
pub struct Constants {
    bytes: Vec<u8>,
    spans: Vec<(u32, u32)>,
    strings: HashTable<StrId>,
    /// Bytes of the longest string: most values that are none of them are longer.
    longest: usize,
    numbers: Vec<u64>,
    number_ids: HashMap<u64, u32>,
}

fn hash(b: &[u8]) -> u64 {
    // Short values dominate: a multiply per eight bytes, with the length mixed in.
    let mut h = b.len() as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut chunks = b.chunks_exact(8);
    for c in &mut chunks {
        h = fold(h, u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]));
    }
    let mut last = 0u64;
    for &c in chunks.remainder() {
        last = last << 8 | c as u64;
    }
    fold(h, last)
}

#[inline(always)]
fn fold(h: u64, x: u64) -> u64 {
    let m = (h ^ x) as u128 * 0xd6e8_feb8_6659_fd93_u128;
    (m as u64) ^ ((m >> 64) as u64)
}

impl Constants {
    pub fn intern(&mut self, s: &[u8]) -> StrId {
        if let Some(id) = self.find(s) {
            return id;
        }
        let id = self.spans.len() as u32;
        self.longest = self.longest.max(s.len());
        self.spans.push((self.bytes.len() as u32, s.len() as u32));
        self.bytes.extend_from_slice(s);
        let (spans, bytes) = (&self.spans, &self.bytes);
        self.strings.insert_unique(hash(s), id, |&id| hash(slice(spans, bytes, id)));
        id
    }

    /// Strings that lie one after another in `bytes`, and numbers; all distinct.
    pub fn open(bytes: &[u8], lens: &[u32], numbers: Vec<u64>) -> Result<Constants, &'static str> {
        let mut spans = Vec::with_capacity(lens.len());
        let mut strings = HashTable::with_capacity(lens.len());
        let mut at = 0u32;
        for (id, &len) in lens.iter().enumerate() {
            let end = at.checked_add(len).filter(|&end| end as usize <= bytes.len()).ok_or("a string out of place")?;
            let s = &bytes[at as usize..end as usize];
            spans.push((at, len));
            let spans = &spans;
            match strings.entry(hash(s), |&x| slice(spans, bytes, x) == s, |&x| hash(slice(spans, bytes, x))) {
                Entry::Occupied(_) => return Err("a string that is there twice"),
                Entry::Vacant(free) => free.insert(id as StrId),
            };
            at = end;
        }
        let mut number_ids = HashMap::with_capacity(numbers.len());
        for (id, &bits) in numbers.iter().enumerate() {
            if canonical(f64::from_bits(bits)) != bits || number_ids.insert(bits, id as u32).is_some() {
                return Err("a number that is there twice");
            }
        }
        if at as usize != bytes.len() {
            return Err("text after the last string");
        }
        let longest = lens.iter().max().map_or(0, |&len| len as usize);
        Ok(Constants { bytes: bytes.to_vec(), spans, strings, longest, numbers, number_ids })
    }

    /// Is this the symbol of a constant?
    pub fn has_value(&self, sym: Sym) -> bool {
        let known =
            |n: usize, symbol: fn(u32) -> Sym| (sym & !VALUE) >> 2 < n as u32 && symbol((sym & !VALUE) >> 2) == sym;
        known(self.spans.len(), string_value) || known(self.numbers.len(), number_value)
    }

    /// The number of a string that some subscription compares with.
    #[inline]
    pub fn find(&self, s: &[u8]) -> Option<StrId> {
        if s.len() > self.longest {
            return None;
        }
        self.strings.find(hash(s), |&id| self.get(id) == s).copied()
    }

    #[inline]
    pub fn get(&self, id: StrId) -> &[u8] {
        slice(&self.spans, &self.bytes, id)
    }

    pub fn intern_number(&mut self, x: f64) -> u32 {
        let bits = canonical(x);
        let next = self.numbers.len() as u32;
        let id = *self.number_ids.entry(bits).or_insert(next);
        if id == next {
            self.numbers.push(bits);
        }
        id
    }

    #[inline]
    pub fn find_number(&self, x: f64) -> Option<u32> {
        if x.is_nan() || self.numbers.is_empty() {
            return None;
        }
        self.number_ids.get(&canonical(x)).copied()
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub fn strings(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.spans.len() as u32).map(|id| self.get(id))
    }

    pub fn numbers(&self) -> impl Iterator<Item = f64> + '_ {
        self.numbers.iter().map(|&bits| f64::from_bits(bits))
    }

    pub fn has_numbers(&self) -> bool {
        !self.numbers.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * 8 + self.strings.capacity() * 5 + self.numbers.capacity() * 24
    }
}

/// Zero has one form.
fn canonical(x: f64) -> u64 {
    (x + 0.0).to_bits()
}

fn slice<'a>(spans: &[(u32, u32)], bytes: &'a [u8], id: StrId) -> &'a [u8] {
    let (start, len) = spans[id as usize];
    &bytes[start as usize..(start + len) as usize]
}
