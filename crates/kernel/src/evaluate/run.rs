//! The evaluation of expressions: values of the four types, and the results that are shared.

use super::budget::{Exceeded, Meter};
use super::cache::{Cache, Value, Want};
use super::expressions::{Arithmetic, Expr, ExprId, Expressions, Function, Type};
use super::steps::sort;
use super::strings::number_text;
use super::text::Text;
use super::tree::{Lists, Node, Tree};
use crate::output::scope::Scopes;
use crate::shapes::nodes::NodeIx;
use crate::values::number::number as parse_number;
use hashbrown::{DefaultHashBuilder, HashMap};
use std::ops::Deref;
use std::sync::Arc;

/// The context of an expression.
#[derive(Clone, Copy)]
pub(super) struct Context {
    pub(super) node: Node,
    pub(super) position: u32,
    pub(super) size: u32,
}

impl Context {
    pub(super) const DOCUMENT: Context = Context { node: Node::DOCUMENT, position: 1, size: 1 };
}

/// What is known of the current message.
#[derive(Default)]
pub(super) struct State {
    pub(super) cache: Cache,
    pub(super) lists: Lists,
    pub(super) scopes: Scopes,
    /// Elements by ID, once something has asked for them.
    pub(super) ids: Option<HashMap<Box<[u8]>, NodeIx>>,
    /// Keyed at random, so that a message cannot choose values that collide.
    pub(super) hasher: DefaultHashBuilder,
    pub(super) scratch: Vec<u8>,
}

impl State {
    /// Begins a message.
    pub(super) fn begin(&mut self, tree: &Tree<'_>) {
        self.cache.clear();
        self.lists.begin(tree);
        self.scopes.clear();
        self.ids = None;
    }
}

/// The evaluation of one query on one message.
pub(super) struct Evaluation<'a, 's> {
    pub(super) tree: Tree<'a>,
    pub(super) all: &'a Expressions,
    pub(super) state: &'s mut State,
    pub(super) meter: Meter,
}

/// A node-set in document order.
pub(super) enum Set {
    One([Node; 1]),
    Made(Vec<Node>),
    Shared(Arc<[Node]>),
}

impl Deref for Set {
    type Target = [Node];

    fn deref(&self) -> &[Node] {
        match self {
            Set::One(node) => node,
            Set::Made(nodes) => nodes,
            Set::Shared(nodes) => nodes,
        }
    }
}

/// Steps that a node counts for where nodes are sorted.
const SORTED: usize = 3;

/// Steps that a namespace in scope counts for: they are put together again each time.
const IN_SCOPE: usize = 8;

impl<'a> Evaluation<'a, '_> {
    /// Whether the result of an expression is shared: it depends on the message alone, and is not known without it.
    pub(super) fn is_shared(&self, id: ExprId) -> bool {
        use Function::{False, True};
        let trivial = |e: &Expr| {
            matches!(e, Expr::Number(_) | Expr::Text(_) | Expr::Document | Expr::Context | Expr::Call(True | False, _))
        };
        self.all.info(id).is_fixed() && !trivial(self.all.get(id))
    }

    /// Returns a shared result, made if it is not known.
    pub(super) fn shared(
        &mut self,
        id: ExprId,
        want: Want,
        make: impl FnOnce(&mut Self) -> Result<Value, Exceeded>,
    ) -> Result<Value, Exceeded> {
        if let Some(value) = self.state.cache.get((id, want), &mut self.meter)? {
            return Ok(value);
        }
        let before = self.meter.left();
        let outer = self.state.cache.enter();
        let made = make(self);
        self.state.cache.leave(outer);
        self.state.cache.put((id, want), made, before, &mut self.meter, true)
    }

    /// Returns the value of any expression as a boolean.
    pub(super) fn boolean(&mut self, id: ExprId, context: Context) -> Result<bool, Exceeded> {
        Ok(match self.all.info(id).of {
            Type::Boolean if self.is_shared(id) => {
                let made =
                    self.shared(id, Want::All, |run| run.make_boolean(id, Context::DOCUMENT).map(Value::Boolean))?;
                matches!(made, Value::Boolean(true))
            }
            Type::Boolean => self.make_boolean(id, context)?,
            Type::Nodes if self.is_shared(id) => {
                let made = self.shared(id, Want::Any, |run| {
                    Ok(Value::Boolean(!run.make_nodes(id, Context::DOCUMENT, Want::Any)?.is_empty()))
                })?;
                matches!(made, Value::Boolean(true))
            }
            Type::Nodes => !self.make_nodes(id, context, Want::Any)?.is_empty(),
            Type::Number => {
                let x = self.number(id, context)?;
                !(x == 0.0 || x.is_nan())
            }
            Type::Text => !self.text(id, context)?.is_empty(),
        })
    }

    fn make_boolean(&mut self, id: ExprId, context: Context) -> Result<bool, Exceeded> {
        self.meter.steps(1)?;
        let all = self.all;
        match all.get(id) {
            Expr::And(terms) => {
                for &term in terms {
                    if !self.boolean(term, context)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expr::Or(terms) => {
                for &term in terms {
                    if self.boolean(term, context)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expr::Compare(op, a, b) => self.compare(*op, *a, *b, context),
            Expr::Call(function, arguments) => self.boolean_function(*function, arguments, context),
            _ => Ok(false),
        }
    }

    /// Returns the value of any expression as a number.
    pub(super) fn number(&mut self, id: ExprId, context: Context) -> Result<f64, Exceeded> {
        Ok(match self.all.info(id).of {
            Type::Number if self.is_shared(id) => {
                match self.shared(id, Want::All, |run| run.make_number(id, Context::DOCUMENT).map(Value::Number))? {
                    Value::Number(x) => x,
                    _ => f64::NAN,
                }
            }
            Type::Number => self.make_number(id, context)?,
            Type::Boolean => f64::from(u8::from(self.boolean(id, context)?)),
            Type::Text | Type::Nodes => {
                let text = self.text(id, context)?;
                self.meter.bytes(text.len())?;
                parse_number(&text)
            }
        })
    }

    fn make_number(&mut self, id: ExprId, context: Context) -> Result<f64, Exceeded> {
        self.meter.steps(1)?;
        let all = self.all;
        Ok(match all.get(id) {
            Expr::Number(bits) => f64::from_bits(*bits),
            Expr::Negate(a) => -self.number(*a, context)?,
            Expr::Arithmetic(op, a, b) => {
                let (a, b) = (self.number(*a, context)?, self.number(*b, context)?);
                match op {
                    Arithmetic::Add => a + b,
                    Arithmetic::Subtract => a - b,
                    Arithmetic::Multiply => a * b,
                    Arithmetic::Divide => a / b,
                    Arithmetic::Modulo => a % b,
                }
            }
            Expr::Call(function, arguments) => self.number_function(*function, arguments, context)?,
            _ => f64::NAN,
        })
    }

    /// Returns the value of any expression as a string.
    pub(super) fn text(&mut self, id: ExprId, context: Context) -> Result<Text<'a>, Exceeded> {
        Ok(match self.all.info(id).of {
            Type::Text if self.is_shared(id) => {
                let make = |run: &mut Self| Ok(Value::Text(run.make_text(id, Context::DOCUMENT)?.share()));
                match self.shared(id, Want::All, make)? {
                    Value::Text(text) => Text::Shared(text),
                    _ => Text::Part(b""),
                }
            }
            Type::Text => self.make_text(id, context)?,
            Type::Boolean => Text::Part(if self.boolean(id, context)? { b"true" } else { b"false" }),
            Type::Number => {
                let text = number_text(self.number(id, context)?).into_bytes();
                self.meter.bytes(text.len())?;
                Text::Made(text)
            }
            Type::Nodes => match self.nodes(id, context, Want::First)?.first() {
                Some(&first) => self.value(first)?,
                None => Text::Part(b""),
            },
        })
    }

    fn make_text(&mut self, id: ExprId, context: Context) -> Result<Text<'a>, Exceeded> {
        self.meter.steps(1)?;
        let all = self.all;
        match all.get(id) {
            Expr::Text(text) => Ok(Text::Part(text)),
            Expr::Call(function, arguments) => self.text_function(*function, arguments, context),
            _ => Ok(Text::Part(b"")),
        }
    }

    /// Returns the string-value of a node.
    pub(super) fn value(&mut self, node: Node) -> Result<Text<'a>, Exceeded> {
        self.meter.steps(1)?;
        let n = node.index();
        if node.is_namespace() {
            self.pay_for_scope(n)?;
            let uri = self.tree.namespace(node, &mut self.state.scopes).uri(&self.tree);
            self.meter.bytes(uri.len())?;
            return Ok(uri);
        }
        if let Some(value) = self.tree.plain_value(n) {
            return Ok(Text::Part(value));
        }
        self.meter.bytes(self.tree.value_size(n))?;
        Ok(Text::Made(self.tree.made_value(n)))
    }

    /// Pays for a look at the namespaces in scope at an element.
    pub(super) fn pay_for_scope(&mut self, element: NodeIx) -> Result<(), Exceeded> {
        let mut at = element;
        while at != 0 {
            self.meter.steps(1)?;
            at = self.tree.parent(at);
        }
        let scope = self.state.scopes.in_scope(self.tree.src, self.tree.nodes, element);
        self.meter.steps(IN_SCOPE * scope.len())
    }

    /// Returns the nodes of an expression that is a node-set: all of them, or at least those that `want` asks for.
    pub(super) fn nodes(&mut self, id: ExprId, context: Context, want: Want) -> Result<Set, Exceeded> {
        if !self.is_shared(id) {
            return self.make_nodes(id, context, want);
        }
        let make = |run: &mut Self| {
            let mut made = match run.make_nodes(id, Context::DOCUMENT, want)? {
                Set::Shared(nodes) => return Ok(Value::Nodes(nodes)),
                Set::One(node) => node.to_vec(),
                Set::Made(nodes) => nodes,
            };
            if want == Want::First {
                made.truncate(1);
            }
            Ok(Value::Nodes(made.into()))
        };
        match self.shared(id, want, make)? {
            Value::Nodes(nodes) => Ok(Set::Shared(nodes)),
            _ => Ok(Set::Made(vec![])),
        }
    }

    fn make_nodes(&mut self, id: ExprId, context: Context, want: Want) -> Result<Set, Exceeded> {
        let all = self.all;
        if !matches!(all.get(id), Expr::Step(..)) {
            self.meter.steps(1)?; // a step pays for itself
        }
        Ok(match all.get(id) {
            Expr::Document => Set::One([Node::DOCUMENT]),
            Expr::Context => Set::One([context.node]),
            Expr::Step(..) => self.path(id, context, want)?,
            Expr::Filter(input, predicates) => {
                let is_first = predicates.first().is_some_and(|p| *all.get(*p) == Expr::Number(1f64.to_bits()));
                let set = self.nodes(*input, context, if is_first { Want::First } else { Want::All })?;
                let mut nodes = set.to_vec();
                self.keep(&mut nodes, predicates)?;
                Set::Made(nodes)
            }
            Expr::Union(operands) => {
                let mut nodes = vec![];
                for &operand in operands {
                    let wanted = if want == Want::All { Want::All } else { Want::First };
                    let some = self.nodes(operand, context, wanted)?;
                    self.meter.steps(SORTED * some.len())?;
                    nodes.extend_from_slice(&some);
                    if want == Want::Any && !nodes.is_empty() {
                        break;
                    }
                }
                sort(&mut nodes);
                Set::Made(nodes)
            }
            Expr::Call(_, arguments) => Set::Made(self.by_id(arguments, context)?),
            _ => Set::Made(vec![]),
        })
    }

    /// Evaluates a chain of steps, without recursion: it may be long. The sets on the way of a shared chain are kept.
    fn path(&mut self, id: ExprId, context: Context, want: Want) -> Result<Set, Exceeded> {
        let all = self.all;
        if let Expr::Step(input, step) = all.get(id) {
            if *all.get(*input) == Expr::Context {
                return Ok(Set::Made(self.step(step, &[context.node], want)?)); // by far the commonest
            }
        }
        let is_shared = all.info(id).is_fixed();
        let before = self.meter.left();
        let mut todo = vec![];
        let mut at = id;
        let mut set = loop {
            if let Expr::Step(input, step) = all.get(at) {
                if at != id && is_shared {
                    if let Some(known) = self.state.cache.nodes(at, &mut self.meter)? {
                        break Set::Shared(known);
                    }
                } else if at != id && all.info(at).is_fixed() {
                    break self.nodes(at, context, Want::All)?;
                }
                todo.push((at, step));
                at = *input;
            } else {
                break self.nodes(at, context, Want::All)?;
            }
        };
        while let Some((at, step)) = todo.pop() {
            let wanted = if todo.is_empty() { want } else { Want::All };
            if !is_shared {
                set = Set::Made(self.step(step, &set, wanted)?);
                continue;
            }
            let outer = self.state.cache.enter();
            let made = self.step(step, &set, wanted);
            self.state.cache.leave(outer);
            if todo.is_empty() {
                return Ok(Set::Made(made?));
            }
            let made = made.map(|nodes| Value::Nodes(nodes.into()));
            match self.state.cache.put((at, Want::All), made, before, &mut self.meter, false)? {
                Value::Nodes(nodes) => set = Set::Shared(nodes),
                _ => return Ok(Set::Made(vec![])),
            }
        }
        Ok(set)
    }
}
