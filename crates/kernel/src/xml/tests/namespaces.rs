use super::*;

#[test]
fn names_are_resolved() {
    says("<a xmlns='u' b='1'><c/></a>", "<{u}a b=\"1\"><{u}c></></>");
    says("<p:a xmlns:p='u' p:b='1'/>", "<{u}a {u}b=\"1\"></>");
    says("<a xmlns='u'><b xmlns=''><c/></b><d/></a>", "<{u}a><b><c></></><{u}d></></>");
    says("<a xmlns:p='u'><p:b xmlns:p='v'/><p:c/></a>", "<a><{v}b></><{u}c></></>");
    says("<a xmlns='a&amp;b&#32;c'/>", "<{a&b c}a></>");
    says("<a xml:lang='en'/>", "<a {http://www.w3.org/XML/1998/namespace}lang=\"en\"></>");
    says("<a xmlns:xml='http://www.w3.org/XML/1998/namespace'/>", "<a></>");
    says("<a xmlns:p='u' xmlns:q='v' p:b='1' q:b='2' b='3'/>", "<a {u}b=\"1\" {v}b=\"2\" b=\"3\"></>");
    says("<a xmlns:p='u' xmlns='u' p:b='1' b='2'/>", "<{u}a {u}b=\"1\" b=\"2\"></>");
}

#[test]
fn every_constraint_is_enforced() {
    refuses("<p:a/>", "undeclared-prefix", 1);
    refuses("<a p:b='1'/>", "undeclared-prefix", 3);
    refuses("<a><b xmlns:p='u'/><p:c/></a>", "undeclared-prefix", 20);
    refuses("<a xmlns:p=''/>", "bad-namespace", 3);
    refuses("<a xmlns:xmlns='u'/>", "bad-namespace", 3);
    refuses("<a xmlns:xml='u'/>", "bad-namespace", 3);
    refuses("<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>", "bad-namespace", 3);
    refuses("<a xmlns='http://www.w3.org/XML/1998/namespace'/>", "bad-namespace", 3);
    refuses("<a xmlns='http://www.w3.org/2000/xmlns/'/>", "bad-namespace", 3);
    refuses("<a xmlns:p='http://www.w3.org/2000/xmlns&#47;'/>", "bad-namespace", 3);
    refuses("<xmlns:a/>", "bad-namespace", 1);
    refuses("<a xmlns='u' xmlns='v'/>", "duplicate-attribute", 13);
    refuses("<a xmlns:p='u' xmlns:q='u' p:b='1' q:b='2'/>", "duplicate-attribute", 35);
    refuses("<a xmlns:p='u' xmlns:p='u'/>", "duplicate-attribute", 15);
}

#[test]
fn many_bindings_and_many_attributes_are_still_right() {
    let declare =
        |range: std::ops::Range<usize>, uri: &str| range.map(|i| format!(" xmlns:p{i}='{uri}{i}'")).collect::<String>();
    let (outer, inner) = (declare(0..40, "u"), declare(0..40, "v"));
    let doc = format!("<a{outer}><p3:x/><p39:x/><b{inner}><p3:x/><p39:x/></b><p3:x/><p39:x/></a>");
    says(doc, "<a><{u3}x></><{u39}x></><b><{v3}x></><{v39}x></></><{u3}x></><{u39}x></></>");
    refuses(format!("<a><b{outer}/><p39:x/></a>"), "undeclared-prefix", outer.len() as u64 + 8);

    let attributes = (0..40).map(|i| format!(" b{i}=''")).collect::<String>();
    assert!(read(format!("<a{attributes}/>")).is_ok());
    refuses(format!("<a{attributes} b7=''/>"), "duplicate-attribute", attributes.len() as u64 + 3);
    let prefixed = (0..40).map(|i| format!(" p{i}:b=''")).collect::<String>();
    assert!(read(format!("<a{outer}{prefixed}/>")).is_ok());
    let doc = format!("<a{outer} xmlns:q='u7'{prefixed} q:b=''/>");
    let offset = doc.find(" q:b").unwrap() as u64 + 1;
    refuses(doc, "duplicate-attribute", offset);
}
