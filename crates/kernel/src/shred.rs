//! Messages as rows (relational §3.3): for each node that some linear path selects its tag path, the ids of the nodes
//! from the root down to it, and its value.
//!
//! Tag paths are a trie. What a new one means to the linear paths, and a new linear path to the tag paths seen so far, is
//! worked out once and queued as [`News`]: the PathMatch and TagPath_BrInfo tables, one change at a time (§3.4, §3.5.1).

use crate::names::{Names, Sym, COMMENT, INSTRUCTION, OTHER, OTHER_ATTRIBUTE, TEXT};
use crate::paths::align::{accepts, positions};
use crate::paths::Step;
use crate::values::number::number;
use crate::xml::{decode_attribute, decode_line_ends, Limits, NsId, Reader, Sink, Tag, Text, XmlError};
use std::collections::HashMap;

/// Rows of positions that one branch may have on one tag path; a message with more is refused.
const MAX_POSITIONS: usize = 1 << 12;
/// What the rows of one message may take up together: ids on the way to nodes, and bytes of values.
const MAX_IDS: usize = 1 << 26;
const MAX_VALUES: usize = 1 << 28;

const ROOT: u32 = 0;

struct LinearPath {
    number: u32,
    steps: Vec<Step>,
    /// Somebody compares the value of what it selects.
    valued: bool,
    /// Branches that end in it: number and steps that are branch points.
    branches: Vec<(u32, Vec<u32>)>,
}

#[derive(Default)]
struct TagNode {
    parent: u32,
    sym: Sym,
    depth: u32,
    /// Some linear path selects such nodes; some of those paths compare their values.
    wanted: bool,
    valued: bool,
    /// Too many positions of some branch.
    overflow: bool,
}

/// What is new since it was last asked for.
#[derive(Default)]
pub struct News {
    /// Tag path and linear path.
    pub matches: Vec<(u32, u32)>,
    /// Tag path, branch and where its points lie.
    pub positions: Vec<(u32, u32, Box<[u32]>)>,
}

/// The rows of many messages, in columns.
#[derive(Default)]
pub struct Shreds {
    pub messages: Vec<u32>,
    pub tag_paths: Vec<u32>,
    pub ids: Vec<i32>,
    pub id_ends: Vec<i32>,
    pub values: Vec<u8>,
    pub value_ends: Vec<i32>,
    pub valued: Vec<bool>,
    /// NaN where the value is no number.
    pub numbers: Vec<f64>,
}

impl Shreds {
    fn cut(&mut self, rows: usize) {
        let (ids, values) = self.used(rows);
        self.messages.truncate(rows);
        self.tag_paths.truncate(rows);
        self.id_ends.truncate(rows);
        self.value_ends.truncate(rows);
        self.valued.truncate(rows);
        self.numbers.truncate(rows);
        self.ids.truncate(ids);
        self.values.truncate(values);
    }

    fn used(&self, rows: usize) -> (usize, usize) {
        let end = |ends: &[i32]| rows.checked_sub(1).map_or(0, |last| ends[last] as usize);
        (end(&self.id_ends), end(&self.value_ends))
    }

    /// There is room for another message, however large.
    pub fn has_room(&self) -> bool {
        self.ids.len() < MAX_IDS && self.values.len() < MAX_VALUES
    }
}

#[derive(Default)]
pub struct Shredder {
    names: Names,
    paths: Vec<LinearPath>,
    by_number: HashMap<u32, u32>,
    /// Linear paths by their last test.
    by_test: HashMap<Sym, Vec<u32>>,
    nodes: Vec<TagNode>,
    children: hashbrown::HashMap<(u32, Sym), u32>,
    news: News,
    reader: Reader,
    open: Open,
}

/// The state of reading one message.
#[derive(Default)]
struct Open {
    message: u32,
    /// Ids of the open elements, and for each its tag path and where its text starts.
    ids: Vec<i32>,
    elements: Vec<(u32, usize)>,
    next_id: i32,
    /// All text of the message: the string-value of an element is a part of it.
    text: Vec<u8>,
    /// Where the open text node starts, and its id.
    run: Option<(usize, i32)>,
    value: Vec<u8>,
    refused: Option<&'static str>,
}

impl Shredder {
    pub fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// Tag paths seen, whether or not a linear path selects them. Hostile messages never repeat one, so whoever keeps a
    /// shredder for long starts a new one when these are too many.
    pub fn tag_paths(&self) -> usize {
        self.nodes.len()
    }

    pub fn news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// A linear path under a number of the caller's; once more to say that values matter after all.
    pub fn add_path(&mut self, number: u32, steps: &[Step], valued: bool) -> Result<(), String> {
        if let Some(&known) = self.by_number.get(&number) {
            if valued && !self.paths[known as usize].valued {
                self.paths[known as usize].valued = true;
                for node in 1..self.nodes.len() as u32 {
                    self.nodes[node as usize].valued |= self.accepts(known, node);
                }
            }
            return Ok(());
        }
        let last = steps.last().ok_or("a path has steps")?;
        if !steps.iter().all(|s| self.names.is_test(s.test())) {
            return Err("a step tests for nothing known".into());
        }
        let path = self.paths.len() as u32;
        self.paths.push(LinearPath { number, steps: steps.to_vec(), valued, branches: vec![] });
        self.by_number.insert(number, path);
        self.by_test.entry(last.test()).or_default().push(path);
        for node in 1..self.nodes.len() as u32 {
            if self.accepts(path, node) {
                self.matched(path, node);
            }
        }
        Ok(())
    }

    /// A branch that ends in a linear path; `points` are the steps, from 0, that it shares with others.
    pub fn add_branch(&mut self, number: u32, path: u32, points: Vec<u32>) -> Result<(), String> {
        let path = *self.by_number.get(&path).ok_or("no such path")?;
        for node in 1..self.nodes.len() as u32 {
            if self.accepts(path, node) {
                self.located(path, node, number, &points);
            }
        }
        self.paths[path as usize].branches.push((number, points));
        Ok(())
    }

    fn accepts(&self, path: u32, node: u32) -> bool {
        accepts(&self.names, &self.paths[path as usize].steps, &self.tags(node))
    }

    fn tags(&self, mut node: u32) -> Vec<Sym> {
        let mut tags = vec![0; self.nodes[node as usize].depth as usize];
        while node != ROOT {
            let n = &self.nodes[node as usize];
            tags[n.depth as usize - 1] = n.sym;
            node = n.parent;
        }
        tags
    }

    fn matched(&mut self, path: u32, node: u32) {
        let p = &self.paths[path as usize];
        let n = &mut self.nodes[node as usize];
        n.wanted = true;
        n.valued |= p.valued;
        self.news.matches.push((node, p.number));
        for (number, points) in p.branches.clone() {
            self.located(path, node, number, &points);
        }
    }

    fn located(&mut self, path: u32, node: u32, branch: u32, points: &[u32]) {
        let steps = &self.paths[path as usize].steps;
        match positions(&self.names, steps, &self.tags(node), points, MAX_POSITIONS) {
            Some(rows) => self.news.positions.extend(rows.into_iter().map(|row| (node, branch, row))),
            None => self.nodes[node as usize].overflow = true,
        }
    }

    /// The tag path of a node with this symbol below another.
    fn child(&mut self, parent: u32, sym: Sym) -> u32 {
        if let Some(&known) = self.children.get(&(parent, sym)) {
            return known;
        }
        if self.nodes.is_empty() {
            self.nodes.push(TagNode::default());
        }
        let node = self.nodes.len() as u32;
        let depth = self.nodes[parent as usize].depth + 1;
        self.nodes.push(TagNode { parent, sym, depth, ..TagNode::default() });
        self.children.insert((parent, sym), node);
        for test in [sym, Names::any_of(sym), self.names.also(sym)] {
            for i in 0..self.by_test.get(&test).map_or(0, Vec::len) {
                let path = self.by_test[&test][i];
                if self.accepts(path, node) {
                    self.matched(path, node);
                }
            }
        }
        node
    }

    fn symbol(&mut self, attribute: bool, ns: NsId, local: &[u8]) -> Sym {
        let sym = self.names.symbol(attribute, ns, local);
        let known = sym != OTHER && sym != OTHER_ATTRIBUTE;
        if known && self.names.describe(sym).is_some_and(|(_, name)| name.is_some()) {
            return sym;
        }
        self.names.intern_in(attribute, ns, local)
    }

    /// Does any path end in a test of this kind of node? If none does, nobody asks for its tag path.
    fn asks_for(&self, test: Sym) -> bool {
        self.by_test.contains_key(&test)
    }

    /// The tag path of a number as text: `/a/{uri}b/@c`, `/a/text()`.
    pub fn tag_path(&self, node: u32) -> String {
        let mut text = String::new();
        for sym in self.tags(node) {
            text.push('/');
            match sym {
                TEXT => text.push_str("text()"),
                COMMENT => text.push_str("comment()"),
                INSTRUCTION => text.push_str("processing-instruction()"),
                _ => {
                    let (uri, local) = self.names.describe(sym).unwrap_or((b"", None));
                    if crate::names::is_attribute(sym) {
                        text.push('@');
                    }
                    if !uri.is_empty() {
                        text.push_str(&format!("{{{}}}", String::from_utf8_lossy(uri)));
                    }
                    text.push_str(&String::from_utf8_lossy(local.unwrap_or(b"*")));
                }
            }
        }
        text
    }

    /// The number of a tag path that `tag_path` gave as text, here or in another process.
    pub fn add_tag_path(&mut self, text: &str) -> Result<u32, String> {
        let mut node = ROOT;
        let mut rest = text;
        while let Some(step) = rest.strip_prefix('/') {
            let braces = if step.trim_start_matches('@').starts_with('{') { step.find('}').unwrap_or(0) } else { 0 };
            let end = step[braces..].find('/').map_or(step.len(), |at| braces + at);
            let (name, attribute) = step[..end].strip_prefix('@').map_or((&step[..end], false), |name| (name, true));
            let (uri, local) = match name.strip_prefix('{').and_then(|name| name.split_once('}')) {
                Some((uri, local)) => (uri, local),
                None => ("", name),
            };
            let sym = match local {
                "text()" => TEXT,
                "comment()" => COMMENT,
                "processing-instruction()" => INSTRUCTION,
                "" => return Err(format!("{text:?} is no tag path")),
                _ => self.names.intern(attribute, uri.as_bytes(), Some(local.as_bytes())),
            };
            node = self.child(node, sym);
            rest = &step[end..];
        }
        if node == ROOT || !rest.is_empty() {
            return Err(format!("{text:?} is no tag path"));
        }
        Ok(node)
    }

    /// Appends the rows of one message, or none if it cannot be read.
    pub fn shred(&mut self, message: u32, xml: &[u8], limits: &Limits, out: &mut Shreds) -> Result<(), XmlError> {
        if self.nodes.is_empty() {
            self.nodes.push(TagNode::default());
        }
        let mark = out.messages.len();
        let mut reader = std::mem::take(&mut self.reader);
        self.open.begin(message);
        let mut sink = Rows { start: out.used(mark), of: self, out };
        let read = reader.read(xml, limits, &mut sink);
        self.reader = reader;
        let refused = self.open.refused.map(|text| XmlError {
            code: "limit-shredding",
            message: text.into(),
            line: 1,
            column: 1,
            offset: 0,
        });
        let result = read.and(refused.map_or(Ok(()), Err));
        if result.is_err() {
            out.cut(mark);
        }
        result
    }
}

impl Open {
    fn begin(&mut self, message: u32) {
        self.message = message;
        self.ids.clear();
        self.elements.clear();
        self.next_id = 0;
        self.text.clear();
        self.run = None;
        self.refused = None;
    }

    fn id(&mut self) -> i32 {
        self.next_id += 1;
        self.next_id
    }
}

struct Rows<'a> {
    of: &'a mut Shredder,
    out: &'a mut Shreds,
    /// What was used before this message.
    start: (usize, usize),
}

impl Rows<'_> {
    fn emit(&mut self, node: u32, id: Option<i32>, value: Option<&[u8]>) {
        let n = &self.of.nodes[node as usize];
        let (open, out) = (&mut self.of.open, &mut *self.out);
        if n.overflow {
            open.refused = Some("elements are nested in more ways than the relational engine can tell apart");
        }
        if open.refused.is_some() {
            return;
        }
        out.messages.push(open.message);
        out.tag_paths.push(node);
        out.ids.extend_from_slice(&open.ids);
        out.ids.extend(id);
        let value = if n.valued { value } else { None };
        out.valued.push(value.is_some());
        out.values.extend_from_slice(value.unwrap_or_default());
        out.numbers.push(value.map_or(f64::NAN, number));
        if out.ids.len() - self.start.0 > MAX_IDS || out.values.len() - self.start.1 > MAX_VALUES {
            open.refused = Some("the rows of the message take up more room than there is");
        }
        out.id_ends.push(out.ids.len() as i32);
        out.value_ends.push(out.values.len() as i32);
    }

    fn leaf(&mut self, sym: Sym, id: i32, value: &[u8]) {
        let node = self.of.open.elements.last().map_or(ROOT, |e| e.0);
        let node = self.of.child(node, sym);
        if self.of.nodes[node as usize].wanted {
            self.emit(node, Some(id), Some(value));
        }
    }

    fn end_run(&mut self) {
        if let Some((start, id)) = self.of.open.run.take() {
            if self.of.asks_for(TEXT) {
                let text = std::mem::take(&mut self.of.open.text);
                self.leaf(TEXT, id, &text[start..]);
                self.of.open.text = text;
            }
        }
    }
}

impl Sink for Rows<'_> {
    fn namespace(&mut self, uri: &[u8]) -> NsId {
        self.of.names.intern_namespace(uri)
    }

    fn start(&mut self, tag: &Tag<'_>) {
        self.end_run();
        let id = self.of.open.id();
        let parent = self.of.open.elements.last().map_or(ROOT, |e| e.0);
        let sym = self.of.symbol(false, tag.ns, tag.local());
        let node = self.of.child(parent, sym);
        self.of.open.ids.push(id);
        let start = self.of.open.text.len();
        self.of.open.elements.push((node, start));
        for attr in tag.attrs {
            let id = self.of.open.id();
            let local = &tag.src[attr.local as usize..attr.name_end as usize];
            let sym = self.of.symbol(true, attr.ns, local);
            let mut value = std::mem::take(&mut self.of.open.value);
            value.clear();
            let raw = &tag.src[attr.value as usize..attr.value_end as usize];
            if attr.plain {
                value.extend_from_slice(raw);
            } else {
                decode_attribute(raw, &mut value);
            }
            self.leaf(sym, id, &value);
            self.of.open.value = value;
        }
    }

    fn end(&mut self, _: &[u8], _: u32, _: u32) {
        self.end_run();
        if let Some(&(node, start)) = self.of.open.elements.last() {
            if self.of.nodes[node as usize].wanted {
                let text = std::mem::take(&mut self.of.open.text);
                self.emit(node, None, Some(&text[start..]));
                self.of.open.text = text;
            }
            self.of.open.elements.pop();
            self.of.open.ids.pop();
        }
    }

    fn text(&mut self, text: &Text<'_>) {
        let open = &mut self.of.open;
        if open.run.is_none() {
            let id = open.id();
            open.run = Some((open.text.len(), id));
        }
        text.decode(&mut open.text);
    }

    fn comment(&mut self, src: &[u8], start: u32, end: u32) {
        self.end_run();
        let id = self.of.open.id();
        if self.of.asks_for(COMMENT) {
            let mut value = vec![];
            decode_line_ends(&src[start as usize + 4..end as usize - 3], &mut value);
            self.leaf(COMMENT, id, &value);
        }
    }

    fn instruction(&mut self, src: &[u8], start: u32, end: u32) {
        self.end_run();
        let id = self.of.open.id();
        if self.of.asks_for(INSTRUCTION) {
            let mut whole = vec![];
            decode_line_ends(&src[start as usize + 2..end as usize - 2], &mut whole);
            let space = |c: &u8| matches!(c, b' ' | b'\t' | b'\n');
            let target = whole.iter().position(space).unwrap_or(whole.len());
            let data = whole[target..].iter().position(|c| !space(c)).map_or(whole.len(), |skip| target + skip);
            self.leaf(INSTRUCTION, id, &whole[data..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(s: &mut Shredder, xml: &str) -> Vec<(String, Vec<i32>, Option<String>)> {
        let mut out = Shreds::default();
        s.shred(0, xml.as_bytes(), &Limits::default(), &mut out).unwrap();
        let mut found = vec![];
        let (mut id, mut value) = (0, 0);
        for i in 0..out.messages.len() {
            let (id_end, value_end) = (out.id_ends[i] as usize, out.value_ends[i] as usize);
            let text = String::from_utf8(out.values[value..value_end].to_vec()).unwrap();
            found.push((s.tag_path(out.tag_paths[i]), out.ids[id..id_end].to_vec(), out.valued[i].then_some(text)));
            (id, value) = (id_end, value_end);
        }
        found
    }

    #[test]
    fn rows_are_what_paths_select() {
        let mut s = Shredder::default();
        let b = s.names_mut().intern(false, b"", Some(b"b"));
        let y = s.names_mut().intern(true, b"", Some(b"y"));
        s.add_path(7, &[Step::new(true, b)], true).unwrap();
        s.add_path(8, &[Step::new(true, b), Step::new(false, y)], true).unwrap();
        s.add_path(9, &[Step::new(true, TEXT)], false).unwrap();
        let found = rows(&mut s, "<a>x<b y='1&amp;'>u<c>v</c><!--n--><![CDATA[w]]></b></a>");
        let want: Vec<(&str, &[i32], Option<&str>)> = vec![
            ("/a/text()", &[1, 2], None),
            ("/a/b/@y", &[1, 3, 4], Some("1&")),
            ("/a/b/text()", &[1, 3, 5], None),
            ("/a/b/c/text()", &[1, 3, 6, 7], None),
            ("/a/b/text()", &[1, 3, 9], None),
            ("/a/b", &[1, 3], Some("uvw")),
        ];
        let found: Vec<_> = found.iter().map(|(t, i, v)| (t.as_str(), i.as_slice(), v.as_deref())).collect();
        assert_eq!(found, want);
        let news = s.news();
        assert_eq!(news.matches.len(), 5);
        // a later path meets the tag paths seen
        let c = s.names_mut().intern(false, b"", Some(b"c"));
        s.add_path(10, &[Step::new(true, b), Step::new(true, c)], false).unwrap();
        s.add_branch(1, 10, vec![0]).unwrap();
        let news = s.news();
        assert_eq!(news.matches.len(), 1);
        assert_eq!(s.tag_path(news.matches[0].0), "/a/b/c");
        assert_eq!(&*news.positions[0].2, [2]);
    }

    #[test]
    fn tag_paths_survive_as_text() {
        let mut s = Shredder::default();
        s.add_path(1, &[Step::new(true, crate::names::ANY_ATTRIBUTE)], false).unwrap();
        for text in ["/a/{http://x/y}b/@{urn:n}c", "/a/text()", "/a/@b"] {
            let node = s.add_tag_path(text).unwrap();
            assert_eq!(s.tag_path(node), text);
        }
        let found = rows(&mut s, "<a b=''><b xmlns='http://x/y' xmlns:n='urn:n' n:c='1'/></a>");
        let found: Vec<_> = found.into_iter().map(|r| r.0).collect();
        assert_eq!(found, ["/a/@b", "/a/{http://x/y}b/@{urn:n}c"]);
        assert!(s.add_tag_path("a/b").is_err() && s.add_tag_path("//").is_err() && s.add_tag_path("").is_err());
    }

    #[test]
    fn a_refused_message_leaves_no_rows() {
        let mut s = Shredder::default();
        let a = s.names_mut().intern(false, b"", Some(b"a"));
        s.add_path(1, &[Step::new(true, a)], false).unwrap();
        let mut out = Shreds::default();
        s.shred(0, b"<a/>", &Limits::default(), &mut out).unwrap();
        assert!(s.shred(1, b"<a><a></a>", &Limits::default(), &mut out).is_err());
        assert_eq!((out.messages.len(), out.ids.len()), (1, 1));
        // C(400, 4) ways to lie
        let deep = format!("{}{}", "<a>".repeat(400), "</a>".repeat(400));
        let step = Step::new(true, a);
        s.add_path(2, &[step; 4], false).unwrap();
        s.add_branch(1, 2, vec![0, 1, 2]).unwrap();
        let refused = s.shred(2, deep.as_bytes(), &Limits::default(), &mut out).unwrap_err();
        assert_eq!(refused.code, "limit-shredding");
        assert_eq!(out.messages.len(), 1);
    }
}
