//! The constants that subscriptions compare with, numbered, so that a value of a message is looked up once and then
//! compared as a number.

use crate::names::{halves, number_value, string_value, Sym, VALUE};
use hashbrown::hash_table::Entry;
use hashbrown::{HashMap, HashTable};

/// Number of a string constant.
pub type StrId = u32;

#[derive(Default)]
pub struct Constants {
    bytes: Vec<u8>,
    /// Where each string ends; it begins where the one before it does.
    ends: Vec<u32>,
    strings: HashTable<StrId>,
    /// Bytes of the longest string: most values that are none of them are longer.
    longest: usize,
    numbers: Vec<u64>,
    number_ids: HashMap<u64, u32>,
}

/// A multiply per sixteen bytes; short values dominate.
#[inline(always)]
fn hash(b: &[u8]) -> u64 {
    let mut h = b.len() as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let (whole, last) = b.split_at(b.len().saturating_sub(1) / 16 * 16);
    for c in whole.as_chunks::<16>().0 {
        let (x, y) = halves(c);
        h = fold(h ^ x, y);
    }
    let (x, y) = halves(last);
    fold(h ^ x, y)
}

#[inline(always)]
fn fold(x: u64, y: u64) -> u64 {
    let m = x as u128 * (y ^ 0xd6e8_feb8_6659_fd93) as u128;
    (m as u64) ^ ((m >> 64) as u64)
}

/// Are they the same? Short ones are compared without a call.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && if a.len() <= 16 { halves(a) == halves(b) } else { a == b }
}

impl Constants {
    pub fn intern(&mut self, s: &[u8]) -> StrId {
        if let Some(id) = self.find(s) {
            return id;
        }
        let id = self.ends.len() as u32;
        self.longest = self.longest.max(s.len());
        self.bytes.extend_from_slice(s);
        self.ends.push(self.bytes.len() as u32);
        let (ends, bytes) = (&self.ends, &self.bytes);
        self.strings.insert_unique(hash(s), id, |&id| hash(slice(ends, bytes, id)));
        id
    }

    /// Strings that lie one after another in `bytes`, and numbers; all distinct.
    pub fn open(bytes: &[u8], lens: &[u32], numbers: Vec<u64>) -> Result<Constants, &'static str> {
        let mut ends = Vec::with_capacity(lens.len());
        let mut strings = HashTable::with_capacity(lens.len());
        let mut at = 0u32;
        for (id, &len) in lens.iter().enumerate() {
            let end = at.checked_add(len).filter(|&end| end as usize <= bytes.len()).ok_or("a string out of place")?;
            let s = &bytes[at as usize..end as usize];
            ends.push(end);
            let ends = &ends;
            match strings.entry(hash(s), |&x| slice(ends, bytes, x) == s, |&x| hash(slice(ends, bytes, x))) {
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
        Ok(Constants { bytes: bytes.to_vec(), ends, strings, longest, numbers, number_ids })
    }

    /// Is this the symbol of a constant?
    pub fn has_value(&self, sym: Sym) -> bool {
        let known =
            |n: usize, symbol: fn(u32) -> Sym| (sym & !VALUE) >> 2 < n as u32 && symbol((sym & !VALUE) >> 2) == sym;
        known(self.ends.len(), string_value) || known(self.numbers.len(), number_value)
    }

    /// The number of a string that some subscription compares with.
    #[inline]
    pub fn find(&self, s: &[u8]) -> Option<StrId> {
        if s.len() > self.longest {
            return None;
        }
        self.strings.find(hash(s), |&id| same(self.get(id), s)).copied()
    }

    #[inline]
    pub fn get(&self, id: StrId) -> &[u8] {
        slice(&self.ends, &self.bytes, id)
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
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn strings(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len() as u32).map(|id| self.get(id))
    }

    pub fn numbers(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.numbers.iter().map(|&bits| f64::from_bits(bits))
    }

    pub fn has_numbers(&self) -> bool {
        !self.numbers.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 4 + self.strings.capacity() * 5 + self.numbers.capacity() * 24
    }
}

/// The bits of a number, where zero has one form: equal numbers have the same.
pub fn canonical(x: f64) -> u64 {
    (x + 0.0).to_bits()
}

#[inline(always)]
fn slice<'a>(ends: &[u32], bytes: &'a [u8], id: StrId) -> &'a [u8] {
    let start = if id == 0 { 0 } else { ends[id as usize - 1] };
    &bytes[start as usize..ends[id as usize] as usize]
}
