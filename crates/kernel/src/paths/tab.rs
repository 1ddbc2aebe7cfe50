//! An open-addressing table from (u32, u32) to u32, the shape of every transition table here.

use super::NONE;
use crate::bits::fetch;

const FREE: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Slot {
    key: u64,
    val: u32,
}

pub struct Tab {
    slots: Vec<Slot>,
    len: usize,
}

#[inline(always)]
fn key(a: u32, b: u32) -> u64 {
    (a as u64) << 32 | b as u64
}

#[inline(always)]
fn spread(k: u64) -> usize {
    let m = k as u128 * 0x9e37_79b9_7f4a_7c15_u128;
    (((m as u64) ^ ((m >> 64) as u64)) >> 7) as usize
}

impl Default for Tab {
    fn default() -> Self {
        Tab::with_capacity(16)
    }
}

impl Tab {
    pub fn with_capacity(n: usize) -> Tab {
        Tab { slots: vec![Slot { key: FREE, val: NONE }; (n * 2).next_power_of_two().max(16)], len: 0 }
    }

    /// `NONE` where there is no entry.
    #[inline(always)]
    pub fn get(&self, a: u32, b: u32) -> u32 {
        let k = key(a, b);
        let mask = self.slots.len() - 1;
        let mut i = spread(k) & mask;
        loop {
            // SAFETY: `i` is masked by `slots.len() - 1`, a power of two minus one. This is the one look-up per
            // element of the whole engine; the bounds check costs a measurable share of it.
            let s = unsafe { *self.slots.get_unchecked(i) };
            if s.key == k {
                return s.val;
            }
            if s.key == FREE {
                return NONE;
            }
            i = (i + 1) & mask;
        }
    }

    /// `get` will be asked.
    #[inline(always)]
    pub fn expect(&self, a: u32, b: u32) {
        fetch(&self.slots[spread(key(a, b)) & (self.slots.len() - 1)].val);
    }

    /// Sets the entry, new or not. An entry set to `NONE` reads as absent.
    pub fn set(&mut self, a: u32, b: u32, val: u32) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            let bigger = vec![Slot { key: FREE, val: NONE }; self.slots.len() * 2];
            let old = std::mem::replace(&mut self.slots, bigger);
            self.len = 0;
            for s in old {
                if s.key != FREE && s.val != NONE {
                    self.put(s.key, s.val);
                }
            }
        }
        self.put(key(a, b), val);
    }

    fn put(&mut self, k: u64, val: u32) {
        let mask = self.slots.len() - 1;
        let mut i = spread(k) & mask;
        loop {
            let s = &mut self.slots[i];
            if s.key == k {
                s.val = val;
                return;
            }
            if s.key == FREE {
                *s = Slot { key: k, val };
                self.len += 1;
                return;
            }
            i = (i + 1) & mask;
        }
    }

    pub fn bytes(&self) -> usize {
        self.slots.len() * std::mem::size_of::<Slot>()
    }
}
