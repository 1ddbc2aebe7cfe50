use super::*;

fn place(doc: impl AsRef<[u8]>) -> (String, u32, u32) {
    let error = read(doc).unwrap_err();
    (error.message, error.line, error.column)
}

#[test]
fn lines_and_columns_count_characters() {
    let told = "end tag </b> does not match start tag <a> opened at 2:3".to_string();
    assert_eq!(place("<r>\n  <a>\n é</b>"), (told.clone(), 3, 3));
    assert_eq!(place("<r>\r\n  <a>\r\n é</b>"), (told.clone(), 3, 3));
    assert_eq!(place("<r>\r  <a>\r é</b>"), (told, 3, 3));
    let (_, line, column) = place("\u{feff}<a></b>");
    assert_eq!((line, column), (1, 4));
}

#[test]
fn errors_in_rewritten_documents_are_where_they_are_in_the_message() {
    let head = "<!DOCTYPE r [<!ENTITY e '<b>long text</b>'><!ATTLIST b k CDATA 'default'>]>\n";
    let told = "end tag </x> does not match start tag <r> opened at 2:1".to_string();
    assert_eq!(place(format!("{head}<r>&e;<b/>&e;</x>")), (told.clone(), 2, 14));
    assert_eq!(place(format!("{head}<r>&e;<b/>\n&e;</x>&undeclared;")), (told, 3, 4));
    let (message, line, column) = place(format!("{head}<r>\n<b/> &none;</r>"));
    assert_eq!((message.as_str(), line, column), ("entity none is not declared", 3, 6));
    let (_, line, column) = place(format!("{head}<r>\n<b j='1' j='2'/></r>"));
    assert_eq!((line, column), (3, 10));
    // What an entity brings is reported at the reference.
    let (_, line, column) = place("<!DOCTYPE r [<!ENTITY e '<b></c>'>]><r>\n &e;</r>");
    assert_eq!((line, column), (2, 2));
}

#[test]
fn errors_after_references_to_one_entity_are_where_they_are_in_the_message() {
    let head = "<!DOCTYPE r [<!ENTITY e 'text'>]>";
    let references = "&e;&e; and &e; &e;";
    let (_, line, column) = place(format!("{head}<r>{references}\n {references} &none;</r>"));
    assert_eq!((line, column), (2, 21));
    let (_, line, column) = place(format!("{head}<r>{references}\n {references} ]]></r>"));
    assert_eq!((line, column), (2, 21));
    let (_, line, column) = place(format!("{head}<r>{references}\n {references}</x>"));
    assert_eq!((line, column), (2, 20));
    let doc = format!("{head}<r>{}</r>", "&e;".repeat(10));
    let limits = Limits { max_expansion: 5 * 8, ..Limits::default() };
    let error = read_with(doc.as_bytes(), &limits).unwrap_err();
    assert_eq!((error.code, error.offset as usize), ("limit-expansion", head.len() + 3 + 3 * 8));
}

#[test]
fn every_code_is_documented_once() {
    let mut codes: Vec<_> = CODES.iter().map(|(code, _)| code).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), CODES.len());
}
