//! Messages as rows (relational §3.3): for each node that some linear path selects its tag path, the ids of the nodes
//! from the root down to it, and its value. A node's id is its place in the node table.
//!
//! What a new tag path means to the linear paths, and a new linear path to the tag paths seen so far, is worked out once
//! and queued as [`News`]: the PathMatch and TagPath_BrInfo tables, one change at a time (§3.4, §3.5.1).

use crate::document::read;
use crate::names::{is_attribute, is_element, Names, Sym, COMMENT, INSTRUCTION, TEXT};
use crate::paths::align::{accepts, positions};
use crate::paths::Step;
use crate::shapes::nodes::{NodeIx, Nodes};
use crate::shapes::search::Message;
use crate::tagpaths::{TagPaths, TooMuch};
use crate::values::number::number;
use crate::vocabulary::Vocabulary;
use crate::xml::{Limits, Reader, XmlError};
use std::collections::HashMap;

/// Rows of positions that one branch may have on one tag path; a message with more is refused.
const MAX_POSITIONS: usize = 1 << 12;
/// What the rows of one message may take up together: ids on the way to nodes, and bytes of values.
const MAX_IDS: usize = 1 << 26;
const MAX_VALUES: usize = 1 << 28;

struct LinearPath {
    number: u32,
    steps: Vec<Step>,
    /// Somebody compares the value of what it selects.
    valued: bool,
    /// Branches that end in it: number and steps that are branch points.
    branches: Vec<(u32, Vec<u32>)>,
}

/// What linear paths say of a tag path.
#[derive(Default)]
struct Shred {
    /// The linear paths have been looked at.
    known: bool,
    /// Some linear path selects such nodes; some of those paths compare their values.
    wanted: bool,
    valued: bool,
    /// Too many positions of some branch.
    overflow: bool,
}

impl Shred {
    /// Notes that a linear path selects the nodes of tag path number `id`.
    fn select(&mut self, path: &LinearPath, id: u32, tags: &[Sym], names: &Names, news: &mut News) {
        self.wanted = true;
        self.valued |= path.valued;
        news.matches.push((id, path.number));
        for (branch, points) in &path.branches {
            self.locate(path, (*branch, points), id, tags, names, news);
        }
    }

    /// Notes where the points of a branch lie.
    fn locate(
        &mut self,
        path: &LinearPath,
        (branch, points): (u32, &[u32]),
        id: u32,
        tags: &[Sym],
        names: &Names,
        news: &mut News,
    ) {
        match positions(names, &path.steps, tags, points, MAX_POSITIONS) {
            Some(rows) => news.positions.extend(rows.into_iter().map(|row| (id, branch, row))),
            None => self.overflow = true,
        }
    }
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

    /// Appends a row.
    fn push(&mut self, message: u32, tag_path: u32, ids: &[i32], value: Option<&[u8]>) {
        self.messages.push(message);
        self.tag_paths.push(tag_path);
        self.ids.extend_from_slice(ids);
        self.valued.push(value.is_some());
        self.values.extend_from_slice(value.unwrap_or_default());
        self.numbers.push(value.map_or(f64::NAN, number));
        self.id_ends.push(self.ids.len() as i32);
        self.value_ends.push(self.values.len() as i32);
    }

    /// There is room for another message, however large.
    pub fn has_room(&self) -> bool {
        self.ids.len() < MAX_IDS && self.values.len() < MAX_VALUES
    }
}

pub struct Shredder {
    vocabulary: Vocabulary,
    known: Known,
    by_number: HashMap<u32, u32>,
    reader: Reader,
    nodes: Nodes,
}

/// Linear paths and tag paths, and what they have to do with each other.
struct Known {
    paths: Vec<LinearPath>,
    /// Linear paths by their last test.
    by_test: HashMap<Sym, Vec<u32>>,
    tag_paths: TagPaths<Shred>,
    news: News,
}

impl Default for Shredder {
    fn default() -> Self {
        let (paths, by_test, news) = Default::default();
        let known = Known { paths, by_test, tag_paths: TagPaths::with_most(u32::MAX as usize), news };
        let (vocabulary, by_number, reader, nodes) = Default::default();
        Shredder { vocabulary, known, by_number, reader, nodes }
    }
}

impl Shredder {
    pub fn names_mut(&mut self) -> &mut Names {
        self.vocabulary.names_mut()
    }

    /// Tag paths seen, whether or not a linear path selects them. Hostile messages never repeat one, so whoever keeps a
    /// shredder for long starts a new one when these are too many.
    pub fn tag_paths(&self) -> usize {
        self.known.tag_paths.len()
    }

    pub fn news(&mut self) -> News {
        std::mem::take(&mut self.known.news)
    }

    /// A linear path under a number of the caller's; once more to say that values matter after all.
    pub fn add_path(&mut self, number: u32, steps: &[Step], valued: bool) -> Result<(), String> {
        let names = &self.vocabulary.names;
        let Known { paths, by_test, tag_paths, news } = &mut self.known;
        if let Some(&known) = self.by_number.get(&number) {
            let path = &mut paths[known as usize];
            if valued && !path.valued {
                path.valued = true;
                tag_paths.each(|_, tags, shred| shred.valued |= accepts(names, &path.steps, &tags[1..]));
            }
            return Ok(());
        }
        let last = steps.last().ok_or("a path has steps")?;
        if !steps.iter().all(|s| names.is_test(s.test())) {
            return Err("a step tests for nothing known".into());
        }
        let path = LinearPath { number, steps: steps.to_vec(), valued, branches: vec![] };
        tag_paths.each(|id, tags, shred| {
            if accepts(names, &path.steps, &tags[1..]) {
                shred.select(&path, id, &tags[1..], names, news);
            }
        });
        self.by_number.insert(number, paths.len() as u32);
        by_test.entry(last.test()).or_default().push(paths.len() as u32);
        paths.push(path);
        Ok(())
    }

    /// A branch that ends in a linear path; `points` are the steps, from 0, that it shares with others.
    pub fn add_branch(&mut self, number: u32, path: u32, points: Vec<u32>) -> Result<(), String> {
        let names = &self.vocabulary.names;
        let Known { paths, tag_paths, news, .. } = &mut self.known;
        let path = &mut paths[*self.by_number.get(&path).ok_or("no such path")? as usize];
        tag_paths.each(|id, tags, shred| {
            if accepts(names, &path.steps, &tags[1..]) {
                shred.locate(path, (number, &points), id, &tags[1..], names, news);
            }
        });
        path.branches.push((number, points));
        Ok(())
    }

    /// The tag path of a number as text: `/a/{uri}b/@c`, `/a/text()`.
    pub fn tag_path(&mut self, id: u32) -> String {
        let mut text = String::new();
        for &sym in &self.known.tag_paths.tags(id)[1..] {
            text.push('/');
            match sym {
                TEXT => text.push_str("text()"),
                COMMENT => text.push_str("comment()"),
                INSTRUCTION => text.push_str("processing-instruction()"),
                _ => {
                    let (uri, local) = self.vocabulary.names.describe(sym).unwrap_or((b"", b"*"));
                    if is_attribute(sym) {
                        text.push('@');
                    }
                    if !uri.is_empty() {
                        text.push_str(&format!("{{{}}}", String::from_utf8_lossy(uri)));
                    }
                    text.push_str(&String::from_utf8_lossy(local));
                }
            }
        }
        text
    }

    /// The number of a tag path that `tag_path` gave as text, here or in another process.
    pub fn add_tag_path(&mut self, text: &str) -> Result<u32, String> {
        let names = &mut self.vocabulary.names;
        let mut id = 0;
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
                _ => names.intern(attribute, uri.as_bytes(), Some(local.as_bytes())),
            };
            id = self.known.child(names, id, sym)?;
            rest = &step[end..];
        }
        if id == 0 || !rest.is_empty() {
            return Err(format!("{text:?} is no tag path"));
        }
        Ok(id)
    }

    /// Appends the rows of one message, or none if it cannot be read.
    pub fn shred(&mut self, message: u32, xml: &[u8], limits: &Limits, out: &mut Shreds) -> Result<(), XmlError> {
        let mark = out.messages.len();
        let mut refused = None;
        let Vocabulary { names, constants } = &mut self.vocabulary;
        read(&mut self.reader, &mut self.nodes, (names, constants), xml, limits, |read| {
            refused = self.known.rows(message, read, out).err();
            Ok(())
        })?;
        let Some(text) = refused else { return Ok(()) };
        out.cut(mark);
        Err(XmlError { code: "limit-shredding", message: text.into(), line: 1, column: 1, offset: 0 })
    }
}

impl Known {
    /// The tag path of a node with this symbol below another.
    fn child(&mut self, names: &Names, parent: u32, sym: Sym) -> Result<u32, &'static str> {
        let Known { paths, by_test, tag_paths, news } = self;
        let next = tag_paths.len() as u32; // the number of a new one
        let look = |tags: &[Sym], shred: &mut Shred| {
            let wildcards = names.wildcards(sym);
            for &path in std::iter::once(&sym).chain(&wildcards).filter_map(|test| by_test.get(test)).flatten() {
                let path = &paths[path as usize];
                if accepts(names, &path.steps, &tags[1..]) {
                    shred.select(path, next, &tags[1..], names, news);
                }
            }
            shred.known = true;
        };
        tag_paths.child(parent, sym, |shred| shred.known, look).map_err(|TooMuch| "there are too many tag paths")
    }

    /// Appends the rows of a message in document order, or says why it has too many.
    fn rows(&mut self, number: u32, message: Message<'_>, out: &mut Shreds) -> Result<(), &'static str> {
        let Message { src, nodes, names, .. } = message;
        let start = (out.ids.len(), out.values.len());
        let mut scratch = vec![];
        // the tag paths of the document and the open elements, and the ids of these and the node
        let (mut open, mut ids) = (vec![(0, nodes.recs[0].end)], vec![]);
        for (n, rec) in nodes.recs.iter().enumerate().skip(1) {
            while n as NodeIx >= open[open.len() - 1].1 {
                open.pop();
            }
            let element = is_element(rec.sym);
            if !element && !is_attribute(rec.sym) && !self.by_test.contains_key(&rec.sym) {
                continue; // nobody asks for such nodes
            }
            let id = self.child(names, open[open.len() - 1].0, rec.sym)?;
            ids.truncate(open.len() - 1);
            ids.push(n as i32);
            if element {
                open.push((id, rec.end));
            }
            let shred = &self.tag_paths.get(id).known;
            if !shred.wanted {
                continue;
            }
            if shred.overflow {
                return Err("elements are nested in more ways than the relational engine can tell apart");
            }
            let value = shred.valued.then(|| nodes.value(src, n as NodeIx, &mut scratch));
            out.push(number, id, &ids, value);
            if out.ids.len() - start.0 > MAX_IDS || out.values.len() - start.1 > MAX_VALUES {
                return Err("the rows of the message take up more room than there is");
            }
        }
        Ok(())
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
            ("/a/b", &[1, 3], Some("uvw")),
            ("/a/b/@y", &[1, 3, 4], Some("1&")),
            ("/a/b/text()", &[1, 3, 5], None),
            ("/a/b/c/text()", &[1, 3, 6, 7], None),
            ("/a/b/text()", &[1, 3, 9], None),
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
