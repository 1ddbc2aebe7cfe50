//! Stage 1: what SIMD can say about many bytes at once. Two implementations of one trait: AVX2, chosen at run
//! time, and a portable one, which the tests run as well.

use super::chars::at;
use super::names::is_ascii_rest;

/// Bytes indexed at a time: the window and its index stay in the first-level cache until stage 2 has read them.
pub(super) const WINDOW: usize = 16 * 1024;

/// Bytes that a block of 64 may write past its own count, since positions are written in fours.
const SLACK: usize = 64;

/// Something in the window is a control character that XML forbids.
pub(super) const SEEN_CONTROL: u8 = 0b0000_0011;
/// Something in the window is not ASCII.
pub(super) const SEEN_WIDE: u8 = 0b0000_0100;
const CLASS_AMP: u8 = 0b0010_0000;
const CLASS_CR_BRACKET: u8 = 0b0100_0000;
const CLASS_LT: u8 = 0b1000_0000;

/// Class of a byte = `LOW[low nibble] & HIGH[high nibble]`: the form in which SIMD can look it up. Each class is a
/// set of low nibbles times a set of high nibbles.
const LOW: [u8; 16] = {
    let mut t = [SEEN_WIDE; 16];
    let mut i = 0;
    while i < 16 {
        t[i] |= if matches!(i, 0x9 | 0xA | 0xD) { 0b10 } else { 0b01 };
        i += 1;
    }
    t[0x6] |= CLASS_AMP;
    t[0xC] |= CLASS_LT;
    t[0xD] |= CLASS_CR_BRACKET;
    t
};
const HIGH: [u8; 16] = {
    let mut t = [0; 16];
    t[0] = 0b01 | CLASS_CR_BRACKET;
    t[1] = 0b11;
    t[2] = CLASS_AMP;
    t[3] = CLASS_LT;
    t[5] = CLASS_CR_BRACKET;
    let mut i = 8;
    while i < 16 {
        t[i] = SEEN_WIDE;
        i += 1;
    }
    t
};

/// Positions in one window.
pub(super) struct Index {
    /// Of every `<`.
    pub lt: Box<[u32]>,
    pub lt_len: usize,
    /// Of every `&`, CR and `]`: what character data must be looked at for.
    pub special: Box<[u32]>,
    pub special_len: usize,
}

impl Index {
    pub fn new() -> Self {
        let list = || vec![0; WINDOW + SLACK].into_boxed_slice();
        Index { lt: list(), lt_len: 0, special: list(), special_len: 0 }
    }
}

pub(super) trait Scan {
    /// Indexes `src[from..to]`, at most a window, and answers which classes it holds.
    fn index(src: &[u8], from: usize, to: usize, out: &mut Index) -> u8;
    /// The first byte from `i` on that is no ASCII NCName character; `src.len()` if there is none.
    fn name_end(src: &[u8], i: usize) -> usize;
    /// The first of `quote`, `&`, `<`, TAB, LF, CR from `i` on; `src.len()` if there is none.
    fn value_end(src: &[u8], i: usize, quote: u8) -> usize;
    /// The first `a` followed by `b` from `i` on; `src.len()` if there is none.
    fn find_pair(src: &[u8], i: usize, a: u8, b: u8) -> usize;
    /// Are the `len` bytes at `i` and at `j` the same? Either may reach past the end: then not.
    fn same(src: &[u8], i: usize, j: usize, len: usize) -> bool;
}

pub(super) struct Portable;

impl Scan for Portable {
    #[inline]
    fn index(src: &[u8], from: usize, to: usize, out: &mut Index) -> u8 {
        let (mut lt, mut special, mut seen) = (0, 0, 0);
        for (i, &c) in src[from..to].iter().enumerate() {
            let class = LOW[(c & 15) as usize] & HIGH[(c >> 4) as usize];
            seen |= class;
            if class & CLASS_LT != 0 {
                out.lt[lt] = (from + i) as u32;
                lt += 1;
            } else if class & (CLASS_AMP | CLASS_CR_BRACKET) != 0 {
                out.special[special] = (from + i) as u32;
                special += 1;
            }
        }
        (out.lt_len, out.special_len) = (lt, special);
        seen
    }

    #[inline(always)]
    fn name_end(src: &[u8], mut i: usize) -> usize {
        while is_ascii_rest(at(src, i)) {
            i += 1;
        }
        i
    }

    #[inline(always)]
    fn value_end(src: &[u8], i: usize, quote: u8) -> usize {
        let stop = |&c: &u8| c == quote || matches!(c, b'&' | b'<' | b'\t' | b'\n' | b'\r');
        i + src[i..].iter().position(stop).unwrap_or(src.len() - i)
    }

    #[inline(always)]
    fn find_pair(src: &[u8], i: usize, a: u8, b: u8) -> usize {
        memchr::memmem::find(&src[i..], &[a, b]).map_or(src.len(), |k| i + k)
    }

    #[inline(always)]
    fn same(src: &[u8], i: usize, j: usize, len: usize) -> bool {
        matches!((src.get(i..i + len), src.get(j..j + len)), (Some(a), Some(b)) if a == b)
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
    use std::arch::x86_64::*;

    /// Only named inside functions that are compiled for AVX2, and those are only entered where the processor has
    /// it (`Reader::read`). The methods are `inline(always)` so that they become part of those functions: that is
    /// why calling the intrinsics below is sound. Every load is preceded by a check that its bytes lie in `src`.
    pub(in super::super) struct Avx2;

    const NCNAME_LOW: [u8; 16] = {
        // Sets of low nibbles: 1 = {D, E} of 0x2_, 2 = {0..=9} of 0x3_, 4 = {1..=F} of 0x4_ and 0x6_,
        // 8 = {0..=A} of 0x5_ and 0x7_, 16 = {F} of 0x5_.
        let mut t = [0; 16];
        let mut i = 0;
        while i < 16 {
            if i == 0xD || i == 0xE {
                t[i] |= 1;
            }
            if i <= 9 {
                t[i] |= 2;
            }
            if i >= 1 {
                t[i] |= 4;
            }
            if i <= 0xA {
                t[i] |= 8;
            }
            if i == 0xF {
                t[i] |= 16;
            }
            i += 1;
        }
        t
    };
    const NCNAME_HIGH: [u8; 16] = [0, 0, 1, 2, 4, 8 | 16, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0];

    /// `&`, `<`, TAB, LF, CR and a quote have six different low nibbles: one look-up by low nibble and one
    /// comparison find them all. 0xFF stands for "none": a byte with its top bit set looks up 0.
    const VALUE_STOPS: [u8; 16] =
        [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, b'&', 0xFF, 0xFF, b'\t', b'\n', 0xFF, b'<', b'\r', 0xFF, 0xFF];
    const STOPS_DOUBLE: [u8; 16] = {
        let mut t = VALUE_STOPS;
        t[(b'"' & 15) as usize] = b'"';
        t
    };
    const STOPS_SINGLE: [u8; 16] = {
        let mut t = VALUE_STOPS;
        t[(b'\'' & 15) as usize] = b'\'';
        t
    };

    #[inline(always)]
    unsafe fn table(t: &[u8; 16]) -> __m256i {
        _mm256_broadcastsi128_si256(_mm_loadu_si128(t.as_ptr().cast()))
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> __m256i {
        _mm256_loadu_si256(p.cast())
    }

    #[inline(always)]
    unsafe fn high_nibbles(x: __m256i) -> __m256i {
        _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15))
    }

    #[inline(always)]
    unsafe fn mask(lo: __m256i, hi: __m256i) -> u64 {
        u64::from(_mm256_movemask_epi8(lo) as u32) | (u64::from(_mm256_movemask_epi8(hi) as u32) << 32)
    }

    #[inline(always)]
    unsafe fn classes(x: __m256i, low: __m256i, high: __m256i) -> __m256i {
        let nibbles = _mm256_and_si256(x, _mm256_set1_epi8(15));
        _mm256_and_si256(_mm256_shuffle_epi8(low, nibbles), _mm256_shuffle_epi8(high, high_nibbles(x)))
    }

    impl Scan for Avx2 {
        #[inline(always)]
        fn index(src: &[u8], from: usize, to: usize, out: &mut Index) -> u8 {
            let window = &src[from..to];
            assert!(window.len() <= WINDOW && out.lt.len() == WINDOW + SLACK && out.special.len() == WINDOW + SLACK);
            // SAFETY: AVX2 is there (see `Avx2`). Loads: whole blocks of 64 lie in `window`, the last one is copied
            // to a padded array. Stores: before a block at offset `i`, at most `i` positions have been written, a
            // block writes at most 64 and never past its own first 64 slots, so all lie below `WINDOW + SLACK`.
            unsafe {
                let (low, high) = (table(&LOW), table(&HIGH));
                let (lt, special) = (out.lt.as_mut_ptr(), out.special.as_mut_ptr());
                let (mut lt_len, mut special_len) = (0, 0);
                let mut seen = _mm256_setzero_si256();
                let mut tail = [b' '; 64];
                let mut i = 0;
                while i < window.len() {
                    let rest = window.len() - i;
                    let block = if rest >= 64 {
                        window.as_ptr().add(i)
                    } else {
                        tail[..rest].copy_from_slice(&window[i..]);
                        tail.as_ptr()
                    };
                    let a = classes(load(block), low, high);
                    let b = classes(load(block.add(32)), low, high);
                    seen = _mm256_or_si256(seen, _mm256_or_si256(a, b));
                    let base = (from + i) as u32;
                    let mut m = mask(a, b);
                    if m != 0 {
                        let count = m.count_ones() as usize;
                        let slot = lt.add(lt_len);
                        for k in 0..4 {
                            *slot.add(k) = base.wrapping_add(m.trailing_zeros());
                            m &= m.wrapping_sub(1);
                        }
                        if count > 4 {
                            for k in 4..8 {
                                *slot.add(k) = base.wrapping_add(m.trailing_zeros());
                                m &= m.wrapping_sub(1);
                            }
                            let mut k = 8;
                            while m != 0 {
                                *slot.add(k) = base.wrapping_add(m.trailing_zeros());
                                m &= m - 1;
                                k += 1;
                            }
                        }
                        lt_len += count;
                    }
                    let pick = |x| _mm256_or_si256(_mm256_slli_epi16(x, 1), _mm256_slli_epi16(x, 2));
                    let mut m = mask(pick(a), pick(b));
                    while m != 0 {
                        *special.add(special_len) = base.wrapping_add(m.trailing_zeros());
                        special_len += 1;
                        m &= m - 1;
                    }
                    i += 64;
                }
                (out.lt_len, out.special_len) = (lt_len, special_len);
                let mut bytes = [0u8; 32];
                _mm256_storeu_si256(bytes.as_mut_ptr().cast(), seen);
                bytes.iter().fold(0, |all, b| all | b)
            }
        }

        #[inline(always)]
        fn name_end(src: &[u8], mut i: usize) -> usize {
            while i + 32 <= src.len() {
                // SAFETY: AVX2 is there (see `Avx2`) and the 32 bytes at `i` lie in `src`.
                let stops = unsafe {
                    let x = load(src.as_ptr().add(i));
                    // A byte from 0x80 on has a high nibble that maps to 0: no name character here.
                    let class = classes(x, table(&NCNAME_LOW), table(&NCNAME_HIGH));
                    _mm256_movemask_epi8(_mm256_cmpeq_epi8(class, _mm256_setzero_si256())) as u32
                };
                if stops != 0 {
                    return i + stops.trailing_zeros() as usize;
                }
                i += 32;
            }
            Portable::name_end(src, i)
        }

        #[inline(always)]
        fn value_end(src: &[u8], mut i: usize, quote: u8) -> usize {
            let stops = if quote == b'"' { &STOPS_DOUBLE } else { &STOPS_SINGLE };
            while i + 32 <= src.len() {
                // SAFETY: AVX2 is there (see `Avx2`) and the 32 bytes at `i` lie in `src`.
                let found = unsafe {
                    let x = load(src.as_ptr().add(i));
                    _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_shuffle_epi8(table(stops), x), x)) as u32
                };
                if found != 0 {
                    return i + found.trailing_zeros() as usize;
                }
                i += 32;
            }
            Portable::value_end(src, i, quote)
        }

        #[inline(always)]
        fn find_pair(src: &[u8], mut i: usize, a: u8, b: u8) -> usize {
            while i + 33 <= src.len() {
                // SAFETY: AVX2 is there (see `Avx2`) and the 33 bytes at `i` lie in `src`.
                let found = unsafe {
                    let first = _mm256_cmpeq_epi8(load(src.as_ptr().add(i)), _mm256_set1_epi8(a as i8));
                    let second = _mm256_cmpeq_epi8(load(src.as_ptr().add(i + 1)), _mm256_set1_epi8(b as i8));
                    _mm256_movemask_epi8(_mm256_and_si256(first, second)) as u32
                };
                if found != 0 {
                    return i + found.trailing_zeros() as usize;
                }
                i += 32;
            }
            while i + 1 < src.len() {
                if src[i] == a && src[i + 1] == b {
                    return i;
                }
                i += 1;
            }
            src.len()
        }

        #[inline(always)]
        fn same(src: &[u8], i: usize, j: usize, len: usize) -> bool {
            if len <= 32 && i.max(j) + 32 <= src.len() {
                // SAFETY: AVX2 is there (see `Avx2`) and the 32 bytes at `i` and `j` lie in `src`.
                let equal = unsafe {
                    let (x, y) = (load(src.as_ptr().add(i)), load(src.as_ptr().add(j)));
                    _mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y)) as u32
                };
                return (!equal).trailing_zeros() as usize >= len;
            }
            Portable::same(src, i, j, len)
        }
    }
}
