//! A set of positions to refine a partition by.

use super::laminar::{Interval, Laminar};

/// A bitmap with a summary, so that both dense and sparse sets cost what they hold.
#[derive(Default)]
pub struct Hits {
    bits: Vec<u64>,
    /// One bit per word of `bits` that may be non-zero.
    dirty: Vec<u64>,
}

/// The bits `from..=to` of a word.
#[inline(always)]
fn mask(from: u32, to: u32) -> u64 {
    (!0 << (from & 63)) & (!0 >> (63 - (to & 63)))
}

impl Hits {
    /// Room for the positions of `l`.
    pub fn fit(&mut self, l: &Laminar) {
        let words = l.len() / 64 + 1;
        if self.bits.len() < words {
            self.bits.resize(words, 0);
            self.dirty.resize(words / 64 + 1, 0);
        }
    }

    #[inline(always)]
    pub fn set_one(&mut self, p: u32) {
        let w = (p >> 6) as usize;
        self.bits[w] |= 1 << (p & 63);
        self.dirty[w >> 6] |= 1 << (w & 63);
    }

    pub fn unset(&mut self, (a, b): Interval) {
        let (w0, w1) = ((a >> 6) as usize, ((b - 1) >> 6) as usize);
        if w0 == w1 {
            self.bits[w0] &= !mask(a, b - 1);
        } else {
            self.bits[w0] &= !mask(a, 63);
            self.bits[w0 + 1..w1].fill(0);
            self.bits[w1] &= !mask(0, b - 1);
        }
    }

    /// The first position at or after `from`.
    pub fn first(&self, from: u32) -> Option<u32> {
        let mut w = (from >> 6) as usize;
        let word = self.bits.get(w)? & (!0 << (from & 63));
        if word != 0 {
            return Some((w as u32) << 6 | word.trailing_zeros());
        }
        w += 1;
        let mut d = w >> 6;
        let mut dirty = self.dirty.get(d)? & (!0 << (w & 63));
        loop {
            while dirty == 0 {
                d += 1;
                dirty = *self.dirty.get(d)?;
            }
            let w = d << 6 | dirty.trailing_zeros() as usize;
            if self.bits[w] != 0 {
                return Some((w as u32) << 6 | self.bits[w].trailing_zeros());
            }
            dirty &= dirty - 1;
        }
    }

    /// The first position in `from..to` that is not in the set; `to` if there is none.
    pub fn first_unset(&self, from: u32, to: u32) -> u32 {
        let mut p = from;
        while p < to {
            let unset = !self.bits[(p >> 6) as usize] >> (p & 63);
            if unset != 0 {
                return to.min(p + unset.trailing_zeros());
            }
            p = (p | 63) + 1;
        }
        to
    }

    /// One past the last position in `from..to` that is in the set; `from` if there is none.
    pub fn past_last(&self, from: u32, to: u32) -> u32 {
        let mut p = to;
        while p > from {
            let set = self.bits[((p - 1) >> 6) as usize] << (63 - ((p - 1) & 63));
            if set != 0 {
                return from.max(p - set.leading_zeros());
            }
            p = (p - 1) & !63;
        }
        from
    }

    pub fn clear(&mut self) {
        for (d, dirty) in self.dirty.iter_mut().enumerate() {
            let mut m = std::mem::take(dirty);
            while m != 0 {
                self.bits[d << 6 | m.trailing_zeros() as usize] = 0;
                m &= m - 1;
            }
        }
    }
}
