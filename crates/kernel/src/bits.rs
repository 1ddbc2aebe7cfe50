//! From the bits of a word to numbers; and a hint to the processor.

/// Whether the processor has what the functions ending in `_avx2` are compiled for.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("popcnt")
}

/// Appends `base` plus the index of each set bit.
#[inline(always)]
pub fn expand(mut bits: u64, base: u32, out: &mut Vec<u32>) {
    while bits != 0 {
        out.push(base + bits.trailing_zeros());
        bits &= bits - 1;
    }
}

/// For each byte, the indexes of its set bits.
#[cfg(target_arch = "x86_64")]
pub(crate) static INDEXES: [[u32; 8]; 256] = {
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

/// # Safety
/// Needs [`has_avx2`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt,bmi1")]
#[inline]
pub unsafe fn expand_avx2(mut bits: u64, base: u32, out: &mut Vec<u32>) {
    use std::arch::x86_64::*;
    out.reserve(72);
    let mut len = out.len();
    let mut at = _mm256_set1_epi32(base as i32);
    while bits != 0 {
        let x = (bits & 255) as usize;
        // SAFETY: each store writes 8 entries at most 64 beyond the old length, for which 72 were reserved.
        unsafe {
            let indexes = _mm256_loadu_si256(INDEXES[x].as_ptr() as *const __m256i);
            _mm256_storeu_si256(out.as_mut_ptr().add(len) as *mut __m256i, _mm256_add_epi32(at, indexes));
        }
        len += x.count_ones() as usize;
        bits >>= 8;
        at = _mm256_add_epi32(at, _mm256_set1_epi32(8));
    }
    // SAFETY: the entries up to `len` were written above.
    unsafe { out.set_len(len) };
}

/// Asks the processor to have a word at hand soon.
#[inline(always)]
pub fn fetch<T>(word: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: it has no effect but on caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}
