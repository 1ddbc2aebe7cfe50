//! What goes out: [`fragment`] turns nodes of a message into bytes that stand on their own, with the namespaces in
//! [`scope`]; [`results`] gathers what matched subscriptions select, within the budget that [`share`] divides; [`plain`]
//! is a whole message for other parsers, and [`places`] leads from its elements back to the message.

pub(crate) mod fragment;
pub(crate) mod places;
pub(crate) mod plain;
pub(crate) mod results;
pub(crate) mod scope;
pub(crate) mod share;

pub use fragment::Under;
pub use places::places;
pub use plain::plain;
pub use results::{Results, MOST_BYTES};
pub use share::Cut;
