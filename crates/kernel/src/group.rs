//! Matching many messages at once: see `shapes::pending`.

use crate::engine::Engine;
use crate::matcher::{Beside, Matcher};
use crate::shapes::store::dedup;
use crate::xml::{Limits, XmlError};

/// The matches of messages that are read as a group.
pub struct Group<'a> {
    /// The matches of all messages so far, and where those of each end.
    pub found: &'a mut Vec<u32>,
    pub ends: &'a mut Vec<i32>,
    /// In ascending order.
    pub sorted: bool,
    /// Matches and ends from before the group.
    from: usize,
    first: usize,
}

impl<'a> Group<'a> {
    pub fn begin(matcher: &mut Matcher, found: &'a mut Vec<u32>, ends: &'a mut Vec<i32>, sorted: bool) -> Group<'a> {
        matcher.table.scratch.pending.begin();
        let (from, first) = (found.len(), ends.len());
        Group { found, ends, sorted, from, first }
    }

    /// Reads the next message. What it matches is known when the group ends.
    pub fn read(
        &mut self,
        matcher: &mut Matcher,
        engine: &Engine,
        xml: &[u8],
        limits: &Limits,
        beside: Beside<'_>,
    ) -> Result<(), XmlError> {
        let read = matcher.read_beside(engine, xml, limits, (self.sorted, beside), self.found);
        self.ends.push(self.found.len() as i32);
        matcher.table.scratch.pending.next_message();
        read
    }

    /// There is no room for more messages.
    pub fn is_full(&self, matcher: &Matcher) -> bool {
        matcher.table.scratch.is_full()
    }

    pub fn finish(self, matcher: &mut Matcher, engine: &Engine) {
        let Group { found, ends, sorted, from, first } = self;
        let scratch = &mut matcher.table.scratch;
        if !scratch.pending.is_empty() {
            let at_once = found.split_off(from);
            let mut merge =
                Merge { at_once, taken: 0, base: from, start: from, ends: &mut ends[first..], found, message: 0 };
            let mut last = None;
            let mut repeats = false;
            engine.store.evaluate_pending(&engine.constants, scratch, |message, matches| {
                if last == Some(message) {
                    repeats = true; // two centres may match the same
                } else {
                    merge.close(message, std::mem::take(&mut repeats));
                }
                last = Some(message);
                merge.found.extend_from_slice(matches);
            });
            let messages = merge.ends.len() as u32;
            merge.close(messages, repeats);
            let mut start = from;
            for &end in ends[first..].iter().filter(|_| sorted) {
                matcher.table.sorter.sort_within(&mut found[start..end as usize], engine.bound());
                start = end as usize;
            }
        }
        matcher.table.scratch.pending.end();
    }
}

/// Matches that were known at once and those that were put off, message by message.
struct Merge<'a> {
    at_once: Vec<u32>,
    /// How many of them have been merged.
    taken: usize,
    /// What `ends` counted before them.
    base: usize,
    found: &'a mut Vec<u32>,
    ends: &'a mut [i32],
    /// The message that is being merged, and where its matches start.
    message: u32,
    start: usize,
}

impl Merge<'_> {
    /// Ends all messages before `upto`.
    fn close(&mut self, upto: u32, mut repeats: bool) {
        while self.message < upto {
            let end = &mut self.ends[self.message as usize];
            let known = *end as usize - self.base;
            if self.taken < known {
                self.found.extend_from_slice(&self.at_once[self.taken..known]);
                self.taken = known;
            }
            if std::mem::take(&mut repeats) {
                dedup(self.found, self.start);
            }
            *end = self.found.len() as i32;
            self.start = self.found.len();
            self.message += 1;
        }
    }
}
