//! What XPath asks of strings, wherever a pattern or a query asks it.

/// Returns the number of characters.
pub fn length(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| is_start(byte)).count()
}

/// Whether a character begins with this byte.
pub fn is_start(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

/// Returns the words of a string.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).filter(|word| !word.is_empty())
}

/// Returns the words with single spaces between them.
pub fn normalize_space(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for word in words(text) {
        if !out.is_empty() {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_normalised() {
        assert_eq!(normalize_space(b" \t a  b\r\nc "), b"a b c");
        assert_eq!(normalize_space("\u{a0} x".as_bytes()), "\u{a0} x".as_bytes());
        assert_eq!(length("a\u{e9}\u{20ac}\u{10330}".as_bytes()), 4);
    }
}
