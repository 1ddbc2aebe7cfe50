//! Values of messages and constants of subscriptions.

pub(crate) mod constants;
pub(crate) mod number;
pub(crate) mod strings;
pub(crate) mod texts;
