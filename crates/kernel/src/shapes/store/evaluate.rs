//! What a message asks of a bucket: which of its subscriptions it satisfies, at once or together with other messages.

use super::{block, Store};
use crate::bits;
use crate::paths::NONE;
use crate::shapes::block::Block;
use crate::shapes::pending::Pending;
use crate::shapes::program::{Node, Pred};
use crate::shapes::rows::{Asked, Mark, Rows};
use crate::shapes::search::Message;
use crate::shapes::shared::Shared;
use crate::shapes::star;
use crate::values::constants::Constants;

impl Store {
    /// A bucket that will be asked for.
    #[inline(always)]
    pub fn expect(&self, bucket: u32) {
        bits::fetch(&self.buckets[bucket as usize]);
    }

    /// The items that a message must have, besides the bucket's own, to satisfy any of its subscriptions.
    #[inline]
    pub fn guards(&self, bucket: u32) -> impl Iterator<Item = u32> + '_ {
        let shape = &self.shapes[self.buckets[bucket as usize].shape as usize];
        let own = if shape.guard_slots.is_empty() { &[] } else { self.block(bucket).guards() };
        shape.guard_items.iter().chain(own.iter().filter(|&&g| g != NONE)).copied()
    }

    /// The rows of a bucket that are best checked one by one.
    pub fn short(&self, bucket: u32) -> Option<Short<'_>> {
        let b = &self.buckets[bucket as usize];
        let shape = &self.shapes[b.shape as usize];
        let block = block(&self.arena, &shape.layout, b);
        let trunk = shape.exact.filter(|_| !block.guards().contains(&NONE)).and_then(|n| shape.program.trunk(n));
        let long = b.len > FEW && (trunk.is_some_and(<[_]>::is_empty) || shape.star.is_some());
        (!long).then_some(Short { trunk, pred: &shape.program.pred, block })
    }

    /// Appends the subscriptions of the bucket that the message satisfies.
    pub fn evaluate(&self, bucket: u32, message: Message<'_>, fuel: u32, scratch: &mut Scratch, out: &mut Vec<u32>) {
        let b = &self.buckets[bucket as usize];
        let shape = &self.shapes[b.shape as usize];
        let block = block(&self.arena, &shape.layout, b);
        if shape.exact == Some(0) && !block.guards().contains(&NONE) {
            return out.extend(block.subs().iter().copied().filter(|&s| s != NONE));
        }
        let visits = fuel.saturating_mul(message.nodes.len() as u32 + 256);
        if let (Some(star), true) = (&shape.star, b.len > 1) {
            let from = out.len();
            let Scratch { star: memory, asked, pending, first, .. } = scratch;
            if asked.bytes() > MOST_BYTES && pending.len() == first.1 {
                asked.rewind(first.0);
                memory.forget();
            }
            let before = pending.len();
            let later = pending.takes(b.len) && !shape.at_once && asked.bytes() <= MOST_BYTES;
            let mut centres = 0;
            let constant = |place| block.column(place).get(0);
            let done = star.ask(b.shape, constant, (message, visits), memory, asked, |asked, checks| {
                centres += 1;
                if later {
                    pending.push(bucket, b.len, checks);
                } else {
                    asked.select(checks, &self.rows(bucket, message.constants), out);
                }
            });
            if done.is_ok() {
                if centres > 1 && !later {
                    dedup(out, from);
                }
                return;
            }
            pending.truncate(before);
            out.truncate(from);
        }
        for (i, sub) in block.live() {
            scratch.row.clear();
            block.row(i, &mut scratch.row);
            if scratch.shared.holds(message, fuel, &shape.program.pred, &scratch.row) {
                out.push(sub);
            }
        }
    }

    fn rows<'a>(&'a self, bucket: u32, constants: &'a Constants) -> Rows<'a> {
        let b = &self.buckets[bucket as usize];
        let shape = &self.shapes[b.shape as usize];
        let texts = if self.texts.is_empty() { None } else { self.texts.get(&bucket) };
        Rows { block: block(&self.arena, &shape.layout, b), key: shape.key, sorted: b.sorted, texts, constants }
    }

    /// Checks what messages have left for later, bucket by bucket; then `each` is called for what each of them left, in
    /// their order, with the subscriptions that it satisfies.
    pub fn evaluate_pending(&self, constants: &Constants, scratch: &mut Scratch, each: impl FnMut(u32, &[u32])) {
        let Scratch { asked, pending, .. } = scratch;
        let expect = |bucket: u32, part: usize, of: usize| {
            let b = &self.buckets[bucket as usize];
            let words = self.arena.get(b.at, self.shapes[b.shape as usize].layout.words(b.form));
            let words = &words[..words.len().min(MOST)];
            fetch(&words[words.len() * part / of..words.len() * (part + 1) / of]);
        };
        let select = |asked: &mut Asked, bucket, checks, out: &mut _| {
            asked.select(checks, &self.rows(bucket, constants), out);
        };
        pending.evaluate(asked, expect, select, each);
        asked.clear();
    }
}

/// Words of a bucket that are asked for ahead.
const MOST: usize = 8192;

/// Asks the processor to have these words at hand soon.
#[inline]
fn fetch(words: &[u32]) {
    #[cfg(target_arch = "x86_64")]
    for line in words.chunks(16) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T1};
        // SAFETY: it has no effect but on caches.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = words;
}

/// Sorts the end of a list and leaves each item there once.
pub fn dedup<T: Ord + Copy>(list: &mut Vec<T>, from: usize) {
    list[from..].sort_unstable();
    let mut kept = from;
    for i in from..list.len() {
        if i == from || list[i] != list[kept - 1] {
            list[kept] = list[i];
            kept += 1;
        }
    }
    list.truncate(kept);
}

/// The rows of a bucket, and what is to be checked of each.
pub struct Short<'a> {
    /// If these steps find a single node, the guards decide.
    pub trunk: Option<&'a [Node]>,
    pub pred: &'a Pred,
    pub block: Block<'a>,
}

/// Columns pay for buckets with more rows.
const FEW: u32 = 4;

/// Working memory of `Store::evaluate`.
#[derive(Default)]
pub struct Scratch {
    row: Vec<u64>,
    star: star::Scratch,
    asked: Asked,
    pub pending: Pending,
    /// For patterns that are checked one by one.
    pub shared: Shared,
    /// What was asked and put off before the message at hand.
    first: (Mark, usize),
}

/// Bytes of checks that are kept.
const MOST_BYTES: usize = 16 << 20;

impl Scratch {
    /// A message is to be checked.
    pub fn begin_message(&mut self) {
        self.first = (self.asked.mark(), self.pending.len());
        self.star.forget();
        self.shared.begin_message();
    }

    /// A message has been checked: what it asked is kept only if it is to be answered later.
    pub fn end_message(&mut self) {
        if self.pending.len() == self.first.1 {
            self.asked.rewind(self.first.0);
        }
    }

    /// Messages have put off as much as they may.
    pub fn is_full(&self) -> bool {
        self.pending.is_full() || self.asked.bytes() > MOST_BYTES
    }
}
