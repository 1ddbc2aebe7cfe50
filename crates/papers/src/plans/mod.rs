//! The broker paper's plans (§3-§5), run as they are drawn: relational operators over path-tuple streams.
//!
//! The planner (Python) decides what a plan looks like: which paths the engine matches (PathSharing-F, -FW, -FWR), and
//! which operators are left out, scan or merge because a claim says so. Here plans only run: [`codes`] has their
//! operators, [`streams`] delivers the path-tuples of all paths in one pass over a message, [`single`] runs a plan on
//! its own (§3), [`combined`] and [`sharing`] many as one (§5), [`profile`] counts and times operators. [`engine`] takes messages in;
//! [`groups`] are what plans find. The merge and
//! scan forms count on the order that the claims promise and on nothing else.

mod alignments;
mod checks;
mod codes;
mod combined;
mod engine;
mod groups;
mod profile;
mod run;
mod set;
mod sharing;
mod single;
mod streams;

pub use engine::{Executor, Plans};
pub use groups::{Groups, KernelGroups};
pub use profile::{Cost, KINDS};
