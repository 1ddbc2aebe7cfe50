//! Linear paths relative to any ancestor. Whether a path leads from an ancestor to a node depends on the names in
//! between only, that is on the node's tag path; so the answer is kept per tag path, as a set of ancestors' depths.

mod depths;

pub(crate) use depths::{bits, Depths};

use crate::names::{Names, Sym, NO_SYM};
use crate::paths::Step;
use crate::shapes::program::{Test, Twig};
use hashbrown::HashMap;

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
    /// depth d. `filter(i, d)` says whether step i may be at depth d, beyond its name.
    pub(crate) fn contexts(&self, tags: &[Sym], names: &Names, mut filter: impl FnMut(usize, usize) -> bool) -> Depths {
        let mut at = Depths::only(tags.len() - 1);
        for (i, &(test, deep)) in self.0.iter().enumerate().rev() {
            at.retain(|d| test.passes(names, tags[d]) && filter(i, d));
            if at.is_empty() {
                break;
            }
            if deep {
                at.move_to_ancestors();
            } else {
                at.move_to_parents();
            }
        }
        at
    }

    /// Whether the path leads from the document to the last node of a tag path.
    pub fn selects(&self, tags: &[Sym], names: &Names) -> bool {
        self.contexts(tags, names, |_, _| true).has_document()
    }

    fn key(&self) -> Box<[Step]> {
        self.0.iter().map(|&(test, deep)| Step::new(deep, test.symbol())).collect()
    }
}

/// Distinct paths, numbered and counted.
#[derive(Default)]
pub struct PathSet {
    paths: Vec<(LinearPath, u32)>,
    ids: HashMap<Box<[Step]>, PathIx>,
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
pub struct TagPaths<T> {
    paths: Vec<TagPath<T>>,
    children: HashMap<(u32, Sym), u32>,
    tags: Vec<Sym>,
    /// One message may leave no more than these.
    most: usize,
}

impl<T: Default> Default for TagPaths<T> {
    fn default() -> Self {
        let document = TagPath { parent: 0, sym: NO_SYM, depth: 0, known: T::default() };
        TagPaths { paths: vec![document], children: HashMap::new(), tags: vec![], most: 4 * MAX_TAG_PATHS }
    }
}

impl<T: Default> TagPaths<T> {
    /// At most so many tag paths, of which none is forgotten.
    pub fn with_most(most: usize) -> Self {
        TagPaths { most, ..TagPaths::default() }
    }

    /// How many there are, the document's included.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Before a message: no more than a bounded number is kept.
    pub fn begin(&mut self) {
        if self.paths.len() > MAX_TAG_PATHS {
            *self = TagPaths::default();
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
    ) -> Result<u32, TooMuch> {
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

    /// Calls `look` with the number and names of every tag path but the document's.
    pub fn each(&mut self, mut look: impl FnMut(u32, &[Sym], &mut T)) {
        for id in 1..self.paths.len() as u32 {
            self.tags(id);
            look(id, &self.tags, &mut self.paths[id as usize].known);
        }
    }

    #[cold]
    fn add(&mut self, parent: u32, sym: Sym) -> Result<u32, TooMuch> {
        let id = self.paths.len() as u32;
        let depth = self.paths[parent as usize].depth + 1;
        if self.paths.len() > self.most {
            return Err(TooMuch);
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

/// A path that leads to a node from ancestors at some depths: `base` and those that the mask's bits stand for. Where they
/// are not within 64 of each other the path has several hits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub path: PathIx,
    pub base: u32,
    pub mask: u64,
}

/// What relative paths and binding paths say of a tag path.
#[derive(Default, Clone)]
pub struct Leads {
    /// Relative paths that lead here from some ancestor.
    pub hits: Vec<Hit>,
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
            let from = rels.get(rel).contexts(tags, names, |_, _| true);
            self.hits.extend(from.parts().map(|(base, mask)| Hit { path: rel, base, mask }));
        }
        for bind in self.seen.1..binds.len() as u32 {
            if binds.get(bind).selects(tags, names) {
                self.bound.push(bind);
            }
        }
        self.seen = (rels.len() as u32, binds.len() as u32);
    }
}

/// A message gives some set of patterns more work than a message may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMuch;
