//! The nodes that relative paths find, grouped by the ancestor they are found from (broker §5.2, shared group-by). A path's
//! groups are made when the first transform of a message asks for one.

use crate::shapes::nodes::NodeIx;
use crate::shapes::program::Op;
use crate::tagpaths::{bits, Hit, PathIx};

/// Per message and thread.
#[derive(Default)]
pub struct Groups {
    paths: Vec<OfPath>,
    /// This message, in the stamps of `paths`.
    stamp: u32,
    pairs: Vec<(NodeIx, NodeIx)>,
}

#[derive(Default)]
struct OfPath {
    hit: u32,
    grouped: u32,
    /// Nodes that the path leads to, in document order, each with the depths of the ancestors it does so from (see `Hit`).
    hits: Vec<(NodeIx, u32, u64)>,
    /// The ancestors, ascending, and where the group of each ends in `nodes`.
    ancestors: Vec<NodeIx>,
    ends: Vec<u32>,
    nodes: Vec<NodeIx>,
    /// By ancestor the numbers in its group, once somebody has asked for them.
    numbers: Vec<Option<Numbers>>,
    /// The ancestor that was asked for last: the next one is often near.
    recent: usize,
}

/// What the numbers in a group say of all comparisons: the least and the greatest, NaN if there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    least: f64,
    greatest: f64,
    /// Some value is no number.
    other: bool,
}

impl Numbers {
    fn of(values: impl Iterator<Item = f64>) -> Numbers {
        let none = Numbers { least: f64::NAN, greatest: f64::NAN, other: false };
        values.fold(none, |so_far, x| Numbers {
            least: so_far.least.min(x),
            greatest: so_far.greatest.max(x),
            other: so_far.other || x.is_nan(),
        })
    }

    /// Whether some value stands in this relation to a constant. Not for `=`, which they do not decide.
    pub(crate) fn hold(self, op: Op, x: f64) -> bool {
        let Numbers { least, greatest, other } = self;
        match op {
            Op::Lt | Op::Le => op.holds(least, x),
            Op::Gt | Op::Ge => op.holds(greatest, x),
            Op::Ne => other || least != x || greatest != x,
            Op::Eq => false,
        }
    }
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

    /// Returns the nodes that a path leads to, each with the depths of the ancestors it does so from.
    pub(crate) fn hits(&self, path: PathIx) -> &[(NodeIx, u32, u64)] {
        let of = &self.paths[path as usize];
        if of.hit == self.stamp {
            &of.hits
        } else {
            &[]
        }
    }

    /// The group of an ancestor. `climb` gives the ancestor of a node at a depth.
    pub fn get(&mut self, path: PathIx, ancestor: NodeIx, climb: impl Fn(NodeIx, u32) -> NodeIx) -> &[NodeIx] {
        match self.find(path, ancestor, climb) {
            Some(at) => self.paths[path as usize].group(at),
            None => &[],
        }
    }

    /// The numbers in the group of an ancestor, `None` if it is empty.
    pub(crate) fn numbers(
        &mut self,
        path: PathIx,
        ancestor: NodeIx,
        climb: impl Fn(NodeIx, u32) -> NodeIx,
        number: impl FnMut(NodeIx) -> f64,
    ) -> Option<Numbers> {
        let at = self.find(path, ancestor, climb)?;
        let of = &mut self.paths[path as usize];
        if of.numbers[at].is_none() {
            of.numbers[at] = Some(Numbers::of(of.group(at).iter().copied().map(number)));
        }
        of.numbers[at]
    }

    /// Returns the place of an ancestor among those of a path.
    #[inline]
    fn find(&mut self, path: PathIx, ancestor: NodeIx, climb: impl Fn(NodeIx, u32) -> NodeIx) -> Option<usize> {
        let of = &mut self.paths[path as usize];
        if of.hit != self.stamp {
            return None;
        }
        if of.grouped != self.stamp {
            of.grouped = self.stamp;
            of.group_hits(&mut self.pairs, climb);
        }
        let is_there = |&at: &usize| of.ancestors.get(at) == Some(&ancestor);
        let near = [of.recent, of.recent + 1].into_iter().find(is_there);
        let at = near.or_else(|| of.ancestors.binary_search(&ancestor).ok())?;
        of.recent = at;
        Some(at)
    }
}

impl OfPath {
    #[inline]
    fn group(&self, at: usize) -> &[NodeIx] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.nodes[from as usize..self.ends[at] as usize]
    }

    fn group_hits(&mut self, pairs: &mut Vec<(NodeIx, NodeIx)>, climb: impl Fn(NodeIx, u32) -> NodeIx) {
        pairs.clear();
        for &(node, base, mask) in &self.hits {
            pairs.extend(bits(mask).map(|bit| (climb(node, base + bit), node)));
        }
        if !pairs.is_sorted() {
            pairs.sort_unstable();
        }
        self.ancestors.clear();
        self.ends.clear();
        self.nodes.clear();
        for &(ancestor, node) in &*pairs {
            if self.ancestors.last() != Some(&ancestor) {
                self.ancestors.push(ancestor);
                self.ends.push(0);
            }
            self.nodes.push(node);
            if let Some(end) = self.ends.last_mut() {
                *end = self.nodes.len() as u32;
            }
        }
        self.numbers.clear();
        self.numbers.resize(self.ancestors.len(), None);
        self.recent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extremes_decide_comparisons() {
        let values = [f64::NAN, -0.0, 0.0, 1.0, 2.0, f64::INFINITY, f64::NEG_INFINITY];
        for group in (0..3_usize).flat_map(|len| (0..values.len().pow(len as u32)).map(move |code| (len, code))) {
            let (len, mut code) = group;
            let mut group = vec![];
            for _ in 0..len {
                group.push(values[code % values.len()]);
                code /= values.len();
            }
            let numbers = Numbers::of(group.iter().copied());
            for op in [Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge] {
                for x in values.into_iter().filter(|x| !x.is_nan()) {
                    let any = group.iter().any(|&value| op.holds(value, x));
                    assert_eq!(!group.is_empty() && numbers.hold(op, x), any, "{group:?} {op:?} {x}");
                }
            }
        }
    }
}
