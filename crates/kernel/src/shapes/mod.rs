//! Tree patterns: what a subscription asks of a message beyond one linear path.
//!
//! [`program`] is a pattern with numbered slots for its constants, so that all subscriptions of one shape share it;
//! [`nodes`] is the message as a flat table; [`expr`] is what the patterns of all subscriptions are made
//! of, [`shared`] evaluates that over a message, [`climb`] what a subscription has of its own; [`candidates`] remembers
//! what to evaluate. [`necessary`] tells what cannot hold, without the table. [`search`] evaluates one pattern alone, and
//! [`select`] finds the nodes that a matched subscription asks for.

pub(crate) mod bitset;
pub(crate) mod block;
pub(crate) mod bounds;
pub(crate) mod candidates;
pub(crate) mod climb;
pub(crate) mod columns;
pub(crate) mod decimals;
pub(crate) mod expr;
pub(crate) mod necessary;
pub(crate) mod nodes;
pub(crate) mod pending;
pub(crate) mod program;
pub(crate) mod rows;
pub(crate) mod search;
pub(crate) mod select;
pub(crate) mod shared;
pub(crate) mod star;
pub(crate) mod store;

pub use program::{Op, Slot};
pub use select::Form;
pub use store::{Access, Shape};
