//! XPath 1.0's `number()` of a string (§4.4): optional white space, optional minus, digits with at most one point.
//! Everything else, `1e2` and `+1` included, is NaN.

/// The number a value stands for, or NaN.
#[inline]
pub fn number(value: &[u8]) -> f64 {
    let mut v = value;
    while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = v {
        v = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\n' | b'\r'] = v {
        v = rest;
    }
    let (negative, digits) = match v {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, v),
    };
    if digits.len() <= 8 {
        return short(digits, negative);
    }
    // Up to 15 digits are exact in an f64, and so is one division by a power of ten up to 10^22.
    if digits.len() > 16 {
        return long(digits, negative);
    }
    let (mut mantissa, mut count, mut point) = (0u64, 0usize, usize::MAX);
    for (i, &c) in digits.iter().enumerate() {
        match c {
            b'0'..=b'9' => {
                mantissa = mantissa * 10 + (c - b'0') as u64;
                count += 1;
            }
            b'.' if point == usize::MAX => point = i,
            _ => return f64::NAN,
        }
    }
    if count == 0 {
        return f64::NAN;
    }
    if count > 15 {
        return long(digits, negative);
    }
    let decimals = if point == usize::MAX { 0 } else { digits.len() - 1 - point };
    let x = mantissa as f64 / POWERS[decimals];
    if negative {
        -x
    } else {
        x
    }
}

/// At most eight bytes, all at once: how many digits a number has is hard to predict.
#[inline]
fn short(digits: &[u8], negative: bool) -> f64 {
    const ZEROS: u64 = repeated(b'0');
    // as a word whose highest byte is the last digit, with zeros before the first
    let mut word = match digits.len() {
        0 => return f64::NAN,
        8 => ending(digits),
        n => ending(digits) << (64 - 8 * n) | ZEROS >> (8 * n),
    };
    let point = has(word, b'.');
    let mut power = 1.0;
    if point != 0 {
        if digits.len() == 1 {
            return f64::NAN;
        }
        // What comes before the point moves into its place. (A byte after the first that is one may be taken for one.)
        let place = point & point.wrapping_neg();
        let before = (place >> 7) - 1;
        let after = !(place | (place - 1));
        power = POWERS[place.leading_zeros() as usize / 8];
        word = word & after | (word & before) << 8 | b'0' as u64;
    }
    // digits become their values, and all else becomes more than nine
    let values = word ^ ZEROS;
    if (values | (values.wrapping_add(repeated(0x76)))) & repeated(0x80) != 0 {
        return f64::NAN;
    }
    let pairs = values.wrapping_mul(10) + (values >> 8);
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(1 + (100 << 16)) >> 16 & 0x0000_ffff_0000_ffff;
    let whole = fours.wrapping_mul(1 + (10_000 << 32)) >> 32;
    // no branch for the sign either
    f64::from_bits((whole as f64 / power).to_bits() | (negative as u64) << 63)
}

/// One to eight bytes as the low bytes of a word, in their order.
#[inline(always)]
fn ending(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    if let (Some(&first), Some(&last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u32::from_le_bytes(first) as u64 | (u32::from_le_bytes(last) as u64) << (8 * (n - 4));
    }
    bytes[0] as u64 | (bytes[n / 2] as u64) << (8 * (n / 2)) | (bytes[n - 1] as u64) << (8 * (n - 1))
}

const fn repeated(c: u8) -> u64 {
    0x0101_0101_0101_0101 * c as u64
}

/// The high bit of the first byte that is `c`, and of no byte before it.
#[inline(always)]
fn has(word: u64, c: u8) -> u64 {
    let x = word ^ repeated(c);
    x.wrapping_sub(repeated(1)) & !x & repeated(0x80)
}

const POWERS: [f64; 17] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16];

#[cold]
fn long(digits: &[u8], negative: bool) -> f64 {
    let points = digits.iter().filter(|&&c| c == b'.').count();
    if points > 1 || digits.len() == points || !digits.iter().all(|c| c.is_ascii_digit() || *c == b'.') {
        return f64::NAN;
    }
    let x = std::str::from_utf8(digits).ok().and_then(|s| s.parse::<f64>().ok()).unwrap_or(f64::NAN);
    if negative {
        -x
    } else {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    /// Short numbers are read in another way than long ones: white space and zeros tell which it is.
    #[test]
    fn all_short_strings_are_what_they_are_after_zeros() {
        let letters = b"0159./:-+ e\x80\xb0";
        let mut texts: Vec<Vec<u8>> = vec![vec![]];
        for _ in 0..4 {
            let longer: Vec<Vec<u8>> =
                texts.iter().flat_map(|t| letters.iter().map(move |&c| [&t[..], &[c]].concat())).collect();
            texts.extend(longer);
        }
        texts.sort_unstable();
        texts.dedup();
        for text in &texts {
            let (minus, rest) = match &text[..] {
                [b'-', rest @ ..] => ("-", rest),
                all => ("", all),
            };
            // zeros go before digits only
            if rest.first().is_none_or(|c| !(c.is_ascii_digit() || *c == b'.')) {
                continue;
            }
            for tail in ["", "7", "25.", "1234"] {
                let value = [text, tail.as_bytes()].concat();
                if value.trim_ascii_end().strip_prefix(minus.as_bytes()) == Some(b".") {
                    continue;
                }
                let long = [minus.as_bytes(), b"000000000", rest, tail.as_bytes()].concat();
                assert_eq!(number(&value).to_bits(), number(&long).to_bits(), "{value:?}");
            }
        }
        for (text, want) in [("12345678", 12345678.0), ("1234.567", 1234.567), ("-12345.67", -12345.67)] {
            assert_eq!(number(text.as_bytes()), want);
        }
    }

    #[test]
    fn follows_xpath() {
        for (text, want) in [
            ("1", 1.0),
            (" \t-1.50\n", -1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("-.5", -0.5),
            ("007", 7.0),
            ("0.1", 0.1),
            ("123456789012345678901234567890", 123456789012345678901234567890.0),
            ("0.30000000000000004", 0.30000000000000004),
        ] {
            assert_eq!(number(text.as_bytes()), want, "{text}");
        }
        for text in
            ["", " ", "+1", "1e2", "--1", "- 1", "1 2", "1.2.3", ".", "-", "0x1", "inf", "NaN", "1..", "\u{a0}1"]
        {
            assert!(number(text.as_bytes()).is_nan(), "{text}");
        }
    }
}
