//! Symbols: names that subscriptions mention, numbered. Only subscribed names enter the table; every other name
//! of a message is one symbol, `OTHER`, so that no message can make the table (or anything keyed by it) grow.

use crate::xml::NsId;
use std::collections::HashMap;

/// A symbol. Odd symbols are attributes, even ones everything else.
pub type Sym = u32;

/// Any element (`*` as a test; never occurs in a message).
pub const ANY: Sym = 0;
/// Any attribute (`@*` as a test; never occurs in a message).
pub const ANY_ATTRIBUTE: Sym = 1;
pub const TEXT: Sym = 2;
pub const COMMENT: Sym = 4;
pub const INSTRUCTION: Sym = 6;
/// An element whose name no subscription mentions.
pub const OTHER: Sym = 8;
/// An attribute whose name no subscription mentions.
pub const OTHER_ATTRIBUTE: Sym = 9;
/// Any node but an attribute (`node()` as a test in patterns; never occurs in a message).
pub const NODE: Sym = 10;
/// The first symbol of a name.
pub(crate) const FIRST: Sym = 16;
/// Set in the symbols that stand for a value a node has, the leaves below all others: `path = "x"` is a path whose
/// last step is the value.
pub const VALUE: Sym = 1 << 30;
/// No symbol.
pub const NO_SYM: Sym = u32::MAX;

/// The symbol of a string constant.
#[inline(always)]
pub fn string_value(constant: u32) -> Sym {
    VALUE | constant << 2
}

/// The symbol of a number constant.
#[inline(always)]
pub fn number_value(constant: u32) -> Sym {
    VALUE | constant << 2 | 2
}

#[inline(always)]
pub fn is_value(sym: Sym) -> bool {
    sym & (VALUE | 1) == VALUE
}

#[inline(always)]
pub fn is_attribute(sym: Sym) -> bool {
    sym & 1 == 1
}

/// True for the symbols that stand for elements in a message.
#[inline(always)]
pub fn is_element(sym: Sym) -> bool {
    sym & (VALUE | 1) == 0 && !matches!(sym, TEXT | COMMENT | INSTRUCTION)
}

/// What a symbol is called.
#[derive(Debug)]
struct Name {
    attribute: bool,
    ns: u32,
    /// `None` for the test `ns:*`.
    local: Option<Box<[u8]>>,
}

#[derive(Clone, Copy)]
struct Slot {
    a: u64,
    b: u64,
    /// Length of the name, and bit 31 for attributes.
    tag: u32,
    ns: u32,
    sym: Sym,
}

const EMPTY: Slot = Slot { a: 0, b: 0, tag: u32::MAX, ns: 0, sym: NO_SYM };

/// The symbol table.
pub struct Names {
    uris: Vec<Box<[u8]>>,
    uri_ids: HashMap<Box<[u8]>, u32>,
    /// By place; `None` where a name was given back and no other has taken its place.
    names: Vec<Option<Name>>,
    free: Vec<u32>,
    /// The symbols of `ns:*` and `@ns:*` by namespace, `NO_SYM` where no subscription uses them.
    any_in: Vec<[Sym; 2]>,
    slots: Vec<Slot>,
    used: usize,
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

const XML_NS: &[u8] = b"http://www.w3.org/XML/1998/namespace";

impl Names {
    pub fn new() -> Names {
        let mut n = Names {
            uris: vec![],
            uri_ids: HashMap::new(),
            names: vec![],
            free: vec![],
            any_in: vec![],
            slots: vec![EMPTY; 64],
            used: 0,
        };
        n.intern_namespace(b"");
        n.intern_namespace(XML_NS);
        n
    }

    pub fn intern_namespace(&mut self, uri: &[u8]) -> NsId {
        if let Some(&id) = self.uri_ids.get(uri) {
            return NsId(id);
        }
        let id = self.uris.len() as u32;
        self.uris.push(uri.into());
        self.uri_ids.insert(uri.into(), id);
        self.any_in.push([NO_SYM; 2]);
        NsId(id)
    }

    /// The number of a namespace name seen in a message.
    pub fn namespace(&self, uri: &[u8]) -> NsId {
        match self.uri_ids.get(uri) {
            Some(&id) => NsId(id),
            None => NsId::OTHER,
        }
    }

    /// The symbol of a name test: `local` is `None` for any local name in the namespace.
    pub fn intern(&mut self, attribute: bool, uri: &[u8], local: Option<&[u8]>) -> Sym {
        let ns = self.intern_namespace(uri).0;
        let known = match local {
            None => Some(self.any_in[ns as usize][attribute as usize]).filter(|&sym| sym != NO_SYM),
            Some(local) => self.find(attribute, ns, local),
        };
        if let Some(sym) = known {
            return sym;
        }
        let place = self.free.pop().unwrap_or(self.names.len() as u32);
        let sym = FIRST + 2 * place + attribute as u32;
        match local {
            None => self.any_in[ns as usize][attribute as usize] = sym,
            Some(local) => {
                if (self.used + 1) * 2 > self.slots.len() {
                    self.grow();
                }
                let (a, b) = halves(local);
                self.place(Slot { a, b, tag: tag(attribute, local.len()), ns, sym });
                self.used += 1;
            }
        }
        let name = Some(Name { attribute, ns, local: local.map(Into::into) });
        match self.names.get_mut(place as usize) {
            Some(free) => *free = name,
            None => self.names.push(name),
        }
        sym
    }

    /// Appends a place without a name.
    pub(crate) fn push_gap(&mut self) {
        self.names.push(None);
    }

    /// From now on new names take the places that have none.
    pub(crate) fn fill_gaps(&mut self) {
        self.free = (0..).zip(&self.names).filter(|(_, name)| name.is_none()).map(|(place, _)| place).collect();
    }

    /// The name of a symbol, if it is the symbol of a name.
    #[inline]
    fn name(&self, sym: Sym) -> Option<&Name> {
        self.names.get((sym.checked_sub(FIRST)? / 2) as usize)?.as_ref()
    }

    /// The symbol of an element or attribute of a message, which is entered if it is new.
    #[inline]
    pub fn enter(&mut self, attribute: bool, ns: NsId, local: &[u8]) -> Sym {
        let sym = self.symbol(attribute, ns, local);
        if matches!(sym, OTHER | OTHER_ATTRIBUTE) || self.is_wildcard(sym) {
            let uri = self.uris.get(ns.0 as usize).cloned().unwrap_or_default();
            return self.intern(attribute, &uri, Some(local));
        }
        sym
    }

    /// Number of namespaces.
    pub fn namespaces(&self) -> usize {
        self.uris.len()
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![EMPTY; old.len() * 2];
        for s in old {
            if s.tag != u32::MAX {
                self.place(s);
            }
        }
    }

    fn place(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut i = hash(slot.a, slot.b, slot.tag, slot.ns) & mask;
        while self.slots[i].tag != u32::MAX {
            i = (i + 1) & mask;
        }
        self.slots[i] = slot;
    }

    /// The symbol of an element or attribute of a message.
    #[inline(always)]
    pub fn symbol(&self, attribute: bool, ns: NsId, local: &[u8]) -> Sym {
        self.find(attribute, ns.0, local).unwrap_or_else(|| self.unknown(attribute, ns))
    }

    #[inline(always)]
    fn find(&self, attribute: bool, ns: u32, local: &[u8]) -> Option<Sym> {
        let (a, b) = halves(local);
        let tag = tag(attribute, local.len());
        let mask = self.slots.len() - 1;
        let mut i = hash(a, b, tag, ns) & mask;
        loop {
            let s = &self.slots[i];
            if s.a == a && s.b == b && s.tag == tag && s.ns == ns && (local.len() <= 16 || self.same(s.sym, local)) {
                return Some(s.sym);
            }
            if s.tag == u32::MAX {
                return None;
            }
            i = (i + 1) & mask;
        }
    }

    fn same(&self, sym: Sym, local: &[u8]) -> bool {
        self.name(sym).is_some_and(|name| name.local.as_deref() == Some(local))
    }

    #[inline]
    fn unknown(&self, attribute: bool, ns: NsId) -> Sym {
        if let Some(any) = self.any_in.get(ns.0 as usize) {
            if any[attribute as usize] != NO_SYM {
                return any[attribute as usize];
            }
        }
        if attribute {
            OTHER_ATTRIBUTE
        } else {
            OTHER
        }
    }

    /// The namespace wildcard that a symbol of a message satisfies besides itself, or `NO_SYM`.
    #[inline]
    pub fn also(&self, sym: Sym) -> Sym {
        if sym & VALUE != 0 {
            return NO_SYM;
        }
        let Some(name) = self.name(sym) else { return NO_SYM };
        let any = self.any_in[name.ns as usize][is_attribute(sym) as usize];
        if any == sym {
            NO_SYM
        } else {
            any
        }
    }

    /// The test that every node of the symbol's kind satisfies, or `NO_SYM`.
    #[inline(always)]
    pub fn any_of(sym: Sym) -> Sym {
        if is_attribute(sym) {
            ANY_ATTRIBUTE
        } else if is_element(sym) {
            ANY
        } else {
            NO_SYM
        }
    }

    /// Does a node with symbol `sym` pass the test?
    #[inline(always)]
    pub fn satisfies(&self, sym: Sym, test: Sym) -> bool {
        sym == test || test == Self::any_of(sym) || (test >= FIRST && self.also(sym) == test)
    }

    /// Namespace name and local name of a symbol (`None` as local name for a namespace wildcard).
    pub fn describe(&self, sym: Sym) -> Option<(&[u8], Option<&[u8]>)> {
        let n = self.name(sym)?;
        if n.attribute != is_attribute(sym) {
            return None;
        }
        Some((&self.uris[n.ns as usize], n.local.as_deref()))
    }

    /// Does the symbol stand for all names of a namespace?
    #[inline]
    pub fn is_wildcard(&self, sym: Sym) -> bool {
        self.name(sym).is_some_and(|name| name.local.is_none())
    }

    /// Can a path's step test for the symbol?
    pub fn is_test(&self, sym: Sym) -> bool {
        matches!(sym, ANY | ANY_ATTRIBUTE | TEXT | COMMENT | INSTRUCTION) || self.describe(sym).is_some()
    }

    /// One past the highest symbol of a name.
    pub fn bound(&self) -> usize {
        FIRST as usize + 2 * self.names.len()
    }

    /// By place, a symbol and its name: attribute, namespace name, local name. `None` where a place is free.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Option<Entry<'_>>> {
        (FIRST..).step_by(2).zip(&self.names).map(|(even, name)| {
            let n = name.as_ref()?;
            let sym = even + n.attribute as u32;
            Some(Entry { sym, attribute: n.attribute, uri: &self.uris[n.ns as usize], local: n.local.as_deref() })
        })
    }
}

/// A symbol and the name that it stands for.
pub(crate) struct Entry<'a> {
    pub sym: Sym,
    pub attribute: bool,
    pub uri: &'a [u8],
    /// `None` for the test `ns:*`.
    pub local: Option<&'a [u8]>,
}

#[inline(always)]
fn tag(attribute: bool, len: usize) -> u32 {
    (len as u32 & 0x3fff_ffff) | (attribute as u32) << 30
}

/// First and last eight bytes of a name or value (overlapping where it is shorter): with its length they identify every
/// one of up to 16 bytes, and no load leaves the slice.
#[inline(always)]
pub(crate) fn halves(name: &[u8]) -> (u64, u64) {
    let n = name.len();
    if n >= 8 {
        let a = u64::from_le_bytes(name[..8].try_into().unwrap());
        let b = u64::from_le_bytes(name[n - 8..].try_into().unwrap());
        (a, b)
    } else if n >= 4 {
        let a = u32::from_le_bytes(name[..4].try_into().unwrap());
        let b = u32::from_le_bytes(name[n - 4..].try_into().unwrap());
        (a as u64, b as u64)
    } else if n > 0 {
        (name[0] as u64 | (name[n / 2] as u64) << 8, name[n - 1] as u64)
    } else {
        (0, 0)
    }
}

#[inline(always)]
fn hash(a: u64, b: u64, tag: u32, ns: u32) -> usize {
    let x = a ^ 0x9e37_79b9_7f4a_7c15 ^ ((ns as u64) << 32 | tag as u64);
    let m = x as u128 * (b ^ 0xd6e8_feb8_6659_fd93) as u128;
    let h = (m as u64) ^ ((m >> 64) as u64);
    (h ^ h >> 29) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_are_told_apart() {
        let mut n = Names::new();
        let alphabet = b"abcdefghijklmnopqrstuvwxyz";
        let mut syms = vec![];
        for len in 1..=26 {
            syms.push(n.intern(false, b"", Some(&alphabet[..len])));
            syms.push(n.intern(true, b"", Some(&alphabet[..len])));
            syms.push(n.intern(false, b"u", Some(&alphabet[..len])));
        }
        let mut i = 0;
        for len in 1..=26 {
            assert_eq!(n.symbol(false, NsId::NONE, &alphabet[..len]), syms[i]);
            assert_eq!(n.symbol(true, NsId::NONE, &alphabet[..len]), syms[i + 1]);
            assert_eq!(n.symbol(false, n.namespace(b"u"), &alphabet[..len]), syms[i + 2]);
            i += 3;
        }
        // same first and last eight bytes, same length, other middle
        let long = n.intern(false, b"", Some(b"aaaaaaaaXbbbbbbbb"));
        assert_eq!(n.symbol(false, NsId::NONE, b"aaaaaaaaXbbbbbbbb"), long);
        assert_eq!(n.symbol(false, NsId::NONE, b"aaaaaaaaYbbbbbbbb"), OTHER);
        assert_eq!(n.symbol(false, NsId::NONE, b""), OTHER);
        assert_eq!(n.symbol(true, NsId::OTHER, b"a"), OTHER_ATTRIBUTE);
    }

    #[test]
    fn a_namespace_wildcard_takes_known_and_unknown_names() {
        let mut n = Names::new();
        let known = n.intern(false, b"u", Some(b"a"));
        let any = n.intern(false, b"u", None);
        let ns = n.namespace(b"u");
        assert_eq!(n.symbol(false, ns, b"a"), known);
        assert_eq!(n.symbol(false, ns, b"zzz"), any);
        assert!(n.satisfies(known, any) && n.satisfies(any, any) && n.satisfies(any, ANY));
        assert!(!n.satisfies(OTHER, any) && n.satisfies(OTHER, ANY) && !n.satisfies(TEXT, ANY));
        assert_eq!(n.symbol(true, ns, b"a"), OTHER_ATTRIBUTE);
    }
}
