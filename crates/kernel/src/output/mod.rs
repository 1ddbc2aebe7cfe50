//! What goes out: [`fragment`] turns nodes of a message into bytes that stand on their own, with the namespaces in
//! [`scope`]; [`results`] gathers what matched subscriptions select, within the budget that [`share`] divides; [`plain`]
//! is a whole message for other parsers, and [`places`] leads from its elements back to the message.

pub mod fragment;
pub mod places;
pub mod plain;
pub mod results;
pub mod scope;
pub mod share;
