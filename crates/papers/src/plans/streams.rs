//! Path-tuple streams (broker §2.3): for each path all ways in which it matches a message, as node ids by step, in the
//! order of the last one. Whether and how a path fits depends on a node's tag path alone, so that it is found out once
//! per tag path; a message is one pass over its nodes for all paths of all plans.

use super::alignments::alignments;
use twigcast_kernel::internals::{Message, NodeIx, PathIx, PathSet, TagPaths, TooMuch};

/// Fields of tuples that one message may have in all streams.
const MAX_FIELDS: usize = 1 << 25;
/// Ways in which one path may fit one tag path.
const MAX_WAYS: usize = 1 << 16;

/// The paths that fit a tag path: for each way the depths of their steps, one after the other.
#[derive(Default, Clone)]
struct Fits {
    paths: Vec<(PathIx, Box<[u32]>)>,
    seen: u32,
    too_many: bool,
}

#[derive(Default)]
struct Stream {
    stamp: u32,
    width: u32,
    nodes: Vec<NodeIx>,
}

/// The tuples of a stream.
#[derive(Clone, Copy)]
pub struct Tuples<'a> {
    width: usize,
    nodes: &'a [NodeIx],
}

impl Tuples<'_> {
    pub fn len(self) -> usize {
        self.nodes.len() / self.width
    }

    pub fn is_empty(self) -> bool {
        self.nodes.is_empty()
    }

    /// The node in a field, which counts from 1.
    #[inline]
    pub fn node(self, tuple: u32, field: u32) -> NodeIx {
        self.nodes[tuple as usize * self.width + field as usize - 1]
    }

    #[inline]
    pub fn last(self, tuple: u32) -> NodeIx {
        self.nodes[(tuple as usize + 1) * self.width - 1]
    }
}

#[derive(Default)]
pub struct Streams {
    tags: TagPaths<Fits>,
    tag_of: Vec<u32>,
    of: Vec<Stream>,
    stamp: u32,
}

impl Streams {
    /// The path matching engine: all streams of a message.
    pub fn read(&mut self, paths: &PathSet, message: Message<'_>) -> Result<(), TooMuch> {
        if self.stamp == u32::MAX {
            self.of.clear();
            self.stamp = 0;
        }
        self.stamp += 1;
        self.of.resize_with(paths.len(), Stream::default);
        self.tags.begin();
        self.tag_of.clear();
        self.tag_of.push(0);
        let mut ancestors: Vec<NodeIx> = vec![];
        let mut fields = 0;
        for n in 1..message.nodes.len() {
            let rec = &message.nodes.recs[n];
            let parent = self.tag_of[rec.parent as usize];
            let tag = self.tags.child(
                parent,
                rec.sym,
                |fits| fits.seen == paths.len() as u32,
                |tags, fits| {
                    for path in fits.seen..paths.len() as u32 {
                        let mut ways = vec![];
                        let whole = alignments(paths.get(path), tags, message.names, MAX_WAYS, &mut |depths| {
                            ways.extend_from_slice(depths);
                        });
                        fits.too_many |= !whole;
                        if !ways.is_empty() {
                            fits.paths.push((path, ways.into()));
                        }
                    }
                    fits.seen = paths.len() as u32;
                },
            )?;
            self.tag_of.push(tag);
            let t = self.tags.get(tag);
            ancestors.resize(ancestors.len().max(t.depth as usize + 1), 0);
            ancestors[t.depth as usize] = n as NodeIx;
            if t.known.too_many {
                return Err(TooMuch);
            }
            for (path, ways) in &t.known.paths {
                if !paths.is_used(*path) {
                    continue;
                }
                let stream = &mut self.of[*path as usize];
                if stream.stamp != self.stamp {
                    stream.stamp = self.stamp;
                    stream.width = paths.get(*path).len() as u32;
                    stream.nodes.clear();
                }
                fields += ways.len();
                stream.nodes.extend(ways.iter().map(|&d| ancestors[d as usize]));
            }
            if fields > MAX_FIELDS {
                return Err(TooMuch);
            }
        }
        Ok(())
    }

    #[inline]
    pub fn get(&self, path: PathIx) -> Tuples<'_> {
        match self.of.get(path as usize) {
            Some(s) if s.stamp == self.stamp => Tuples { width: s.width as usize, nodes: &s.nodes },
            _ => Tuples { width: 1, nodes: &[] },
        }
    }
}
