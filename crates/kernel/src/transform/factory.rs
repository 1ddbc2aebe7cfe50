//! The message factory (broker §2.1): a template's markup around what a transform returns, straight from the bytes of
//! the message.

use crate::output::fragment::{escape, Fragments, Under};
use crate::output::scope::Scopes;
use crate::shapes::nodes::NodeIx;
use crate::shapes::search::Message;
use crate::values::number::number;
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
    Text(Vec<u8>),
    NotANumberLast,
    Last,
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

    fn message(&self) -> Message<'m>;
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
    fragments: Fragments,
    scopes: Scopes,
    value: Vec<u8>,
    text: Vec<u8>,
    /// The last thing written was an item of a sequence.
    after_item: bool,
}

impl Factory {
    /// Before a message.
    pub fn begin(&mut self) {
        self.fragments.clear();
        self.scopes.clear();
    }

    /// Appends the message that is made of bound nodes; false if it would be longer than `most` bytes.
    pub fn make(
        &mut self,
        making: &Making,
        bound: &[NodeIx],
        lists: &mut dyn Returned<'_>,
        most: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let start = out.len();
        out.extend_from_slice(&making.template.before);
        self.after_item = false;
        let ordered;
        let bound = if making.order.is_empty() {
            bound
        } else {
            ordered = self.ordered(making, bound, lists);
            &ordered
        };
        for node in bound {
            for piece in &making.template.pieces {
                self.piece(piece, node, lists, out);
                if out.len() - start > most {
                    out.truncate(start);
                    return false;
                }
            }
        }
        out.extend_from_slice(&making.template.after);
        true
    }

    fn piece(&mut self, piece: &Piece, bound: &NodeIx, lists: &mut dyn Returned<'_>, out: &mut Vec<u8>) {
        let message = lists.message();
        match piece {
            Piece::Markup(bytes) => {
                out.extend_from_slice(bytes);
                self.after_item = false;
            }
            Piece::Sequence => self.after_item = false,
            Piece::Copy(r, under) => {
                for &n in lists.nodes(*r, bound) {
                    out.extend_from_slice(self.fragments.get_under(message.src, message.nodes, n, *under));
                    self.after_item = false;
                }
            }
            Piece::Attributes(returns, start) => {
                let mut start = Start::clone(start);
                for r in returns {
                    let nodes = lists.nodes(*r, bound);
                    self.attributes(message, nodes, &mut start, out);
                }
            }
            Piece::Item(expr) | Piece::Quoted(expr) => {
                let mut text = std::mem::take(&mut self.text);
                text.clear();
                let present = self.value_of(expr, bound, lists, &mut text);
                if matches!(piece, Piece::Quoted(_)) {
                    escape_quoted(&text, out);
                } else if present {
                    if self.after_item {
                        out.push(b' ');
                    }
                    escape(&text, out);
                    self.after_item = true;
                }
                self.text = text;
            }
        }
    }

    /// Appends the value; false if there is none.
    fn value_of(&mut self, expr: &Expr, bound: &NodeIx, lists: &mut dyn Returned<'_>, out: &mut Vec<u8>) -> bool {
        let message = lists.message();
        match expr {
            Expr::Constant(bytes) => out.extend_from_slice(bytes),
            Expr::Concat(parts) => {
                for part in parts {
                    self.value_of(part, bound, lists, out);
                }
            }
            Expr::Spaced(parts) => {
                let mut any = false;
                for part in parts {
                    let at = out.len();
                    if any {
                        out.push(b' ');
                    }
                    if self.value_of(part, bound, lists, out) {
                        any = true;
                    } else {
                        out.truncate(at);
                    }
                }
                return any;
            }
            Expr::Joined(r) => {
                let nodes = lists.nodes(*r, bound);
                for (i, &n) in nodes.iter().enumerate() {
                    if i > 0 {
                        out.push(b' ');
                    }
                    out.extend_from_slice(message.nodes.value(message.src, n, &mut self.value));
                }
                return !nodes.is_empty();
            }
            Expr::First(r) => {
                let Some(&n) = lists.nodes(*r, bound).first() else { return false };
                out.extend_from_slice(message.nodes.value(message.src, n, &mut self.value));
            }
            Expr::Count(r) => push_number(lists.nodes(*r, bound).len() as f64, out),
            Expr::Sum(r) => {
                let nodes = lists.nodes(*r, bound);
                push_number(self.numbers(message, nodes).fold(0.0, |a, b| a + b), out);
            }
            Expr::Min(r) | Expr::Max(r) | Expr::Average(r) => {
                let nodes = lists.nodes(*r, bound);
                let numbers = self.numbers(message, nodes);
                let least = |a: f64, b: f64| if b < a || b.is_nan() { b } else { a };
                let most = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
                let result = match expr {
                    Expr::Min(_) => numbers.reduce(least),
                    Expr::Max(_) => numbers.reduce(most),
                    _ => numbers.reduce(|a, b| a + b).map(|sum| sum / nodes.len() as f64),
                };
                let Some(x) = result else { return false };
                push_number(x, out);
            }
        }
        true
    }

    fn numbers<'a>(&'a mut self, message: Message<'a>, nodes: &'a [NodeIx]) -> impl Iterator<Item = f64> + 'a {
        nodes.iter().map(move |&n| number(message.nodes.value(message.src, n, &mut self.value)))
    }

    /// The first of several attributes with one name stays.
    fn attributes(&mut self, message: Message<'_>, nodes: &[NodeIx], start: &mut Start, out: &mut Vec<u8>) {
        for &n in nodes {
            let place = message.nodes.place(n);
            let raw = &message.src[place.start as usize..place.end as usize];
            let end = raw.iter().position(|c| matches!(c, b'=' | b' ' | b'\t' | b'\r' | b'\n')).unwrap_or(raw.len());
            let (prefix, local) = match memchr::memchr(b':', &raw[..end]) {
                Some(at) => (&raw[..at], &raw[at + 1..end]),
                None => (&b""[..], &raw[..end]),
            };
            let uri = self.scopes.uri(message.src, message.nodes, n, prefix);
            let name: Bound = (uri.clone().into(), local.into());
            if start.attributes.contains(&name) {
                continue;
            }
            start.attributes.push(name);
            out.push(b' ');
            if !prefix.is_empty() {
                let prefix = declare(start, prefix, &uri, out);
                out.extend_from_slice(&prefix);
                out.push(b':');
            }
            out.extend_from_slice(local);
            out.extend_from_slice(b"=\"");
            escape_quoted(message.nodes.value(message.src, n, &mut self.value), out);
            out.push(b'"');
        }
    }

    fn ordered(&mut self, making: &Making, bound: &[NodeIx], lists: &mut dyn Returned<'_>) -> Vec<NodeIx> {
        let mut keyed = vec![];
        for n in bound {
            let keys: Vec<KeyValue> = making.order.iter().map(|key| self.key(key, n, lists)).collect();
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
        keyed.into_iter().map(|k| k.1).collect()
    }

    fn key(&mut self, key: &Key, bound: &NodeIx, lists: &mut dyn Returned<'_>) -> KeyValue {
        let mut text = vec![];
        if !self.value_of(&key.value, bound, lists, &mut text) {
            return if key.none_last { KeyValue::Last } else { KeyValue::First };
        }
        if !key.numeric {
            return KeyValue::Text(text);
        }
        match number(&text) {
            x if x.is_nan() && key.none_last => KeyValue::NotANumberLast,
            x if x.is_nan() => KeyValue::NotANumber,
            x => KeyValue::Number(x),
        }
    }
}

/// Declares a prefix for a namespace unless it is so already; another prefix if the tag uses it for something else.
fn declare(start: &mut Start, prefix: &[u8], uri: &[u8], out: &mut Vec<u8>) -> Vec<u8> {
    let mut wanted = prefix.to_vec();
    let bound = |list: &[Bound], prefix: &[u8]| list.iter().find(|n| *n.0 == *prefix).map(|n| *n.1 == *uri);
    for i in 1.. {
        match bound(&start.declared, &wanted) {
            _ if wanted == b"xml" => return wanted,
            Some(true) => return wanted,
            Some(false) => wanted = [prefix, format!("_{i}").as_bytes()].concat(),
            None if bound(&start.scope, &wanted) == Some(true) => return wanted,
            None => break,
        }
    }
    out.extend_from_slice(b"xmlns:");
    out.extend_from_slice(&wanted);
    out.extend_from_slice(b"=\"");
    escape_quoted(uri, out);
    out.extend_from_slice(b"\" ");
    start.declared.push((wanted.clone().into(), uri.into()));
    wanted
}

fn escape_quoted(value: &[u8], out: &mut Vec<u8>) {
    for &c in value {
        match c {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\t' => out.extend_from_slice(b"&#9;"),
            b'\n' => out.extend_from_slice(b"&#10;"),
            b'\r' => out.extend_from_slice(b"&#13;"),
            c => out.push(c),
        }
    }
}

/// A number as XPath 1.0 prints it (§4.2).
fn push_number(x: f64, out: &mut Vec<u8>) {
    let written = if x.is_nan() {
        write!(out, "NaN")
    } else if x.is_infinite() {
        write!(out, "{}Infinity", if x < 0.0 { "-" } else { "" })
    } else {
        write!(out, "{}", x + 0.0)
    };
    debug_assert!(written.is_ok(), "a vector takes whatever is written to it");
}
