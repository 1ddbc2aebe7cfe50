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
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Name {
    attribute: bool,
    /// `ANY_NS` for the test `*:local`.
    ns: u32,
    /// `None` for the test `ns:*`.
    local: Option<Box<[u8]>>,
}

/// The namespace of the tests `*:local`. A message's name in a namespace that no subscription mentions has this number,
/// too, so that such a name finds the symbol of `*:local` where a known name finds its own.
const ANY_NS: u32 = NsId::OTHER.0;

/// The most names that are entered for pairs of wildcards: `ns:local` where subscriptions test for `ns:*` and `*:local`.
const MOST_COMMON: usize = 1 << 14;

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
///
/// A name of a message has one symbol, from which follow the wildcards that it satisfies. So a name that satisfies two of
/// them, `ns:*` and `*:local`, is in the table even if no subscription mentions it.
pub struct Names {
    uris: Vec<Box<[u8]>>,
    uri_ids: HashMap<Box<[u8]>, u32>,
    /// By place; `None` where a name was given back and no other has taken its place.
    names: Vec<Option<Name>>,
    free: Vec<u32>,
    ids: HashMap<Name, Sym>,
    /// The symbols of `ns:*` and `@ns:*` by namespace, `NO_SYM` where no subscription uses them.
    any_in: Vec<[Sym; 2]>,
    /// The symbols of `*:local` and `@*:local`.
    any_named: Vec<Sym>,
    /// How many names were entered because they satisfy two wildcards.
    common: usize,
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
            ids: HashMap::new(),
            any_in: vec![],
            any_named: vec![],
            common: 0,
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

    /// Returns the symbol of a name test: `uri` is `None` for any namespace, `local` for any local name, but not both.
    /// `None` if there are too many pairs of `ns:*` and `*:local`.
    pub fn test(&mut self, attribute: bool, uri: Option<&[u8]>, local: Option<&[u8]>) -> Option<Sym> {
        let ns = uri.map_or(ANY_NS, |uri| self.intern_namespace(uri).0);
        let name = Name { attribute, ns, local: local.map(Into::into) };
        if let Some(&sym) = self.ids.get(&name) {
            return Some(sym);
        }
        if !self.enter_common(&name) {
            return None;
        }
        Some(self.enter(name))
    }

    /// Enters the names that satisfy a new wildcard and one that is there; false if they would be too many.
    fn enter_common(&mut self, wildcard: &Name) -> bool {
        let attribute = wildcard.attribute;
        let pairs: Vec<(u32, Box<[u8]>)> = match &wildcard.local {
            None => {
                let named = self.any_named.iter().filter(|&&sym| is_attribute(sym) == attribute);
                named.filter_map(|&sym| Some((wildcard.ns, self.name(sym)?.local.clone()?))).collect()
            }
            Some(local) if wildcard.ns == ANY_NS => {
                let wild = (0..).zip(&self.any_in).filter(|(_, any)| any[attribute as usize] != NO_SYM);
                wild.map(|(ns, _)| (ns, local.clone())).collect()
            }
            Some(_) => return true,
        };
        if self.common + pairs.len() > MOST_COMMON {
            return false;
        }
        self.common += pairs.len();
        for (ns, local) in pairs {
            let name = Name { attribute, ns, local: Some(local) };
            if !self.ids.contains_key(&name) {
                self.enter(name);
            }
        }
        true
    }

    /// Returns the symbol of a name that is no wildcard, or of `ns:*` where nobody tests for `*:local`.
    pub fn intern(&mut self, attribute: bool, uri: &[u8], local: Option<&[u8]>) -> Sym {
        let ns = self.intern_namespace(uri).0;
        let name = Name { attribute, ns, local: local.map(Into::into) };
        self.ids.get(&name).copied().unwrap_or_else(|| self.enter(name))
    }

    /// Gives a new name its symbol.
    fn enter(&mut self, name: Name) -> Sym {
        let place = self.free.pop().unwrap_or(self.names.len() as u32);
        let sym = FIRST + 2 * place + name.attribute as u32;
        match &name.local {
            None => self.any_in[name.ns as usize][name.attribute as usize] = sym,
            Some(local) => {
                if (self.used + 1) * 2 > self.slots.len() {
                    self.grow();
                }
                let (a, b) = halves(local);
                self.place(Slot { a, b, tag: tag(name.attribute, local.len()), ns: name.ns, sym });
                self.used += 1;
                if name.ns == ANY_NS {
                    self.any_named.push(sym);
                }
            }
        }
        match self.names.get_mut(place as usize) {
            Some(free) => *free = Some(name.clone()),
            None => self.names.push(Some(name.clone())),
        }
        self.ids.insert(name, sym);
        sym
    }

    /// Enters a name at the next place, as it was saved. Afterwards `open` must be called. False if it is there already.
    pub(crate) fn push(&mut self, attribute: bool, uri: Option<&[u8]>, local: Option<&[u8]>) -> bool {
        let ns = uri.map_or(ANY_NS, |uri| self.intern_namespace(uri).0);
        let name = Name { attribute, ns, local: local.map(Into::into) };
        if self.ids.contains_key(&name) || ns == ANY_NS && local.is_none() {
            return false;
        }
        self.enter(name);
        true
    }

    /// Appends a place without a name.
    pub(crate) fn push_gap(&mut self) {
        self.names.push(None);
    }

    /// Makes names that were saved ready for use: new ones take the places that have none. False if there are too many
    /// pairs of wildcards.
    pub(crate) fn open(&mut self) -> bool {
        self.free = (0..).zip(&self.names).filter(|(_, name)| name.is_none()).map(|(place, _)| place).collect();
        let named: Vec<Name> = self.any_named.iter().filter_map(|&sym| self.name(sym).cloned()).collect();
        named.iter().all(|name| self.enter_common(name))
    }

    /// The name of a symbol, if it is the symbol of a name.
    #[inline]
    fn name(&self, sym: Sym) -> Option<&Name> {
        self.names.get((sym.checked_sub(FIRST)? / 2) as usize)?.as_ref()
    }

    /// The symbol of an element or attribute of a message, which is entered if it is new.
    #[inline]
    pub fn symbol_or_intern(&mut self, attribute: bool, ns: NsId, local: &[u8]) -> Sym {
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
        let (a, b) = halves(local);
        let tag = tag(attribute, local.len());
        let mask = self.slots.len() - 1;
        let mut i = hash(a, b, tag, ns.0) & mask;
        loop {
            let s = &self.slots[i];
            if s.a == a && s.b == b && s.tag == tag && s.ns == ns.0 && (local.len() <= 16 || self.same(s.sym, local)) {
                return s.sym;
            }
            if s.tag == u32::MAX {
                return self.unknown(attribute, ns, local);
            }
            i = (i + 1) & mask;
        }
    }

    fn same(&self, sym: Sym, local: &[u8]) -> bool {
        self.name(sym).is_some_and(|name| name.local.as_deref() == Some(local))
    }

    #[inline]
    fn unknown(&self, attribute: bool, ns: NsId, local: &[u8]) -> Sym {
        if let Some(any) = self.any_in.get(ns.0 as usize) {
            if any[attribute as usize] != NO_SYM {
                return any[attribute as usize];
            }
            if !self.any_named.is_empty() {
                return self.symbol(attribute, NsId::OTHER, local);
            }
        }
        if attribute {
            OTHER_ATTRIBUTE
        } else {
            OTHER
        }
    }

    /// Returns the wildcards `ns:*` and `*:local` that a symbol of a message satisfies besides itself; `NO_SYM` for none.
    #[inline]
    pub fn also(&self, sym: Sym) -> [Sym; 2] {
        if sym & VALUE != 0 {
            return [NO_SYM; 2];
        }
        let Some(name) = self.name(sym) else { return [NO_SYM; 2] };
        let (Some(any), Some(local)) = (self.any_in.get(name.ns as usize), &name.local) else { return [NO_SYM; 2] };
        let named = if self.any_named.is_empty() { NO_SYM } else { self.any_named(name.attribute, local) };
        [any[name.attribute as usize], named]
    }

    /// Returns the symbol of `*:local`, or `NO_SYM`.
    fn any_named(&self, attribute: bool, local: &[u8]) -> Sym {
        match self.symbol(attribute, NsId::OTHER, local) {
            OTHER | OTHER_ATTRIBUTE => NO_SYM,
            sym => sym,
        }
    }

    /// Returns the tests besides the symbol itself that a symbol of a message satisfies; `NO_SYM` in place of those that
    /// it does not have.
    #[inline]
    pub fn wildcards(&self, sym: Sym) -> [Sym; 3] {
        let [ns, named] = self.also(sym);
        [Self::any_of(sym), ns, named]
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
        sym == test || test == Self::any_of(sym) || (test >= FIRST && self.also(sym).contains(&test))
    }

    /// Returns the namespace name and the local name of a symbol that stands for one name.
    pub fn describe(&self, sym: Sym) -> Option<(&[u8], &[u8])> {
        let name = self.name(sym).filter(|name| name.attribute == is_attribute(sym))?;
        Some((self.uris.get(name.ns as usize)?, name.local.as_deref()?))
    }

    /// Returns the namespace name of a symbol that stands for one name, or for all names of a namespace.
    pub fn namespace_name(&self, sym: Sym) -> Option<&[u8]> {
        let name = self.name(sym).filter(|name| name.attribute == is_attribute(sym))?;
        Some(self.uris.get(name.ns as usize)?)
    }

    /// Does the symbol stand for `ns:*` or `*:local`?
    #[inline]
    pub fn is_wildcard(&self, sym: Sym) -> bool {
        self.name(sym).is_some_and(|name| name.local.is_none() || name.ns == ANY_NS)
    }

    /// Can a path's step test for the symbol?
    pub fn is_test(&self, sym: Sym) -> bool {
        matches!(sym, ANY | ANY_ATTRIBUTE | TEXT | COMMENT | INSTRUCTION)
            || self.name(sym).is_some_and(|name| name.attribute == is_attribute(sym))
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
            let uri = self.uris.get(n.ns as usize).map(|uri| &**uri);
            Some(Entry { sym, attribute: n.attribute, uri, local: n.local.as_deref() })
        })
    }
}

/// A symbol and the name that it stands for.
pub(crate) struct Entry<'a> {
    pub sym: Sym,
    pub attribute: bool,
    /// `None` for the test `*:local`.
    pub uri: Option<&'a [u8]>,
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

    #[test]
    fn a_local_name_is_found_in_every_namespace() {
        let mut n = Names::new();
        let known = n.intern(false, b"u", Some(b"a"));
        let a = n.test(false, None, Some(b"a")).unwrap();
        let (u, v) = (n.namespace(b"u"), n.intern_namespace(b"v"));
        assert_eq!((n.symbol(false, u, b"a"), n.also(known)), (known, [NO_SYM, a]));
        for ns in [NsId::NONE, v, NsId::OTHER] {
            assert_eq!(n.symbol(false, ns, b"a"), a);
            assert_eq!((n.symbol(false, ns, b"b"), n.symbol(true, ns, b"a")), (OTHER, OTHER_ATTRIBUTE));
        }
        assert!(n.satisfies(known, a) && n.satisfies(a, a) && n.satisfies(a, ANY) && !n.satisfies(OTHER, a));
        // Both orders: what satisfies two wildcards has a symbol of its own.
        let any = n.test(false, Some(b"v"), None).unwrap();
        let b = n.test(false, None, Some(b"b")).unwrap();
        for (local, named) in [(b"a", a), (b"b", b)] {
            let sym = n.symbol(false, v, local);
            assert!(sym != any && sym != named && n.satisfies(sym, any) && n.satisfies(sym, named));
            assert_eq!(n.symbol(false, u, local), if named == a { known } else { b });
        }
        assert_eq!(n.symbol(false, v, b"c"), any);
        assert!(n.describe(a).is_none() && n.namespace_name(any) == Some(b"v") && n.is_wildcard(a) && n.is_test(a));
    }

    #[test]
    fn pairs_of_wildcards_are_bounded() {
        let mut n = Names::new();
        for i in 0..256u32 {
            assert!(n.test(false, Some(&i.to_le_bytes()), None).is_some());
        }
        let refused = (0..256u32).filter(|i| n.test(false, None, Some(&i.to_le_bytes())).is_none()).count();
        assert_eq!(refused, 256 - MOST_COMMON / 256);
        assert!(n.test(true, None, Some(b"a")).is_some());
    }
}
