//! The fragments of a chunking scheme, written in one pass.

use super::automaton::{Automaton, StateId};
use super::fragment::{Fragment, Run, Tags};
use crate::names::{Names, Sym};
use crate::tagpaths::TagPaths;
use crate::xml::{Limits, NsId, Sink, Stream, Tag, Text, XmlError};

pub use super::automaton::Keep;

/// How a chunk is written.
#[derive(Clone, Copy, Default)]
pub struct Manner {
    /// Its fragment is the document itself.
    pub whole: bool,
    /// It may be cut between any two of the subtrees that it keeps.
    pub batches: bool,
}

/// A fragment that is done.
pub struct Written {
    pub chunk: usize,
    pub xml: Vec<u8>,
    pub runs: Vec<Run>,
}

pub struct Settings {
    pub limits: Limits,
    pub window: usize,
    pub max_total: u64,
    /// A batch is done when it has this much.
    pub batch: usize,
    /// A fragment, or one subtree of a batch, must not have more.
    pub max_fragment: usize,
    /// The distinct tag paths are wanted.
    pub tag_paths: bool,
}

/// Reads a document and writes its fragments.
pub struct Chunker {
    stream: Stream,
    sink: Fragments,
}

impl Chunker {
    pub fn new(names: Names, keeps: Vec<Keep>, manners: &[Manner], settings: Settings) -> Chunker {
        let Settings { limits, window, max_total, batch, max_fragment, tag_paths } = settings;
        let chunks = manners.iter().map(|&manner| Chunk { manner, ..Chunk::default() }).collect();
        let sink = Fragments {
            names,
            automaton: Automaton::new(keeps),
            states: vec![],
            quiet: 0,
            next: 1,
            in_text: false,
            tags: Tags::default(),
            chunks,
            written: vec![],
            batch,
            max_fragment,
            tag_paths: tag_paths.then(|| TagPaths::with_most(MOST_TAG_PATHS)),
            told: 1,
            has_too_many: false,
            path: vec![],
        };
        Chunker { stream: Stream::new(limits, window, max_total), sink }
    }

    /// Takes the next bytes of the document.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), XmlError> {
        self.stream.push(bytes, &mut self.sink).inspect_err(|_| self.sink.stop())
    }

    pub fn finish(&mut self) -> Result<(), XmlError> {
        self.stream.finish(&mut self.sink).inspect_err(|_| self.sink.stop())
    }

    /// What has been written since this was last asked.
    pub fn take(&mut self) -> Vec<Written> {
        let lenient = self.stream.is_lenient();
        let done = std::mem::take(&mut self.sink.written).into_iter();
        done.map(|(chunk, Fragment { mut xml, runs, .. })| {
            if lenient {
                // References to what an external DTD may declare are still to be passed over.
                xml.splice(0..0, *b"<!DOCTYPE d SYSTEM \"d\">");
            }
            Written { chunk, xml, runs }
        })
        .collect()
    }

    /// The chunks whose fragments are larger than they may be: there will be none of these.
    pub fn overfull(&self) -> Vec<usize> {
        let chunks = self.sink.chunks.iter().enumerate();
        chunks.filter(|(_, chunk)| chunk.overfull).map(|(i, _)| i).collect()
    }

    /// The tag paths that are new, as namespace and local names; nothing if there are too many to tell.
    #[allow(clippy::type_complexity)]
    pub fn new_tag_paths(&mut self) -> Option<Vec<Vec<(Vec<u8>, Vec<u8>)>>> {
        let Fragments { names, tag_paths, told, has_too_many, .. } = &mut self.sink;
        let Some(paths) = tag_paths else { return Some(vec![]) };
        if *has_too_many {
            return None;
        }
        let from = std::mem::replace(told, paths.len() as u32);
        let name = |sym: &Sym| {
            let (uri, local) = names.describe(*sym).unwrap_or_default();
            (uri.to_vec(), local.to_vec())
        };
        Some((from..*told).map(|id| paths.tags(id)[1..].iter().map(name).collect()).collect())
    }

    /// Nodes of the document so far, itself included.
    pub fn nodes(&self) -> u64 {
        self.sink.next
    }
}

#[derive(Default)]
struct Chunk {
    manner: Manner,
    fragment: Fragment,
    copying: Option<Copying>,
    /// Its fragment would be larger than it may be.
    overfull: bool,
}

/// A subtree that is being copied.
#[derive(Clone, Copy)]
struct Copying {
    /// Of its element.
    depth: usize,
    /// What is not copied yet begins here in the buffer at hand.
    from: usize,
    /// The number of its first node.
    first: u64,
    /// What the fragment had before.
    length: usize,
    runs: usize,
}

impl Chunk {
    fn copy(&mut self, tags: &Tags, depth: usize, tag: &Tag<'_>, first: u64) {
        self.fragment.open(tags, depth);
        let (length, runs) = (self.fragment.xml.len(), self.fragment.runs.len());
        self.fragment.run(first, tag.start);
        self.copying = Some(Copying { depth, from: tag.start as usize, first, length, runs });
    }

    /// The subtree ends at `past`; `next` is the number of the node after it.
    fn copied(&mut self, src: &[u8], past: usize, next: u64) {
        if let Some(Copying { from, first, .. }) = self.copying.take() {
            self.fragment.xml.extend_from_slice(&src[from..past]);
            self.fragment.next += next - first;
        }
    }

    fn check(&mut self, most: usize) {
        if self.fragment.xml.len() > most {
            *self = Chunk { manner: self.manner, overfull: true, ..Chunk::default() };
        }
    }
}

struct Fragments {
    names: Names,
    automaton: Automaton,
    /// Of the open elements: the state, and whether nothing below can be of interest but as a part of what is copied
    /// anyway. Elements below such a one are not here, only counted in `quiet`.
    states: Vec<(StateId, bool)>,
    quiet: u32,
    /// The number of the next node.
    next: u64,
    in_text: bool,
    tags: Tags,
    chunks: Vec<Chunk>,
    written: Vec<(usize, Fragment)>,
    batch: usize,
    max_fragment: usize,
    tag_paths: Option<TagPaths<()>>,
    /// How many of them have been told.
    told: u32,
    has_too_many: bool,
    /// The tag paths of the open elements.
    path: Vec<u32>,
}

/// A document with more tag paths than these is given up on.
const MOST_TAG_PATHS: usize = 1 << 16;
/// Namespaces beyond this many are one.
const MOST_NAMESPACES: usize = 1 << 16;

impl Fragments {
    fn open(&mut self, tag: &Tag<'_>) {
        let sym = if self.tells_tag_paths() && tag.ns != NsId::OTHER {
            self.names.symbol_or_intern(false, tag.ns, tag.local())
        } else {
            self.names.symbol(false, tag.ns, tag.local())
        };
        let from = self.states.last().map_or(Automaton::ROOT, |state| state.0);
        let state = self.automaton.step(&self.names, from, sym);
        let depth = self.states.len();
        let text = &tag.src[tag.start as usize..tag.end as usize];
        self.tags.push(text, tag.name().len(), self.next, tag.attrs.len() as u64, tag.start);
        if depth == 0 {
            for chunk in self.chunks.iter_mut().filter(|chunk| !chunk.manner.batches) {
                if chunk.manner.whole {
                    chunk.copy(&self.tags, 0, tag, self.next);
                } else {
                    chunk.fragment.open(&self.tags, 1); // however little it keeps, it is a document
                }
            }
        }
        let state_ref = self.automaton.state(state);
        for &(i, subtree) in &state_ref.kept {
            let chunk = &mut self.chunks[i];
            if chunk.copying.is_some() || chunk.overfull {
                continue;
            }
            if !subtree {
                chunk.fragment.open(&self.tags, depth + 1);
            } else if chunk.fragment.written > depth {
                // The document element of a fragment that is always there.
                chunk.fragment = Fragment::default();
                chunk.copy(&self.tags, depth, tag, self.next);
            } else {
                chunk.copy(&self.tags, depth, tag, self.next);
            }
        }
        let rests = |&i: &usize| self.chunks[i].copying.is_some() || self.chunks[i].overfull;
        let still = self.tag_paths.is_none() && state_ref.live.iter().all(rests);
        self.states.push((state, still));
        if let Some(paths) = &mut self.tag_paths {
            let parent = self.path.last().copied().unwrap_or(0);
            let path = paths.child(parent, sym, |()| true, |_, ()| {});
            self.has_too_many |= path.is_err();
            self.path.push(path.unwrap_or(0));
        }
    }

    fn tells_tag_paths(&self) -> bool {
        self.tag_paths.is_some() && !self.has_too_many
    }

    fn close(&mut self, src: &[u8], past: usize) {
        let depth = self.states.len() - 1;
        for i in 0..self.chunks.len() {
            let chunk = &mut self.chunks[i];
            match chunk.copying {
                Some(copying) if copying.depth == depth => {
                    chunk.copied(src, past, self.next);
                    chunk.check(self.max_fragment);
                    if chunk.manner.batches && chunk.fragment.xml.len() >= self.batch {
                        self.write(i);
                    }
                }
                Some(_) => {}
                None => chunk.fragment.close(&self.tags, depth),
            }
        }
        self.tags.pop();
        self.states.pop();
        self.path.pop();
    }

    /// The fragment of a chunk is done.
    fn write(&mut self, i: usize) {
        let chunk = &mut self.chunks[i];
        chunk.fragment.close(&self.tags, 0);
        if !chunk.fragment.xml.is_empty() {
            self.written.push((i, std::mem::take(&mut chunk.fragment)));
        }
    }

    /// The document is broken: what can be said of what comes before is said.
    fn stop(&mut self) {
        for i in 0..self.chunks.len() {
            let chunk = &mut self.chunks[i];
            if let Some(copying) = chunk.copying.take() {
                chunk.fragment.xml.truncate(copying.length);
                chunk.fragment.runs.truncate(copying.runs);
            }
            if chunk.manner.batches {
                self.write(i);
            }
        }
    }

    /// A comment or processing instruction.
    fn other(&mut self, src: &[u8], start: u32, end: u32) {
        self.in_text = false;
        if self.states.is_empty() {
            for chunk in self.chunks.iter_mut().filter(|chunk| chunk.manner.whole && !chunk.overfull) {
                chunk.fragment.run(self.next, start);
                chunk.fragment.next += 1;
                chunk.fragment.xml.extend_from_slice(&src[start as usize..end as usize]);
                chunk.check(self.max_fragment);
            }
        }
        self.next += 1;
    }
}

impl Sink for Fragments {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        if self.tells_tag_paths() && self.names.namespaces() < MOST_NAMESPACES {
            self.names.intern_namespace(uri)
        } else {
            self.names.namespace(uri)
        }
    }

    #[inline]
    fn start(&mut self, tag: &Tag<'_>) {
        self.in_text = false;
        if self.quiet > 0 || self.states.last().is_some_and(|state| state.1) {
            self.quiet += 1;
        } else {
            self.open(tag);
        }
        self.next += 1 + tag.attrs.len() as u64;
    }

    #[inline]
    fn end(&mut self, src: &[u8], _at: u32, past: u32) {
        self.in_text = false;
        if self.quiet > 0 {
            self.quiet -= 1;
        } else {
            self.close(src, past as usize);
        }
    }

    #[inline]
    fn text(&mut self, _text: &Text<'_>) {
        self.next += u64::from(!self.in_text);
        self.in_text = true;
    }

    fn comment(&mut self, src: &[u8], start: u32, end: u32) {
        self.other(src, start, end);
    }

    fn instruction(&mut self, src: &[u8], start: u32, end: u32) {
        self.other(src, start, end);
    }

    fn turn(&mut self, src: &[u8], read: u32, next: u32, offset: &mut dyn FnMut(u32) -> u64) {
        self.tags.place(offset);
        for (_, fragment) in &mut self.written {
            fragment.place(offset);
        }
        for chunk in &mut self.chunks {
            chunk.fragment.place(offset);
            if let Some(copying) = &mut chunk.copying {
                chunk.fragment.xml.extend_from_slice(&src[copying.from..(read as usize).max(copying.from)]);
                copying.from = next as usize;
            }
            chunk.check(self.max_fragment);
        }
        self.automaton.trim(self.states.iter_mut().map(|state| &mut state.0));
    }

    fn finish(&mut self, _src: &[u8]) {
        for i in 0..self.chunks.len() {
            self.write(i);
        }
    }
}
