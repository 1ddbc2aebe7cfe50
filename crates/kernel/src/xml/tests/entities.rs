use super::*;

fn with(subset: &str, rest: &str) -> String {
    format!("<!DOCTYPE a [{subset}]>{rest}")
}

/// Checks that a document with this subset and root element is refused with a code.
#[track_caller]
fn wrong(subset: &str, rest: &str, code: &str) {
    let doc = with(subset, rest);
    let error = read(&doc).expect_err(&doc);
    assert_eq!(error.code, code, "{doc}: {error}");
}

#[test]
fn entities_expand() {
    says(with("<!ENTITY e 'x&amp;<b k=\"1\"/>'>", "<a>1&e;2&e;</a>"), "<a>«1x&»<b k=\"1\"></>«2x&»<b k=\"1\"></></>");
    says(with("<!ENTITY e 'x'><!ENTITY e 'y'>", "<a>&e;</a>"), "<a>«x»</>");
    says(with("<!ENTITY e '&f;&f;'><!ENTITY f 'z'>", "<a b='&e;'>&e;</a>"), "<a b=\"zz\">«zz»</>");
    says(with("<!ENTITY lt '&#38;#60;'>", "<a>&lt;</a>"), "<a>«<»</>");
    says(with("<!ENTITY e '&#38;#60;'>", "<a b='&e;'>&e;</a>"), "<a b=\"<\">«<»</>");
    says(with("<!ENTITY e SYSTEM 'x'>", "<a>1&e;2</a>"), "<a>«12»</>");
    says(with("<!ENTITY e '\"'>", "<a b=\"'&e;'\"/>"), "<a b=\"'\\\"'\"></>");
    says(with("<!ENTITY e ''>", "<a>&e;</a>"), "<a></>");
}

#[test]
fn line_ends_and_cdata_ends_survive_expansion() {
    says(with("<!ENTITY e '&#13;&#10;'>", "<a b='&e;'>&e;</a>"), "<a b=\"  \">«\r\n»</>");
    says(with("<!ENTITY e '1\r\n2'>", "<a>&e;\r\n</a>"), "<a>«1\n2\n»</>");
    says(with("<!ENTITY e ']]'>", "<a>&e;></a>"), "<a>«]]>»</>");
    says(with("<!ENTITY e '>'>", "<a>]]&e;]]&e;</a>"), "<a>«]]>]]>»</>");
    says(with("<!ENTITY e ']>'>", "<a>]&e; ]&e;</a>"), "<a>«]]> ]]>»</>");
    says(with("<!ENTITY e '<![CDATA[&#13;]>]]>'>", "<a>]&e;</a>"), "<a>«]\r]>»</>");
    wrong("<!ENTITY e ']]>'>", "<a>&e;</a>", "cdata-end-in-text");
    for skipped in ["SYSTEM 'x'", "''", "'&f;'><!ENTITY f ''"] {
        let subset = format!("<!ENTITY e {skipped}>");
        says(with(&subset, "<a>\r&e;\n\r&e;\n</a>"), "<a>«\n\n\n\n»</>");
    }
    says(with("<!ENTITY e '\n'>", "<a>\n&e;\r&e;\r&e;\n</a>"), "<a>«\n\n\n\n\n\n\n»</>");
    says("<!DOCTYPE a SYSTEM 'x'><a>\r&e;\n</a>", "<a>«\n\n»</>");
}

#[test]
fn attribute_defaults_and_types_count() {
    let list = "<!ATTLIST a b CDATA 'd' c NMTOKENS #IMPLIED d (x|y) ' x '>";
    says(with(list, "<a/>"), "<a b=\"d\" d=\"x\"></>");
    says(with(list, "<a d='y' b=' 1  2 ' c=' 1  2&#32; '/>"), "<a d=\"y\" b=\" 1  2 \" c=\"1 2\"></>");
    says(with(list, "<a c='&#9;1\t2' b='\n'/>"), "<a c=\"\\t1 2\" b=\" \" d=\"x\"></>");
    says(with("<!ATTLIST a xmlns CDATA 'u' p:b CDATA '1' xmlns:p CDATA 'v'>", "<a/>"), "<{u}a {v}b=\"1\"></>");
    says(with("<!ATTLIST a b CDATA '1'><!ATTLIST a b CDATA '2' c CDATA '3'>", "<a/>"), "<a b=\"1\" c=\"3\"></>");
    says(with("<!ENTITY e 'v'><!ATTLIST a b CDATA '&e;&#60;'>", "<a/>"), "<a b=\"v<\"></>");
    wrong("<!ATTLIST a b CDATA '&e;'><!ENTITY e 'v'>", "<a/>", "undeclared-entity");
    wrong("<!ATTLIST a b CDATA '<'>", "<a/>", "lt-in-attribute");
}

#[test]
fn an_entity_holds_whole_elements() {
    wrong("<!ENTITY e '<b>'>", "<a>&e;</b></a>", "unbalanced-entity");
    wrong("<!ENTITY e '</b>'>", "<a><b>&e;</a>", "unbalanced-entity");
    wrong("<!ENTITY e '</b><b>'>", "<a><b>&e;</b></a>", "unbalanced-entity");
    wrong("<!ENTITY e '<b'>", "<a>&e;/></a>", "bad-tag");
    wrong("<!ENTITY e '&#60;'>", "<a>&e;b/></a>", "bad-markup");
    wrong("<!ENTITY e '&#38;'>", "<a>&e;amp;</a>", "bad-reference");
    wrong("<!ENTITY e '<!-- '>", "<a>&e;--></a>", "bad-comment");
    wrong("<!ENTITY e '<b></c>'>", "<a>&e;</a>", "mismatched-tag");
}

#[test]
fn references_that_are_not_allowed_are_refused() {
    wrong("<!ENTITY e '&e;'>", "<a>&e;</a>", "recursive-entity");
    wrong("<!ENTITY e '&f;'><!ENTITY f '&e;'>", "<a b='&e;'/>", "recursive-entity");
    wrong("<!ENTITY e '<'>", "<a b='&e;'/>", "lt-in-attribute");
    wrong("<!ENTITY e SYSTEM 'x'>", "<a b='&e;'/>", "external-entity-in-attribute");
    wrong("<!NOTATION n SYSTEM 'n'><!ENTITY e SYSTEM 'x' NDATA n>", "<a>&e;</a>", "unparsed-entity");
    wrong("<!ENTITY e 'x'>", "<a>&f;</a>", "undeclared-entity");
    wrong("<!ENTITY e 'x'>", "<a/>&e;", "text-outside-root");
    wrong("<!ENTITY e '&f;'>", "<a>&e;</a>", "undeclared-entity");
    assert!(read(with("<!ENTITY e '&e;'>", "<a/>")).is_ok());
}

#[test]
fn parameter_entities_between_declarations_are_read() {
    says(with("<!ENTITY % p '<!ENTITY e \"x\">'>%p;", "<a>&e;</a>"), "<a>«x»</>");
    says(with("<!ENTITY % q '<!ENTITY e \"x\">'><!ENTITY % p '&#37;q;'>%p;", "<a>&e;</a>"), "<a>«x»</>");
    says(with("%unknown;<!ENTITY e 'x'>", "<a>1&e;2</a>"), "<a>«12»</>");
    says(with("<!ENTITY % p SYSTEM 'p'>%p;<!ENTITY e 'x'>", "<a>1&e;2&f;</a>"), "<a>«12»</>");
    let standalone = "<?xml version='1.0' standalone='yes'?>".to_string();
    says(standalone.clone() + &with("<!ENTITY % p SYSTEM 'p'>%p;<!ENTITY e 'x'>", "<a>&e;</a>"), "<a>«x»</>");
    let doc = standalone + &with("<!ENTITY % p '<!ENTITY e \"x\">'>%p;", "<a>&e;</a>");
    assert_eq!(read(doc).unwrap_err().code, "undeclared-entity");
    wrong("<!ENTITY % p '%p;'>", "<a/>", "bad-doctype");
    wrong("<!ENTITY % p '&#37;p;'>%p;", "<a/>", "recursive-entity");
    wrong("<!ENTITY % p 'ANY'><!ELEMENT a %p;>", "<a/>", "bad-doctype");
    wrong("<!ENTITY % p '<!ELEMENT a '>%p; ANY>", "<a/>", "bad-doctype");
    wrong("<!ENTITY % p '<![INCLUDE[]]>'>%p;", "<a/>", "bad-doctype");
}

#[test]
fn declarations_are_checked() {
    for right in [
        "<!ELEMENT a EMPTY><!ELEMENT b ANY><!ELEMENT c (#PCDATA)><!ELEMENT d ( #PCDATA | a | b )*>",
        "<!ELEMENT a (b,(c|d)*,e?)+><!ELEMENT b (c)><!ELEMENT p:c ((((d))))>",
        "<!ATTLIST a><!ATTLIST a b ID #REQUIRED c NOTATION (x|y) #IMPLIED d (1|-2|a:b) #FIXED '1'>",
        "<!NOTATION n SYSTEM 's'><!NOTATION m PUBLIC 'p'><!NOTATION o PUBLIC 'p' 's'>",
        "<!ENTITY e SYSTEM 's'><!ENTITY f PUBLIC 'p' 's' NDATA n><!ENTITY % g PUBLIC 'p' 's'>",
        "<!-- <!ELEMENT --><?p <!ELEMENT?> \t\r\n",
    ] {
        assert!(read(with(right, "<a/>")).is_ok(), "{right}");
    }
    for bad in [
        "<!ELEMENT a>",
        "<!ELEMENT a (b,c|d)>",
        "<!ELEMENT a ()>",
        "<!ELEMENT a (b,)>",
        "<!ELEMENT a (b>",
        "<!ELEMENT a (#PCDATA|b)>",
        "<!ELEMENT a (b|#PCDATA)*>",
        "<!ELEMENT a (b) *>",
        "<!ELEMENT a empty>",
        "<!ELEMENT a (b))>",
        "<!ELEMENTa ANY>",
        "<!ELEMENT a ANY",
        "<!ATTLIST>",
        "<!ATTLIST a b>",
        "<!ATTLIST a b CDATA>",
        "<!ATTLIST a b cdata #IMPLIED>",
        "<!ATTLIST a b CDATA#IMPLIED>",
        "<!ATTLIST a b () #IMPLIED>",
        "<!ATTLIST a b (x,y) #IMPLIED>",
        "<!ATTLIST a b NOTATION(x) #IMPLIED>",
        "<!ATTLIST a b CDATA 'x'c CDATA 'y'>",
        "<!ATTLIST a b CDATA #FIXED>",
        "<!ENTITY e>",
        "<!ENTITY e x>",
        "<!ENTITY e 'x' NDATA n>",
        "<!ENTITY % e SYSTEM 'x' NDATA n>",
        "<!ENTITY %e 'x'>",
        "<!ENTITY e SYSTEM>",
        "<!ENTITY e SYSTEM 's'NDATA n>",
        "<!ENTITY e PUBLIC 'p'>",
        "<!NOTATION n>",
        "<!NOTATION n 'x'>",
        "<!NOTATION n PUBLIC 'p''s'>",
        "<!FOO>",
        "<a>",
        "text",
        "]",
        "<![INCLUDE[]]>",
        "%",
        "<!ENTITY e 'a%b;'>",
    ] {
        let code = read(with(bad, "<a/>")).expect_err(bad).code;
        assert!(["bad-doctype", "bad-name"].contains(&code), "{bad}: {code}");
    }
    for (bad, code) in [
        ("<!ENTITY e 'a&b'>", "bad-reference"),
        ("<!ENTITY e '&#0;'>", "bad-char-reference"),
        ("<!ENTITY p:e 'x'>", "bad-name"),
        ("<!NOTATION p:n SYSTEM 's'>", "bad-name"),
        ("<?p:q r?>", "bad-pi"),
        ("<!-- a -- b -->", "bad-comment"),
        ("<?xml version='1.0'?>", "bad-declaration"),
        ("<!ELEMENT a:b:c ANY>", "bad-name"),
        ("%p", "bad-reference"),
    ] {
        wrong(bad, "<a/>", code);
    }
}

/// An entity referred to often is written by a path of its own; one referred to once is not.
#[test]
fn references_to_one_entity_read_like_references_to_equal_ones() {
    let long = "forty bytes of text, which fill no block";
    let texts =
        ["x", "", "a b", long, "<b/>", "<b>]</b>", "]", "]]", ">", "]>", "&#13;", "\n", "&#38;amp;", "&i;", "é"];
    let between = ["", " ", "]", "]]", ">", "]>", "\n", "\r", "\r\n", "&amp;", "<c/>", "<c>&one;</c>", "é", long];
    for text in texts {
        for name in ["e", "seven77", "eight888", "é"] {
            for first in ["", "]", "\r"] {
                for second in between {
                    let inner = "<!ENTITY i 'i'><!ENTITY one '1'>";
                    let mut same = format!("<a>{first}");
                    let mut equal = same.clone();
                    let mut subset = format!("{inner}<!ENTITY {name} '{text}'>");
                    let once = subset.clone();
                    for i in 0..6 {
                        let separator = if i % 2 == 0 { second } else { first };
                        subset += &format!("<!ENTITY {name}{i} '{text}'>");
                        equal += &format!("&{name}{i};{separator}");
                        same += &format!("&{name};{separator}");
                    }
                    let told = read(with(&once, &(same.clone() + "</a>"))).map_err(|error| error.code);
                    let expected = read(with(&subset, &(equal + "</a>"))).map_err(|error| error.code);
                    assert_eq!(told, expected, "{name} {text:?}: {same}");
                }
            }
        }
    }
}
