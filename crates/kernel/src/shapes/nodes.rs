//! A message as a flat table of nodes in document order, with values as spans of the plain document. One table is
//! filled over and over; it holds nothing but what some pattern can ask for.

use super::program::Test;
use crate::names::{is_attribute, is_element, Sym, COMMENT, INSTRUCTION, NO_SYM, TEXT};
use crate::values::constants::Constants;
use crate::xml::{decode_attribute, decode_line_ends, decode_text};
use std::sync::atomic::{AtomicU64, Ordering};

/// Messages that were read into a table, in this process.
static BUILT: AtomicU64 = AtomicU64::new(0);

/// Returns how many messages this process has read into a table of nodes.
pub fn documents_built() -> u64 {
    BUILT.load(Ordering::Relaxed)
}

/// Index of a node. 0 is the document.
pub type NodeIx = u32;

#[derive(Clone, Copy, Debug)]
pub struct NodeRec {
    pub sym: Sym,
    pub parent: NodeIx,
    /// One past the last node of the subtree.
    pub end: NodeIx,
    /// For elements, text and the document the range of `chunks` that make up the string-value; for attributes,
    /// comments and PIs the value is the span `v0..v1` itself.
    v0: u32,
    v1: u32,
    /// The constant that the value is, `NO_CONSTANT`, or `UNREAD`.
    pub constant: u32,
    place: Place,
}

pub const NO_CONSTANT: u32 = u32::MAX;
pub const UNREAD: u32 = u32::MAX - 1;

#[derive(Clone, Copy)]
struct Chunk {
    start: u32,
    end: u32,
    plain: bool,
    cdata: bool,
}

impl Chunk {
    /// Appends the text that the chunk stands for.
    fn append(&self, src: &[u8], out: &mut Vec<u8>) {
        let raw = &src[self.start as usize..self.end as usize];
        if self.plain {
            out.extend_from_slice(raw);
        } else if self.cdata {
            decode_line_ends(raw, out);
        } else {
            decode_text(raw, out);
        }
    }

    /// Returns the text that the chunk stands for; `scratch` holds it where it is not plain.
    fn decode<'a>(&self, src: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        if self.plain {
            return &src[self.start as usize..self.end as usize];
        }
        self.append(src, scratch);
        scratch
    }
}

/// A node's place in the plain document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub start: u32,
    pub end: u32,
}

#[derive(Default)]
pub struct Nodes {
    pub recs: Vec<NodeRec>,
    /// Attribute values that are not plain, by node.
    coded: Vec<NodeIx>,
    chunks: Vec<Chunk>,
    /// Elements that declare namespaces.
    declaring: Vec<NodeIx>,
    cur: NodeIx,
    /// The text node that the next run of text belongs to, if it is still open.
    open_text: bool,
    /// By symbol the first node that has it and how many there are, valid where `seen` has this message's stamp.
    first: Vec<(NodeIx, u32)>,
    seen: Vec<u32>,
    stamp: u32,
    /// By node the next one with the same symbol.
    next: Vec<NodeIx>,
    /// The chunk looked up last, and the constant that it is: an element is asked for right after its only text.
    recent: (u32, u32),
    /// By constant the message that last had it and the first node whose value it is; by node the next such.
    valued: Vec<(u32, NodeIx)>,
    next_valued: Vec<NodeIx>,
    value_stamp: u32,
    unread: Vec<NodeIx>,
    linked: bool,
    indexed: bool,
}

/// Chunks that are read unasked.
const MANY: usize = 8;

/// No node.
const NOWHERE: NodeIx = u32::MAX;

impl Nodes {
    /// Returns the node, or the root where it is the document: what stands around that has no place in other messages.
    pub(crate) fn or_root(&self, node: NodeIx) -> NodeIx {
        if node > 0 {
            return node;
        }
        let mut n = 1;
        while (n as usize) < self.len() && !is_element(self.recs[n as usize].sym) {
            n = self.recs[n as usize].end;
        }
        n
    }

    pub fn begin(&mut self) {
        BUILT.fetch_add(1, Ordering::Relaxed);
        self.recs.clear();
        self.coded.clear();
        self.chunks.clear();
        self.declaring.clear();
        let place = Place { start: 0, end: 0 };
        self.recs.push(NodeRec { sym: NO_SYM, parent: 0, end: 0, v0: 0, v1: 0, constant: UNREAD, place });
        self.cur = 0;
        self.open_text = false;
        self.recent = (NOWHERE, NO_CONSTANT);
        self.linked = false;
        self.indexed = false;
    }

    #[inline(always)]
    pub fn open(&mut self, sym: Sym, start: u32) -> NodeIx {
        self.open_text = false;
        let ix = self.recs.len() as NodeIx;
        let at = self.chunks.len() as u32;
        let place = Place { start, end: start };
        self.recs.push(NodeRec { sym, parent: self.cur, end: 0, v0: at, v1: at, constant: UNREAD, place });
        self.cur = ix;
        ix
    }

    /// The element just opened declares namespaces.
    pub fn declares(&mut self) {
        self.declaring.push(self.cur);
    }

    #[inline(always)]
    pub fn close(&mut self, past: u32) {
        self.open_text = false;
        let (end, chunks) = (self.recs.len() as u32, self.chunks.len() as u32);
        let r = &mut self.recs[self.cur as usize];
        (r.end, r.v1, r.place.end) = (end, chunks, past);
        self.cur = r.parent;
    }

    /// The document ends.
    pub fn finish(&mut self) {
        self.open_text = false;
        let (end, chunks) = (self.recs.len() as u32, self.chunks.len() as u32);
        let r = &mut self.recs[0];
        (r.end, r.v1) = (end, chunks);
    }

    /// Links the nodes of each symbol, unless they are. Needed for `first_of` and `next_of`; only messages that patterns
    /// look at pay it.
    pub fn link(&mut self, symbols: usize) {
        if std::mem::replace(&mut self.linked, true) {
            return;
        }
        self.first.resize(symbols, (NOWHERE, 0));
        self.seen.resize(symbols, 0);
        if self.stamp == u32::MAX {
            self.seen.fill(0);
            self.stamp = 0;
        }
        self.stamp += 1;
        self.next.clear();
        self.next.resize(self.recs.len(), NOWHERE);
        for n in (1..self.recs.len()).rev() {
            let sym = self.recs[n].sym as usize;
            let first = &mut self.first[sym];
            if self.seen[sym] == self.stamp {
                self.next[n] = first.0;
                *first = (n as NodeIx, first.1 + 1);
            } else {
                self.seen[sym] = self.stamp;
                *first = (n as NodeIx, 1);
            }
        }
    }

    /// The first node with the symbol, `NodeIx::MAX` if there is none.
    #[inline(always)]
    pub fn first_of(&self, sym: Sym) -> NodeIx {
        match self.seen.get(sym as usize) {
            Some(&s) if s == self.stamp => self.first[sym as usize].0,
            _ => NOWHERE,
        }
    }

    /// How many nodes have the symbol.
    #[inline(always)]
    pub fn count_of(&self, sym: Sym) -> u32 {
        match self.seen.get(sym as usize) {
            Some(&s) if s == self.stamp => self.first[sym as usize].1,
            _ => 0,
        }
    }

    #[inline(always)]
    pub fn next_of(&self, n: NodeIx) -> NodeIx {
        self.next[n as usize]
    }

    /// The nodes with the symbol, in document order.
    #[inline(always)]
    pub fn of(&self, sym: Sym) -> impl Iterator<Item = NodeIx> + '_ {
        chain(self.first_of(sym), |n| self.next_of(n))
    }

    /// The nodes right below a node, attributes included.
    #[inline(always)]
    pub fn children(&self, n: NodeIx) -> impl Iterator<Item = NodeIx> + '_ {
        self.below(n, false)
    }

    /// The nodes below a node, at any depth if `deep`.
    #[inline(always)]
    pub fn below(&self, n: NodeIx, deep: bool) -> impl Iterator<Item = NodeIx> + '_ {
        let (mut next, end) = (n + 1, self.recs[n as usize].end);
        std::iter::from_fn(move || {
            let n = next;
            (n < end).then(|| {
                next = if deep { n + 1 } else { self.recs[n as usize].end };
                n
            })
        })
    }

    /// The constant that a node's value is, or `NO_CONSTANT`. Not before the value is whole.
    #[inline]
    pub fn constant(&mut self, src: &[u8], constants: &Constants, n: NodeIx, scratch: &mut Vec<u8>) -> u32 {
        let r = self.recs[n as usize];
        if r.constant != UNREAD {
            return r.constant;
        }
        let only = self.chunks_of(n) == 1;
        let id = if only && self.recent.0 == r.v0 {
            self.recent.1
        } else {
            constants.find(self.value(src, n, scratch)).unwrap_or(NO_CONSTANT)
        };
        if only {
            self.recent = (r.v0, id);
        }
        self.recs[n as usize].constant = id;
        id
    }

    /// Which constant a node's value is, if any, where that has been found out.
    #[inline]
    pub(crate) fn known_constant(&self, n: NodeIx) -> Option<Option<u32>> {
        let constant = self.recs[n as usize].constant;
        (constant != UNREAD).then(|| Some(constant).filter(|&id| id != NO_CONSTANT))
    }

    /// How many chunks a node's value is made of; attributes, comments and PIs have none.
    #[inline(always)]
    fn chunks_of(&self, n: NodeIx) -> usize {
        let r = &self.recs[n as usize];
        if !(is_element(r.sym) || r.sym == TEXT || n == 0) {
            return 0;
        }
        let to = if r.end == 0 { self.chunks.len() } else { r.v1 as usize };
        to - r.v0 as usize
    }

    /// Links the nodes whose values are the same constant, for `first_with` and `next_with`. Those with values made of
    /// many chunks that nothing has asked for yet are left in `unread`: to read them all may cost the square of the
    /// message.
    pub fn index_values(&mut self, src: &[u8], constants: &Constants, scratch: &mut Vec<u8>) {
        self.valued.resize(constants.len(), (0, NOWHERE));
        if self.value_stamp == u32::MAX {
            self.valued.fill((0, NOWHERE));
            self.value_stamp = 0;
        }
        self.value_stamp += 1;
        self.next_valued.resize(self.recs.len(), NOWHERE);
        self.unread.clear();
        for n in (0..self.recs.len() as NodeIx).rev() {
            if self.recs[n as usize].constant == UNREAD && self.chunks_of(n) > MANY {
                self.unread.push(n);
                continue;
            }
            let id = self.constant(src, constants, n, scratch);
            if id != NO_CONSTANT {
                let (stamp, first) = self.valued[id as usize];
                self.next_valued[n as usize] = if stamp == self.value_stamp { first } else { NOWHERE };
                self.valued[id as usize] = (self.value_stamp, n);
            }
        }
        // of one name after another, so that those of a name can be found
        self.unread.sort_unstable_by_key(|&n| self.recs[n as usize].sym);
        self.indexed = true;
    }

    /// Are the nodes linked by value?
    #[inline(always)]
    pub fn is_indexed(&self) -> bool {
        self.indexed
    }

    /// Nodes that are not linked though their values may be constants, and that may pass a test.
    #[inline]
    pub fn unread(&self, test: Test) -> &[NodeIx] {
        match test {
            Test::Exactly(sym) if !self.unread.is_empty() => self.unread_of(sym),
            _ => &self.unread,
        }
    }

    fn unread_of(&self, sym: Sym) -> &[NodeIx] {
        let name = |n: &NodeIx| self.recs[*n as usize].sym;
        let from = self.unread.partition_point(|n| name(n) < sym);
        &self.unread[from..][..self.unread[from..].partition_point(|n| name(n) == sym)]
    }

    /// The first node whose value is the constant, `NodeIx::MAX` if there is none.
    #[inline(always)]
    pub fn first_with(&self, constant: u32) -> NodeIx {
        match self.valued.get(constant as usize) {
            Some(&(stamp, first)) if stamp == self.value_stamp => first,
            _ => NOWHERE,
        }
    }

    /// How many nodes have the constant as their value; `most` if there are more.
    pub fn count_with(&self, constant: u32, most: usize) -> usize {
        self.with(constant).take(most).count()
    }

    /// The nodes whose value is the constant, in document order.
    #[inline(always)]
    pub fn with(&self, constant: u32) -> impl Iterator<Item = NodeIx> + '_ {
        chain(self.first_with(constant), |n| self.next_valued[n as usize])
    }

    /// An attribute, comment or PI with the span of its value; `plain` says that its bytes are its value.
    #[inline(always)]
    pub fn leaf(&mut self, sym: Sym, value: (u32, u32), place: Place, plain: bool) -> NodeIx {
        self.open_text = false;
        let ix = self.recs.len() as NodeIx;
        let (parent, end, (v0, v1)) = (self.cur, ix + 1, value);
        self.recs.push(NodeRec { sym, parent, end, v0, v1, constant: UNREAD, place });
        if !plain {
            self.coded.push(ix);
        }
        ix
    }

    /// A comment or PI.
    pub fn markup(&mut self, sym: Sym, src: &[u8], place: Place) -> NodeIx {
        let (before, after) = if sym == COMMENT { (4, 3) } else { (2, 2) };
        let end = place.end - after;
        let mut start = (place.start + before).min(end);
        if sym == INSTRUCTION {
            // white space between a PI's target and its data is no part of its value
            let data = &src[start as usize..end as usize];
            let target = data.iter().position(|c| c.is_ascii_whitespace()).unwrap_or(data.len());
            let space = data[target..].iter().position(|c| !c.is_ascii_whitespace()).unwrap_or(data.len() - target);
            start += (target + space) as u32;
        }
        let plain = !src[start as usize..end as usize].contains(&b'\r');
        self.leaf(sym, (start, end), place, plain)
    }

    /// A run of character data. True if it begins a new text node.
    #[inline(always)]
    pub fn text(&mut self, start: u32, end: u32, plain: bool, cdata: bool) -> bool {
        let at = self.chunks.len() as u32;
        self.chunks.push(Chunk { start, end, plain, cdata });
        if self.open_text {
            let last = self.recs.len() - 1;
            (self.recs[last].v1, self.recs[last].place.end) = (at + 1, end);
            return false;
        }
        self.open_text = true;
        let ix = self.recs.len() as NodeIx;
        let (parent, place) = (self.cur, Place { start, end });
        self.recs.push(NodeRec { sym: TEXT, parent, end: ix + 1, v0: at, v1: at + 1, constant: UNREAD, place });
        true
    }

    /// Text is open: the last node is a text node that may still grow.
    #[inline(always)]
    pub fn text_is_open(&self) -> bool {
        self.open_text
    }

    #[inline(always)]
    pub fn current(&self) -> NodeIx {
        self.cur
    }

    #[inline(always)]
    pub fn last(&self) -> NodeIx {
        self.recs.len() as NodeIx - 1
    }

    /// The nearest element that declares namespaces: the node itself or an ancestor.
    pub fn declaring(&self, n: NodeIx) -> Option<NodeIx> {
        let first = *self.declaring.first()?;
        let mut at = n;
        while at >= first {
            if self.declaring.binary_search(&at).is_ok() {
                return Some(at);
            }
            at = self.recs[at as usize].parent;
        }
        None
    }

    pub fn place(&self, n: NodeIx) -> Place {
        self.recs[n as usize].place
    }

    pub fn len(&self) -> usize {
        self.recs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.recs.is_empty()
    }

    /// The string-value of a node; of an open element, as far as it is read. `scratch` holds it where it is not
    /// one run of plain bytes.
    #[inline(always)]
    pub fn value<'a>(&self, src: &'a [u8], n: NodeIx, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        // an element with one run of plain bytes: by far the commonest
        let r = &self.recs[n as usize];
        let to = if r.end == 0 { self.chunks.len() as u32 } else { r.v1 };
        if is_element(r.sym) && to == r.v0 + 1 {
            let c = &self.chunks[r.v0 as usize];
            if c.plain {
                return &src[c.start as usize..c.end as usize];
            }
        }
        self.any_value(src, n, scratch)
    }

    /// The string-value of a node if it is one run of plain bytes. Not before the value is whole.
    #[inline]
    pub fn plain_value<'a>(&self, src: &'a [u8], n: NodeIx) -> Option<&'a [u8]> {
        let r = &self.recs[n as usize];
        if n != 0 && !is_element(r.sym) && r.sym != TEXT {
            let plain = self.coded.is_empty() || self.coded.binary_search(&n).is_err();
            return plain.then(|| &src[r.v0 as usize..r.v1 as usize]);
        }
        match &self.chunks[r.v0 as usize..r.v1 as usize] {
            [] => Some(b""),
            [c] if c.plain => Some(&src[c.start as usize..c.end as usize]),
            _ => None,
        }
    }

    /// At least the size of a node's string-value: that of what it is decoded from.
    pub fn value_size(&self, n: NodeIx) -> usize {
        let r = &self.recs[n as usize];
        if n != 0 && !is_element(r.sym) && r.sym != TEXT {
            return (r.v1 - r.v0) as usize;
        }
        self.chunks[r.v0 as usize..r.v1 as usize].iter().map(|c| (c.end - c.start) as usize).sum()
    }

    /// Is this the string-value of a node? Stops at the first difference. Also answers how many bytes were looked at.
    pub fn has_value(&self, src: &[u8], n: NodeIx, value: &[u8], scratch: &mut Vec<u8>) -> (bool, usize) {
        if let Some(plain) = self.plain_value(src, n) {
            return (plain == value, value.len().min(plain.len()));
        }
        let r = &self.recs[n as usize];
        if n != 0 && !is_element(r.sym) && r.sym != TEXT {
            return (self.any_value(src, n, scratch) == value, (r.v1 - r.v0) as usize);
        }
        let (mut rest, mut looked) = (value, 0);
        for chunk in &self.chunks[r.v0 as usize..r.v1 as usize] {
            scratch.clear();
            looked += if chunk.plain {
                1 + rest.len().min((chunk.end - chunk.start) as usize)
            } else {
                (chunk.end - chunk.start) as usize
            };
            match rest.strip_prefix(chunk.decode(src, scratch)) {
                Some(after) => rest = after,
                None => return (false, looked),
            }
        }
        (rest.is_empty(), looked)
    }

    fn any_value<'a>(&self, src: &'a [u8], n: NodeIx, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let r = &self.recs[n as usize];
        if is_attribute(r.sym) && n != 0 || !(is_element(r.sym) || r.sym == TEXT || n == 0) {
            let raw = &src[r.v0 as usize..r.v1 as usize];
            if self.coded.is_empty() || self.coded.binary_search(&n).is_err() {
                return raw;
            }
            scratch.clear();
            if is_attribute(r.sym) {
                decode_attribute(raw, scratch);
            } else {
                decode_line_ends(raw, scratch);
            }
            return scratch;
        }
        let open = r.end == 0;
        let to = if open { self.chunks.len() } else { r.v1 as usize };
        match &self.chunks[r.v0 as usize..to] {
            [] => b"",
            [c] if c.plain => &src[c.start as usize..c.end as usize],
            chunks => {
                scratch.clear();
                for c in chunks {
                    c.append(src, scratch);
                }
                scratch
            }
        }
    }
}

/// Follows links from the first node to the last.
#[inline(always)]
fn chain(first: NodeIx, next: impl Fn(NodeIx) -> NodeIx) -> impl Iterator<Item = NodeIx> {
    let mut at = first;
    std::iter::from_fn(move || {
        let n = at;
        (n != NOWHERE).then(|| {
            at = next(n);
            n
        })
    })
}
