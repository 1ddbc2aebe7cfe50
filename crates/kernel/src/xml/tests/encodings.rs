use super::*;

fn utf16(text: &str, big: bool, mark: bool) -> Vec<u8> {
    let mark = if mark { "\u{feff}" } else { "" };
    let units = mark.encode_utf16().chain(text.encode_utf16());
    units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
}

fn declared(encoding: &str, rest: &[u8]) -> Vec<u8> {
    [format!("<?xml version='1.0' encoding='{encoding}'?>").as_bytes(), rest].concat()
}

#[test]
fn every_encoding_reads_the_same() {
    for big in [true, false] {
        for mark in [true, false] {
            says(utf16("<a b='é'>€😀 and some plain text</a>", big, mark), "<a b=\"é\">«€😀 and some plain text»</>");
            says(utf16("<?xml version='1.0' encoding='utf-16'?><a/>", big, mark), "<a></>");
        }
        let label = if big { "UTF-16BE" } else { "UTF-16LE" };
        says(utf16(&format!("<?xml version='1.0' encoding='{label}'?><a/>"), big, true), "<a></>");
    }
    says(declared("ISO-8859-1", b"<a>caf\xE9 \x80\xFF</a>"), "<a>«café \u{80}ÿ»</>");
    says(declared("Windows-1252", b"<a b='\x80'>\x99\xE9</a>"), "<a b=\"€\">«™é»</>");
    says(declared("us-ascii", b"<a>x</a>"), "<a>«x»</>");
    says(declared("UTF-8", "<a>é</a>".as_bytes()), "<a>«é»</>");
}

#[test]
fn wrong_bytes_are_refused_where_they_are() {
    refuses(declared("US-ASCII", b"<a>\xE9</a>"), "bad-encoding", 44);
    refuses(declared("windows-1252", b"<a>\xE9\x81</a>"), "bad-encoding", 49);
    refuses([&utf16("<a>€</a>", true, true)[..], b"\0"].concat(), "bad-encoding", 18);
    refuses([&utf16("<a>€", false, true)[..], b"\x00\xD8<\0"].concat(), "bad-encoding", 10);
    refuses([&utf16("<a>😀", true, true)[..], b"\xDC\x00"].concat(), "bad-encoding", 12);
    // The offset is one of the message, not of its text in UTF-8.
    refuses(declared("ISO-8859-1", b"<a>\xE9\xE9</b>"), "mismatched-tag", 48);
    refuses(utf16("<a>é€😀</b>", true, true), "mismatched-tag", 2 + 14);
}

#[test]
fn declarations_must_fit_the_bytes() {
    for (label, code) in [
        ("UTF-16", "encoding-mismatch"),
        ("UTF-16LE", "encoding-mismatch"),
        ("EBCDIC", "unsupported-encoding"),
        ("UTF-7", "unsupported-encoding"),
        ("ISO-8859-15", "unsupported-encoding"),
    ] {
        refuses(declared(label, b"<a/>"), code, 30);
    }
    refuses(utf16("<?xml version='1.0' encoding='UTF-8'?><a/>", true, true), "encoding-mismatch", 62);
    refuses(utf16("<?xml version='1.0' encoding='UTF-16LE'?><a/>", true, true), "encoding-mismatch", 62);
    refuses([b"\xEF\xBB\xBF", &declared("ISO-8859-1", b"<a/>")[..]].concat(), "encoding-mismatch", 33);
    refuses(b"\0\0\xFE\xFF\0\0\0<", "unsupported-encoding", 0);
    refuses(b"\x4C\x6F\xA7\x94", "unsupported-encoding", 0);
}
