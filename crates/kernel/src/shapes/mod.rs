//! Tree patterns: what a subscription asks of a message beyond one linear path.
//!
//! [`program`] is a pattern with numbered slots for its constants, so that all subscriptions of one shape share it;
//! [`nodes`] is the message as a flat table; [`search`] and [`bulk`] evaluate the one over the other. [`select`] finds the
//! nodes that a matched subscription asks for.

pub mod block;
pub mod bulk;
pub mod columns;
pub mod nodes;
pub mod pending;
pub mod program;
pub mod rows;
pub mod search;
pub mod select;
pub mod star;
pub mod store;
