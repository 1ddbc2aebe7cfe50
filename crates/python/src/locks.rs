//! Locks as a forked child finds them.

use std::sync::{TryLockError, TryLockResult};

/// Whether nobody holds the lock that the caller has tried to take.
pub(crate) fn is_free<T>(tried: TryLockResult<T>) -> bool {
    !matches!(tried, Err(TryLockError::WouldBlock))
}
