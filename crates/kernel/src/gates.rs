//! Gates: paths that a message must have before transforms, or blocks of correlations, are evaluated on it at all.
//!
//! A gate is an item of the path engine, as a subscription to a path is: whether a message has one is found out while the
//! paths of filters are matched. Equal gates are one, whoever needs them.

use crate::engine::{Engine, Number};
use crate::paths::{PathId, Step};
use std::collections::HashMap;

/// Who waits behind a gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behind {
    Transforms,
    Blocks,
}

/// How many transforms and how many blocks a gate leads to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Users([u32; 2]);

/// Whom a message is taken to: the transforms, the blocks, both or nobody.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Open(u32);

impl Open {
    /// The set as a word.
    pub(crate) fn word(self) -> u32 {
        self.0
    }

    /// Returns the set that a word stands for.
    pub(crate) fn of(word: u32) -> Open {
        Open(word)
    }

    pub(crate) fn leads_to(self, behind: Behind) -> bool {
        self.0 & 1 << behind as u32 != 0
    }

    pub(crate) fn open(&mut self, other: Open) {
        self.0 |= other.0;
    }
}

impl Users {
    /// Returns whom the gate leads to.
    pub(crate) fn open(self) -> Open {
        Open((0..).zip(self.0).fold(0, |open, (bit, count)| open | ((count > 0) as u32) << bit))
    }
}

/// The number of a gate, and who waits behind it.
struct Gate {
    number: u32,
    users: Users,
}

/// The gates of an engine.
#[derive(Default)]
pub(crate) struct Gates {
    by_path: HashMap<PathId, Gate>,
    /// How many transforms and blocks have no gate: any message may be one for them.
    without: Users,
}

impl Gates {
    /// Returns whom every message is taken to.
    pub(crate) fn always_open(&self) -> Open {
        self.without.open()
    }

    /// Returns whether some items of the path engine are gates.
    pub(crate) fn any(&self) -> bool {
        !self.by_path.is_empty()
    }

    /// Returns whether a path is a gate.
    pub(crate) fn has(&self, path: PathId) -> bool {
        self.by_path.contains_key(&path)
    }

    /// Returns whom the gate of a path leads to.
    pub(crate) fn of(&self, path: PathId) -> Open {
        self.by_path.get(&path).map_or(Open::default(), |gate| gate.users.open())
    }
}

impl Engine {
    /// The path that a transform or a block needs. None if any message may do.
    fn gate(&mut self, behind: Behind, id: u32) -> Option<Vec<Step>> {
        match (behind, self.queries.of(id)) {
            (Behind::Blocks, _) => self.blocks.gate(id, &mut self.constants),
            (Behind::Transforms, Some(query)) => self.queries.gate(query),
            (Behind::Transforms, None) => self.transforms.gate(id, &mut self.constants),
        }
    }

    /// Ties the path that a transform or a block needs.
    pub(crate) fn acquire_gate(&mut self, behind: Behind, id: u32) {
        let Some(path) = self.gate(behind, id) else {
            self.gates.without.0[behind as usize] += 1;
            return;
        };
        let known = self.index.find(&path).filter(|id| self.gates.has(*id));
        let path = known.unwrap_or_else(|| {
            let number = self.number();
            let path = self.tie(number, std::iter::once(&path[..]))[0];
            self.numbers[number as usize] = Number::Gate(path);
            self.gates.by_path.insert(path, Gate { number, users: Users::default() });
            path
        });
        self.count_behind(path, behind, 1);
    }

    /// Before a transform or a block is removed.
    pub(crate) fn release_gate(&mut self, behind: Behind, id: u32) {
        let Some(path) = self.gate(behind, id) else {
            self.gates.without.0[behind as usize] -= 1;
            return;
        };
        if let Some(path) = self.index.find(&path) {
            self.count_behind(path, behind, -1);
        }
    }

    /// Counts who is behind the gate of a path, and takes it away with the last.
    fn count_behind(&mut self, path: PathId, behind: Behind, change: i32) {
        let Some(Gate { number, users }) = self.gates.by_path.get_mut(&path) else { return };
        let (number, before) = (*number, users.open());
        let count = &mut users.0[behind as usize];
        *count = count.wrapping_add_signed(change);
        let after = users.open();
        if after == Open::default() {
            self.gates.by_path.remove(&path);
            self.untie(number, &[path]);
        } else if before != after {
            self.changed.push(number);
        }
    }
}
