//! The papers' own strategies, kept for experiments that compare them with the kernel. No product code uses them.
//!
//! [`automata`] has YFilter's shared automaton and XFilter's machine per query, which match paths in place of the kernel's
//! trie. [`plans`] has the message broker's plans, which make new messages in place of the kernel's transforms.
//!
//! The crate sees the inside of the kernel through the kernel's feature `internals`.

pub mod automata;
pub mod plans;
