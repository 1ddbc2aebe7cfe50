//! The namespace declarations in scope at an element, read again from the start tags: few messages have many, and only
//! those that leave as fragments need them.

use crate::shapes::nodes::{NodeIx, Nodes};
use crate::xml::decode_attribute;
use hashbrown::HashMap;
use memchr::memchr;
use std::sync::Arc;

/// A declaration: spans of its prefix (empty for the default namespace) and of the whole attribute.
#[derive(Clone, Copy)]
pub(crate) struct Declaration {
    prefix: (u32, u32),
    pub(crate) attribute: (u32, u32),
    /// The element that declares it.
    pub(crate) element: NodeIx,
    /// It takes the default namespace back: `xmlns=""`.
    pub(crate) undeclares: bool,
}

impl Declaration {
    /// The prefix; empty for the default namespace.
    pub(crate) fn prefix<'a>(&self, src: &'a [u8]) -> &'a [u8] {
        &src[self.prefix.0 as usize..self.prefix.1 as usize]
    }

    /// The namespace name.
    pub(crate) fn uri(&self, src: &[u8]) -> Vec<u8> {
        let raw = &src[self.attribute.0 as usize..self.attribute.1 as usize];
        let open = raw.iter().position(|c| matches!(c, b'"' | b'\'')).map_or(raw.len(), |at| at + 1);
        let mut uri = vec![];
        decode_attribute(&raw[open..raw.len() - 1], &mut uri);
        uri
    }
}

/// Scopes of one message by the element that declares something. Each is sorted by prefix, so that the next one in is
/// a merge, whatever a hostile message declares.
#[derive(Default)]
pub(crate) struct Scopes {
    known: HashMap<NodeIx, Arc<[Declaration]>>,
    /// Declarations in all of them together.
    held: usize,
}

/// Declarations that are held for one message. Elements that declare something at every depth would ask for the square
/// of their number; beyond this, scopes are put together again when they are asked for.
const MOST_HELD: usize = 1 << 20;

impl Scopes {
    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.held = 0;
    }

    /// What is in scope at an element by declarations of its ancestors, but for prefixes that it declares itself.
    pub(crate) fn inherited(&mut self, src: &[u8], nodes: &Nodes, element: NodeIx) -> Vec<Declaration> {
        let outer = self.in_scope(src, nodes, nodes.recs[element as usize].parent);
        if outer.is_empty() {
            return vec![];
        }
        let own = match nodes.declaring(element) {
            Some(at) if at == element => declarations(src, nodes, element),
            _ => vec![],
        };
        let hidden = |d: &&Declaration| own.binary_search_by(|o| o.prefix(src).cmp(d.prefix(src))).is_err();
        outer.iter().filter(hidden).copied().collect()
    }

    /// Is there a default namespace at an element?
    pub(crate) fn has_default(&mut self, src: &[u8], nodes: &Nodes, element: NodeIx) -> bool {
        let scope = self.in_scope(src, nodes, element);
        scope.iter().any(|d| d.prefix(src).is_empty() && !d.undeclares)
    }

    /// What the element's own start tag declares as the default namespace.
    pub(crate) fn own_default(&mut self, src: &[u8], nodes: &Nodes, element: NodeIx) -> Option<Declaration> {
        if nodes.declaring(element) != Some(element) {
            return None;
        }
        declarations(src, nodes, element).into_iter().find(|d| d.prefix(src).is_empty())
    }

    /// The namespace of a prefixed attribute.
    pub(crate) fn uri(&mut self, src: &[u8], nodes: &Nodes, attribute: NodeIx, prefix: &[u8]) -> Vec<u8> {
        let mut uri = vec![];
        if prefix == b"xml" {
            uri.extend_from_slice(b"http://www.w3.org/XML/1998/namespace");
        } else if !prefix.is_empty() {
            let scope = self.in_scope(src, nodes, nodes.recs[attribute as usize].parent);
            if let Some(d) = scope.iter().find(|d| d.prefix(src) == prefix) {
                return d.uri(src);
            }
        }
        uri
    }

    /// All declarations in scope at an element, sorted by prefix, those with `undeclares` too.
    pub(crate) fn in_scope(&mut self, src: &[u8], nodes: &Nodes, element: NodeIx) -> Arc<[Declaration]> {
        // outwards to what is known, then back in: the way is as long as the message is deep
        let mut todo = vec![];
        let mut next = nodes.declaring(element);
        let mut scope: Arc<[Declaration]> = loop {
            let Some(element) = next else { break Arc::new([]) };
            if let Some(known) = self.known.get(&element) {
                break known.clone();
            }
            todo.push(element);
            next = nodes.declaring(nodes.recs[element as usize].parent);
        };
        while let Some(element) = todo.pop() {
            scope = merged(src, &scope, &declarations(src, nodes, element)).into();
            if self.held + scope.len() > MOST_HELD {
                self.clear();
            }
            self.held += scope.len();
            self.known.insert(element, scope.clone());
        }
        scope
    }
}

/// Both lists, the inner one first where both have a prefix.
fn merged(src: &[u8], outer: &[Declaration], inner: &[Declaration]) -> Vec<Declaration> {
    let mut all = Vec::with_capacity(outer.len() + inner.len());
    let mut inner = inner.iter().peekable();
    for o in outer {
        while let Some(i) = inner.next_if(|i| i.prefix(src) < o.prefix(src)) {
            all.push(*i);
        }
        if inner.peek().is_none_or(|i| i.prefix(src) != o.prefix(src)) {
            all.push(*o);
        }
    }
    all.extend(inner);
    all
}

/// The declarations of an element's start tag, sorted by prefix. The tag is known to be well-formed.
fn declarations(src: &[u8], nodes: &Nodes, element: NodeIx) -> Vec<Declaration> {
    let mut found = vec![];
    let mut at = name_end(src, nodes.place(element).start as usize + 1);
    loop {
        at = skip_space(src, at);
        if matches!(src.get(at), None | Some(b'>' | b'/')) {
            break;
        }
        let (name, end) = (at, name_end(src, at));
        let open = skip_space(src, skip_space(src, end) + 1);
        let Some(length) = memchr(src[open], &src[open + 1..]) else { break };
        at = open + length + 2;
        let prefix = match &src[name..end] {
            b"xmlns" => (end, end),
            n if n.starts_with(b"xmlns:") && n != b"xmlns:xml" => (name + 6, end),
            _ => continue,
        };
        let span = |(a, b): (usize, usize)| (a as u32, b as u32);
        let (prefix, attribute) = (span(prefix), span((name, at)));
        found.push(Declaration { prefix, attribute, element, undeclares: length == 0 });
    }
    found.sort_unstable_by(|a, b| a.prefix(src).cmp(b.prefix(src)));
    found
}

/// Where the name at `from` ends in a start tag.
pub(crate) fn name_end(src: &[u8], from: usize) -> usize {
    let ends = |c: &u8| matches!(c, b' ' | b'\t' | b'\r' | b'\n' | b'=' | b'/' | b'>');
    src[from..].iter().position(ends).map_or(src.len(), |n| from + n)
}

fn skip_space(src: &[u8], from: usize) -> usize {
    src[from..].iter().position(|c| !c.is_ascii_whitespace()).map_or(src.len(), |n| from + n)
}
