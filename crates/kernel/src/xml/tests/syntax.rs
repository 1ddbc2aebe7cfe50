use super::super::scan::WINDOW;
use super::*;

/// Documents in UTF-8 without DTD that break one rule each: code and offset.
const WRONG: &[(&str, &str, u64)] = &[
    ("", "no-root", 0),
    ("  \n", "no-root", 3),
    ("<!-- only -->", "no-root", 13),
    ("text", "text-outside-root", 0),
    ("<a/>text", "text-outside-root", 4),
    ("<a/>&amp;", "text-outside-root", 4),
    ("<a/><b/>", "multiple-roots", 4),
    ("<a></a><a></a>", "multiple-roots", 7),
    ("<a>", "unclosed-element", 3),
    ("<a><b></b>", "unclosed-element", 10),
    ("</a>", "mismatched-tag", 0),
    ("<a/></a>", "mismatched-tag", 4),
    ("<a></b>", "mismatched-tag", 3),
    ("<a></ab>", "mismatched-tag", 3),
    ("<ab></a>", "mismatched-tag", 4),
    ("<a><b></a></b>", "mismatched-tag", 6),
    ("<a></ a>", "bad-tag", 3),
    ("<a></a b='1'>", "bad-tag", 7),
    ("<a></a", "bad-tag", 6),
    ("<a></>", "bad-tag", 3),
    ("<a", "bad-tag", 2),
    ("<a ", "bad-tag", 3),
    ("<a /", "bad-tag", 4),
    ("<a / >", "bad-tag", 4),
    ("<a<b/>", "bad-tag", 2),
    ("<a/b/>", "bad-tag", 3),
    ("<", "bad-markup", 0),
    ("< a/>", "bad-markup", 0),
    ("<1a/>", "bad-markup", 0),
    ("<a><-b/></a>", "bad-markup", 3),
    ("<a><!ELEMENT b ANY></a>", "bad-markup", 3),
    ("<a>1 < 2</a>", "bad-markup", 5),
    ("<a+b/>", "bad-tag", 2),
    ("<a\u{d7}/>", "bad-tag", 2),
    ("<a b/>", "bad-attribute", 4),
    ("<a b=c/>", "bad-attribute", 5),
    ("<a b=/>", "bad-attribute", 5),
    ("<a b'c'/>", "bad-attribute", 4),
    ("<a b='c/>", "bad-attribute", 5),
    ("<a b='1'c='2'/>", "bad-attribute", 8),
    ("<a 1b='2'/>", "bad-tag", 3),
    ("<a b='<'/>", "lt-in-attribute", 6),
    ("<a b='c><d e='f'/></a>", "lt-in-attribute", 8),
    ("<a b='1' b='2'/>", "duplicate-attribute", 9),
    ("<a b='1' c='2' d='3' b='4'/>", "duplicate-attribute", 21),
    ("<a>&</a>", "bad-reference", 3),
    ("<a>& b</a>", "bad-reference", 3),
    ("<a>&amp</a>", "bad-reference", 3),
    ("<a>&a b;</a>", "bad-reference", 3),
    ("<a>&#;</a>", "bad-reference", 3),
    ("<a>&#x;</a>", "bad-reference", 3),
    ("<a>&#X41;</a>", "bad-reference", 3),
    ("<a>&#4G;</a>", "bad-reference", 3),
    ("<a>&#65</a>", "bad-reference", 3),
    ("<a>&1;</a>", "bad-reference", 3),
    ("<a b='&'/>", "bad-reference", 6),
    ("<a b='&#0;'/>", "bad-char-reference", 6),
    ("<a>&#0;</a>", "bad-char-reference", 3),
    ("<a>&#x1F;</a>", "bad-char-reference", 3),
    ("<a>&#xD800;</a>", "bad-char-reference", 3),
    ("<a>&#xFFFE;</a>", "bad-char-reference", 3),
    ("<a>&#x110000;</a>", "bad-char-reference", 3),
    ("<a>&#99999999999999999999;</a>", "bad-char-reference", 3),
    ("<a>&nbsp;</a>", "undeclared-entity", 3),
    ("<a b='&nbsp;'/>", "undeclared-entity", 6),
    ("<a>]]></a>", "cdata-end-in-text", 3),
    ("<a>x]]]></a>", "cdata-end-in-text", 5),
    ("<![CDATA[x]]><a/>", "bad-cdata", 0),
    ("<a/><![CDATA[x]]>", "bad-cdata", 4),
    ("<a><![CDATA[x]]</a>", "bad-cdata", 3),
    ("<a><![CDATA x]]></a>", "bad-markup", 3),
    ("<a><!-- x</a>", "bad-comment", 3),
    ("<a><!-- x -- y --></a>", "bad-comment", 10),
    ("<a><!-- x ---></a>", "bad-comment", 10),
    ("<!--><a/>", "bad-comment", 0),
    ("<!-- x -- ><a/>", "bad-comment", 7),
    ("<a><?></a>", "bad-pi", 5),
    ("<a><?p</a>", "bad-pi", 3),
    ("<a><? p?></a>", "bad-pi", 5),
    ("<a><?p/q?></a>", "bad-pi", 6),
    ("<a><?p:q r?></a>", "bad-pi", 6),
    ("<a><?XML x?></a>", "bad-pi", 5),
    ("<a><?xMl?></a>", "bad-pi", 5),
    (" <?xml version='1.0'?><a/>", "bad-declaration", 1),
    ("<a><?xml version='1.0'?></a>", "bad-declaration", 3),
    ("<?xml version='1.0'?><?xml version='1.0'?><a/>", "bad-declaration", 21),
    ("<?xml?><a/>", "bad-pi", 2),
    ("<?xml ?><a/>", "bad-declaration", 6),
    ("<?xml encoding='UTF-8'?><a/>", "bad-declaration", 6),
    ("<?xml version='2.0'?><a/>", "bad-declaration", 15),
    ("<?xml version='1.'?><a/>", "bad-declaration", 15),
    ("<?xml version='1.0\"?><a/>", "bad-declaration", 13),
    ("<?xml version='1.0'encoding='UTF-8'?><a/>", "bad-declaration", 19),
    ("<?xml version='1.0' standalone='yes' encoding='UTF-8'?><a/>", "bad-declaration", 37),
    ("<?xml version='1.0' standalone='maybe'?><a/>", "bad-declaration", 32),
    ("<?xml version='1.0' encoding=''?><a/>", "bad-declaration", 30),
    ("<?xml version='1.0' encoding='-8'?><a/>", "bad-declaration", 30),
    ("<?xml version='1.0' lang='en'?><a/>", "bad-declaration", 20),
    ("<?xml version='1.0'><a/>", "bad-declaration", 19),
    ("<?xml version='1.0' ? ><a/>", "bad-declaration", 20),
    ("<!DOCTYPE><a/>", "bad-doctype", 9),
    ("<!DOCTYPE a", "bad-doctype", 11),
    ("<!DOCTYPE a SYSTEM><a/>", "bad-doctype", 18),
    ("<!DOCTYPE a SYSTEM 'x><a/>", "bad-doctype", 19),
    ("<!DOCTYPE a PUBLIC 'x'><a/>", "bad-doctype", 22),
    ("<!DOCTYPE a PUBLIC 'x{' 'y'><a/>", "bad-doctype", 21),
    ("<!DOCTYPE a:b:c><a/>", "bad-doctype", 10),
    ("<!DOCTYPE a><!DOCTYPE a><a/>", "bad-doctype", 12),
    ("<a/><!DOCTYPE a>", "bad-doctype", 4),
    ("<a><!DOCTYPE a></a>", "bad-doctype", 3),
    ("<!doctype a><a/>", "bad-markup", 0),
    ("<a>\u{1}</a>", "bad-char", 3),
    ("<a>\u{0}</a>", "bad-char", 3),
    ("<a b='\u{b}'/>", "bad-char", 6),
    ("<a>\u{fffe}</a>", "bad-char", 3),
    ("<a>\u{ffff}</a>", "bad-char", 3),
    ("<!-- \u{1f} --><a/>", "bad-char", 5),
    ("<a:/>", "bad-name", 3),
    ("<:a/>", "bad-markup", 0),
    ("<a:b:c/>", "bad-name", 4),
    ("<a :b='1'/>", "bad-tag", 3),
    ("<a b:c:d='1'/>", "bad-name", 6),
];

#[test]
fn every_wrong_document_is_refused_where_it_is_wrong() {
    let told = |doc: &str| read(doc).map_err(|error| (error.code, error.offset));
    let differ = WRONG.iter().filter(|(doc, code, offset)| told(doc) != Err((code, *offset)));
    let differ: Vec<_> = differ.map(|(doc, ..)| (doc, told(doc))).collect();
    assert!(differ.is_empty(), "{differ:#?}");
}

/// The index of a window ends anywhere: in a name, in a reference, in `]]>`.
#[test]
fn windows_change_nothing() {
    let good = "<r a='1 &lt; 2' b=\"é\">x]]&gt;é&amp;\r\n<!-- <c> --><![CDATA[<&]]]]><?p <d>?><名前 x:y='&#10;' xmlns:x='u'/></r>";
    let says = read(good).unwrap();
    for cut in 0..=good.len() {
        let spaces = " ".repeat(WINDOW - cut);
        assert_eq!(read(spaces.clone() + good), Ok(says.clone()), "cut at {cut}");
        let text = good.replacen('x', &format!("x{}", "y".repeat(WINDOW - cut)), 1);
        assert_eq!(read(text).map(|said| said.replace('y', "")), Ok(says.replace('y', "")), "cut at {cut}");
    }
    for (doc, code, offset) in WRONG.iter().filter(|(doc, ..)| !doc.starts_with("<?xml")) {
        for cut in [0, 1, doc.len() / 2, doc.len(), 40, 64] {
            let spaces = " ".repeat(WINDOW - cut);
            let error = read(spaces.clone() + doc).unwrap_err();
            assert_eq!((error.code, error.offset), (*code, offset + spaces.len() as u64), "{doc}");
        }
    }
}

#[test]
fn bytes_that_are_not_utf8_are_refused() {
    for bad in [&b"\x80"[..], b"\xC0\x80", b"\xED\xA0\x80", b"\xF5\x80\x80\x80", b"\xE2\x82", b"\xFF"] {
        refuses([b"<a>", bad, b"</a>"].concat(), "not-utf8", 3);
        refuses([b"<a b='", bad, b"'/>"].concat(), "not-utf8", 6);
        refuses([b"<a/><!--", bad, b"-->"].concat(), "not-utf8", 8);
        // Cut in two by the end of a window, or followed by a window of ASCII.
        let text = "x".repeat(WINDOW - 4);
        refuses([b"<a>", text.as_bytes(), bad, b"</a>"].concat(), "not-utf8", WINDOW as u64 - 1);
        refuses([b"<a>", text.as_bytes(), bad, &[b'y'; WINDOW], b"</a>"].concat(), "not-utf8", WINDOW as u64 - 1);
    }
}

#[test]
fn the_first_error_is_the_one_reported() {
    refuses("<a></b>\u{1}", "mismatched-tag", 3);
    refuses("<a>\u{1}</b>", "bad-char", 3);
    refuses("<a>&x;\u{1}</a>", "bad-char", 6);
}

#[test]
fn values_are_decoded() {
    says("<a>x&lt;&gt;&amp;&apos;&quot;&#65;&#x42;&#x1F600;</a>", "<a>«x<>&'\"AB😀»</>");
    says("<a>1\r\n2\r3\n\r\n</a>", "<a>«1\n2\n3\n\n»</>");
    says("<a>&#13;&#10;</a>", "<a>«\r\n»</>");
    says("<a b='1\r\n2\t3\n&#9;&#10;&#13;'/>", "<a b=\"1 2 3 \\t\\n\\r\"></>");
    says("<a b=' x  y '/>", "<a b=\" x  y \"></>");
    says("<a b='\"' c=\"'\" d=''/>", "<a b=\"\\\"\" c=\"'\" d=\"\"></>");
    says("<a><![CDATA[<&]]>&amp;<![CDATA[\r\n]]></a>", "<a>«<&&\n»</>");
    says("<a><![CDATA[]]></a>", "<a></>");
    says("<a><![CDATA[]]]]><![CDATA[>]]></a>", "<a>«]]>»</>");
    says("<a>]] > ]>></a>", "<a>«]] > ]>>»</>");
}

#[test]
fn what_is_allowed_is_accepted() {
    says("\u{feff}<a/>", "<a></>");
    says("<?xml version=\"1.0\" encoding='utf-8' standalone = \"no\" ?>\n<a/>\n", "<a></>");
    says("<?xml version='1.7'?><a/>", "<a></>");
    says("<!-- c --><?p  d ?><a/><!----><?xml-q?>", "<!-- c --><?p  d ?><a></><!----><?xml-q?>");
    says("<a  b = '1'\n\tc='2' ></a  >", "<a b=\"1\" c=\"2\"></>");
    says("<a-1._b/>", "<a-1._b></>");
    says("<é·\u{300}\u{10000}/>", "<é·\u{300}\u{10000}></>");
    says("<a>\u{7f}\u{85}\u{9f}\u{fffd}\u{10ffff}</a>", "<a>«\u{7f}\u{85}\u{9f}\u{fffd}\u{10ffff}»</>");
    says("<!DOCTYPE nitf SYSTEM \"x\" ><nitf/>", "<nitf></>");
    says("<!DOCTYPE a PUBLIC '-//X' 'x'><!-- c --><a>&what;</a>", "<!-- c --><a></>");
}

#[test]
fn a_name_is_checked_wherever_it_is_long_or_wide() {
    for length in 1..100 {
        let name = "n".repeat(length);
        says(format!("<{name}/>"), &format!("<{name}></>"));
        refuses(format!("<{name}!/>"), "bad-tag", length as u64 + 1);
        refuses(format!("<{name}></{name}x>"), "mismatched-tag", length as u64 + 2);
        says(format!("<a {name}='{name}'></a>"), &format!("<a {name}=\"{name}\"></>"));
        refuses(format!("<{name}\u{2190}/>"), "bad-tag", length as u64 + 1);
    }
}
