//! The expressions of all queries as one DAG: equal expressions are one, so that their results can be shared.

use super::tree::NodeTest;
use crate::shapes::program::Op;
use hashbrown::HashMap;

/// Index of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ExprId(pub u32);

/// The four types of XPath 1.0. There are no variables, so the type of every expression is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Nodes,
    Number,
    Text,
    Boolean,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Axis {
    Child,
    Descendant,
    DescendantOrSelf,
    Itself,
    Attribute,
    Parent,
    Ancestor,
    AncestorOrSelf,
    Preceding,
    PrecedingSibling,
    Following,
    FollowingSibling,
    Namespace,
    /// `//x`: the children of a node and of all nodes below it. Positions count among the children of one parent.
    DeepChild,
    /// `//@x`, likewise.
    DeepAttribute,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Function {
    Last,
    Position,
    Count,
    Id,
    LocalName,
    NamespaceUri,
    Name,
    String,
    Concat,
    StartsWith,
    Contains,
    SubstringBefore,
    SubstringAfter,
    Substring,
    StringLength,
    NormalizeSpace,
    Translate,
    Boolean,
    Not,
    True,
    False,
    Lang,
    Number,
    Sum,
    Floor,
    Ceiling,
    Round,
}

impl Function {
    /// Returns the type of the result.
    pub(super) fn result(self) -> Type {
        use Function::*;
        match self {
            Id => Type::Nodes,
            Last | Position | Count | StringLength | Number | Sum | Floor | Ceiling | Round => Type::Number,
            StartsWith | Contains | Boolean | Not | True | False | Lang => Type::Boolean,
            LocalName | NamespaceUri | Name | String | Concat | SubstringBefore | SubstringAfter | Substring
            | NormalizeSpace | Translate => Type::Text,
        }
    }
}

/// An expression; its operands come before it in the DAG.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Expr {
    /// The bits of a number.
    Number(u64),
    Text(Box<[u8]>),
    And(Box<[ExprId]>),
    Or(Box<[ExprId]>),
    Compare(Op, ExprId, ExprId),
    Arithmetic(Arithmetic, ExprId, ExprId),
    Negate(ExprId),
    Call(Function, Box<[ExprId]>),
    Union(Box<[ExprId]>),
    Document,
    Context,
    Step(ExprId, Box<Step>),
    /// Predicates on a node-set as a whole: `(//a)[1]`.
    Filter(ExprId, Box<[ExprId]>),
    /// What a transform binds, and what it returns of each bound node: node-sets. No other expression has it as operand.
    Groups(Box<[ExprId]>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Step {
    pub(super) axis: Axis,
    pub(super) test: NodeTest,
    pub(super) predicates: Box<[ExprId]>,
    /// Some predicate depends on positions.
    pub(super) positional: bool,
}

impl Expr {
    /// Calls `each` for every operand.
    pub(super) fn operands(&self, mut each: impl FnMut(ExprId)) {
        match self {
            Expr::Number(_) | Expr::Text(_) | Expr::Document | Expr::Context => {}
            Expr::And(of) | Expr::Or(of) | Expr::Call(_, of) | Expr::Union(of) | Expr::Groups(of) => {
                of.iter().copied().for_each(each)
            }
            Expr::Compare(_, a, b) | Expr::Arithmetic(_, a, b) => {
                each(*a);
                each(*b);
            }
            Expr::Negate(a) => each(*a),
            Expr::Step(input, step) => {
                each(*input);
                step.predicates.iter().copied().for_each(each);
            }
            Expr::Filter(input, predicates) => {
                each(*input);
                predicates.iter().copied().for_each(each);
            }
        }
    }

    /// Replaces every operand.
    pub(super) fn map(&mut self, with: impl Fn(ExprId) -> ExprId) {
        let all = |of: &mut Box<[ExprId]>| of.iter_mut().for_each(|id| *id = with(*id));
        match self {
            Expr::Number(_) | Expr::Text(_) | Expr::Document | Expr::Context => {}
            Expr::And(of) | Expr::Or(of) | Expr::Call(_, of) | Expr::Union(of) | Expr::Groups(of) => all(of),
            Expr::Compare(_, a, b) | Expr::Arithmetic(_, a, b) => (*a, *b) = (with(*a), with(*b)),
            Expr::Negate(a) => *a = with(*a),
            Expr::Step(input, step) => {
                *input = with(*input);
                all(&mut step.predicates);
            }
            Expr::Filter(input, predicates) => {
                *input = with(*input);
                all(predicates);
            }
        }
    }
}

/// What is known of an expression: its type, and which parts of its context it depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Info {
    pub(super) of: Type,
    pub(super) node: bool,
    pub(super) position: bool,
    pub(super) last: bool,
}

impl Info {
    /// Derives it from what is known of the operands.
    pub(super) fn new(expr: &Expr, info: impl Fn(ExprId) -> Info) -> Info {
        let of = match expr {
            Expr::Number(_) | Expr::Arithmetic(..) | Expr::Negate(_) => Type::Number,
            Expr::Text(_) => Type::Text,
            Expr::And(_) | Expr::Or(_) | Expr::Compare(..) | Expr::Groups(_) => Type::Boolean,
            Expr::Call(function, _) => function.result(),
            Expr::Union(_) | Expr::Document | Expr::Context | Expr::Step(..) | Expr::Filter(..) => Type::Nodes,
        };
        let mut own = Info { of, node: false, position: false, last: false };
        let mut add = |id| {
            let operand = info(id);
            own.node |= operand.node;
            own.position |= operand.position;
            own.last |= operand.last;
        };
        match expr {
            // the context of predicates is theirs alone
            Expr::Step(input, _) | Expr::Filter(input, _) => add(*input),
            _ => expr.operands(add),
        }
        match expr {
            Expr::Context | Expr::Call(Function::Lang, _) => own.node = true,
            Expr::Call(Function::Position, _) => own.position = true,
            Expr::Call(Function::Last, _) => own.last = true,
            _ => {}
        }
        own
    }

    /// Whether the result is the same for every context of a message.
    pub(super) fn is_fixed(self) -> bool {
        !(self.node || self.position || self.last)
    }

    /// Whether the expression, as a predicate, depends on positions.
    pub(super) fn is_positional(self) -> bool {
        self.of == Type::Number || self.position || self.last
    }
}

struct Entry {
    expr: Expr,
    info: Info,
    /// Expressions and queries that use this one.
    uses: u32,
}

/// All expressions in use.
#[derive(Default)]
pub(super) struct Expressions {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    ids: HashMap<Expr, ExprId>,
}

impl Expressions {
    fn entry(&self, id: ExprId) -> &Entry {
        self.entries[id.0 as usize].as_ref().expect("an expression in use")
    }

    pub(super) fn get(&self, id: ExprId) -> &Expr {
        &self.entry(id).expr
    }

    pub(super) fn info(&self, id: ExprId) -> Info {
        self.entry(id).info
    }

    /// Returns the tests of all steps.
    pub(super) fn tests(&self) -> impl Iterator<Item = &NodeTest> {
        self.entries.iter().flatten().filter_map(|entry| match &entry.expr {
            Expr::Step(_, step) => Some(&step.test),
            _ => None,
        })
    }

    /// Returns about how many bytes they take.
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Option<Entry>>() + self.ids.capacity() * (size_of::<Expr>() + 64)
    }

    /// Returns the number of expressions in use.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Adds a list of expressions, whose operands are indexes of earlier ones in the list. Returns the last one, which
    /// the caller uses from now on.
    pub(super) fn add(&mut self, list: Vec<Expr>) -> Option<ExprId> {
        let mut ids: Vec<ExprId> = Vec::with_capacity(list.len());
        for mut expr in list {
            expr.map(|local| ids[local.0 as usize]);
            ids.push(self.intern(expr));
        }
        let last = ids.pop()?;
        ids.into_iter().for_each(|id| self.release(id));
        Some(last)
    }

    /// Returns the expression, used once more.
    fn intern(&mut self, expr: Expr) -> ExprId {
        if let Some(&id) = self.ids.get(&expr) {
            self.used(id);
            return id;
        }
        let mut operands = vec![];
        expr.operands(|id| operands.push(id));
        operands.into_iter().for_each(|id| self.used(id));
        let info = Info::new(&expr, |id| self.info(id));
        let entry = Some(Entry { expr: expr.clone(), info, uses: 1 });
        let id = match self.free.pop() {
            Some(free) => {
                self.entries[free as usize] = entry;
                ExprId(free)
            }
            None => {
                self.entries.push(entry);
                ExprId(self.entries.len() as u32 - 1)
            }
        };
        self.ids.insert(expr, id);
        id
    }

    fn used(&mut self, id: ExprId) {
        if let Some(entry) = &mut self.entries[id.0 as usize] {
            entry.uses += 1;
        }
    }

    /// Takes one use back. An expression that nothing uses any more goes, and with it what only it used.
    pub(super) fn release(&mut self, id: ExprId) {
        let mut todo = vec![id];
        while let Some(id) = todo.pop() {
            let place = &mut self.entries[id.0 as usize];
            let Some(entry) = place else { continue };
            entry.uses -= 1;
            if entry.uses == 0 {
                entry.expr.operands(|id| todo.push(id));
                self.ids.remove(&entry.expr);
                *place = None;
                self.free.push(id.0);
            }
        }
    }
}
