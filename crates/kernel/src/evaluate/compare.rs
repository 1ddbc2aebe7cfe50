//! Comparisons (section 3.4). Two node-sets are compared by hash for `=`, and by their extremes otherwise: never pair by
//! pair.

use super::budget::Exceeded;
use super::cache::{Extremes, Value, Values, Want};
use super::expressions::{ExprId, Type};
use super::run::{Context, Evaluation};
use super::tree::Node;
use crate::shapes::program::Op;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Up to so many nodes on one side, each is compared with each of the other side.
const FEW: usize = 2;

impl Evaluation<'_, '_> {
    pub(super) fn compare(&mut self, op: Op, a: ExprId, b: ExprId, context: Context) -> Result<bool, Exceeded> {
        let types = (self.all.info(a).of, self.all.info(b).of);
        match types {
            (Type::Nodes, Type::Nodes) => self.compare_sets(op, a, b, context),
            (Type::Nodes, Type::Boolean) | (Type::Boolean, Type::Nodes) => self.compare_values(op, a, b, context),
            (Type::Nodes, _) => self.compare_set(op, a, b, context),
            (_, Type::Nodes) => self.compare_set(turned(op), b, a, context),
            _ => self.compare_values(op, a, b, context),
        }
    }

    /// Compares two values, of which a node-set counts as a boolean.
    fn compare_values(&mut self, op: Op, a: ExprId, b: ExprId, context: Context) -> Result<bool, Exceeded> {
        let types = [self.all.info(a).of, self.all.info(b).of];
        let is_equality = matches!(op, Op::Eq | Op::Ne);
        if types.contains(&Type::Nodes) || is_equality && types.contains(&Type::Boolean) {
            let (a, b) = (self.boolean(a, context)?, self.boolean(b, context)?);
            return Ok(op.holds(f64::from(u8::from(a)), f64::from(u8::from(b))));
        }
        if is_equality && types == [Type::Text, Type::Text] {
            let (a, b) = (self.text(a, context)?, self.text(b, context)?);
            self.meter.bytes(a.len().min(b.len()))?;
            return Ok((*a == *b) == (op == Op::Eq));
        }
        Ok(op.holds(self.number(a, context)?, self.number(b, context)?))
    }

    /// Compares a node-set with a string or a number: some node has to satisfy it.
    fn compare_set(&mut self, op: Op, set: ExprId, with: ExprId, context: Context) -> Result<bool, Exceeded> {
        let is_text = self.all.info(with).of == Type::Text;
        // A set that is compared again and again, with what each context has, is worth a table.
        let again = self.is_shared(set) && !self.all.info(with).is_fixed();
        match op {
            Op::Eq if is_text && again => {
                let values = self.shared_values(set)?;
                let value = self.text(with, context)?;
                self.has(&values, &value)
            }
            Op::Eq | Op::Ne if is_text => {
                let nodes = self.nodes(set, context, Want::All)?;
                let value = if nodes.is_empty() { return Ok(false) } else { self.text(with, context)? };
                self.any(&nodes, |run, node| Ok(run.has_value(node, &value)? == (op == Op::Eq)))
            }
            Op::Eq | Op::Ne => {
                let nodes = self.nodes(set, context, Want::All)?;
                let number = if nodes.is_empty() { return Ok(false) } else { self.number(with, context)? };
                self.any(&nodes, |run, node| Ok(op.holds(run.node_number(node)?, number)))
            }
            Op::Lt | Op::Le => Ok(op.holds(self.extremes_of(set, context)?.least, self.number(with, context)?)),
            Op::Gt | Op::Ge => Ok(op.holds(self.extremes_of(set, context)?.most, self.number(with, context)?)),
        }
    }

    fn any(
        &mut self,
        nodes: &[Node],
        mut holds: impl FnMut(&mut Self, Node) -> Result<bool, Exceeded>,
    ) -> Result<bool, Exceeded> {
        for &node in nodes {
            if holds(self, node)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a node has this string-value.
    fn has_value(&mut self, node: Node, value: &[u8]) -> Result<bool, Exceeded> {
        if node.is_namespace() {
            return Ok(*self.value(node)? == *value);
        }
        self.meter.steps(1)?;
        let (is_same, looked) = self.tree.has_value(node.index(), value, &mut self.state.scratch);
        self.meter.bytes(looked)?;
        Ok(is_same)
    }

    fn compare_sets(&mut self, op: Op, a: ExprId, b: ExprId, context: Context) -> Result<bool, Exceeded> {
        match op {
            Op::Eq => match (self.is_shared(a), self.is_shared(b)) {
                (true, true) => self.values_meet(a, b),
                (true, false) => self.some_among(b, a, context),
                (false, true) => self.some_among(a, b, context),
                (false, false) => {
                    let a = self.nodes(a, context, Want::All)?;
                    let b = if a.is_empty() { return Ok(false) } else { self.nodes(b, context, Want::All)? };
                    self.sets_meet(&a, &b)
                }
            },
            Op::Ne => {
                let a = self.nodes(a, context, Want::All)?;
                let b = if a.is_empty() { return Ok(false) } else { self.nodes(b, context, Want::All)? };
                self.sets_differ(&a, &b)
            }
            Op::Lt | Op::Le => Ok(op.holds(self.extremes_of(a, context)?.least, self.extremes_of(b, context)?.most)),
            Op::Gt | Op::Ge => Ok(op.holds(self.extremes_of(a, context)?.most, self.extremes_of(b, context)?.least)),
        }
    }

    /// Whether some node of a set has a value of a shared set.
    fn some_among(&mut self, set: ExprId, shared: ExprId, context: Context) -> Result<bool, Exceeded> {
        let nodes = self.nodes(set, context, Want::All)?;
        if nodes.is_empty() {
            return Ok(false);
        }
        let values = self.shared_values(shared)?;
        self.any(&nodes, |run, node| run.is_among(&values, node))
    }

    /// Whether some value is in both sets.
    fn sets_meet(&mut self, a: &[Node], b: &[Node]) -> Result<bool, Exceeded> {
        let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        if few.len() <= FEW {
            for &node in few {
                let value = self.value(node)?;
                if self.any(many, |run, other| run.has_value(other, &value))? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let values = self.values(few)?;
        self.any(many, |run, node| run.is_among(&values, node))
    }

    /// Whether some value of one set is not that of some node of the other: unless all nodes of both have one value.
    fn sets_differ(&mut self, a: &[Node], b: &[Node]) -> Result<bool, Exceeded> {
        if b.is_empty() {
            return Ok(false);
        }
        let value = self.value(a[0])?;
        let differs = |run: &mut Self, node| Ok(!run.has_value(node, &value)?);
        Ok(self.any(b, differs)? || self.any(&a[1..], differs)?)
    }

    /// Returns the least and the greatest number in a set; of a shared set they are shared.
    fn extremes_of(&mut self, id: ExprId, context: Context) -> Result<Extremes, Exceeded> {
        if !self.is_shared(id) {
            let nodes = self.nodes(id, context, Want::All)?;
            return self.extremes(&nodes);
        }
        let make = |run: &mut Self| {
            let nodes = run.nodes(id, Context::DOCUMENT, Want::All)?;
            run.extremes(&nodes).map(Value::Extremes)
        };
        match self.shared(id, Want::Extremes, make)? {
            Value::Extremes(extremes) => Ok(extremes),
            _ => self.extremes(&[]),
        }
    }

    fn extremes(&mut self, nodes: &[Node]) -> Result<Extremes, Exceeded> {
        let mut found = Extremes { least: f64::NAN, most: f64::NAN };
        for &node in nodes {
            let x = self.node_number(node)?;
            // min and max leave NaN out
            found = Extremes { least: found.least.min(x), most: found.most.max(x) };
        }
        Ok(found)
    }

    /// Whether two shared sets have a value in common, by tables that are shared too.
    fn values_meet(&mut self, a: ExprId, b: ExprId) -> Result<bool, Exceeded> {
        let a = self.shared_values(a)?;
        if a.list.is_empty() {
            return Ok(false);
        }
        let b = self.shared_values(b)?;
        let (few, many) = if a.list.len() <= b.list.len() { (&a, &b) } else { (&b, &a) };
        for &(hash, node) in &few.list {
            self.meter.steps(1)?;
            if many.with_hash(hash).next().is_some() && self.is_among(many, node)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn shared_values(&mut self, id: ExprId) -> Result<Arc<Values>, Exceeded> {
        let make = |run: &mut Self| {
            let nodes = run.nodes(id, Context::DOCUMENT, Want::All)?;
            Ok(Value::Values(Arc::new(run.values(&nodes)?)))
        };
        match self.shared(id, Want::Values, make)? {
            Value::Values(values) => Ok(values),
            _ => Ok(Arc::default()),
        }
    }

    /// Returns the values of nodes, each once.
    fn values(&mut self, nodes: &[Node]) -> Result<Values, Exceeded> {
        let mut values = Values::with_capacity(nodes.len());
        for &node in nodes {
            let value = self.value(node)?;
            self.meter.bytes(value.len())?;
            let hash = self.state.hasher.hash_one(&*value);
            if !self.find(&values, hash, &value)? {
                values.push(hash, node);
            }
        }
        Ok(values)
    }

    fn is_among(&mut self, values: &Values, node: Node) -> Result<bool, Exceeded> {
        let value = self.value(node)?;
        self.has(values, &value)
    }

    fn has(&mut self, values: &Values, value: &[u8]) -> Result<bool, Exceeded> {
        self.meter.bytes(value.len())?;
        let hash = self.state.hasher.hash_one(value);
        self.find(values, hash, value)
    }

    /// Whether a value is in a table. Values with the same hash are compared.
    fn find(&mut self, values: &Values, hash: u64, value: &[u8]) -> Result<bool, Exceeded> {
        let same: Vec<Node> = values.with_hash(hash).collect();
        self.any(&same, |run, node| run.has_value(node, value))
    }
}

/// The operator with its sides exchanged.
fn turned(op: Op) -> Op {
    match op {
        Op::Lt => Op::Gt,
        Op::Le => Op::Ge,
        Op::Gt => Op::Lt,
        Op::Ge => Op::Le,
        same => same,
    }
}
