//! The distinct tag paths of a document: what a scheme that relies on a schema has to be asked about.

/// A document with more than these is given up on, as is an element with more than so many kinds of children.
const MOST: usize = 1 << 16;
const MOST_CHILDREN: usize = 1 << 10;

/// Namespace (its number) and local name.
type Name = (u32, Box<[u8]>);

#[derive(Default)]
pub struct TagPaths {
    /// By tag path: its parent, its name, and its children so far.
    nodes: Vec<(u32, Name, Vec<u32>)>,
    told: usize,
    /// There are too many to keep.
    pub overflow: bool,
}

pub const TOP: u32 = u32::MAX;

impl TagPaths {
    /// The tag path of an element below one with the tag path `parent`; `TOP` for none.
    pub fn open(&mut self, parent: u32, ns: u32, local: &[u8], roots: &mut Vec<u32>) -> u32 {
        if self.overflow {
            return TOP;
        }
        let siblings = if parent == TOP { &*roots } else { &self.nodes[parent as usize].2 };
        let same = |&&id: &&u32| {
            let name = &self.nodes[id as usize].1;
            name.0 == ns && *name.1 == *local
        };
        if let Some(&id) = siblings.iter().find(same) {
            return id;
        }
        if self.nodes.len() >= MOST || siblings.len() >= MOST_CHILDREN {
            self.overflow = true;
            return TOP;
        }
        let id = self.nodes.len() as u32;
        self.nodes.push((parent, (ns, local.into()), vec![]));
        match parent {
            TOP => roots.push(id),
            _ => self.nodes[parent as usize].2.push(id),
        }
        id
    }

    /// Those that are new since this was last asked, each from the root down.
    pub fn take_new(&mut self) -> Vec<Vec<Name>> {
        let from = std::mem::replace(&mut self.told, self.nodes.len());
        (from..self.nodes.len()).map(|id| self.path(id as u32)).collect()
    }

    fn path(&self, mut id: u32) -> Vec<Name> {
        let mut names = vec![];
        while id != TOP {
            let (parent, name, _) = &self.nodes[id as usize];
            names.push(name.clone());
            id = *parent;
        }
        names.reverse();
        names
    }
}
