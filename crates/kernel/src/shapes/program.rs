//! Patterns as the kernel sees them, and their encoding as 32-bit words (prefix order, counts before lists).

use crate::names::{is_attribute, is_element, Names, Sym, ANY, ANY_ATTRIBUTE, NODE, NO_SYM};
use crate::paths::Step;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Op {
    #[inline(always)]
    pub fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Op::Eq => a == b,
            Op::Ne => a != b,
            Op::Lt => a < b,
            Op::Le => a <= b,
            Op::Gt => a > b,
            Op::Ge => a >= b,
        }
    }
}

/// How a value is compared with a constant, which is a number or a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    Number(Op),
    Is,
    IsNot,
    Contains,
    StartsWith,
}

impl Ask {
    /// Does the comparison of strings hold?
    pub fn holds(self, value: &[u8], constant: &[u8]) -> bool {
        match self {
            Ask::Is => value == constant,
            Ask::IsNot => value != constant,
            Ask::Contains => memchr::memmem::find(value, constant).is_some(),
            Ask::StartsWith => value.starts_with(constant),
            Ask::Number(_) => false,
        }
    }
}

/// What is counted by a positional filter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Counted {
    Position,
    Last,
    /// last() - position()
    FromEnd,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Pred {
    Bool(bool),
    And(Vec<Pred>),
    Or(Vec<Pred>),
    Not(Box<Pred>),
    Exists(Twig),
    NodeIs(Test),
    /// A comparison with the constant in a slot.
    Compare {
        value: Value,
        ask: Ask,
        slot: u32,
    },
    Position {
        of: Counted,
        op: Op,
        n: f64,
    },
}

/// What is compared. `first` takes the first node in document order (or, without nodes, the empty string);
/// otherwise the comparison holds if it holds for any node.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Str { twig: Twig, first: bool, normalize: bool },
    Length { twig: Twig, first: bool, normalize: bool },
    Count(Twig),
}

/// A trunk of steps with filters, below a context node. Empty: the context itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Twig {
    pub nodes: Vec<Node>,
}

/// What a node must be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Test {
    /// A name, or text, a comment or a PI.
    Exactly(Sym),
    Element,
    Attribute,
    /// Anything but an attribute.
    Node,
    /// Any name that satisfies this symbol, `ns:*` or `*:local`.
    Wildcard(Sym),
}

impl Test {
    pub(crate) fn new(names: &Names, test: Sym) -> Option<Test> {
        Some(match test {
            ANY => Test::Element,
            ANY_ATTRIBUTE => Test::Attribute,
            NODE => Test::Node,
            _ if !names.is_test(test) => return None,
            _ if names.is_wildcard(test) => Test::Wildcard(test),
            _ => Test::Exactly(test),
        })
    }

    /// The symbol of the test, from which `new` makes it.
    pub(crate) fn symbol(self) -> Sym {
        match self {
            Test::Exactly(sym) | Test::Wildcard(sym) => sym,
            Test::Element => ANY,
            Test::Attribute => ANY_ATTRIBUTE,
            Test::Node => NODE,
        }
    }

    pub fn is_attribute(self) -> bool {
        match self {
            Test::Exactly(sym) | Test::Wildcard(sym) => is_attribute(sym),
            Test::Attribute => true,
            Test::Element | Test::Node => false,
        }
    }

    /// Does a node with this symbol pass? (The document, `NO_SYM`, never does.)
    #[inline(always)]
    pub fn passes(self, names: &Names, sym: Sym) -> bool {
        match self {
            Test::Exactly(test) => sym == test,
            Test::Element => is_element(sym),
            Test::Attribute => is_attribute(sym) && sym != NO_SYM,
            Test::Node => !is_attribute(sym),
            Test::Wildcard(test) => sym == test || sym != NO_SYM && names.also(sym).contains(&test),
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    pub test: Test,
    /// Reached by `//`.
    pub deep: bool,
    pub filters: Vec<Pred>,
    /// Some filter counts positions among siblings.
    pub positional: bool,
}

/// What the slots of a program hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    Str,
    Num,
}

impl Slot {
    /// A constant as rows hold it: the number of a string, or the bits of a number.
    pub fn word(self, x: f64) -> u64 {
        match self {
            Slot::Str => x as u64,
            Slot::Num => x.to_bits(),
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    pub pred: Pred,
    pub slots: Vec<Slot>,
}

/// Nesting that the evaluators can take on any stack.
const MAX_DEPTH: u32 = 500;

impl Program {
    pub fn decode(words: &[u32], names: &Names) -> Result<Program, &'static str> {
        let mut d = Decoder { words, at: 0, names, slots: vec![], depth: 0 };
        let pred = d.pred()?;
        if d.at != words.len() {
            return Err("words after the end of a program");
        }
        let slots = d.slots.into_iter().collect::<Option<Vec<_>>>().ok_or("a slot that nothing uses")?;
        Ok(Program { pred, slots })
    }

    /// The first steps of the pattern, if it has so many.
    pub fn trunk(&self, steps: u32) -> Option<&[Node]> {
        match &self.pred {
            _ if steps == 0 => Some(&[]),
            Pred::Exists(twig) => twig.nodes.get(..steps as usize),
            _ => None,
        }
    }
}

struct Decoder<'a> {
    words: &'a [u32],
    at: usize,
    names: &'a Names,
    slots: Vec<Option<Slot>>,
    depth: u32,
}

type Decoded<T> = Result<T, &'static str>;

impl Decoder<'_> {
    fn word(&mut self) -> Decoded<u32> {
        let w = *self.words.get(self.at).ok_or("a program that ends early")?;
        self.at += 1;
        Ok(w)
    }

    fn slot(&mut self, kind: Slot) -> Decoded<u32> {
        let slot = self.word()?;
        if slot > 1 << 16 {
            return Err("too many slots");
        }
        if self.slots.len() <= slot as usize {
            self.slots.resize(slot as usize + 1, None);
        }
        match self.slots[slot as usize].replace(kind) {
            Some(other) if other != kind => Err("a slot of two kinds"),
            _ => Ok(slot),
        }
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Decoded<T>) -> Decoded<Vec<T>> {
        let n = self.word()?;
        (0..n).map(|_| item(self)).collect()
    }

    fn op(&mut self) -> Decoded<Op> {
        Ok(match self.word()? {
            0 => Op::Eq,
            1 => Op::Ne,
            2 => Op::Lt,
            3 => Op::Le,
            4 => Op::Gt,
            5 => Op::Ge,
            _ => return Err("an unknown operator"),
        })
    }

    fn pred(&mut self) -> Decoded<Pred> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("a program nested too deeply");
        }
        let pred = match self.word()? {
            0 => Pred::Bool(false),
            1 => Pred::Bool(true),
            2 => Pred::And(self.list(Self::pred)?),
            3 => Pred::Or(self.list(Self::pred)?),
            4 => Pred::Not(Box::new(self.pred()?)),
            5 => Pred::Exists(self.twig()?),
            6 => Pred::NodeIs(self.test()?.0),
            kind @ 7..=10 => {
                let value = self.value()?;
                let (ask, slot) = match kind {
                    7 => (if self.word()? == 1 { Ask::Is } else { Ask::IsNot }, Slot::Str),
                    8 => (Ask::Number(self.op()?), Slot::Num),
                    9 => (Ask::Contains, Slot::Str),
                    _ => (Ask::StartsWith, Slot::Str),
                };
                Pred::Compare { value, ask, slot: self.slot(slot)? }
            }
            11 => Pred::Position {
                of: match self.word()? {
                    0 => Counted::Position,
                    1 => Counted::Last,
                    _ => Counted::FromEnd,
                },
                op: self.op()?,
                n: self.word()? as f64,
            },
            _ => return Err("an unknown predicate"),
        };
        self.depth -= 1;
        Ok(pred)
    }

    fn test(&mut self) -> Decoded<(Test, bool)> {
        let step = Step(self.word()?);
        let test = Test::new(self.names, step.test()).ok_or("a test for an unknown symbol")?;
        Ok((test, step.descendant()))
    }

    fn twig(&mut self) -> Decoded<Twig> {
        Ok(Twig { nodes: self.list(Self::node)? })
    }

    fn node(&mut self) -> Decoded<Node> {
        let (test, deep) = self.test()?;
        let filters = self.list(Self::pred)?;
        let positional = filters.iter().any(counts_positions);
        Ok(Node { test, deep, filters, positional })
    }

    fn value(&mut self) -> Decoded<Value> {
        Ok(match self.word()? {
            0 => Value::Str { first: self.word()? == 1, normalize: self.word()? == 1, twig: self.twig()? },
            1 => Value::Length { first: self.word()? == 1, normalize: self.word()? == 1, twig: self.twig()? },
            2 => Value::Count(self.twig()?),
            _ => return Err("an unknown value"),
        })
    }
}

/// Does the filter itself (not one inside its branches) count positions?
fn counts_positions(p: &Pred) -> bool {
    match p {
        Pred::Position { .. } => true,
        Pred::And(ps) | Pred::Or(ps) => ps.iter().any(counts_positions),
        Pred::Not(p) => counts_positions(p),
        _ => false,
    }
}
