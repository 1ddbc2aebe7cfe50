//! Bounds on what one message may cost. Crossing one is a rejection with a `limit-…` code, never a crash.

/// Settable limits with defaults that are safe for untrusted messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message. Offsets are 32 bits, so a message is always smaller than 4 GiB.
    pub max_bytes: u64,
    /// Open elements at one time.
    pub max_depth: u32,
    /// Attributes of one element, namespace declarations and defaults included.
    pub max_attributes: u32,
    /// Bytes of one name, prefix included.
    pub max_name: u32,
    /// Bytes that entities and attribute defaults may add to a message.
    pub max_expansion: u64,
    /// How many times its own size a message may expand to; small expansions are exempt.
    pub max_amplification: u32,
    /// Entities open inside each other.
    pub max_entity_depth: u32,
    /// Results that a subscription may get of one message: nodes, or combinations of joined messages. What is beyond
    /// is left out.
    pub max_result_nodes: u32,
    /// Bytes of the results that a subscription may get of one message; likewise.
    pub max_result_bytes: u32,
    /// Results that all subscriptions together may get of one message: see `output::share`.
    pub max_message_results: u32,
    /// Bytes of the results that all subscriptions together may get of one message; likewise.
    pub max_message_result_bytes: u32,
    /// Steps that the evaluation of one query beyond tree patterns may take on one message: see `evaluate::Budget`.
    pub max_query_steps: u64,
    /// Bytes of strings and kept results that it may take; likewise.
    pub max_query_bytes: u64,
}

/// Expansions up to this size are not held against `max_amplification`: a short message with one long entity
/// is no attack.
pub(super) const AMPLIFICATION_FLOOR: u64 = 64 * 1024;

/// Positions are `u32` and one past the end must fit too.
pub(super) const ADDRESSABLE: u64 = u32::MAX as u64 - 1;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_bytes: 64 << 20,
            max_depth: 1_024,
            max_attributes: 1_024,
            max_name: 8_192,
            max_expansion: 8 << 20,
            max_amplification: 100,
            max_entity_depth: 20,
            max_result_nodes: 10_000,
            max_result_bytes: 16 << 20,
            max_message_results: 200_000,
            max_message_result_bytes: 64 << 20,
            // Enough for joins within a message of some thousand repeated elements; exhausted in less than 0.2 s.
            max_query_steps: 20_000_000,
            max_query_bytes: 64 << 20,
        }
    }
}
