//! Subscriptions in, messages in, matched subscriptions out.
//!
//! An [`Engine`] does not change while messages are matched; all that does is in a [`Matcher`], which its caller
//! owns, one per thread.

use crate::names::{Names, Sym, COMMENT, INSTRUCTION, TEXT};
use crate::paths::fsm::{self, Fsms};
use crate::paths::index::PathIndex;
use crate::paths::nfa::{self, Nfa};
use crate::paths::trie::Trie;
use crate::paths::{PathId, Step};
use crate::sorted::Sorter;
use crate::xml::{Limits, NsId, Reader, Sink, Tag, Text, XmlError};
use std::collections::HashMap;

/// How paths are matched. All agree; they differ in speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Trie,
    Nfa,
    FsmPerQuery,
}

impl Mode {
    pub const ALL: [(&'static str, Mode); 3] =
        [("trie", Mode::Trie), ("nfa", Mode::Nfa), ("fsm-per-query", Mode::FsmPerQuery)];
}

/// The bound on what messages can make a matcher's cache grow to.
pub const CACHE_BYTES: usize = 256 << 20;

pub struct Engine {
    mode: Mode,
    cache_bytes: usize,
    index: PathIndex,
    nfa: Nfa,
    fsms: Fsms,
    /// The paths of each subscription: the first here, the others, where there are any, in `more`.
    first: Vec<PathId>,
    more: HashMap<u32, Box<[PathId]>>,
    free: Vec<u32>,
}

const GONE: PathId = u32::MAX;

impl Engine {
    pub fn new(mode: Mode, cache_bytes: usize) -> Engine {
        Engine {
            mode,
            cache_bytes,
            index: PathIndex::default(),
            nfa: Nfa::default(),
            fsms: Fsms::default(),
            first: vec![],
            more: HashMap::new(),
            free: vec![],
        }
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub fn names(&self) -> &Names {
        &self.index.names
    }

    /// The symbols that paths are made of.
    pub fn names_mut(&mut self) -> &mut Names {
        &mut self.index.names
    }

    /// A subscription that a message satisfies if it satisfies any of the paths (none of which is empty). Returns
    /// its number; numbers of removed subscriptions are used again.
    pub fn add<'a>(&mut self, paths: impl Iterator<Item = &'a [Step]>) -> u32 {
        let sub = self.free.pop().unwrap_or(self.first.len() as u32);
        let mut ids: Vec<PathId> = vec![];
        let mut distinct: Vec<&[Step]> = paths.collect();
        distinct.sort_unstable();
        distinct.dedup();
        for path in distinct {
            let before = self.index.len();
            let id = self.index.add(sub, path);
            if self.index.len() > before {
                match self.mode {
                    Mode::Trie => {}
                    Mode::Nfa => self.nfa.insert(path, id),
                    Mode::FsmPerQuery => self.fsms.insert(path, id),
                }
            }
            ids.push(id);
        }
        let first = ids.first().copied().unwrap_or(GONE);
        if sub as usize == self.first.len() {
            self.first.push(first);
        } else {
            self.first[sub as usize] = first;
        }
        if ids.len() > 1 {
            self.more.insert(sub, ids[1..].into());
        }
        sub
    }

    /// Adds many subscriptions: path i ends at `path_ends[i]` of the steps, subscription j at `sub_ends[j]` of the paths.
    pub fn add_many(&mut self, steps: &[Step], path_ends: &[u32], sub_ends: &[u32]) -> Result<Vec<u32>, &'static str> {
        if !steps.iter().all(|s| self.index.names.is_test(s.test())) {
            return Err("a step tests for an unknown symbol");
        }
        let rising = |ends: &[u32], len: usize| {
            ends.is_sorted_by(|a, b| a < b) && ends.first() != Some(&0) && ends.last().map_or(0, |&e| e as usize) == len
        };
        if !rising(path_ends, steps.len()) || !rising(sub_ends, path_ends.len()) {
            return Err("every path needs steps and every subscription paths");
        }
        let path = |i: usize| &steps[if i == 0 { 0 } else { path_ends[i - 1] as usize }..path_ends[i] as usize];
        let mut from = 0;
        Ok(sub_ends
            .iter()
            .map(|&end| {
                let sub = self.add((from..end as usize).map(path));
                from = end as usize;
                sub
            })
            .collect())
    }

    /// False if there is no such subscription.
    pub fn remove(&mut self, sub: u32) -> bool {
        match self.first.get_mut(sub as usize) {
            Some(first) if *first != GONE => {
                let mut ids = vec![std::mem::replace(first, GONE)];
                ids.extend(self.more.remove(&sub).unwrap_or_default());
                for &id in &ids {
                    if self.index.refs(id) == 1 {
                        match self.mode {
                            Mode::Trie => {}
                            Mode::Nfa => self.nfa.remove(self.index.steps(id)),
                            Mode::FsmPerQuery => self.fsms.remove(id),
                        }
                    }
                }
                self.index.remove(sub, &ids);
                self.free.push(sub);
                true
            }
            _ => false,
        }
    }

    /// Work that is better done once for many changes; call before matching.
    pub fn settle(&mut self) {
        self.index.settle();
    }

    /// Moves everything added one by one to where bulk additions are; worth it once a matcher says so.
    pub fn fold(&mut self) {
        self.index.fold();
    }

    /// The paths of a subscription; none if there is no such subscription.
    pub fn paths_of(&self, sub: u32) -> impl Iterator<Item = &[Step]> {
        let first = self.first.get(sub as usize).copied().filter(|&id| id != GONE);
        let more = self.more.get(&sub).map_or(&[][..], |b| b);
        first.into_iter().chain(more.iter().copied()).map(|id| self.index.steps(id))
    }

    /// Number of subscriptions that share a path.
    pub fn sharers(&self, path: &[Step]) -> u32 {
        self.index.find(path).map_or(0, |id| self.index.refs(id))
    }

    /// Number of subscriptions.
    pub fn len(&self) -> usize {
        self.first.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One past the highest subscription number.
    pub fn bound(&self) -> usize {
        self.first.len()
    }

    /// Number of distinct paths.
    pub fn path_count(&self) -> usize {
        self.index.len()
    }

    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.first.capacity() * 4
    }

    pub fn matcher(&self) -> Matcher {
        let paths = match self.mode {
            Mode::Trie => Paths::Trie(Box::new(Trie::new(&self.index, self.cache_bytes))),
            Mode::Nfa => Paths::Nfa(nfa::Run::default(), Found::default()),
            Mode::FsmPerQuery => Paths::Fsm(fsm::Run::default(), Found::default()),
        };
        Matcher { reader: Reader::new(), paths, sorter: Sorter::default() }
    }
}

enum Paths {
    Trie(Box<Trie>),
    Nfa(nfa::Run, Found),
    Fsm(fsm::Run, Found),
}

/// The distinct paths a message has satisfied so far, for the modes without a trie.
#[derive(Default)]
struct Found {
    message: u32,
    stamp: Vec<u32>,
    paths: Vec<PathId>,
    sub_stamp: Vec<u32>,
}

impl Found {
    fn begin(&mut self, index: &PathIndex) {
        if self.message == u32::MAX {
            self.stamp.fill(0);
            self.sub_stamp.fill(0);
            self.message = 0;
        }
        self.message += 1;
        self.paths.clear();
        self.stamp.resize(index.path_bound(), 0);
        self.sub_stamp.resize(index.sub_bound(), 0);
    }

    fn add(&mut self, path: PathId) {
        if std::mem::replace(&mut self.stamp[path as usize], self.message) != self.message {
            self.paths.push(path);
        }
    }

    fn deliver(&mut self, index: &PathIndex, out: &mut Vec<u32>) {
        for &p in &self.paths {
            index.subs(p, |sub| {
                if std::mem::replace(&mut self.sub_stamp[sub as usize], self.message) != self.message {
                    out.push(sub);
                }
            });
        }
    }
}

/// What a thread needs to match messages: the reader's scratch and the path cache.
pub struct Matcher {
    reader: Reader,
    paths: Paths,
    sorter: Sorter,
}

impl Matcher {
    /// Appends the numbers of the subscriptions that the message satisfies to `out`, each once, in ascending order.
    /// On an error nothing is appended.
    pub fn read_sorted(
        &mut self,
        engine: &Engine,
        xml: &[u8],
        limits: &Limits,
        out: &mut Vec<u32>,
    ) -> Result<(), XmlError> {
        let from = out.len();
        self.read(engine, xml, limits, out)?;
        self.sorter.sort(&mut out[from..], engine.bound());
        Ok(())
    }

    /// As `read_sorted`, but in no particular order, which costs less.
    pub fn read(&mut self, engine: &Engine, xml: &[u8], limits: &Limits, out: &mut Vec<u32>) -> Result<(), XmlError> {
        self.recognise(engine, xml, limits)?;
        let index = &engine.index;
        match &mut self.paths {
            Paths::Trie(trie) => trie.deliver(index, out),
            Paths::Nfa(_, found) | Paths::Fsm(_, found) => found.deliver(index, out),
        }
        Ok(())
    }

    /// Reads the message and finds out which paths it contains, without collecting the subscriptions.
    pub fn recognise(&mut self, engine: &Engine, xml: &[u8], limits: &Limits) -> Result<(), XmlError> {
        let index = &engine.index;
        match &mut self.paths {
            Paths::Trie(trie) => {
                trie.sync(index);
                trie.begin();
                self.reader.read(xml, limits, &mut TrieSink { trie, index })
            }
            Paths::Nfa(run, found) => {
                run.reset(&engine.nfa);
                found.begin(index);
                let step = NfaStep { run, nfa: &engine.nfa, found };
                self.reader.read(xml, limits, &mut PlainSink { step, index })
            }
            Paths::Fsm(run, found) => {
                run.reset();
                found.begin(index);
                let step = FsmStep { run, fsms: &engine.fsms, found };
                self.reader.read(xml, limits, &mut PlainSink { step, index })
            }
        }
    }

    /// Late additions have cost more than `Engine::fold` would.
    pub fn is_overworked(&self, engine: &Engine) -> bool {
        matches!(&self.paths, Paths::Trie(t) if t.is_overworked(&engine.index))
    }

    /// Number of tag paths cached, and the bytes they take.
    pub fn cache(&self) -> (usize, usize) {
        match &self.paths {
            Paths::Trie(t) => (t.len(), t.bytes()),
            _ => (0, 0),
        }
    }
}

struct TrieSink<'a> {
    trie: &'a mut Trie,
    index: &'a PathIndex,
}

impl Sink for TrieSink<'_> {
    #[inline(always)]
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.index.names.namespace(uri)
    }

    #[inline(always)]
    fn start(&mut self, tag: &Tag<'_>) {
        if self.trie.is_dead() {
            return self.trie.open_dead();
        }
        let sym = self.index.names.symbol(false, tag.ns, tag.local());
        self.trie.open(self.index, sym);
        if !tag.attrs.is_empty() && self.trie.wants_attributes() {
            for a in tag.attrs {
                let local = &tag.src[a.local as usize..a.name_end as usize];
                self.trie.leaf(self.index, self.index.names.symbol(true, a.ns, local));
            }
        }
    }

    #[inline(always)]
    fn end(&mut self, _at: u32, _past: u32) {
        self.trie.close();
    }

    #[inline(always)]
    fn text(&mut self, _text: &Text<'_>) {
        self.leaf(TEXT);
    }

    fn comment(&mut self, _src: &[u8], _start: u32, _end: u32) {
        self.leaf(COMMENT);
    }

    fn instruction(&mut self, _src: &[u8], _start: u32, _end: u32) {
        self.leaf(INSTRUCTION);
    }
}

impl TrieSink<'_> {
    #[inline(always)]
    fn leaf(&mut self, sym: Sym) {
        if self.trie.wants_leaves() {
            self.trie.leaf(self.index, sym);
        }
    }
}

/// A matcher that simply follows every event.
trait PathStep {
    fn open(&mut self, names: &Names, sym: Sym);
    fn close(&mut self);
}

struct NfaStep<'a> {
    run: &'a mut nfa::Run,
    nfa: &'a Nfa,
    found: &'a mut Found,
}

impl PathStep for NfaStep<'_> {
    fn open(&mut self, names: &Names, sym: Sym) {
        self.run.open(self.nfa, names, sym, |p| self.found.add(p));
    }
    fn close(&mut self) {
        self.run.close();
    }
}

struct FsmStep<'a> {
    run: &'a mut fsm::Run,
    fsms: &'a Fsms,
    found: &'a mut Found,
}

impl PathStep for FsmStep<'_> {
    fn open(&mut self, names: &Names, sym: Sym) {
        self.run.open(self.fsms, names, sym, |p| self.found.add(p));
    }
    fn close(&mut self) {
        self.run.close();
    }
}

struct PlainSink<'a, S> {
    step: S,
    index: &'a PathIndex,
}

impl<S: PathStep> PlainSink<'_, S> {
    fn leaf(&mut self, sym: Sym) {
        self.step.open(&self.index.names, sym);
        self.step.close();
    }
}

impl<S: PathStep> Sink for PlainSink<'_, S> {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.index.names.namespace(uri)
    }
    fn start(&mut self, tag: &Tag<'_>) {
        let names = &self.index.names;
        self.step.open(names, names.symbol(false, tag.ns, tag.local()));
        for a in tag.attrs {
            self.leaf(names.symbol(true, a.ns, &tag.src[a.local as usize..a.name_end as usize]));
        }
    }
    fn end(&mut self, _at: u32, _past: u32) {
        self.step.close();
    }
    fn text(&mut self, _text: &Text<'_>) {
        self.leaf(TEXT);
    }
    fn comment(&mut self, _src: &[u8], _start: u32, _end: u32) {
        self.leaf(COMMENT);
    }
    fn instruction(&mut self, _src: &[u8], _start: u32, _end: u32) {
        self.leaf(INSTRUCTION);
    }
}
