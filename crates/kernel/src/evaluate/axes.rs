//! The axes: from one node to the nodes along an axis that pass a test, one after the other, in the order of the axis.
//!
//! Where a test names a symbol, the nodes come from the list of that symbol and not from a walk.

use super::budget::{Exceeded, Meter};
use super::expressions::{Axis, Step};
use super::tree::{Lists, Node, NodeTest, Tree};
use crate::output::scope::Scopes;
use crate::shapes::nodes::NodeIx;
use crate::shapes::program::Test;

/// The nodes along an axis from one node.
pub(super) struct Cursor<'e> {
    test: &'e NodeTest,
    /// The node itself, for axes that begin with it.
    itself: Option<Node>,
    walk: Walk,
}

enum Walk {
    Nothing,
    One(Node),
    /// Namespace nodes that pass the test.
    Found(std::vec::IntoIter<Node>),
    /// All nodes but attributes from `at` up to `end`.
    Forward {
        at: NodeIx,
        end: NodeIx,
    },
    /// Attributes from `at` up to `end`.
    Attributes {
        at: NodeIx,
        end: NodeIx,
    },
    /// All nodes but attributes before `at` that end before `start`: not the ancestors.
    Backward {
        at: NodeIx,
        start: NodeIx,
    },
    /// A part of a symbol's list.
    Listed {
        at: u32,
        end: u32,
    },
    /// The nodes in a part of a symbol's list with this parent.
    ListedChildren {
        at: u32,
        end: u32,
        parent: NodeIx,
    },
    /// A part of a symbol's list, backwards, without the ancestors of `start`.
    ListedBackward {
        from: u32,
        at: u32,
        start: NodeIx,
    },
    /// The nodes in a part of a symbol's list with this parent, backwards.
    ListedSiblingsBackward {
        from: u32,
        at: u32,
        parent: NodeIx,
    },
    /// Siblings from `at` up to `end`; attributes are skipped.
    Siblings {
        at: NodeIx,
        end: NodeIx,
    },
    /// Siblings before `at`, backwards.
    SiblingsBackward {
        at: NodeIx,
        parent: NodeIx,
    },
    /// Parents, outwards.
    Upward {
        at: NodeIx,
    },
}

/// What a cursor needs to know of a message.
pub(super) struct View<'v, 'a> {
    pub(super) tree: &'v Tree<'a>,
    pub(super) lists: &'v mut Lists,
    pub(super) scopes: &'v mut Scopes,
}

impl View<'_, '_> {
    /// The part of the list of a test's symbol with the nodes from `at` up to `end`.
    fn listed(&mut self, test: &NodeTest, at: NodeIx, end: NodeIx) -> Option<(u32, u32)> {
        let NodeTest::Is(Test::Exactly(symbol)) = test else { return None };
        let list = self.lists.of(self.tree, *symbol);
        Some(self.lists.between(list, at, end))
    }
}

/// One node in so many of a subtree has the symbol: its list is shorter than a walk.
const RARE: u32 = 4;

impl<'e> Cursor<'e> {
    pub(super) fn new(
        view: &mut View<'_, '_>,
        step: &'e Step,
        node: Node,
        meter: &mut Meter,
    ) -> Result<Cursor<'e>, Exceeded> {
        let (tree, test) = (view.tree, &step.test);
        let n = node.index();
        // A namespace node or an attribute has no nodes below it and no siblings.
        let is_leaf = node.is_namespace() || tree.is_attribute(n);
        let itself = matches!(step.axis, Axis::DescendantOrSelf | Axis::AncestorOrSelf).then_some(node);
        let walk = match step.axis {
            _ if *test == NodeTest::Nothing => Walk::Nothing,
            Axis::Itself => Walk::One(node),
            Axis::Parent if node == Node::DOCUMENT => Walk::Nothing,
            Axis::Parent if node.is_namespace() => Walk::One(Node::new(n)),
            Axis::Parent => Walk::One(Node::new(tree.parent(n))),
            Axis::Ancestor | Axis::AncestorOrSelf if node == Node::DOCUMENT => Walk::Nothing,
            Axis::Ancestor | Axis::AncestorOrSelf if node.is_namespace() => Walk::Upward { at: n },
            Axis::Ancestor | Axis::AncestorOrSelf => Walk::Upward { at: tree.parent(n) },
            // What follows an attribute or a namespace node begins with the children of its element.
            Axis::Following if is_leaf => forward(view, test, n + 1, tree.end_of_all()),
            Axis::Following => forward(view, test, tree.end(n), tree.end_of_all()),
            Axis::Preceding => backward(view, test, if tree.is_attribute(n) { tree.parent(n) } else { n }),
            _ if is_leaf => Walk::Nothing,
            Axis::Child => children(view, test, n, n + 1, tree.end(n)),
            Axis::Descendant | Axis::DescendantOrSelf | Axis::DeepChild => forward(view, test, n + 1, tree.end(n)),
            Axis::DeepAttribute => match view.listed(test, n + 1, tree.end(n)) {
                Some((at, end)) => Walk::Listed { at, end },
                None => Walk::Attributes { at: n + 1, end: tree.end(n) },
            },
            Axis::Attribute if tree.is_element(n) => {
                let mut end = n + 1;
                while end < tree.end(n) && tree.is_attribute(end) {
                    end += 1;
                }
                Walk::Attributes { at: n + 1, end }
            }
            Axis::FollowingSibling if n != 0 => {
                let parent = tree.parent(n);
                children(view, test, parent, tree.end(n), tree.end(parent))
            }
            Axis::PrecedingSibling if n != 0 => siblings_backward(view, test, n),
            Axis::Namespace if tree.is_element(n) => {
                let found = tree.namespaces(n, view.scopes);
                meter.steps(found.len())?;
                let passes = |prefix: &[u8]| match test {
                    NodeTest::Any => true,
                    NodeTest::Prefix(wanted) => **wanted == *prefix,
                    _ => false,
                };
                let found: Vec<Node> =
                    found.iter().filter(|one| passes(one.prefix(tree))).map(|one| one.node).collect();
                Walk::Found(found.into_iter())
            }
            Axis::Attribute | Axis::FollowingSibling | Axis::PrecedingSibling | Axis::Namespace => Walk::Nothing,
        };
        Ok(Cursor { test, itself, walk })
    }

    /// Returns the next node. Every node that is looked at is a step.
    #[inline]
    pub(super) fn next(&mut self, tree: &Tree<'_>, lists: &Lists, meter: &mut Meter) -> Result<Option<Node>, Exceeded> {
        if let Some(node) = self.itself.take() {
            meter.steps(1)?;
            if tree.passes(node, self.test) {
                return Ok(Some(node));
            }
        }
        loop {
            let n = match &mut self.walk {
                Walk::Nothing => return Ok(None),
                Walk::One(node) => {
                    let node = *node;
                    self.walk = Walk::Nothing;
                    meter.steps(1)?;
                    return Ok(tree.passes(node, self.test).then_some(node));
                }
                Walk::Found(found) => return Ok(found.next()),
                Walk::Forward { at, end } | Walk::Attributes { at, end } => {
                    if at >= end {
                        return Ok(None);
                    }
                    *at += 1;
                    *at - 1
                }
                Walk::Backward { at, .. } => {
                    if *at <= 1 {
                        return Ok(None);
                    }
                    *at -= 1;
                    *at
                }
                Walk::Listed { at, end } | Walk::ListedChildren { at, end, .. } => {
                    if at >= end {
                        return Ok(None);
                    }
                    *at += 1;
                    lists.node(*at - 1)
                }
                Walk::ListedBackward { from, at, .. } | Walk::ListedSiblingsBackward { from, at, .. } => {
                    if at <= from {
                        return Ok(None);
                    }
                    *at -= 1;
                    lists.node(*at)
                }
                Walk::Siblings { at, end } => {
                    if at >= end {
                        return Ok(None);
                    }
                    let n = *at;
                    *at = tree.end(n);
                    n
                }
                Walk::SiblingsBackward { at, parent } => {
                    let mut n = *at - 1;
                    if n == *parent || tree.is_attribute(n) && tree.parent(n) == *parent {
                        return Ok(None);
                    }
                    // from the last node below the sibling before, up to the sibling
                    while tree.parent(n) != *parent {
                        meter.steps(1)?;
                        n = tree.parent(n);
                    }
                    *at = n;
                    n
                }
                Walk::Upward { at } => {
                    let n = *at;
                    self.walk = if n == 0 { Walk::Nothing } else { Walk::Upward { at: tree.parent(n) } };
                    n
                }
            };
            meter.steps(1)?;
            let passes = match self.walk {
                Walk::Listed { .. } => true,
                Walk::ListedChildren { parent, .. } | Walk::ListedSiblingsBackward { parent, .. } => {
                    tree.parent(n) == parent
                }
                Walk::ListedBackward { start, .. } => tree.end(n) <= start,
                Walk::Attributes { .. } => tree.is_attribute(n) && tree.passes(Node::new(n), self.test),
                Walk::Backward { start, .. } => {
                    tree.end(n) <= start && !tree.is_attribute(n) && tree.passes(Node::new(n), self.test)
                }
                Walk::Upward { .. } | Walk::Nothing => tree.passes(Node::new(n), self.test),
                _ => !tree.is_attribute(n) && tree.passes(Node::new(n), self.test),
            };
            if passes {
                return Ok(Some(Node::new(n)));
            }
        }
    }
}

/// The nodes but attributes from `at` up to `end`.
fn forward(view: &mut View<'_, '_>, test: &NodeTest, at: NodeIx, end: NodeIx) -> Walk {
    match view.listed(test, at, end) {
        Some((at, end)) => Walk::Listed { at, end },
        None => Walk::Forward { at, end },
    }
}

/// The nodes but attributes and ancestors before `start`.
fn backward(view: &mut View<'_, '_>, test: &NodeTest, start: NodeIx) -> Walk {
    match view.listed(test, 0, start) {
        Some((from, at)) => Walk::ListedBackward { from, at, start },
        None => Walk::Backward { at: start, start },
    }
}

/// The siblings before a node.
fn siblings_backward(view: &mut View<'_, '_>, test: &NodeTest, n: NodeIx) -> Walk {
    let parent = view.tree.parent(n);
    if let Some((from, at)) = view.listed(test, parent + 1, n) {
        if at - from <= (n - parent) / RARE {
            return Walk::ListedSiblingsBackward { from, at, parent };
        }
    }
    Walk::SiblingsBackward { at: n, parent }
}

/// The children of a node from `at`, which is a child or past the last, up to `end`.
fn children(view: &mut View<'_, '_>, test: &NodeTest, parent: NodeIx, at: NodeIx, end: NodeIx) -> Walk {
    if let NodeTest::Is(Test::Exactly(symbol)) = test {
        let list = view.lists.of(view.tree, *symbol);
        if list.0 == list.1 {
            return Walk::Nothing;
        }
        if end - at > RARE {
            let (first, last) = view.lists.between(list, at, end);
            if last - first <= (end - at) / RARE {
                return Walk::ListedChildren { at: first, end: last, parent };
            }
        }
    }
    Walk::Siblings { at, end }
}
