//! Linear paths relative to any ancestor. Whether a path leads from an ancestor to a node depends on the names in
//! between only, that is on the node's tag path; so the answer is kept per tag path, as a mask of ancestors' depths.

use crate::names::{Names, Sym, NO_SYM};
use crate::shapes::program::{Test, Twig};
use hashbrown::HashMap;

/// Depths that a mask can tell apart; the document has depth 0. Deeper messages take the slow way.
pub const MAX_DEPTH: usize = 63;

/// Tag paths remembered between messages.
const MAX_TAG_PATHS: usize = 1 << 16;

pub type PathIx = u32;

/// Steps outermost first: what the node must be, and whether any number of nodes may lie between.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinearPath(Box<[(Test, bool)]>);

impl LinearPath {
    /// The path that a twig without filters is.
    pub fn of(twig: &Twig) -> Option<LinearPath> {
        let plain = twig.nodes.iter().all(|n| n.filters.is_empty());
        plain.then(|| LinearPath::without_filters(twig))
    }

    pub fn without_filters(twig: &Twig) -> LinearPath {
        LinearPath(twig.nodes.iter().map(|n| (n.test, n.deep)).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn steps(&self) -> &[(Test, bool)] {
        &self.0
    }

    /// The depths of those ancestors from which the path leads to the last node of a tag path. `tags[d]` is the name at
    /// depth d. `filter(i, mask)` can take away depths at which step i may not be.
    pub fn contexts(&self, tags: &[Sym], names: &Names, mut filter: impl FnMut(usize, u64) -> u64) -> u64 {
        let depth = tags.len() - 1;
        let mut at = 1u64 << depth;
        for (i, &(test, deep)) in self.0.iter().enumerate().rev() {
            let mut fitting = 0;
            let mut rest = at;
            while rest != 0 {
                let d = rest.trailing_zeros();
                rest &= rest - 1;
                fitting |= (test.passes(names, tags[d as usize]) as u64) << d;
            }
            fitting = filter(i, fitting);
            if fitting == 0 {
                return 0;
            }
            at = if deep { (1 << fitting.ilog2()) - 1 } else { fitting >> 1 };
        }
        at
    }

    /// Calls `f` with the depths of the steps for every way in which the path leads from the document to the last node
    /// of a tag path, inner matches first; false if there are more than `most`.
    pub fn alignments(&self, tags: &[Sym], names: &Names, most: usize, f: &mut dyn FnMut(&[u8])) -> bool {
        if self.contexts(tags, names, |_, at| at) & 1 == 0 {
            return true;
        }
        let mut depths = vec![0; self.len()];
        let mut left = most;
        self.align(self.len(), tags.len(), tags, names, &mut depths, &mut left, f)
    }

    /// The first `steps` steps, the last of them above depth `below`.
    #[allow(clippy::too_many_arguments)]
    fn align(
        &self,
        steps: usize,
        below: usize,
        tags: &[Sym],
        names: &Names,
        depths: &mut Vec<u8>,
        left: &mut usize,
        f: &mut dyn FnMut(&[u8]),
    ) -> bool {
        // how far up the step may lie depends on the one after it; the last one is where the tag path ends
        let deep = steps < self.len() && self.0[steps].1;
        let (test, from_document) = (self.0[steps - 1].0, !self.0[steps - 1].1);
        let least = if deep { steps } else { below - 1 };
        for d in (least..below).rev() {
            if d < steps || !test.passes(names, tags[d]) || steps == 1 && from_document && d != 1 {
                continue;
            }
            depths[steps - 1] = d as u8;
            // ways that the steps above do not go on count too: they are what a hostile message multiplies
            let Some(fewer) = left.checked_sub(1) else { return false };
            *left = fewer;
            if steps == 1 {
                f(depths);
            } else if !self.align(steps - 1, d, tags, names, depths, left, f) {
                return false;
            }
        }
        true
    }

    fn key(&self) -> Box<[u64]> {
        let code = |&(test, deep): &(Test, bool)| {
            let (kind, sym) = match test {
                Test::Exactly(sym) => (0, sym),
                Test::Element => (1, 0),
                Test::Attribute => (2, 0),
                Test::Node => (3, 0),
                Test::Namespace(sym) => (4, sym),
            };
            (sym as u64) << 8 | kind << 1 | deep as u64
        };
        self.0.iter().map(code).collect()
    }
}

/// Distinct paths, numbered and counted.
#[derive(Default)]
pub struct PathSet {
    paths: Vec<(LinearPath, u32)>,
    ids: HashMap<Box<[u64]>, PathIx>,
}

impl PathSet {
    pub fn acquire(&mut self, path: LinearPath) -> PathIx {
        let next = self.paths.len() as PathIx;
        let id = *self.ids.entry(path.key()).or_insert(next);
        if id == next {
            self.paths.push((path, 0));
        }
        self.paths[id as usize].1 += 1;
        id
    }

    /// A path without users stays known: its number may be cached, and it may come back.
    pub fn release(&mut self, id: PathIx) {
        self.paths[id as usize].1 -= 1;
    }

    pub fn get(&self, id: PathIx) -> &LinearPath {
        &self.paths[id as usize].0
    }

    pub fn len(&self) -> usize {
        self.paths.len()
    }

    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    pub fn is_used(&self, id: PathIx) -> bool {
        self.paths[id as usize].1 > 0
    }
}

/// A tag path, and what is known of it.
#[derive(Clone)]
pub struct TagPath<T> {
    parent: u32,
    sym: Sym,
    pub depth: u32,
    pub known: T,
}

/// The tag paths of messages so far, as a tree: 0 is the document's.
pub struct TagTree<T> {
    paths: Vec<TagPath<T>>,
    children: HashMap<(u32, Sym), u32>,
    tags: Vec<Sym>,
}

impl<T: Default> Default for TagTree<T> {
    fn default() -> Self {
        let document = TagPath { parent: 0, sym: NO_SYM, depth: 0, known: T::default() };
        TagTree { paths: vec![document], children: HashMap::new(), tags: vec![] }
    }
}

impl<T: Default> TagTree<T> {
    /// Before a message: no more than a bounded number is kept.
    pub fn begin(&mut self) {
        if self.paths.len() > MAX_TAG_PATHS {
            *self = TagTree::default();
        }
    }

    #[inline]
    pub fn get(&self, id: u32) -> &TagPath<T> {
        &self.paths[id as usize]
    }

    /// The tag path of a node below one with tag path `parent`. `look` is called where it is not `known` in full.
    #[inline]
    pub fn child(
        &mut self,
        parent: u32,
        sym: Sym,
        is_known: impl FnOnce(&T) -> bool,
        look: impl FnOnce(&[Sym], &mut T),
    ) -> Result<u32, Refused> {
        let id = match self.children.get(&(parent, sym)) {
            Some(&id) => id,
            None => self.add(parent, sym)?,
        };
        if !is_known(&self.paths[id as usize].known) {
            self.tags(id);
            look(&self.tags, &mut self.paths[id as usize].known);
        }
        Ok(id)
    }

    /// The document's tag path, likewise.
    pub fn document(&mut self, is_known: impl FnOnce(&T) -> bool, look: impl FnOnce(&[Sym], &mut T)) -> &TagPath<T> {
        if !is_known(&self.paths[0].known) {
            self.tags(0);
            look(&self.tags, &mut self.paths[0].known);
        }
        &self.paths[0]
    }

    #[cold]
    fn add(&mut self, parent: u32, sym: Sym) -> Result<u32, Refused> {
        let id = self.paths.len() as u32;
        let depth = self.paths[parent as usize].depth + 1;
        if depth as usize > MAX_DEPTH {
            return Err(Refused::TooDeep);
        }
        if self.paths.len() > 4 * MAX_TAG_PATHS {
            return Err(Refused::TooMuch);
        }
        self.paths.push(TagPath { parent, sym, depth, known: T::default() });
        self.children.insert((parent, sym), id);
        Ok(id)
    }

    /// The names on the way to a tag path, from the document on.
    pub fn tags(&mut self, id: u32) -> &[Sym] {
        self.tags.clear();
        let mut at = id;
        loop {
            self.tags.push(self.paths[at as usize].sym);
            if at == 0 {
                break;
            }
            at = self.paths[at as usize].parent;
        }
        self.tags.reverse();
        &self.tags
    }
}

/// What relative paths and binding paths say of a tag path.
#[derive(Default, Clone)]
pub struct Leads {
    /// Relative paths that lead here from some ancestor, and the depths of those ancestors.
    pub hits: Vec<(PathIx, u64)>,
    /// Binding paths that lead here from the document, ascending.
    pub bound: Vec<PathIx>,
    /// How many of the paths have been looked at.
    seen: (u32, u32),
}

impl Leads {
    #[inline]
    pub fn is_known(&self, rels: &PathSet, binds: &PathSet) -> bool {
        self.seen == (rels.len() as u32, binds.len() as u32)
    }

    #[cold]
    pub fn look(&mut self, tags: &[Sym], rels: &PathSet, binds: &PathSet, names: &Names) {
        for rel in self.seen.0..rels.len() as u32 {
            let mask = rels.get(rel).contexts(tags, names, |_, at| at);
            if mask != 0 {
                self.hits.push((rel, mask));
            }
        }
        for bind in self.seen.1..binds.len() as u32 {
            if binds.get(bind).contexts(tags, names, |_, at| at) & 1 != 0 {
                self.bound.push(bind);
            }
        }
        self.seen = (rels.len() as u32, binds.len() as u32);
    }
}

/// Why a message was not transformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    TooDeep,
    TooMuch,
}

impl Refused {
    pub fn code(self) -> &'static str {
        match self {
            Refused::TooDeep => "too-deep-to-transform",
            Refused::TooMuch => "too-much-to-transform",
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Refused::TooDeep => "the message is nested deeper than transforms can take (63 levels)",
            Refused::TooMuch => "the message gives transforms more work than a message may",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(path: &LinearPath, tags: &[Sym], names: &Names, most: usize) -> Option<Vec<Vec<u8>>> {
        let mut found = vec![];
        path.alignments(tags, names, most, &mut |depths| found.push(depths.to_vec())).then_some(found)
    }

    #[test]
    fn alignments_are_all_ways_inner_ones_first() {
        let mut names = Names::default();
        let (a, b) = (names.intern(false, b"", Some(b"a")), names.intern(false, b"", Some(b"b")));
        let path = |steps: &[(Sym, bool)]| LinearPath(steps.iter().map(|&(s, d)| (Test::Exactly(s), d)).collect());
        let tags = [NO_SYM, a, b, a, a];
        let all = |steps: &[(Sym, bool)]| ways(&path(steps), &tags, &names, 100).unwrap();
        assert_eq!(all(&[(a, true)]), [[4]]);
        assert_eq!(all(&[(a, true), (a, true)]), [[3, 4], [1, 4]]);
        assert_eq!(all(&[(a, false), (a, true)]), [[1, 4]]);
        assert_eq!(all(&[(a, true), (a, false)]), [[3, 4]]);
        assert_eq!(all(&[(a, true), (a, true), (a, true)]), [[1, 3, 4]]);
        assert!(all(&[(b, true)]).is_empty());
        assert!(all(&[(a, true), (b, false), (a, false)]).is_empty());
        assert_eq!(ways(&path(&[(a, true), (a, true)]), &tags, &names, 2), None);
    }
}
