//! Arrays of 32-bit words that lie in a mapped file, used in place.

use std::ops::Deref;
use std::sync::Arc;

/// Bytes that someone keeps for us.
///
/// # Safety
/// Every call of `bytes` answers the same bytes, and they stay where they are and as they are while this lives.
pub unsafe trait Held: Send + Sync {
    fn bytes(&self) -> &[u8];
}

// SAFETY: nobody can change a list that is shared.
unsafe impl Held for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Words in held bytes, or of our own where the bytes cannot be read as words in place.
#[derive(Clone)]
pub struct Words {
    start: *const u32,
    len: usize,
    /// Keeps the words where they are.
    _owner: Owner,
}

#[derive(Clone)]
enum Owner {
    Held { _bytes: Arc<dyn Held> },
    Own { _words: Arc<[u32]> },
}

// SAFETY: the words are never written, and whoever owns them may be sent and shared.
unsafe impl Send for Words {}
unsafe impl Sync for Words {}

impl Default for Words {
    fn default() -> Words {
        Words::own(vec![])
    }
}

impl Words {
    fn own(words: Vec<u32>) -> Words {
        let words: Arc<[u32]> = words.into();
        Words { start: words.as_ptr(), len: words.len(), _owner: Owner::Own { _words: words } }
    }

    /// The little-endian words at a range of the bytes; None if it has none such.
    pub fn open(bytes: &Arc<dyn Held>, at: usize, words: usize) -> Option<Words> {
        let raw = bytes.bytes().get(at..at.checked_add(words.checked_mul(4)?)?)?;
        // SAFETY: any four bytes are a word.
        let (before, inside, after) = unsafe { raw.align_to::<u32>() };
        if cfg!(target_endian = "big") || !before.is_empty() || !after.is_empty() {
            return Some(Words::own(raw.as_chunks().0.iter().map(|&w| u32::from_le_bytes(w)).collect()));
        }
        Some(Words { start: inside.as_ptr(), len: words, _owner: Owner::Held { _bytes: bytes.clone() } })
    }
}

impl Deref for Words {
    type Target = [u32];

    #[inline(always)]
    fn deref(&self) -> &[u32] {
        // SAFETY: the owner keeps these words where they are and unchanged.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}
