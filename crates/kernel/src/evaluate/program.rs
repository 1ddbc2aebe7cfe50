//! Queries as 32-bit words: prefix order, counts before lists. Whatever the words are, decoding ends in a list of
//! well-typed expressions of bounded depth, or in an error.
//!
//! ```text
//! number LOW HIGH | string S | and N … | or N … | compare OP a b | arithmetic OP a b | negate a | call F N … | union N …
//! document | context | path start N (AXIS test N predicates …)… | filter input N predicates …
//! groups N binding returns …    (of a transform: nothing but a whole query)
//! test: symbol SYM | target S | prefix S | nothing
//! ```
//!
//! `S` is a place in the list of strings that comes with the words.

use super::expressions::{Arithmetic, Axis, Expr, ExprId, Expressions, Function, Info, Step, Type};
use super::tree::NodeTest;
use crate::names::{Names, NODE};
use crate::shapes::program::{Op, Test};
use hashbrown::HashMap;

/// Nesting that an evaluation can take on any stack.
const MAX_DEPTH: u32 = 500;

const GROUPS: u32 = 13;

const OPS: [Op; 6] = [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge];

const ARITHMETIC: [Arithmetic; 5] =
    [Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply, Arithmetic::Divide, Arithmetic::Modulo];

const AXES: [Axis; 15] = [
    Axis::Child,
    Axis::Descendant,
    Axis::DescendantOrSelf,
    Axis::Itself,
    Axis::Attribute,
    Axis::Parent,
    Axis::Ancestor,
    Axis::AncestorOrSelf,
    Axis::Preceding,
    Axis::PrecedingSibling,
    Axis::Following,
    Axis::FollowingSibling,
    Axis::Namespace,
    Axis::DeepChild,
    Axis::DeepAttribute,
];

/// Functions, how many arguments they take at least and at most, and whether these are node-sets.
const FUNCTIONS: [(Function, usize, usize, bool); 27] = {
    use Function::*;
    [
        (Last, 0, 0, false),
        (Position, 0, 0, false),
        (Count, 1, 1, true),
        (Id, 1, 1, false),
        (LocalName, 0, 1, true),
        (NamespaceUri, 0, 1, true),
        (Name, 0, 1, true),
        (String, 0, 1, false),
        (Concat, 2, usize::MAX, false),
        (StartsWith, 2, 2, false),
        (Contains, 2, 2, false),
        (SubstringBefore, 2, 2, false),
        (SubstringAfter, 2, 2, false),
        (Substring, 2, 3, false),
        (StringLength, 0, 1, false),
        (NormalizeSpace, 0, 1, false),
        (Translate, 3, 3, false),
        (Boolean, 1, 1, false),
        (Not, 1, 1, false),
        (True, 0, 0, false),
        (False, 0, 0, false),
        (Lang, 1, 1, false),
        (Number, 0, 1, false),
        (Sum, 1, 1, true),
        (Floor, 1, 1, false),
        (Ceiling, 1, 1, false),
        (Round, 1, 1, false),
    ]
};

/// Returns the expressions of a query, the query itself last. Operands are places in the list.
pub(super) fn decode(words: &[u32], strings: &[&str], names: &Names) -> Result<Vec<Expr>, &'static str> {
    let mut decoder = Decoder { words, strings, names, at: 0, depth: 0, made: vec![], known: vec![] };
    if is_groups(words) {
        decoder.groups()?;
    } else {
        decoder.expression()?;
    }
    if decoder.at != words.len() {
        return Err("words after the end of a program");
    }
    Ok(decoder.made)
}

/// Whether these are the words of a transform.
pub(crate) fn is_groups(words: &[u32]) -> bool {
    words.first() == Some(&GROUPS)
}

struct Decoder<'a> {
    words: &'a [u32],
    strings: &'a [&'a str],
    names: &'a Names,
    at: usize,
    depth: u32,
    made: Vec<Expr>,
    known: Vec<Info>,
}

type Decoded<T> = Result<T, &'static str>;

impl Decoder<'_> {
    fn word(&mut self) -> Decoded<u32> {
        let word = *self.words.get(self.at).ok_or("a program that ends early")?;
        self.at += 1;
        Ok(word)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Decoded<T> {
        let word = self.word()?;
        all.get(word as usize).copied().ok_or("an unknown word")
    }

    fn string(&mut self) -> Decoded<Box<[u8]>> {
        let place = self.word()?;
        let string = self.strings.get(place as usize).ok_or("a string that is not there")?;
        Ok(string.as_bytes().into())
    }

    fn list(&mut self) -> Decoded<Box<[ExprId]>> {
        let count = self.word()?;
        (0..count).map(|_| self.expression()).collect()
    }

    fn make(&mut self, expr: Expr) -> ExprId {
        let info = Info::new(&expr, |id| self.known[id.0 as usize]);
        self.made.push(expr);
        self.known.push(info);
        ExprId(self.made.len() as u32 - 1)
    }

    fn nodes(&mut self) -> Decoded<ExprId> {
        let id = self.expression()?;
        self.check_nodes(id)?;
        Ok(id)
    }

    fn check_nodes(&self, id: ExprId) -> Decoded<()> {
        match self.known[id.0 as usize].of {
            Type::Nodes => Ok(()),
            _ => Err("a value where a node-set is needed"),
        }
    }

    fn expression(&mut self) -> Decoded<ExprId> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("a program nested too deeply");
        }
        let expr = match self.word()? {
            0 => {
                let (low, high) = (self.word()?, self.word()?);
                Expr::Number(u64::from(high) << 32 | u64::from(low))
            }
            1 => Expr::Text(self.string()?),
            2 => Expr::And(self.list()?),
            3 => Expr::Or(self.list()?),
            4 => Expr::Compare(self.one_of(&OPS)?, self.expression()?, self.expression()?),
            5 => Expr::Arithmetic(self.one_of(&ARITHMETIC)?, self.expression()?, self.expression()?),
            6 => Expr::Negate(self.expression()?),
            7 => self.call()?,
            8 => {
                let operands = self.list()?;
                operands.iter().try_for_each(|id| self.check_nodes(*id))?;
                Expr::Union(operands)
            }
            9 => Expr::Document,
            10 => Expr::Context,
            11 => {
                let path = self.path()?;
                self.depth -= 1;
                return Ok(path);
            }
            12 => Expr::Filter(self.nodes()?, self.list()?),
            _ => return Err("an unknown expression"),
        };
        self.depth -= 1;
        Ok(self.make(expr))
    }

    fn groups(&mut self) -> Decoded<()> {
        self.word()?;
        let parts = self.list()?;
        if parts.is_empty() {
            return Err("a transform that binds nothing");
        }
        parts.iter().try_for_each(|id| self.check_nodes(*id))?;
        self.make(Expr::Groups(parts));
        Ok(())
    }

    fn call(&mut self) -> Decoded<Expr> {
        let (function, least, most, node_sets) = self.one_of(&FUNCTIONS)?;
        let mut arguments = self.list()?;
        if !(least..=most).contains(&arguments.len()) {
            return Err("a function with too few or too many arguments");
        }
        if node_sets {
            arguments.iter().try_for_each(|id| self.check_nodes(*id))?;
        }
        if arguments.is_empty() && most == 1 {
            // string() is string(.), and so with all functions that may go without their argument
            arguments = [self.make(Expr::Context)].into();
        }
        Ok(Expr::Call(function, arguments))
    }

    /// A chain of steps, each an expression with the one before as its input. It may be long: it does not count as depth.
    fn path(&mut self) -> Decoded<ExprId> {
        let mut input = self.nodes()?;
        for _ in 0..self.word()? {
            let axis = self.one_of(&AXES)?;
            let test = self.test(axis)?;
            let predicates = self.list()?;
            let positional = predicates.iter().any(|id| self.known[id.0 as usize].is_positional());
            input = self.make(Expr::Step(input, Box::new(Step { axis, test, predicates, positional })));
        }
        Ok(input)
    }

    fn test(&mut self, axis: Axis) -> Decoded<NodeTest> {
        let test = match self.word()? {
            0 => {
                let symbol = self.word()?;
                match Test::new(self.names, symbol).ok_or("a test for an unknown symbol")? {
                    Test::Node => NodeTest::Any,
                    test => NodeTest::Is(test),
                }
            }
            1 => NodeTest::Target(self.string()?),
            2 => NodeTest::Prefix(self.string()?),
            3 => NodeTest::Nothing,
            _ => return Err("an unknown test"),
        };
        let of_attributes = matches!(axis, Axis::Attribute | Axis::DeepAttribute);
        let fits = match &test {
            NodeTest::Any | NodeTest::Nothing => true,
            NodeTest::Prefix(_) => axis == Axis::Namespace,
            NodeTest::Is(test) => axis != Axis::Namespace && test.is_attribute() == of_attributes,
            NodeTest::Target(_) => axis != Axis::Namespace && !of_attributes,
        };
        fits.then_some(test).ok_or("a test that does not belong to its axis")
    }
}

/// The strings that programs refer to, each once.
#[derive(Default)]
pub(crate) struct Strings<'a> {
    pub(crate) list: Vec<&'a [u8]>,
    places: HashMap<&'a [u8], u32>,
}

impl<'a> Strings<'a> {
    fn place(&mut self, string: &'a [u8]) -> u32 {
        *self.places.entry(string).or_insert_with(|| {
            self.list.push(string);
            self.list.len() as u32 - 1
        })
    }
}

/// Encodes an expression and appends the words; the inverse of `decode`.
pub(super) fn encode<'a>(all: &'a Expressions, id: ExprId, strings: &mut Strings<'a>, words: &mut Vec<u32>) {
    fn place<T: PartialEq>(all: &[T], one: T) -> u32 {
        all.iter().position(|other| *other == one).unwrap_or_default() as u32
    }
    match all.get(id) {
        Expr::Number(bits) => words.extend([0, *bits as u32, (bits >> 32) as u32]),
        Expr::Text(text) => words.extend([1, strings.place(text)]),
        Expr::And(of) => {
            words.push(2);
            encode_list(all, of, strings, words);
        }
        Expr::Or(of) => {
            words.push(3);
            encode_list(all, of, strings, words);
        }
        Expr::Compare(op, a, b) => {
            words.extend([4, place(&OPS, *op)]);
            [a, b].into_iter().for_each(|id| encode(all, *id, strings, words));
        }
        Expr::Arithmetic(op, a, b) => {
            words.extend([5, place(&ARITHMETIC, *op)]);
            [a, b].into_iter().for_each(|id| encode(all, *id, strings, words));
        }
        Expr::Negate(a) => {
            words.push(6);
            encode(all, *a, strings, words);
        }
        Expr::Call(function, arguments) => {
            words.extend([7, place(&FUNCTIONS.map(|f| f.0), *function)]);
            encode_list(all, arguments, strings, words);
        }
        Expr::Union(of) => {
            words.push(8);
            encode_list(all, of, strings, words);
        }
        Expr::Document => words.push(9),
        Expr::Context => words.push(10),
        Expr::Step(..) => {
            let (mut start, mut steps) = (id, vec![]);
            while let Expr::Step(input, step) = all.get(start) {
                steps.push(step);
                start = *input;
            }
            words.push(11);
            encode(all, start, strings, words);
            words.push(steps.len() as u32);
            for step in steps.into_iter().rev() {
                words.push(place(&AXES, step.axis));
                match &step.test {
                    NodeTest::Any => words.extend([0, NODE]),
                    NodeTest::Is(test) => words.extend([0, test.symbol()]),
                    NodeTest::Target(target) => words.extend([1, strings.place(target)]),
                    NodeTest::Prefix(prefix) => words.extend([2, strings.place(prefix)]),
                    NodeTest::Nothing => words.push(3),
                }
                encode_list(all, &step.predicates, strings, words);
            }
        }
        Expr::Filter(input, predicates) => {
            words.push(12);
            encode(all, *input, strings, words);
            encode_list(all, predicates, strings, words);
        }
        Expr::Groups(parts) => {
            words.push(GROUPS);
            encode_list(all, parts, strings, words);
        }
    }
}

fn encode_list<'a>(all: &'a Expressions, of: &'a [ExprId], strings: &mut Strings<'a>, words: &mut Vec<u32>) {
    words.push(of.len() as u32);
    of.iter().for_each(|id| encode(all, *id, strings, words));
}
