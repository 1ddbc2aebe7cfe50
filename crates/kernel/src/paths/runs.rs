//! The positions that one message has matched, as intervals in, runs of subscriptions out.
//!
//! Intervals of different tag paths overlap, repeat and touch; a message has hundreds of them. Each is noted at its
//! first position by its end alone, which takes no branch and no loop over what it covers, and one sweep in order of
//! position makes runs of them.

use super::laminar::{Interval, Laminar};
use crate::bits::fetch;
use crate::sorted::Sorter;

#[derive(Default)]
pub struct Runs {
    /// Positions where an interval starts.
    starts: Vec<u64>,
    /// One bit per word of `starts` that is not zero.
    dirty: Vec<u64>,
    /// By position where an interval starts: the furthest end.
    ends: Vec<u32>,
    /// What the sweep makes: ascending, not touching.
    runs: Vec<Interval>,
    /// The same as bits, once asked for.
    bits: Vec<u64>,
    marked: bool,
}

/// Ids that a short run copies at once, whatever its length.
const SHORT: usize = 16;

impl Runs {
    /// Room for the positions of `l`.
    pub fn fit(&mut self, l: &Laminar) {
        if self.ends.len() < l.len() {
            let words = l.len() / 64 + 1;
            self.starts.resize(words, 0);
            self.dirty.resize(words / 64 + 1, 0);
            self.ends.resize(l.len(), 0);
        }
    }

    /// An interval that starts here will be added.
    #[inline(always)]
    pub fn expect(&self, from: u32) {
        fetch(&self.ends[from as usize]);
    }

    #[inline(always)]
    pub fn add(&mut self, (from, to): Interval) {
        let (w, bit) = ((from >> 6) as usize, from & 63);
        let noted = (self.starts[w] >> bit & 1) as u32;
        let end = &mut self.ends[from as usize];
        *end = to.max(*end & noted.wrapping_neg());
        self.starts[w] |= 1 << bit;
        self.dirty[w >> 6] |= 1 << (w & 63);
    }

    /// Makes the runs, without positions whose subscription is gone, and forgets the intervals.
    fn sweep(&mut self, l: &Laminar) {
        if std::mem::take(&mut self.marked) {
            self.each_word(|word, _| *word = 0);
        }
        self.runs.clear();
        let mut run = (0, 0);
        for (d, dirty) in self.dirty.iter_mut().enumerate() {
            let mut words = std::mem::take(dirty);
            while words != 0 {
                let w = d << 6 | words.trailing_zeros() as usize;
                words &= words - 1;
                let mut bits = std::mem::take(&mut self.starts[w]);
                while bits != 0 {
                    let from = (w << 6) as u32 | bits.trailing_zeros();
                    bits &= bits - 1;
                    if from > run.1 {
                        self.runs.push(run);
                        run.0 = from;
                    }
                    run.1 = run.1.max(self.ends[from as usize]);
                }
            }
        }
        self.runs.push(run);
        if !l.dead.is_empty() {
            self.bury(l);
        }
    }

    /// The runs without the quiet positions: those before, those that reach into them, those behind.
    fn loud(&self, l: &Laminar) -> (&[Interval], [Interval; 2], &[Interval]) {
        let (from, to) = l.quiet;
        let first = self.runs.partition_point(|run| run.1 <= from);
        let past = first + self.runs[first..].partition_point(|run| run.0 < to);
        let mut edges = [(0, 0); 2];
        if first < past {
            let (head, tail) = (self.runs[first], self.runs[past - 1]);
            edges = [(head.0.min(from), from), (to, tail.1.max(to))];
        }
        (&self.runs[..first], edges, &self.runs[past..])
    }

    /// Cuts positions out whose subscription is gone.
    fn bury(&mut self, l: &Laminar) {
        let is_dead = |p: u32| l.dead.get(p as usize >> 6).is_some_and(|w| w >> (p & 63) & 1 == 1);
        let mut alive = vec![];
        for &(mut from, to) in &self.runs {
            let mut at = from;
            while at < to {
                let word = l.dead.get(at as usize >> 6).map_or(0, |w| w >> (at & 63));
                if word == 0 {
                    at = to.min((at | 63) + 1);
                    continue;
                }
                at = to.min(at + word.trailing_zeros());
                alive.push((from, at));
                while at < to && is_dead(at) {
                    at += 1;
                }
                from = at;
            }
            alive.push((from, to));
        }
        self.runs = alive;
    }

    /// Appends the subscriptions at the positions to `out`, and forgets them.
    pub fn drain(&mut self, l: &Laminar, out: &mut Vec<u32>) {
        self.sweep(l);
        self.copy(l, out);
    }

    /// Makes ready to be asked whether the last message had a position.
    pub fn mark(&mut self) {
        self.bits.resize(self.starts.len(), 0);
        self.each_word(|word, mask| *word |= mask);
        self.marked = true;
    }

    /// Did the last message have this position?
    #[inline(always)]
    pub fn has(&self, position: u32) -> bool {
        self.bits[position as usize >> 6] >> (position & 63) & 1 == 1
    }

    /// Calls `f` for the words that hold positions of the runs, with these as a mask.
    fn each_word(&mut self, f: impl Fn(&mut u64, u64)) {
        for &(from, to) in self.runs.iter().filter(|run| run.0 < run.1) {
            let (first, last) = (from >> 6, (to - 1) >> 6);
            let (mut mask, tail) = (!0 << (from & 63), !0 >> (63 - ((to - 1) & 63)));
            for word in first..last {
                f(&mut self.bits[word as usize], mask);
                mask = !0;
            }
            f(&mut self.bits[last as usize], mask & tail);
        }
    }

    fn copy(&self, l: &Laminar, out: &mut Vec<u32>) {
        let (before, edges, behind) = self.loud(l);
        let perm = &l.perm;
        out.reserve(length(before) + length(&edges) + length(behind) + SHORT);
        let mut len = out.len();
        for runs in [before, &edges, behind] {
            for &(from, to) in runs {
                let (from, to) = (from as usize, to as usize);
                // SAFETY: `perm` is read within its bounds, and what is written ends SHORT after the entries reserved
                // at the latest, for these are as many as the runs together are long.
                unsafe {
                    let target = out.as_mut_ptr().add(len);
                    if to - from <= SHORT && from + SHORT <= perm.len() {
                        target
                            .cast::<[u32; SHORT]>()
                            .write_unaligned(perm.as_ptr().add(from).cast::<[u32; SHORT]>().read_unaligned());
                    } else {
                        target.copy_from_nonoverlapping(perm[from..to].as_ptr(), to - from);
                    }
                }
                len += to - from;
            }
        }
        // SAFETY: the runs have written all of these.
        unsafe { out.set_len(len) };
    }

    /// The same, in ascending order.
    pub fn drain_sorted(&mut self, l: &Laminar, bound: usize, sorter: &mut Sorter, out: &mut Vec<u32>) {
        self.sweep(l);
        let (before, edges, behind) = self.loud(l);
        if !Sorter::suits(length(before) + length(&edges) + length(behind), bound) {
            let from = out.len();
            self.copy(l, out);
            return out[from..].sort_unstable();
        }
        sorter.fit(bound);
        for &(from, to) in before.iter().chain(&edges).chain(behind) {
            sorter.add(&l.perm[from as usize..to as usize]);
        }
        sorter.drain(out);
    }
}

/// Positions that the runs hold.
fn length(runs: &[Interval]) -> usize {
    runs.iter().map(|&(from, to)| (to - from) as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_touching_and_repeated_intervals_deliver_each_living_subscription_once() {
        let subs: Vec<u32> = (0..1000).rev().collect();
        let mut l = Laminar::new(&subs[..600], &subs[600..900], 1000);
        subs[900..].iter().for_each(|&sub| l.push(sub));
        let mut runs = Runs::default();
        let mut sorter = Sorter::default();
        for round in 0..60u32 {
            let intervals: Vec<Interval> = (0..round % 25)
                .map(|k| {
                    let from = (round * 7919 + k * k * 104_729) % 1000;
                    (from, (from + 1 + (k * 31 + round) % [3, 90, 400][k as usize % 3]).min(1000))
                })
                .collect();
            if round == 30 {
                [0, 5, 6, 7, 63, 64, 127, 500, 999].iter().for_each(|&sub| l.remove(sub));
            }
            let is_in = |p: u32| intervals.iter().any(|&(a, b)| a <= p && p < b);
            let living = |p: &u32| is_in(*p) && l.perm[*p as usize] != super::super::NONE;
            let all: Vec<u32> = (0..1000).filter(living).collect();
            let loud = all.iter().filter(|&&p| !(600..900).contains(&p));
            let mut expected: Vec<u32> = loud.map(|&p| l.perm[p as usize]).collect();
            for sorted in [false, true] {
                runs.fit(&l);
                intervals.iter().for_each(|&i| runs.add(i));
                let mut found = vec![7];
                if sorted {
                    runs.drain_sorted(&l, 1000, &mut sorter, &mut found);
                    expected.sort_unstable();
                } else {
                    runs.drain(&l, &mut found);
                }
                assert_eq!(found[1..], expected[..]);
                if round % 2 == 0 {
                    runs.mark();
                    assert_eq!((0..1000).filter(|&p| runs.has(p)).collect::<Vec<_>>(), all);
                }
            }
        }
    }
}
