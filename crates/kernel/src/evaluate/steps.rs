//! Steps: from a node-set along an axis to another one, and the predicates on it.

use super::axes::{Cursor, View};
use super::budget::Exceeded;
use super::cache::Want;
use super::expressions::{Axis, Expr, ExprId, Step, Type};
use super::run::{Context, Evaluation};
use super::tree::{Node, NodeTest};
use crate::shapes::program::Test;
use hashbrown::HashSet;

/// From so many nodes on, children of one name are taken from the list of that name in one go.
const MANY: usize = 8;

/// Steps that a step counts for itself, wherever it leads.
const STEP: usize = 8;

impl<'a> Evaluation<'a, '_> {
    /// Returns the nodes that a step leads to, each once, in document order. If `want` is not all nodes, those that it
    /// asks for are among them, or come first.
    pub(super) fn step(&mut self, step: &'a Step, inputs: &[Node], want: Want) -> Result<Vec<Node>, Exceeded> {
        let mut out = vec![];
        self.meter.steps(STEP)?;
        if step.positional {
            self.by_position(step, inputs, &mut out)?;
        } else if leads_upward(step.axis) && !(want == Want::Any && inputs.len() == 1) {
            self.upward(step, inputs, &mut out)?;
            sort(&mut out);
            self.keep(&mut out, &step.predicates)?;
            return Ok(out);
        } else {
            let is_first = match want {
                Want::Any => true,
                Want::First => leads_forward(step.axis, inputs.len()),
                _ => false,
            };
            self.gather(step, inputs, is_first, &mut out)?;
        }
        sort(&mut out);
        Ok(out)
    }

    fn cursor(&mut self, step: &'a Step, node: Node) -> Result<Cursor<'a>, Exceeded> {
        if step.axis == Axis::Namespace {
            self.pay_for_scope(node.index())?;
        }
        let mut view = View { tree: &self.tree, lists: &mut self.state.lists, scopes: &mut self.state.scopes };
        Cursor::new(&mut view, step, node, &mut self.meter)
    }

    #[inline(always)]
    fn next(&mut self, cursor: &mut Cursor<'a>) -> Result<Option<Node>, Exceeded> {
        cursor.next(&self.tree, &self.state.lists, &mut self.meter)
    }

    /// Appends the nodes that pass all predicates, none of which depends on positions. No node comes twice: where the
    /// nodes of one input are also those of another, one of them will do.
    fn gather(&mut self, step: &'a Step, inputs: &[Node], is_first: bool, out: &mut Vec<Node>) -> Result<(), Exceeded> {
        self.meter.steps(inputs.len())?;
        match (step.axis, inputs) {
            (_, []) => return Ok(()),
            (_, [one]) => return self.gather_from(step, *one, is_first, out),
            (Axis::Following, _) => {
                let first = inputs.iter().min_by_key(|node| self.start_of_following(**node));
                return first.map_or(Ok(()), |node| self.gather_from(step, *node, is_first, out));
            }
            (Axis::Preceding, [.., last]) => return self.gather_from(step, *last, is_first, out),
            (Axis::PrecedingSibling | Axis::FollowingSibling, _) => {
                // of siblings, the last has all those before, and the first all those after
                let mut parents = HashSet::new();
                for at in 0..inputs.len() {
                    let is_before = step.axis == Axis::PrecedingSibling;
                    let node = inputs[if is_before { inputs.len() - 1 - at } else { at }];
                    if !self.is_leaf(node) && node != Node::DOCUMENT && parents.insert(self.tree.parent(node.index())) {
                        self.gather_from(step, node, is_first, out)?;
                    }
                }
            }
            (Axis::Descendant | Axis::DescendantOrSelf | Axis::DeepChild | Axis::DeepAttribute, _) => {
                let mut end = 0;
                for &node in inputs {
                    if node.index() < end && !self.is_leaf(node) {
                        continue;
                    }
                    if !self.is_leaf(node) {
                        end = self.tree.end(node.index());
                    }
                    self.gather_from(step, node, is_first, out)?;
                    if is_first && !out.is_empty() {
                        return Ok(());
                    }
                }
            }
            (Axis::Child, _) if inputs.len() >= MANY && self.children_from_list(step, inputs, is_first, out)? => {}
            _ => {
                for &node in inputs {
                    self.gather_from(step, node, is_first, out)?;
                    if is_first && !out.is_empty() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Appends the nodes along the axis from one node that pass all predicates.
    fn gather_from(&mut self, step: &'a Step, node: Node, is_first: bool, out: &mut Vec<Node>) -> Result<(), Exceeded> {
        let mut cursor = self.cursor(step, node)?;
        while let Some(found) = self.next(&mut cursor)? {
            if self.passes(found, &step.predicates)? {
                out.push(found);
                if is_first {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Appends the children of all inputs from the list of their name, if that is no longer than the inputs are many.
    /// Returns whether it has.
    fn children_from_list(
        &mut self,
        step: &'a Step,
        inputs: &[Node],
        is_first: bool,
        out: &mut Vec<Node>,
    ) -> Result<bool, Exceeded> {
        let NodeTest::Is(Test::Exactly(symbol)) = step.test else { return Ok(false) };
        let end = inputs.iter().map(|node| self.tree.end(node.index())).max().unwrap_or(0);
        let list = self.state.lists.of(&self.tree, symbol);
        let (from, to) = self.state.lists.between(list, inputs[0].index(), end);
        if (to - from) as usize > 4 * inputs.len() {
            return Ok(false);
        }
        self.meter.steps((to - from) as usize)?;
        let mut near = 0;
        for at in from..to {
            let n = self.state.lists.node(at);
            let parent = Node::new(self.tree.parent(n));
            while inputs.get(near + 1).is_some_and(|next| next.index() < n) {
                near += 1;
            }
            // no input lies between that one and the node
            let is_child =
                inputs[near] == parent || parent < inputs[near] && inputs[..near].binary_search(&parent).is_ok();
            if is_child && self.passes(Node::new(n), &step.predicates)? {
                out.push(Node::new(n));
                if is_first {
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Appends parents or ancestors, predicates apart. Walks up from an input only to what an earlier one has reached.
    fn upward(&mut self, step: &'a Step, inputs: &[Node], out: &mut Vec<Node>) -> Result<(), Exceeded> {
        if step.axis == Axis::Parent {
            for &node in inputs {
                let mut cursor = self.cursor(step, node)?;
                if let Some(found) = self.next(&mut cursor)?.filter(|found| out.last() != Some(found)) {
                    out.push(found);
                }
            }
            return Ok(());
        }
        let mut before: Option<Node> = None;
        for &node in inputs {
            if step.axis == Axis::AncestorOrSelf && self.tree.passes(node, &step.test) {
                out.push(node);
            }
            let n = node.index();
            let mut next = match node {
                Node::DOCUMENT => None,
                _ if node.is_namespace() => Some(n),
                _ => Some(self.tree.parent(n)),
            };
            while let Some(at) = next {
                self.meter.steps(1)?;
                let reached = before.map(Node::index);
                if reached.is_some_and(|before| at < before) {
                    break;
                }
                if self.tree.passes(Node::new(at), &step.test) {
                    out.push(Node::new(at));
                }
                next = (at != 0 && reached != Some(at)).then(|| self.tree.parent(at));
            }
            before = Some(node);
        }
        Ok(())
    }

    /// Appends the nodes of a step with predicates that depend on positions: these count from each input, or, for `//x`,
    /// from each parent.
    fn by_position(&mut self, step: &'a Step, inputs: &[Node], out: &mut Vec<Node>) -> Result<(), Exceeded> {
        if !matches!(step.axis, Axis::DeepChild | Axis::DeepAttribute) {
            for &node in inputs {
                let mut cursor = self.cursor(step, node)?;
                let mut found = vec![];
                let rest = self.first_predicate(&mut cursor, &step.predicates, &mut found)?;
                self.keep(&mut found, rest)?;
                out.append(&mut found);
            }
            return Ok(());
        }
        let mut all = vec![];
        let mut end = 0;
        for &node in inputs.iter().filter(|node| !node.is_namespace()) {
            if node.index() < end || self.tree.is_attribute(node.index()) {
                continue;
            }
            end = self.tree.end(node.index());
            let mut cursor = self.cursor(step, node)?;
            while let Some(found) = self.next(&mut cursor)? {
                all.push(found);
            }
        }
        // the children of one parent stay in document order
        let parent = |node: &Node| self.tree.parent(node.index());
        all.sort_by_key(parent);
        let groups: Vec<Vec<Node>> = all.chunk_by(|a, b| parent(a) == parent(b)).map(<[Node]>::to_vec).collect();
        for mut group in groups {
            self.keep(&mut group, &step.predicates)?;
            out.append(&mut group);
        }
        Ok(())
    }

    /// Takes the nodes of a cursor that pass the first predicate. Returns the predicates that remain. A constant position
    /// ends the walk when it is reached.
    fn first_predicate<'p>(
        &mut self,
        cursor: &mut Cursor<'a>,
        predicates: &'p [ExprId],
        found: &mut Vec<Node>,
    ) -> Result<&'p [ExprId], Exceeded> {
        if let Some((&first, rest)) = predicates.split_first() {
            if let Expr::Number(bits) = self.all.get(first) {
                let mut position = 0.0;
                while let Some(node) = self.next(cursor)? {
                    position += 1.0;
                    if position == f64::from_bits(*bits) {
                        found.push(node);
                        break;
                    }
                }
                return Ok(rest);
            }
        }
        while let Some(node) = self.next(cursor)? {
            found.push(node);
        }
        Ok(predicates)
    }

    /// Keeps the nodes of a list that pass the predicates, one predicate after the other.
    pub(super) fn keep(&mut self, nodes: &mut Vec<Node>, predicates: &[ExprId]) -> Result<(), Exceeded> {
        for &predicate in predicates {
            let info = self.all.info(predicate);
            let size = nodes.len() as u32;
            self.meter.steps(nodes.len())?;
            if nodes.is_empty() {
                return Ok(());
            }
            let mut context = Context { node: Node::DOCUMENT, position: 1, size };
            if info.of == Type::Number && !info.node && !info.position {
                // one position for all of them
                let position = self.number(predicate, context)?;
                let at = (1.0..=f64::from(size)).contains(&position) && position.fract() == 0.0;
                let kept = at.then(|| nodes[position as usize - 1]);
                nodes.clear();
                nodes.extend(kept);
                continue;
            }
            let mut kept = 0;
            for at in 0..nodes.len() {
                context.node = nodes[at];
                context.position = at as u32 + 1;
                if self.holds(predicate, context)? {
                    nodes[kept] = nodes[at];
                    kept += 1;
                }
            }
            nodes.truncate(kept);
        }
        Ok(())
    }

    /// Whether a predicate holds: a number is a position.
    fn holds(&mut self, predicate: ExprId, context: Context) -> Result<bool, Exceeded> {
        if self.all.info(predicate).of == Type::Number {
            Ok(self.number(predicate, context)? == f64::from(context.position))
        } else {
            self.boolean(predicate, context)
        }
    }

    /// Whether a node passes predicates that do not depend on positions.
    #[inline]
    fn passes(&mut self, node: Node, predicates: &[ExprId]) -> Result<bool, Exceeded> {
        for &predicate in predicates {
            if !self.boolean(predicate, Context { node, position: 1, size: 1 })? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_leaf(&self, node: Node) -> bool {
        node.is_namespace() || self.tree.is_attribute(node.index())
    }

    fn start_of_following(&self, node: Node) -> u32 {
        if self.is_leaf(node) {
            node.index() + 1
        } else {
            self.tree.end(node.index())
        }
    }
}

/// Whether several nodes lead to the same one.
fn leads_upward(axis: Axis) -> bool {
    matches!(axis, Axis::Parent | Axis::Ancestor | Axis::AncestorOrSelf)
}

/// Whether the first node that is found is the first in document order.
fn leads_forward(axis: Axis, inputs: usize) -> bool {
    match axis {
        Axis::Itself | Axis::Attribute | Axis::Descendant | Axis::DeepChild | Axis::DeepAttribute => true,
        Axis::Child | Axis::DescendantOrSelf | Axis::Following | Axis::FollowingSibling | Axis::Namespace => {
            inputs == 1
        }
        _ => false,
    }
}

/// Sorts nodes into document order, each once.
pub(super) fn sort(nodes: &mut Vec<Node>) {
    if !nodes.is_sorted_by(|a, b| a < b) {
        nodes.sort_unstable();
        nodes.dedup();
    }
}
