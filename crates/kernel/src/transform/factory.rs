//! The message factory (broker §2.1): a template's markup around what a transform returns, straight from the bytes of
//! the message.

use crate::output::fragment::{size_floor, Fragments, Under};
use crate::output::scope::Scopes;
use crate::shapes::nodes::NodeIx;
use crate::shapes::search::Message;
use crate::values::number::number;
use hashbrown::HashSet;
use std::io::Write;

/// What is around the groups, and the pieces of each.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Template {
    pub before: Box<[u8]>,
    pub pieces: Box<[Piece]>,
    pub after: Box<[u8]>,
}

/// A piece of output. Numbers are those of returns.
#[derive(Clone, PartialEq, Hash, Debug)]
pub enum Piece {
    Markup(Box<[u8]>),
    /// The nodes, where a default namespace is in scope or is not.
    Copy(u32, Under),
    /// Attributes, inside a start tag.
    Attributes(Box<[u32]>, Box<Start>),
    /// As character data: an item of a sequence, set apart by a space from another such right before it.
    Item(Expr),
    /// Another sequence begins.
    Sequence,
    /// Inside an attribute's quotes.
    Quoted(Expr),
}

/// What a start tag has already: namespaces that it declares and that are in scope (prefix, URI), and attributes by their
/// expanded names (URI, local).
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Start {
    pub declared: Vec<Bound>,
    pub scope: Vec<Bound>,
    pub attributes: Vec<Bound>,
}

/// Prefix or URI, and URI or local name.
pub type Bound = (Box<[u8]>, Box<[u8]>);

/// A value, as a string, or none. Numbers are XPath 1.0's.
#[derive(Clone, PartialEq, Hash, Debug)]
pub enum Expr {
    Constant(Box<[u8]>),
    /// The string-values of all nodes, spaces between.
    Joined(u32),
    /// That of the first node.
    First(u32),
    Count(u32),
    Sum(u32),
    Min(u32),
    Max(u32),
    Average(u32),
    /// One after the other; what is none is empty.
    Concat(Box<[Expr]>),
    /// Spaces between; what is none is left out.
    Spaced(Box<[Expr]>),
}

/// A sort key.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Key {
    pub value: Expr,
    pub numeric: bool,
    pub descending: bool,
    /// What has no such value comes last (before turning the order around), not first.
    pub none_last: bool,
}

/// A key's value, in the order that XQuery gives: NaN lies next to none.
#[derive(PartialEq, PartialOrd)]
enum KeyValue {
    First,
    NotANumber,
    Number(f64),
    Text(Box<[u8]>),
    NotANumberLast,
    Last,
}

impl KeyValue {
    /// Bytes that it takes.
    fn size(&self) -> usize {
        size_of::<KeyValue>() + if let KeyValue::Text(text) = self { text.len() } else { 0 }
    }
}

impl Expr {
    fn fits(&self, returns: u32) -> bool {
        match self {
            Expr::Constant(_) => true,
            Expr::Concat(parts) | Expr::Spaced(parts) => parts.iter().all(|p| p.fits(returns)),
            Expr::Joined(r)
            | Expr::First(r)
            | Expr::Count(r)
            | Expr::Sum(r)
            | Expr::Min(r)
            | Expr::Max(r)
            | Expr::Average(r) => *r < returns,
        }
    }
}

impl Template {
    /// Appends what is made where there are no groups: an element around nothing but them is an empty-element tag.
    fn empty(&self, out: &mut Text<'_>) -> Result<(), TooLong> {
        let tags = |markup: &[u8]| markup.iter().filter(|&&b| b == b'<').count();
        match self.before.split_last() {
            Some((b'>', before)) if tags(before) == 1 && tags(&self.after) == 1 && self.after.starts_with(b"</") => {
                out.put(before)?;
                out.put(b"/>")
            }
            _ => {
                out.put(&self.before)?;
                out.put(&self.after)
            }
        }
    }

    fn fits(&self, returns: usize) -> bool {
        let returns = returns as u32;
        self.pieces.iter().all(|p| match p {
            Piece::Markup(_) | Piece::Sequence => true,
            Piece::Copy(r, _) => *r < returns,
            Piece::Attributes(rs, _) => rs.iter().all(|r| *r < returns),
            Piece::Item(e) | Piece::Quoted(e) => e.fits(returns),
        })
    }
}

/// What a transform returns of the nodes it binds: the groupSequence-listSequence format, whoever made it.
pub trait Returned<'m> {
    /// The nodes of return `r` for a bound node, in document order, each once.
    fn nodes<'s>(&'s mut self, r: u32, bound: &'s NodeIx) -> &'s [NodeIx];

    /// The message that these nodes are of, and its number among the messages that nodes come from.
    fn message(&self, r: u32) -> (usize, Message<'m>);
}

/// How a new message is made of what is returned: sort keys, the first one first, and the template.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Making {
    pub order: Box<[Key]>,
    pub template: Template,
}

impl Making {
    /// Does it ask for nothing but what `returns` returns give?
    pub fn fits(&self, returns: usize) -> bool {
        self.template.fits(returns) && self.order.iter().all(|key| key.value.fits(returns as u32))
    }
}

/// Working memory of one thread.
#[derive(Default)]
pub struct Factory {
    /// By message that nodes come from.
    sources: Vec<Source>,
    value: Vec<u8>,
    text: Vec<u8>,
    /// The last thing written was an item of a sequence.
    after_item: bool,
}

/// What has been found out of a message.
#[derive(Default)]
struct Source {
    fragments: Fragments,
    scopes: Scopes,
}

impl Factory {
    /// Before nodes come from another message of this number.
    pub fn begin(&mut self, number: usize) {
        if self.sources.len() <= number {
            self.sources.resize_with(number + 1, Source::default);
        }
        self.sources[number].fragments.clear();
        self.sources[number].scopes.clear();
    }

    /// Appends the message that is made of bound nodes. Neither that nor anything it is made of takes more than `most`
    /// bytes: what would is refused before it is there, and nothing is appended.
    pub fn make(
        &mut self,
        making: &Making,
        bound: &[NodeIx],
        lists: &mut dyn Returned<'_>,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), TooLong> {
        let start = out.len();
        let mut text = Text { bytes: out, end: start + most };
        let made = self.groups(making, bound, lists, most, &mut text);
        if made.is_err() {
            out.truncate(start);
        }
        made
    }

    fn groups(
        &mut self,
        making: &Making,
        bound: &[NodeIx],
        lists: &mut dyn Returned<'_>,
        most: usize,
        out: &mut Text<'_>,
    ) -> Result<(), TooLong> {
        if bound.is_empty() {
            return making.template.empty(out);
        }
        out.put(&making.template.before)?;
        self.after_item = false;
        let ordered;
        let bound = if making.order.is_empty() {
            bound
        } else {
            ordered = self.ordered(making, bound, lists, most)?;
            &ordered
        };
        for node in bound {
            for piece in &making.template.pieces {
                self.piece(piece, node, lists, out)?;
            }
        }
        out.put(&making.template.after)
    }

    fn piece(
        &mut self,
        piece: &Piece,
        bound: &NodeIx,
        lists: &mut dyn Returned<'_>,
        out: &mut Text<'_>,
    ) -> Result<(), TooLong> {
        match piece {
            Piece::Markup(bytes) => {
                out.put(bytes)?;
                self.after_item = false;
            }
            Piece::Sequence => self.after_item = false,
            Piece::Copy(r, under) => {
                let (number, message) = lists.message(*r);
                for &n in lists.nodes(*r, bound) {
                    out.check(size_floor(message.nodes, n))?;
                    self.sources[number].fragments.append(message.src, message.nodes, n, *under, out.bytes);
                    out.check(0)?;
                    self.after_item = false;
                }
            }
            Piece::Attributes(returns, start) => {
                let mut start = Start::clone(start);
                let mut known: HashSet<Bound> = start.attributes.drain(..).collect();
                for r in returns {
                    let from = lists.message(*r);
                    let nodes = lists.nodes(*r, bound);
                    self.attributes(from, nodes, &mut start, &mut known, out)?;
                }
            }
            Piece::Item(expr) | Piece::Quoted(expr) => {
                let mut bytes = std::mem::take(&mut self.text);
                bytes.clear();
                let mut text = Text { bytes: &mut bytes, end: out.end - out.bytes.len() };
                let present = self.value_of(expr, bound, lists, &mut text)?;
                if matches!(piece, Piece::Quoted(_)) {
                    out.put_quoted(&bytes)?;
                } else if present {
                    if self.after_item {
                        out.put(b" ")?;
                    }
                    out.put_escaped(&bytes)?;
                    self.after_item = true;
                }
                self.text = bytes;
            }
        }
        Ok(())
    }

    /// Appends the value; false if there is none.
    fn value_of(
        &mut self,
        expr: &Expr,
        bound: &NodeIx,
        lists: &mut dyn Returned<'_>,
        out: &mut Text<'_>,
    ) -> Result<bool, TooLong> {
        match expr {
            Expr::Constant(bytes) => out.put(bytes)?,
            Expr::Concat(parts) => {
                for part in parts {
                    self.value_of(part, bound, lists, out)?;
                }
            }
            Expr::Spaced(parts) => {
                let mut any = false;
                for part in parts {
                    let at = out.bytes.len();
                    if any {
                        out.put(b" ")?;
                    }
                    if self.value_of(part, bound, lists, out)? {
                        any = true;
                    } else {
                        out.bytes.truncate(at);
                    }
                }
                return Ok(any);
            }
            Expr::Joined(r) => {
                let (_, message) = lists.message(*r);
                let nodes = lists.nodes(*r, bound);
                for (i, &n) in nodes.iter().enumerate() {
                    if i > 0 {
                        out.put(b" ")?;
                    }
                    out.put(message.nodes.value(message.src, n, &mut self.value))?;
                }
                return Ok(!nodes.is_empty());
            }
            Expr::First(r) => {
                let (_, message) = lists.message(*r);
                let Some(&n) = lists.nodes(*r, bound).first() else { return Ok(false) };
                out.put(message.nodes.value(message.src, n, &mut self.value))?;
            }
            Expr::Count(r) => out.put_number(lists.nodes(*r, bound).len() as f64)?,
            Expr::Sum(r) => {
                let (_, message) = lists.message(*r);
                let nodes = lists.nodes(*r, bound);
                out.put_number(self.numbers(message, nodes).fold(0.0, |a, b| a + b))?;
            }
            Expr::Min(r) | Expr::Max(r) | Expr::Average(r) => {
                let (_, message) = lists.message(*r);
                let nodes = lists.nodes(*r, bound);
                let numbers = self.numbers(message, nodes);
                let least = |a: f64, b: f64| if b < a || b.is_nan() { b } else { a };
                let most = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
                let result = match expr {
                    Expr::Min(_) => numbers.reduce(least),
                    Expr::Max(_) => numbers.reduce(most),
                    _ => numbers.reduce(|a, b| a + b).map(|sum| sum / nodes.len() as f64),
                };
                let Some(x) = result else { return Ok(false) };
                out.put_number(x)?;
            }
        }
        Ok(true)
    }

    fn numbers<'a>(&'a mut self, message: Message<'a>, nodes: &'a [NodeIx]) -> impl Iterator<Item = f64> + 'a {
        nodes.iter().map(move |&n| number(message.nodes.value(message.src, n, &mut self.value)))
    }

    /// The first of several attributes with one name stays.
    fn attributes(
        &mut self,
        (number, message): (usize, Message<'_>),
        nodes: &[NodeIx],
        start: &mut Start,
        known: &mut HashSet<Bound>,
        out: &mut Text<'_>,
    ) -> Result<(), TooLong> {
        for &n in nodes {
            let place = message.nodes.place(n);
            let raw = &message.src[place.start as usize..place.end as usize];
            let end = raw.iter().position(|c| matches!(c, b'=' | b' ' | b'\t' | b'\r' | b'\n')).unwrap_or(raw.len());
            let (prefix, local) = match memchr::memchr(b':', &raw[..end]) {
                Some(at) => (&raw[..at], &raw[at + 1..end]),
                None => (&b""[..], &raw[..end]),
            };
            let uri = self.sources[number].scopes.uri(message.src, message.nodes, n, prefix);
            if !known.insert((uri.clone().into(), local.into())) {
                continue;
            }
            out.put(b" ")?;
            if !prefix.is_empty() {
                let prefix = declare(start, prefix, &uri, out)?;
                out.put(&prefix)?;
                out.put(b":")?;
            }
            out.put(local)?;
            out.put(b"=\"")?;
            out.put_quoted(message.nodes.value(message.src, n, &mut self.value))?;
            out.put(b"\"")?;
        }
        Ok(())
    }

    /// The nodes in the order of their sort keys, which take no more than `most` bytes together.
    fn ordered(
        &mut self,
        making: &Making,
        bound: &[NodeIx],
        lists: &mut dyn Returned<'_>,
        most: usize,
    ) -> Result<Vec<NodeIx>, TooLong> {
        let mut keyed = vec![];
        let mut left = most;
        for n in bound {
            let mut keys = Vec::with_capacity(making.order.len());
            for key in &making.order {
                let value = self.key(key, n, lists, left)?;
                left = left.checked_sub(value.size()).ok_or(TooLong)?;
                keys.push(value);
            }
            keyed.push((keys, *n));
        }
        keyed.sort_by(|(a, _), (b, _)| {
            let mut each = making.order.iter().zip(a.iter().zip(b));
            let differing = each.find_map(|(key, (a, b))| {
                let (a, b) = if key.descending { (b, a) } else { (a, b) };
                a.partial_cmp(b).filter(|order| order.is_ne())
            });
            differing.unwrap_or(std::cmp::Ordering::Equal)
        });
        Ok(keyed.into_iter().map(|k| k.1).collect())
    }

    fn key(
        &mut self,
        key: &Key,
        bound: &NodeIx,
        lists: &mut dyn Returned<'_>,
        most: usize,
    ) -> Result<KeyValue, TooLong> {
        let mut bytes = vec![];
        if !self.value_of(&key.value, bound, lists, &mut Text { bytes: &mut bytes, end: most })? {
            return Ok(if key.none_last { KeyValue::Last } else { KeyValue::First });
        }
        if !key.numeric {
            return Ok(KeyValue::Text(bytes.into()));
        }
        Ok(match number(&bytes) {
            x if x.is_nan() && key.none_last => KeyValue::NotANumberLast,
            x if x.is_nan() => KeyValue::NotANumber,
            x => KeyValue::Number(x),
        })
    }
}

/// Declares a prefix for a namespace unless it is so already; another prefix if the tag uses it for something else.
fn declare(start: &mut Start, prefix: &[u8], uri: &[u8], out: &mut Text<'_>) -> Result<Vec<u8>, TooLong> {
    let mut wanted = prefix.to_vec();
    let bound = |list: &[Bound], prefix: &[u8]| list.iter().find(|n| *n.0 == *prefix).map(|n| *n.1 == *uri);
    for i in 1.. {
        match bound(&start.declared, &wanted) {
            _ if wanted == b"xml" => return Ok(wanted),
            Some(true) => return Ok(wanted),
            Some(false) => wanted = [prefix, format!("_{i}").as_bytes()].concat(),
            None if bound(&start.scope, &wanted) == Some(true) => return Ok(wanted),
            None => break,
        }
    }
    out.put(b"xmlns:")?;
    out.put(&wanted)?;
    out.put(b"=\"")?;
    out.put_quoted(uri)?;
    out.put(b"\" ")?;
    start.declared.push((wanted.clone().into(), uri.into()));
    Ok(wanted)
}

/// A new message, or a part of it, would be longer than it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong;

/// Bytes that end before a limit: what would go beyond it is refused before it is copied.
struct Text<'o> {
    bytes: &'o mut Vec<u8>,
    end: usize,
}

impl Text<'_> {
    /// Is there room for so many bytes more?
    fn check(&self, more: usize) -> Result<(), TooLong> {
        if more > self.end.saturating_sub(self.bytes.len()) || self.bytes.len() > self.end {
            return Err(TooLong);
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.check(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// As character data.
    fn put_escaped(&mut self, value: &[u8]) -> Result<(), TooLong> {
        self.put_with(value, |c| match c {
            b'&' => Some(b"&amp;"),
            b'<' => Some(b"&lt;"),
            b'>' => Some(b"&gt;"),
            b'\r' => Some(b"&#13;"),
            _ => None,
        })
    }

    /// Inside the quotes of an attribute.
    fn put_quoted(&mut self, value: &[u8]) -> Result<(), TooLong> {
        self.put_with(value, |c| match c {
            b'&' => Some(b"&amp;"),
            b'<' => Some(b"&lt;"),
            b'"' => Some(b"&quot;"),
            b'\t' => Some(b"&#9;"),
            b'\n' => Some(b"&#10;"),
            b'\r' => Some(b"&#13;"),
            _ => None,
        })
    }

    /// Bytes with some of them written otherwise.
    fn put_with(&mut self, value: &[u8], written: impl Fn(u8) -> Option<&'static [u8]>) -> Result<(), TooLong> {
        let mut plain = 0;
        for (at, &c) in value.iter().enumerate() {
            if let Some(reference) = written(c) {
                self.put(&value[plain..at])?;
                self.put(reference)?;
                plain = at + 1;
            }
        }
        self.put(&value[plain..])
    }

    /// A number as XPath 1.0 prints it (§4.2).
    fn put_number(&mut self, x: f64) -> Result<(), TooLong> {
        let written = if x.is_nan() {
            write!(self.bytes, "NaN")
        } else if x.is_infinite() {
            write!(self.bytes, "{}Infinity", if x < 0.0 { "-" } else { "" })
        } else {
            write!(self.bytes, "{}", x + 0.0)
        };
        debug_assert!(written.is_ok(), "a vector takes whatever is written to it");
        self.check(0)
    }
}
