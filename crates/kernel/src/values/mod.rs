//! Values of messages and constants of subscriptions.

pub mod constants;
pub mod number;
pub mod texts;
