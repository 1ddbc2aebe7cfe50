//! The message as the evaluator sees it. Nothing else here knows how nodes are stored.
//!
//! A [`Node`] is a place in document order. A namespace node lies between its element and the element's attributes; its
//! identity is the element and its number among the namespaces in scope there.

use super::text::Text;
use crate::names::{is_attribute, is_element, Names, Sym, INSTRUCTION};
use crate::output::scope::{name_end, Declaration, Scopes};
use crate::shapes::nodes::{NodeIx, Nodes};
use crate::shapes::program::Test;
use hashbrown::{HashMap, HashSet};

/// A node of the message; nodes compare in document order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Node(u64);

impl Node {
    pub(super) const DOCUMENT: Node = Node(0);

    #[inline(always)]
    pub(super) fn new(index: NodeIx) -> Node {
        Node(u64::from(index) << 32)
    }

    /// The namespace node of an element with a number from 1.
    fn namespace(element: NodeIx, number: u32) -> Node {
        Node(u64::from(element) << 32 | u64::from(number))
    }

    /// Returns the node's index; for a namespace node that of its element.
    #[inline(always)]
    pub(super) fn index(self) -> NodeIx {
        (self.0 >> 32) as NodeIx
    }

    #[inline(always)]
    pub(super) fn is_namespace(self) -> bool {
        self.0 as u32 != 0
    }

    /// Returns the number by which results name the node; namespace nodes have none.
    pub(super) fn number(self) -> Option<NodeIx> {
        (!self.is_namespace()).then(|| self.index())
    }
}

/// What a step asks of a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum NodeTest {
    /// `node()`: whatever the axis leads to.
    Any,
    /// A test that no node on the axis passes.
    Nothing,
    /// A test of patterns.
    Is(Test),
    /// A processing instruction with this target.
    Target(Box<[u8]>),
    /// A namespace node with this prefix.
    Prefix(Box<[u8]>),
}

/// The names of an element and of its attribute that a DTD declares as an ID, as the DTD writes them.
pub type IdAttribute = (Box<[u8]>, Box<[u8]>);

const XML_URI: &[u8] = b"http://www.w3.org/XML/1998/namespace";

/// A message and its nodes, linked by symbol ([`Nodes::link`]).
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    pub src: &'a [u8],
    pub nodes: &'a Nodes,
    pub names: &'a Names,
    pub id_attributes: &'a [IdAttribute],
}

impl<'a> Tree<'a> {
    /// Returns one past the last node.
    pub(super) fn end_of_all(&self) -> NodeIx {
        self.nodes.len() as NodeIx
    }

    #[inline(always)]
    pub(super) fn symbol(&self, n: NodeIx) -> Sym {
        self.nodes.recs[n as usize].sym
    }

    #[inline(always)]
    pub(super) fn parent(&self, n: NodeIx) -> NodeIx {
        self.nodes.recs[n as usize].parent
    }

    /// Returns one past the last node of the subtree.
    #[inline(always)]
    pub(super) fn end(&self, n: NodeIx) -> NodeIx {
        self.nodes.recs[n as usize].end
    }

    #[inline(always)]
    pub(super) fn is_attribute(&self, n: NodeIx) -> bool {
        n != 0 && is_attribute(self.symbol(n))
    }

    #[inline(always)]
    pub(super) fn is_element(&self, n: NodeIx) -> bool {
        is_element(self.symbol(n))
    }

    /// Whether a node passes a test. `Prefix` is for the namespace axis, which asks itself.
    #[inline(always)]
    pub(super) fn passes(&self, node: Node, test: &NodeTest) -> bool {
        if node.is_namespace() {
            return matches!(test, NodeTest::Any);
        }
        let symbol = self.symbol(node.index());
        match test {
            NodeTest::Is(test) => test.passes(self.names, symbol),
            NodeTest::Any => true,
            NodeTest::Target(target) => symbol == INSTRUCTION && *self.name(node.index()) == **target,
            NodeTest::Nothing | NodeTest::Prefix(_) => false,
        }
    }

    /// Returns the string-value if it is a part of the message.
    #[inline]
    pub(super) fn plain_value(&self, n: NodeIx) -> Option<&'a [u8]> {
        self.nodes.plain_value(self.src, n)
    }

    /// Returns an upper bound of the size of the string-value.
    pub(super) fn value_size(&self, n: NodeIx) -> usize {
        self.nodes.value_size(n)
    }

    /// Whether a node has this string-value, and how many bytes were looked at.
    pub(super) fn has_value(&self, n: NodeIx, value: &[u8], scratch: &mut Vec<u8>) -> (bool, usize) {
        self.nodes.has_value(self.src, n, value, scratch)
    }

    /// Returns the string-value as a string of its own.
    pub(super) fn made_value(&self, n: NodeIx) -> Vec<u8> {
        match self.plain_value(n) {
            Some(value) => value.to_vec(),
            None => {
                let mut made = vec![];
                self.nodes.value(self.src, n, &mut made);
                made
            }
        }
    }

    /// Returns the qualified name of an element or attribute, or the target of a processing instruction; empty for other
    /// nodes.
    pub(super) fn name(&self, n: NodeIx) -> &'a [u8] {
        let (place, symbol) = (self.nodes.place(n), self.symbol(n));
        let (start, end) = (place.start as usize, place.end as usize);
        if n != 0 && is_element(symbol) {
            &self.src[start + 1..name_end(self.src, start + 1)]
        } else if n != 0 && is_attribute(symbol) {
            &self.src[start..name_end(self.src, start)]
        } else if n != 0 && symbol == INSTRUCTION {
            let inside = &self.src[start + 2..end - 2];
            &inside[..inside.iter().position(u8::is_ascii_whitespace).unwrap_or(inside.len())]
        } else {
            b""
        }
    }

    /// Returns the local part of a name.
    pub(super) fn local_name(&self, n: NodeIx) -> &'a [u8] {
        let name = self.name(n);
        match memchr::memchr(b':', name) {
            Some(colon) if self.symbol(n) != INSTRUCTION => &name[colon + 1..],
            _ => name,
        }
    }

    /// Returns the namespace name of an element or attribute; empty for other nodes.
    pub(super) fn namespace_uri(&self, n: NodeIx, scopes: &mut Scopes) -> Text<'a> {
        let symbol = self.symbol(n);
        if n == 0 || !(is_attribute(symbol) || is_element(symbol)) {
            return Text::Part(b"");
        }
        if let Some(uri) = self.names.namespace_name(symbol) {
            return Text::Part(uri);
        }
        let name = self.name(n);
        let prefix = memchr::memchr(b':', name).map_or(&b""[..], |colon| &name[..colon]);
        let element = if is_attribute(symbol) { self.parent(n) } else { n };
        match prefix {
            b"xml" => Text::Part(XML_URI),
            b"" if is_attribute(symbol) => Text::Part(b""),
            _ => {
                let scope = scopes.in_scope(self.src, self.nodes, element);
                let found = scope.iter().find(|d| d.prefix(self.src) == prefix);
                found.map_or(Text::Part(b""), |d| Text::Made(d.uri(self.src)))
            }
        }
    }

    /// Returns the number of an element's attributes.
    pub(super) fn attributes(&self, element: NodeIx) -> usize {
        (element + 1..self.end(element)).take_while(|&n| self.is_attribute(n)).count()
    }

    /// Returns an element's attribute `xml:lang`.
    pub(super) fn language(&self, element: NodeIx) -> Option<NodeIx> {
        (element + 1..self.end(element)).take_while(|&n| self.is_attribute(n)).find(|&n| self.name(n) == b"xml:lang")
    }

    /// Returns the elements by ID: the value of an attribute that the DTD declares as one, or of `xml:id`. Of several
    /// elements with one ID the first counts.
    pub(super) fn ids(&self) -> HashMap<Box<[u8]>, NodeIx> {
        let declared: HashSet<(&[u8], &[u8])> = self.id_attributes.iter().map(|(e, a)| (&**e, &**a)).collect();
        let mut found = HashMap::new();
        for n in (1..self.end_of_all()).filter(|&n| self.is_attribute(n)) {
            let (name, element) = (self.name(n), self.parent(n));
            if name == b"xml:id" || !declared.is_empty() && declared.contains(&(self.name(element), name)) {
                found.entry(self.made_value(n).into_boxed_slice()).or_insert(element);
            }
        }
        found
    }

    /// Returns the namespace nodes of an element: the prefix xml first, then from the outermost declaration inwards.
    pub(super) fn namespaces(&self, element: NodeIx, scopes: &mut Scopes) -> Vec<NamespaceNode> {
        let scope = scopes.in_scope(self.src, self.nodes, element);
        let mut declared: Vec<Declaration> = scope.iter().filter(|d| !d.undeclares).copied().collect();
        declared.sort_unstable_by_key(|d| (d.element, std::cmp::Reverse(d.attribute)));
        let all = std::iter::once(None).chain(declared.into_iter().map(Some));
        (1..).zip(all).map(|(number, of)| NamespaceNode { node: Node::namespace(element, number), of }).collect()
    }

    /// Returns a namespace node with its declaration.
    pub(super) fn namespace(&self, node: Node, scopes: &mut Scopes) -> NamespaceNode {
        let all = self.namespaces(node.index(), scopes);
        all.into_iter().find(|n| n.node == node).unwrap_or(NamespaceNode { node, of: None })
    }
}

/// A namespace node, and its declaration; the prefix xml has none.
pub(super) struct NamespaceNode {
    pub(super) node: Node,
    of: Option<Declaration>,
}

impl NamespaceNode {
    pub(super) fn prefix<'a>(&self, tree: &Tree<'a>) -> &'a [u8] {
        self.of.map_or(b"xml", |d| d.prefix(tree.src))
    }

    pub(super) fn uri<'a>(&self, tree: &Tree<'a>) -> Text<'a> {
        self.of.map_or(Text::Part(XML_URI), |d| Text::Made(d.uri(tree.src)))
    }
}

/// By symbol, the nodes that have it, in document order: made when a symbol is first asked for.
#[derive(Default)]
pub(super) struct Lists {
    /// By symbol: the message for which the list was made, and its range in `nodes`.
    known: Vec<(u32, u32, u32)>,
    message: u32,
    nodes: Vec<NodeIx>,
}

impl Lists {
    /// Begins a message.
    pub(super) fn begin(&mut self, tree: &Tree<'_>) {
        self.nodes.clear();
        self.known.resize(tree.names.bound(), (0, 0, 0));
        if self.message == u32::MAX {
            self.known.fill((0, 0, 0));
            self.message = 0;
        }
        self.message += 1;
    }

    /// Returns the range of a symbol's nodes.
    #[inline]
    pub(super) fn of(&mut self, tree: &Tree<'_>, symbol: Sym) -> (u32, u32) {
        match self.known.get(symbol as usize) {
            Some(&(message, start, end)) if message == self.message => (start, end),
            _ => self.make(tree, symbol),
        }
    }

    fn make(&mut self, tree: &Tree<'_>, symbol: Sym) -> (u32, u32) {
        let start = self.nodes.len() as u32;
        self.nodes.extend(tree.nodes.of(symbol));
        let end = self.nodes.len() as u32;
        if let Some(known) = self.known.get_mut(symbol as usize) {
            *known = (self.message, start, end);
        }
        (start, end)
    }

    #[inline(always)]
    pub(super) fn node(&self, at: u32) -> NodeIx {
        self.nodes[at as usize]
    }

    /// Returns the part of a range with nodes from `least` up to, but not with, `past`.
    pub(super) fn between(&self, (start, end): (u32, u32), least: NodeIx, past: NodeIx) -> (u32, u32) {
        let nodes = &self.nodes[start as usize..end as usize];
        let from = nodes.partition_point(|&n| n < least);
        let to = from + nodes[from..].partition_point(|&n| n < past);
        (start + from as u32, start + to as u32)
    }
}
