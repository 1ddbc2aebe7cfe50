//! The nodes of return paths, grouped by the ancestor they are asked for (broker §5.2, shared group-by). A path's groups
//! are made when the first transform of a message asks for one.

use crate::shapes::nodes::NodeIx;
use crate::tagpaths::{bits, Hit, PathIx};

/// Per message and thread.
#[derive(Default)]
pub struct Groups {
    paths: Vec<OfPath>,
    /// This message, in the stamps of `paths`.
    stamp: u32,
    counts: Vec<u32>,
}

#[derive(Default)]
struct OfPath {
    hit: u32,
    grouped: u32,
    /// Nodes that the path leads to, in document order, each with the depths of the ancestors it does so from (see `Hit`).
    hits: Vec<(NodeIx, u32, u64)>,
    /// By place of the ancestor the end of its group in `nodes`; a place's group begins where the last one ends.
    ends: Vec<u32>,
    nodes: Vec<NodeIx>,
}

impl Groups {
    pub fn begin(&mut self, paths: usize) {
        if self.stamp == u32::MAX {
            self.paths.clear();
            self.stamp = 0;
        }
        self.stamp += 1;
        self.paths.resize_with(paths, OfPath::default);
    }

    #[inline]
    pub fn hit(&mut self, node: NodeIx, hit: Hit) {
        let of = &mut self.paths[hit.path as usize];
        if of.hit != self.stamp {
            of.hit = self.stamp;
            of.hits.clear();
        }
        of.hits.push((node, hit.base, hit.mask));
    }

    /// The group of the ancestor at a place. `chain(node)` gives the places of a node's ancestors by depth.
    pub fn get(&mut self, path: PathIx, place: u32, places: usize, ancestor: impl Fn(NodeIx, u32) -> u32) -> &[NodeIx] {
        let of = &mut self.paths[path as usize];
        if of.hit != self.stamp {
            return &[];
        }
        if of.grouped != self.stamp {
            of.grouped = self.stamp;
            of.group(places, &mut self.counts, ancestor);
        }
        let from = if place == 0 { 0 } else { of.ends[place as usize - 1] };
        &of.nodes[from as usize..of.ends[place as usize] as usize]
    }
}

impl OfPath {
    /// Counting sort: ancestors may come in any order, nodes of one ancestor stay in theirs.
    fn group(&mut self, places: usize, counts: &mut Vec<u32>, ancestor: impl Fn(NodeIx, u32) -> u32) {
        counts.clear();
        counts.resize(places, 0);
        let each = |hits: &[(NodeIx, u32, u64)], f: &mut dyn FnMut(u32, NodeIx)| {
            for &(node, base, mask) in hits {
                bits(mask).for_each(|bit| f(ancestor(node, base + bit), node));
            }
        };
        let mut total = 0;
        each(&self.hits, &mut |place, _| {
            counts[place as usize] += 1;
            total += 1;
        });
        let mut at = 0;
        for c in counts.iter_mut() {
            at += std::mem::replace(c, at);
        }
        self.nodes.clear();
        self.nodes.resize(total, 0);
        each(&self.hits, &mut |place, node| {
            let at = &mut counts[place as usize];
            self.nodes[*at as usize] = node;
            *at += 1;
        });
        // each count has moved on to the end of its group
        std::mem::swap(&mut self.ends, counts);
    }
}
