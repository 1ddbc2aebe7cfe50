//! The names and constants that a set of patterns knows, numbered: what the symbols in the node table of a message mean.

use crate::names::Names;
use crate::values::constants::Constants;

#[derive(Default)]
pub struct Vocabulary {
    pub(crate) names: Names,
    pub(crate) constants: Constants,
}

impl Vocabulary {
    pub fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// The number of a string constant, as rows hold it.
    pub fn string(&mut self, value: &[u8]) -> u32 {
        self.constants.intern(value)
    }

    /// Returns what messages are read with.
    pub fn parts(&self) -> (&Names, &Constants) {
        (&self.names, &self.constants)
    }

    /// Returns what programs are decoded with: the names, and how many string constants there are.
    pub fn known(&self) -> (&Names, usize) {
        (&self.names, self.constants.len())
    }
}
