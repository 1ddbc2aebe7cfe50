//! The functions of XPath 1.0 on strings and numbers (sections 4.2 and 4.4), without a message.

use crate::values::strings::is_start;
use hashbrown::HashMap;
use std::ops::Range;

/// Returns a number as a string: decimal, without exponent, and with as many digits as tell it from all others.
pub(super) fn number_text(x: f64) -> String {
    if x.is_nan() {
        "NaN".into()
    } else if x.is_infinite() {
        if x > 0.0 { "Infinity" } else { "-Infinity" }.into()
    } else if x == 0.0 {
        "0".into()
    } else {
        x.to_string()
    }
}

/// Rounds to the nearest integer, halves upwards. A result of zero keeps the sign of the number.
pub(super) fn round(x: f64) -> f64 {
    let floor = x.floor();
    let rounded = if x - floor >= 0.5 { floor + 1.0 } else { floor };
    if rounded == 0.0 {
        rounded.copysign(x)
    } else {
        rounded
    }
}

/// Returns the place of `substring(text, from, count)`: the characters at positions `p` with
/// `p >= round(from) and p < round(from) + round(count)`.
pub(super) fn substring(text: &[u8], from: f64, count: Option<f64>) -> Range<usize> {
    let first = round(from);
    let past = count.map_or(f64::INFINITY, |count| first + round(count));
    let mut range = None;
    let mut position = 0.0;
    for (at, _) in text.iter().enumerate().filter(|(_, byte)| is_start(**byte)) {
        position += 1.0;
        if position >= past {
            return range.unwrap_or(at)..at;
        }
        // also false for NaN
        if range.is_none() && position >= first && position < past {
            range = Some(at);
        }
    }
    range.unwrap_or(text.len())..text.len()
}

/// Replaces the characters of `from` by those at the same places of `to`, and drops those that have none.
pub(super) fn translate(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (text, from, to) = (lossless(text), lossless(from), lossless(to));
    let mut with = to.chars();
    let mut ascii: [Option<Option<char>>; 128] = [None; 128];
    let mut others: HashMap<char, Option<char>> = HashMap::new();
    for c in from.chars() {
        let replacement = with.next();
        if c.is_ascii() {
            ascii[c as usize].get_or_insert(replacement);
        } else {
            others.entry(c).or_insert(replacement);
        }
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let replacement = if c.is_ascii() { ascii[c as usize] } else { others.get(&c).copied() };
        out.extend(replacement.unwrap_or(Some(c)));
    }
    out.into_bytes()
}

/// Strings of messages and queries are UTF-8.
fn lossless(text: &[u8]) -> &str {
    std::str::from_utf8(text).unwrap_or_default()
}

/// Whether a language, the value of `xml:lang`, is the one asked for or a sublanguage of it.
pub(super) fn is_language(value: &[u8], asked: &[u8]) -> bool {
    match value.split_at_checked(asked.len()) {
        Some((start, rest)) => start.eq_ignore_ascii_case(asked) && matches!(rest, [] | [b'-', ..]),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_strings_as_xpath_writes_them() {
        for (x, want) in [
            (0.0, "0"),
            (-0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e21, "1000000000000000000000"),
            (1e-7, "0.0000001"),
            (12345678901234567890.0, "12345678901234567000"),
            (0.1 + 0.2, "0.30000000000000004"),
        ] {
            assert_eq!(number_text(x), want);
        }
    }

    #[test]
    fn halves_are_rounded_upwards() {
        for (x, want) in
            [(2.5, 3.0), (-2.5, -2.0), (0.49999999999999994, 0.0), (-0.2, -0.0), (-0.5, -0.0), (1e300, 1e300)]
        {
            assert_eq!(round(x).to_bits(), f64::to_bits(want), "{x}");
        }
        assert!(round(f64::NAN).is_nan());
        assert_eq!(round(f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert_eq!(round(-0.0).to_bits(), (-0.0f64).to_bits());
    }

    /// The examples of the recommendation, and characters of several bytes.
    #[test]
    fn substrings_count_characters() {
        let inf = f64::INFINITY;
        for (text, from, count, want) in [
            ("12345", 2.0, Some(3.0), "234"),
            ("12345", 2.0, None, "2345"),
            ("12345", 1.5, Some(2.6), "234"),
            ("12345", 0.0, Some(3.0), "12"),
            ("12345", f64::NAN, Some(3.0), ""),
            ("12345", 1.0, Some(f64::NAN), ""),
            ("12345", -42.0, Some(inf), "12345"),
            ("12345", -inf, Some(inf), ""),
            ("12345", -inf, None, "12345"),
            ("12345", inf, None, ""),
            ("aé€𐌰b", 2.0, Some(3.0), "é€𐌰"),
            ("aé€𐌰b", 5.0, Some(9.0), "b"),
            ("12345", 3.0, Some(-1.0), ""),
            ("", 1.0, Some(1.0), ""),
        ] {
            assert_eq!(&text[substring(text.as_bytes(), from, count)], want, "{text} {from} {count:?}");
        }
    }

    #[test]
    fn translate_replaces_and_drops_characters() {
        for (text, from, to, want) in [
            ("bar", "abc", "ABC", "BAr"),
            ("--aaa--", "abc-", "ABC", "AAA"),
            ("+𐌰+", "𐌰", "xy", "+x+"),
            ("aba", "aa", "xy", "xbx"),
            ("é€", "€é", "e", "e"),
            ("", "a", "b", ""),
        ] {
            assert_eq!(translate(text.as_bytes(), from.as_bytes(), to.as_bytes()), want.as_bytes(), "{text}");
        }
    }

    #[test]
    fn languages_have_sublanguages() {
        assert!(is_language(b"en", b"EN") && is_language(b"en-us", b"en") && !is_language(b"english", b"en"));
        assert!(!is_language(b"e", b"en") && is_language(b"", b"") && !is_language(b"en", b""));
    }
}
