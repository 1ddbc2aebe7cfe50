//! Delivery of matched subscriptions. Each subscription has a *position*; the set that a tag path accepts is a
//! short list of position intervals. Refining the partition by each such set in place keeps every class contiguous
//! for good, so intervals found earlier stay valid (KERNEL.md §2.3). A message sets bit ranges, and one pass
//! decodes the bits to subscription numbers.

use super::NONE;

/// Half-open range of positions.
pub type Interval = (u32, u32);

#[derive(Default)]
pub struct Laminar {
    /// Subscription at each position, `NONE` where it is gone.
    perm: Vec<u32>,
    /// Position of each subscription, `NONE` if it has none.
    pos: Vec<u32>,
    /// Class of each position's subscription, indexed by subscription.
    class: Vec<u32>,
    start: Vec<u32>,
    end: Vec<u32>,
    marked: Vec<u32>,
    touched: Vec<u32>,
    /// Bits of positions whose subscription is gone; empty as long as there is none.
    dead: Vec<u64>,
    dead_count: usize,
}

impl Laminar {
    /// One class of all the given subscriptions.
    pub fn new(subs: impl Iterator<Item = u32>, bound: usize) -> Laminar {
        let mut l = Laminar { pos: vec![NONE; bound], class: vec![0; bound], ..Laminar::default() };
        for s in subs {
            l.pos[s as usize] = l.perm.len() as u32;
            l.perm.push(s);
        }
        l.open_class(0, l.perm.len() as u32);
        l
    }

    fn open_class(&mut self, start: u32, end: u32) -> u32 {
        self.start.push(start);
        self.end.push(end);
        self.marked.push(0);
        self.start.len() as u32 - 1
    }

    /// A new subscription at a position of its own.
    pub fn push(&mut self, sub: u32) -> u32 {
        let p = self.perm.len() as u32;
        if self.pos.len() <= sub as usize {
            self.pos.resize(sub as usize + 1, NONE);
            self.class.resize(sub as usize + 1, 0);
        }
        self.perm.push(sub);
        self.pos[sub as usize] = p;
        self.class[sub as usize] = self.open_class(p, p + 1);
        p
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

    pub fn is_empty(&self) -> bool {
        self.perm.is_empty()
    }

    /// `NONE` for a subscription that has no position.
    #[inline(always)]
    pub fn position(&self, sub: u32) -> u32 {
        self.pos.get(sub as usize).copied().unwrap_or(NONE)
    }

    /// Splits classes so that `set` (distinct subscriptions) is a union of them; appends its intervals to `out`.
    pub fn refine(&mut self, set: &[u32], out: &mut Vec<Interval>) {
        self.touched.clear();
        let first = out.len();
        for &sub in set {
            let c = self.class[sub as usize] as usize;
            if self.marked[c] == 0 {
                self.touched.push(c as u32);
            }
            // swap the subscription to the front part of its class
            let target = self.start[c] + self.marked[c];
            self.marked[c] += 1;
            let p = self.pos[sub as usize];
            let other = self.perm[target as usize];
            self.perm[target as usize] = sub;
            self.perm[p as usize] = other;
            self.pos[sub as usize] = target;
            if other != NONE {
                self.pos[other as usize] = p;
            }
            if !self.dead.is_empty() {
                self.swap_dead(target, p);
            }
        }
        for i in 0..self.touched.len() {
            let c = self.touched[i] as usize;
            let (s, m, e) = (self.start[c], self.start[c] + self.marked[c], self.end[c]);
            self.marked[c] = 0;
            out.push((s, m));
            if m < e {
                let id = self.open_class(s, m);
                self.start[c] = m;
                for k in s..m {
                    self.class[self.perm[k as usize] as usize] = id;
                }
            }
        }
        out[first..].sort_unstable();
        let mut w = first;
        for i in first + 1..out.len() {
            if out[i].0 == out[w].1 {
                out[w].1 = out[i].1;
            } else {
                w += 1;
                out[w] = out[i];
            }
        }
        if out.len() > first {
            out.truncate(w + 1);
        }
    }

    fn swap_dead(&mut self, a: u32, b: u32) {
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

    pub fn bytes(&self) -> usize {
        (self.perm.capacity() + self.pos.capacity() + self.class.capacity() + self.start.capacity() * 3) * 4
    }
}

/// The positions one message has matched so far: a bitmap with a summary, so that both dense and sparse results
/// cost what they hold.
#[derive(Default)]
pub struct Hits {
    bits: Vec<u64>,
    /// One bit per word of `bits` that may be non-zero.
    dirty: Vec<u64>,
}

#[inline(always)]
fn set_range(bits: &mut [u64], a: u32, b: u32) {
    let (w0, w1) = ((a >> 6) as usize, ((b - 1) >> 6) as usize);
    let (m0, m1) = (!0u64 << (a & 63), !0u64 >> (63 - ((b - 1) & 63)));
    if w0 == w1 {
        bits[w0] |= m0 & m1;
    } else {
        bits[w0] |= m0;
        bits[w0 + 1..w1].fill(!0);
        bits[w1] |= m1;
    }
}

impl Hits {
    /// Room for the positions of `l`.
    pub fn fit(&mut self, l: &Laminar) {
        let words = l.perm.len() / 64 + 1;
        if self.bits.len() < words {
            self.bits.resize(words, 0);
            self.dirty.resize(words / 64 + 1, 0);
        }
    }

    #[inline(always)]
    pub fn set(&mut self, interval: Interval) {
        let (a, b) = interval;
        let (w0, w1) = ((a >> 6) as usize, ((b - 1) >> 6) as usize);
        if w0 == w1 {
            // most intervals are short
            self.bits[w0] |= (!0u64 << (a & 63)) & (!0u64 >> (63 - ((b - 1) & 63)));
            self.dirty[w0 >> 6] |= 1 << (w0 & 63);
        } else {
            set_range(&mut self.bits, a, b);
            set_range(&mut self.dirty, w0 as u32, w1 as u32 + 1);
        }
    }

    #[inline(always)]
    pub fn set_one(&mut self, p: u32) {
        let w = (p >> 6) as usize;
        self.bits[w] |= 1 << (p & 63);
        self.dirty[w >> 6] |= 1 << (w & 63);
    }

    /// Appends the subscriptions at the set positions to `out` and clears the bits.
    pub fn drain(&mut self, l: &Laminar, out: &mut Vec<u32>) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: AVX2 is there.
            unsafe { self.drain_avx2(l, out) };
            return;
        }
        self.drain_with(l, out, decode_scalar);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt,bmi1")]
    unsafe fn drain_avx2(&mut self, l: &Laminar, out: &mut Vec<u32>) {
        // SAFETY: the caller checked for AVX2.
        self.drain_with(l, out, |bits, perm, out| unsafe { decode_avx2(bits, perm, out) });
    }

    #[inline(always)]
    fn drain_with(&mut self, l: &Laminar, out: &mut Vec<u32>, decode: impl Fn(u64, &[u32], &mut Vec<u32>)) {
        for (d, dirty) in self.dirty.iter_mut().enumerate() {
            let mut m = std::mem::take(dirty);
            while m != 0 {
                let w = d * 64 + m.trailing_zeros() as usize;
                m &= m - 1;
                let mut b = std::mem::take(&mut self.bits[w]);
                if let Some(dead) = l.dead.get(w) {
                    b &= !dead;
                }
                if b != 0 {
                    let at = w * 64;
                    decode(b, &l.perm[at..l.perm.len().min(at + 64)], out);
                }
            }
        }
    }
}

fn decode_scalar(mut bits: u64, perm: &[u32], out: &mut Vec<u32>) {
    while bits != 0 {
        out.push(perm[bits.trailing_zeros() as usize]);
        bits &= bits - 1;
    }
}

/// For each byte, the indexes of its set bits.
#[cfg(target_arch = "x86_64")]
static INDEXES: [[u32; 8]; 256] = {
    let mut t = [[0u32; 8]; 256];
    let mut m = 0;
    while m < 256 {
        let (mut b, mut k) = (0, 0);
        while b < 8 {
            if m >> b & 1 == 1 {
                t[m][k] = b as u32;
                k += 1;
            }
            b += 1;
        }
        m += 1;
    }
    t
};

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt,bmi1")]
#[inline]
unsafe fn decode_avx2(mut bits: u64, perm: &[u32], out: &mut Vec<u32>) {
    use std::arch::x86_64::*;
    if perm.len() < 64 {
        return decode_scalar(bits, perm, out); // the last word: its loads would leave the slice
    }
    if bits == !0 {
        return out.extend_from_slice(perm);
    }
    out.reserve(72);
    let mut len = out.len();
    let mut at = 0;
    while bits != 0 {
        let x = (bits & 255) as usize;
        // SAFETY: `at <= 56` and perm holds 64 entries; each store writes 8 entries at most 64 beyond the old
        // length, for which 72 were reserved.
        unsafe {
            let v = _mm256_loadu_si256(perm.as_ptr().add(at) as *const __m256i);
            let idx = _mm256_loadu_si256(INDEXES[x].as_ptr() as *const __m256i);
            _mm256_storeu_si256(out.as_mut_ptr().add(len) as *mut __m256i, _mm256_permutevar8x32_epi32(v, idx));
        }
        len += x.count_ones() as usize;
        bits >>= 8;
        at += 8;
    }
    // SAFETY: the entries up to `len` were written above.
    unsafe { out.set_len(len) };
}
