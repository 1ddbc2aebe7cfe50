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

/// What is known of a tag path.
#[derive(Default, Clone)]
pub struct TagPath {
    parent: u32,
    sym: Sym,
    pub depth: u32,
    /// Relative paths that lead here from some ancestor, and the depths of those ancestors.
    pub hits: Vec<(PathIx, u64)>,
    /// Binding paths that lead here from the document, ascending.
    pub bound: Vec<PathIx>,
    /// How many of the paths have been looked at.
    seen: (u32, u32),
}

/// The tag paths of messages so far, as a tree: 0 is the document's.
pub struct TagPaths {
    known: Vec<TagPath>,
    children: HashMap<(u32, Sym), u32>,
    tags: Vec<Sym>,
}

impl Default for TagPaths {
    fn default() -> Self {
        let document = TagPath { sym: NO_SYM, ..TagPath::default() };
        TagPaths { known: vec![document], children: HashMap::new(), tags: vec![] }
    }
}

impl TagPaths {
    /// Before a message: no more than a bounded number is kept.
    pub fn begin(&mut self) {
        if self.known.len() > MAX_TAG_PATHS {
            *self = TagPaths::default();
        }
    }

    /// More than can be kept have been found in this message alone.
    pub fn is_full(&self) -> bool {
        self.known.len() > 4 * MAX_TAG_PATHS
    }

    pub fn get(&self, id: u32) -> &TagPath {
        &self.known[id as usize]
    }

    /// The tag path of a node below one with tag path `parent`, with all paths looked at.
    #[inline]
    pub fn child(&mut self, parent: u32, sym: Sym, rels: &PathSet, binds: &PathSet, names: &Names) -> u32 {
        let id = match self.children.get(&(parent, sym)) {
            Some(&id) => id,
            None => self.add(parent, sym),
        };
        if self.known[id as usize].seen != (rels.len() as u32, binds.len() as u32) {
            self.look(id, rels, binds, names);
        }
        id
    }

    /// The document's tag path, with all paths looked at.
    pub fn document(&mut self, rels: &PathSet, binds: &PathSet, names: &Names) -> &TagPath {
        if self.known[0].seen != (rels.len() as u32, binds.len() as u32) {
            self.look(0, rels, binds, names);
        }
        &self.known[0]
    }

    fn add(&mut self, parent: u32, sym: Sym) -> u32 {
        let id = self.known.len() as u32;
        let depth = self.known[parent as usize].depth + 1;
        self.known.push(TagPath { parent, sym, depth, ..TagPath::default() });
        self.children.insert((parent, sym), id);
        id
    }

    /// The names on the way to a tag path, from the document on.
    pub fn tags(&mut self, id: u32) -> &[Sym] {
        self.tags.clear();
        let mut at = id;
        loop {
            self.tags.push(self.known[at as usize].sym);
            if at == 0 {
                break;
            }
            at = self.known[at as usize].parent;
        }
        self.tags.reverse();
        &self.tags
    }

    #[cold]
    fn look(&mut self, id: u32, rels: &PathSet, binds: &PathSet, names: &Names) {
        self.tags(id);
        let t = &mut self.known[id as usize];
        for rel in t.seen.0..rels.len() as u32 {
            let mask = rels.get(rel).contexts(&self.tags, names, |_, at| at);
            if mask != 0 {
                t.hits.push((rel, mask));
            }
        }
        for bind in t.seen.1..binds.len() as u32 {
            if binds.get(bind).contexts(&self.tags, names, |_, at| at) & 1 != 0 {
                t.bound.push(bind);
            }
        }
        t.seen = (rels.len() as u32, binds.len() as u32);
    }
}
