//! What goes out: [`fragment`] turns nodes of a message into bytes that stand on their own, with the namespaces in
//! [`scope`]; [`results`] gathers what matched subscriptions select.

pub mod fragment;
pub mod results;
mod scope;
