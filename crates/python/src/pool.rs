//! Memory for matched ids, used again once Python lets go of it: a batch may match millions, and the system's
//! clearing of fresh pages would cost several times what matching does.

use arrow_buffer::{Buffer, ScalarBuffer};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

/// Bytes kept while nobody uses them.
const KEEP: usize = 128 << 20;
const LISTS: usize = 8;

/// Nobody waits for the lock: a forked child may have it locked for ever.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Vec<u32>>>);

impl Pool {
    /// An empty list, with room if there is one to spare.
    pub(crate) fn take(&self) -> Vec<u32> {
        self.0.try_lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default()
    }

    fn give(&self, mut list: Vec<u32>) {
        list.clear();
        let Ok(mut spare) = self.0.try_lock() else { return };
        let bytes = 4 * spare.iter().map(Vec::capacity).sum::<usize>();
        if spare.len() < LISTS && bytes + 4 * list.capacity() <= KEEP {
            spare.push(list);
        }
    }

    /// The list as an Arrow buffer that comes back here.
    pub(crate) fn lend(self: &Arc<Self>, list: Vec<u32>) -> ScalarBuffer<u32> {
        let len = list.len();
        let start = NonNull::from(list.as_slice()).cast::<u8>();
        let owner = Arc::new(Lent { list, pool: self.clone() });
        // SAFETY: the list, whose memory this is, lives in the owner and is neither moved nor changed there.
        ScalarBuffer::new(unsafe { Buffer::from_custom_allocation(start, 4 * len, owner) }, 0, len)
    }
}

struct Lent {
    list: Vec<u32>,
    pool: Arc<Pool>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.list));
    }
}
