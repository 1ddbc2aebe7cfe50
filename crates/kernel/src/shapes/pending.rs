//! Messages of a batch grouped by bucket: what the large buckets ask is put off until many messages have been read, and
//! then checked bucket by bucket, so that a bucket's memory is fetched once for all messages that reach it.

use super::rows::{Asked, Span};
use crate::bits::fetch;

/// Buckets with fewer rows are checked at once.
const LARGE: u32 = 32;
/// The most rows that may be put off, and so the most matches that may come of it at once.
const MOST_ROWS: usize = 1 << 22;
const MOST_MESSAGES: u32 = 1 << 14;
/// So many messages before memory is looked at it is asked for.
const AHEAD: usize = 8;

#[derive(Default)]
pub struct Pending {
    /// Messages are being grouped; the number of the current one.
    message: Option<u32>,
    entries: Vec<Entry>,
    rows: usize,
    order: Vec<u64>,
    found: Vec<u32>,
}

struct Entry {
    bucket: u32,
    message: u32,
    checks: Span,
    found: Span,
}

impl Pending {
    /// From now on large buckets are put off.
    pub fn begin(&mut self) {
        self.message = Some(0);
    }

    /// From now on they are not; nothing must be left.
    pub fn end(&mut self) {
        debug_assert!(self.entries.is_empty());
        (self.message, self.rows) = (None, 0);
    }

    pub fn next_message(&mut self) {
        self.message = self.message.map(|m| m + 1);
    }

    pub fn is_full(&self) -> bool {
        self.rows >= MOST_ROWS || self.message.is_some_and(|m| m >= MOST_MESSAGES)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Is a bucket of so many rows put off?
    #[inline]
    pub fn takes(&self, rows: u32) -> bool {
        self.message.is_some() && rows >= LARGE
    }

    pub fn push(&mut self, bucket: u32, rows: u32, checks: Span) {
        let message = self.message.unwrap_or_default();
        self.rows += rows as usize;
        self.entries.push(Entry { bucket, message, checks, found: Span { start: 0, end: 0 } });
    }

    pub fn truncate(&mut self, len: usize) {
        self.entries.truncate(len);
    }

    /// Calls `select` bucket by bucket, then `each` message by message. `expect` is told of each bucket well before: of
    /// a part of it, of so many parts, for each message that reaches it. To ask for all of it at once would take as long
    /// as to wait for most of it.
    pub fn evaluate(
        &mut self,
        asked: &mut Asked,
        expect: impl Fn(u32, usize, usize),
        mut select: impl FnMut(&mut Asked, u32, Span, &mut Vec<u32>),
        mut each: impl FnMut(u32, &[u32]),
    ) {
        self.order.clear();
        self.order.extend(self.entries.iter().enumerate().map(|(i, e)| (e.bucket as u64) << 32 | i as u64));
        self.order.sort_unstable();
        let mut group = 0..0;
        for (i, &at) in self.order.iter().enumerate() {
            // what messages ask lies in their order, not in this one
            if let Some(&later) = self.order.get(i + 2 * AHEAD) {
                fetch(&self.entries[later as u32 as usize]);
            }
            if let Some(&soon) = self.order.get(i + AHEAD) {
                asked.expect(self.entries[soon as u32 as usize].checks);
                if i + AHEAD >= group.end {
                    let rest = &self.order[i + AHEAD..];
                    let same = rest.iter().take_while(|&other| other >> 32 == soon >> 32);
                    group = i + AHEAD..i + AHEAD + same.count();
                }
                expect((soon >> 32) as u32, i + AHEAD - group.start, group.len());
            }
            let entry = &mut self.entries[at as u32 as usize];
            let from = self.found.len();
            select(asked, entry.bucket, entry.checks, &mut self.found);
            entry.found = Span { start: from as u32, end: self.found.len() as u32 };
        }
        for (i, entry) in self.entries.iter().enumerate() {
            if let Some(word) = self.entries.get(i + AHEAD).and_then(|e| self.found.get(e.found.start as usize)) {
                fetch(word);
            }
            each(entry.message, &self.found[entry.found.range()]);
        }
        self.entries.clear();
        self.found.clear();
        self.found.shrink_to(1 << 20);
        self.rows = 0;
    }
}
