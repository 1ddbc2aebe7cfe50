use super::*;

#[track_caller]
fn limited(doc: &str, limits: Limits, code: &str) {
    assert_eq!(read_with(doc.as_bytes(), &limits).map_err(|e| e.code), Err(code));
}

#[test]
fn each_limit_is_kept_and_what_it_allows_is_read() {
    let default = Limits::default();
    let depth = Limits { max_depth: 3, ..default };
    assert!(read_with(b"<a><b><c/></b></a>", &depth).is_ok());
    limited("<a><b><c><d/></c></b></a>", depth, "limit-depth");
    let attributes = Limits { max_attributes: 2, ..default };
    assert!(read_with(b"<a b='' c=''/>", &attributes).is_ok());
    limited("<a b='' c='' xmlns=''/>", attributes, "limit-attributes");
    let name = Limits { max_name: 4, ..default };
    assert!(read_with(b"<abcd/>", &name).is_ok());
    for doc in ["<abcde/>", "<a bcdef=''/>", "<a:bcd/>", "<a><?abcde?></a>", "<a>&abcde;</a>", "<!DOCTYPE abcde><a/>"] {
        limited(doc, name, "limit-name");
    }
    limited("<a></a>", Limits { max_bytes: 6, ..default }, "limit-size");
    assert!(read_with(b"<a/>", &Limits { max_bytes: u64::MAX, max_depth: u32::MAX, ..default }).is_ok());
}

#[test]
fn expansion_is_bounded() {
    let bomb = |levels: usize, text: &str| {
        let mut doc = format!("<!DOCTYPE a [<!ENTITY e0 '{text}'>");
        for i in 1..levels {
            doc += &format!("<!ENTITY e{i} '{}'>", format!("&e{};", i - 1).repeat(10));
        }
        doc + &format!("]><a>&e{};</a>", levels - 1)
    };
    for (levels, text) in [(12, "x"), (12, ""), (19, "<b/>")] {
        limited(&bomb(levels, text), Limits::default(), "limit-expansion");
        limited(
            &bomb(levels, text).replace("<a>", "<a b='").replace("</a>", "'/>"),
            Limits::default(),
            if text == "<b/>" { "lt-in-attribute" } else { "limit-expansion" },
        );
    }
    limited(&bomb(30, ""), Limits::default(), "limit-entity-depth");
    assert!(read_with(bomb(3, "x").as_bytes(), &Limits::default()).is_ok());
    limited(&bomb(3, "x"), Limits { max_expansion: 100, ..Limits::default() }, "limit-expansion");
    limited(&bomb(3, "x"), Limits { max_entity_depth: 2, ..Limits::default() }, "limit-entity-depth");
    // The second reference is to an expansion that is known: it costs and counts the same.
    let twice = bomb(3, "x").replace("<a>", "<a>&e0;&e1;");
    limited(&twice, Limits { max_entity_depth: 2, ..Limits::default() }, "limit-entity-depth");
    // A large default on many tags.
    let defaults =
        format!("<!DOCTYPE a [<!ATTLIST b c CDATA '{}'>]><a>{}</a>", "x".repeat(10_000), "<b/>".repeat(10_000));
    limited(&defaults, Limits::default(), "limit-expansion");
    // The same through parameter entities.
    let mut doc = String::from("<!DOCTYPE a [<!ENTITY % p0 ' '>");
    for i in 1..12 {
        doc += &format!("<!ENTITY % p{i} '{}'>", format!("&#37;p{};", i - 1).repeat(10));
    }
    limited(&(doc + "%p11;]><a/>"), Limits::default(), "limit-expansion");
}

#[test]
fn a_hostile_message_leaves_the_reader_fit_for_the_next() {
    let mut reader = Reader::new();
    let deep = "<a>".repeat(200_000) + &"</a>".repeat(200_000);
    let generous = Limits { max_depth: u32::MAX, ..Limits::default() };
    let mut trace = Trace::default();
    assert_eq!(reader.read(deep.as_bytes(), &Limits::default(), &mut trace).unwrap_err().code, "limit-depth");
    assert!(reader.read(deep.as_bytes(), &generous, &mut Trace::default()).is_ok());
    let groups = format!("<!DOCTYPE a [<!ELEMENT a {}b{}>]><a/>", "(".repeat(200_000), ")".repeat(200_000));
    assert!(reader.read(groups.as_bytes(), &generous, &mut Trace::default()).is_ok());
    let mut trace = Trace::default();
    assert!(reader.read(b"<a xmlns='u'/>", &generous, &mut trace).is_ok());
    assert_eq!(trace.out, "<{u}a></>");
}
