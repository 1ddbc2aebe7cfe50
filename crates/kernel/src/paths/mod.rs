//! Linear location paths, matched for all subscriptions at once.
//!
//! Three matchers answer the same question, which paths does a message contain: [`trie`] (the default: one look-up
//! per element, whatever the number of paths), [`nfa`] (YFilter's shared automaton) and [`fsm`] (XFilter's machine
//! per query, the YFilter paper's baseline).

pub mod align;
pub mod bypass;
pub mod fsm;
pub mod hits;
pub mod index;
pub mod laminar;
pub mod nfa;
pub mod runs;
pub mod segment;
pub mod sets;
pub mod tab;
pub mod table;
pub mod trie;

use crate::names::Sym;

/// One step of a path: a test, and whether it is reached by `//`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Step(pub u32);

impl Step {
    const DESCENDANT: u32 = 1 << 31;

    pub fn new(descendant: bool, test: Sym) -> Step {
        Step(test | if descendant { Self::DESCENDANT } else { 0 })
    }
    #[inline(always)]
    pub fn descendant(self) -> bool {
        self.0 & Self::DESCENDANT != 0
    }
    #[inline(always)]
    pub fn test(self) -> Sym {
        self.0 & !Self::DESCENDANT
    }
}

/// Number of a distinct path.
pub type PathId = u32;

pub const NONE: u32 = u32::MAX;
