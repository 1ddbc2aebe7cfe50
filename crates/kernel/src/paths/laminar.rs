//! Delivery of matched subscriptions. Each subscription has a *position*; the set that a tag path accepts is a
//! short list of position intervals. Refining the partition by each such set in place keeps every class contiguous
//! for good, so intervals found earlier stay valid (KERNEL.md §2.3). What a message
//! matches is a union of intervals ([`super::runs::Runs`]).

use super::hits::Hits;
use super::NONE;
use crate::bits::fetch;

/// Half-open range of positions.
pub type Interval = (u32, u32);

#[derive(Default)]
pub struct Laminar {
    /// Subscription at each position, `NONE` where it is gone.
    pub(super) perm: Vec<u32>,
    /// Position of each subscription, `NONE` if it has none.
    pos: Vec<u32>,
    /// Class of each position: subscriptions change places within their class only, so this does not move with them.
    class: Vec<u32>,
    start: Vec<u32>,
    end: Vec<u32>,
    /// Bits of positions whose subscription is gone; empty as long as there is none.
    pub(super) dead: Vec<u64>,
    dead_count: usize,
    /// Positions whose subscriptions are not delivered, only asked for.
    pub(super) quiet: Interval,
}

impl Laminar {
    /// Two classes: subscriptions to deliver, and such as are only asked for. They stay apart, so a message that has
    /// very many of the latter has few intervals to deliver.
    pub fn new(loud: &[u32], quiet: &[u32], bound: usize) -> Laminar {
        let mut l = Laminar { pos: vec![NONE; bound], perm: [loud, quiet].concat(), ..Laminar::default() };
        for (p, &s) in (0..).zip(&l.perm) {
            l.pos[s as usize] = p;
        }
        let (first, len) = (loud.len() as u32, l.perm.len() as u32);
        l.class.resize(l.perm.len(), 0);
        l.open_class(0, first);
        l.open_class(first, len);
        l.quiet = (first, len);
        l
    }

    fn open_class(&mut self, start: u32, end: u32) {
        self.class[start as usize..end as usize].fill(self.start.len() as u32);
        self.start.push(start);
        self.end.push(end);
    }

    /// A new subscription at a position of its own.
    pub fn push(&mut self, sub: u32) {
        let p = self.perm.len() as u32;
        if self.pos.len() <= sub as usize {
            self.pos.resize(sub as usize + 1, NONE);
        }
        self.perm.push(sub);
        self.pos[sub as usize] = p;
        self.class.push(0);
        self.open_class(p, p + 1);
    }

    /// The subscription is gone; its position stays, masked.
    pub fn remove(&mut self, sub: u32) {
        let p = self.position(sub);
        if p == NONE {
            return;
        }
        let words = self.perm.len() / 64 + 1;
        if self.dead.len() < words {
            self.dead.resize(words, 0);
        }
        self.dead[p as usize / 64] |= 1 << (p % 64);
        self.dead_count += 1;
        // the number may be given to another subscription, with another position
        self.perm[p as usize] = NONE;
        self.pos[sub as usize] = NONE;
    }

    pub fn dead_count(&self) -> usize {
        self.dead_count
    }

    pub fn len(&self) -> usize {
        self.perm.len()
    }

    /// `NONE` for a subscription that has no position.
    #[inline(always)]
    pub fn position(&self, sub: u32) -> u32 {
        self.pos.get(sub as usize).copied().unwrap_or(NONE)
    }

    /// `position` will be asked.
    #[inline(always)]
    pub fn expect(&self, sub: u32) {
        if let Some(position) = self.pos.get(sub as usize) {
            fetch(position);
        }
    }

    /// Splits classes so that the positions in `set`, of subscriptions that are there, are a union of classes; appends
    /// their intervals to `out`, in ascending order, and clears the set.
    pub fn refine(&mut self, set: &mut Hits, out: &mut Vec<Interval>) {
        let first = out.len();
        let mut next = set.first(0);
        while let Some(p) = next {
            let c = self.class[p as usize] as usize;
            let (start, end) = (self.start[c], self.end[c]);
            // members to the front, with as few exchanges as there can be
            let (mut lo, mut hi) = (start, end);
            loop {
                lo = set.first_unset(lo, hi);
                hi = set.past_last(lo, hi);
                if lo >= hi {
                    break;
                }
                hi -= 1;
                self.exchange(lo, hi);
                lo += 1;
            }
            if lo < end {
                self.split(c, lo);
            }
            match out[first..].last_mut() {
                Some(last) if last.1 == start => last.1 = lo,
                _ => out.push((start, lo)),
            }
            next = set.first(end);
        }
        set.clear();
    }

    /// Gives a subscription that has a position a class of its own; answers its interval.
    pub fn isolate(&mut self, sub: u32) -> Interval {
        let p = self.pos[sub as usize];
        let c = self.class[p as usize] as usize;
        let (start, end) = (self.start[c], self.end[c]);
        if end - start > 1 {
            self.exchange(start, p);
            self.split(c, start + 1);
        }
        (start, start + 1)
    }

    /// Splits a class in two; the smaller part gets the new number, which has to be written to each of its positions.
    fn split(&mut self, c: usize, at: u32) {
        let (start, end) = (self.start[c], self.end[c]);
        if at - start < end - at {
            self.start[c] = at;
            self.open_class(start, at);
        } else {
            self.end[c] = at;
            self.open_class(at, end);
        }
    }

    fn exchange(&mut self, a: u32, b: u32) {
        self.perm.swap(a as usize, b as usize);
        for p in [a, b] {
            let sub = self.perm[p as usize];
            if sub != NONE {
                self.pos[sub as usize] = p;
            }
        }
        if !self.dead.is_empty() {
            self.exchange_dead(a, b);
        }
    }

    fn exchange_dead(&mut self, a: u32, b: u32) {
        let bit = |d: &[u64], p: u32| d.get(p as usize / 64).is_some_and(|w| w >> (p % 64) & 1 == 1);
        let (x, y) = (bit(&self.dead, a), bit(&self.dead, b));
        if x != y {
            for p in [a, b] {
                let words = p as usize / 64 + 1;
                if self.dead.len() < words {
                    self.dead.resize(words, 0);
                }
                self.dead[p as usize / 64] ^= 1 << (p % 64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(l: &Laminar, intervals: &[Interval]) -> Vec<u32> {
        let mut subs: Vec<u32> = intervals.iter().flat_map(|&(a, b)| l.perm[a as usize..b as usize].to_vec()).collect();
        subs.sort_unstable();
        subs
    }

    #[test]
    fn intervals_stay_valid_while_later_sets_split_classes() {
        let mut l = Laminar::new(&(0..700).collect::<Vec<_>>(), &(700..1000).collect::<Vec<_>>(), 1000);
        let mut set = Hits::default();
        let mut found = vec![];
        for k in 1..40u32 {
            let subs: Vec<u32> = (0..1000).filter(|s| (s * 7919 + k * k) % (k + 1) == 0 && *s != 500).collect();
            set.fit(&l);
            subs.iter().for_each(|&s| set.set_one(l.position(s)));
            let mut out = vec![];
            l.refine(&mut set, &mut out);
            assert!(out.is_sorted_by(|a, b| a.1 < b.0), "ascending, not touching: {out:?}");
            found.push((subs, out));
            if k == 20 {
                l.remove(500); // others go on to change places with the gap it leaves
                l.push(1000);
                assert_eq!(l.isolate(3), (l.position(3), l.position(3) + 1));
            }
            for (subs, intervals) in &found {
                assert_eq!(&members(&l, intervals), subs);
            }
        }
        let mut all = members(&l, &[(0, l.len() as u32)]);
        all.retain(|&s| s != NONE);
        assert_eq!(all, (0..=1000).filter(|&s| s != 500).collect::<Vec<_>>());
    }
}
