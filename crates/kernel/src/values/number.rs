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
