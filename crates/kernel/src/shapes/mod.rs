//! Tree patterns: what a subscription asks of a message beyond one linear path.
//!
//! [`program`] is a pattern with numbered slots for its constants, so that all subscriptions of one shape share it;
//! [`nodes`] is the message as a flat table; [`expr`] is what the patterns of all subscriptions are made
//! of, [`shared`] evaluates that over a message, [`climb`] what a subscription has of its own; [`candidates`] remembers
//! what to evaluate. [`necessary`] tells what cannot hold, without the table. [`search`] evaluates one pattern alone, and
//! [`select`] finds the nodes that a matched subscription asks for.

pub mod bitset;
pub mod block;
pub mod bounds;
pub mod candidates;
pub mod climb;
pub mod columns;
pub mod decimals;
pub mod expr;
pub mod necessary;
pub mod nodes;
pub mod pending;
pub mod program;
pub mod rows;
pub mod search;
pub mod select;
pub mod shared;
pub mod star;
pub mod store;
