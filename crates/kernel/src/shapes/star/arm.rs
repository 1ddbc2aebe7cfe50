//! An arm of a star: the values of a path below a centre, and what they ask of the constants that they are compared with.

use crate::names::{Sym, NO_SYM};
use crate::shapes::block::Place;
use crate::shapes::nodes::{NodeIx, Nodes};
use crate::shapes::program::{Ask, Node, Op, Test as NodeTest, Value};
use crate::shapes::rows::{Asked, Mark, Span, Test};
use crate::shapes::search::{GaveUp, Message, Search};
use crate::values::number::number;
use crate::values::strings::{length, normalize_space};

/// A value below the centre, without slots, and its comparisons.
pub(super) struct Arm {
    pub(super) value: Value,
    /// With constants that differ from row to row, and with such that all rows share.
    pub(super) varied: Vec<Comparison>,
    pub(super) fixed: Vec<Comparison>,
    /// The forms in which the value is asked for.
    pub(super) as_number: bool,
    pub(super) as_string: bool,
    pub(super) as_text: bool,
    /// It is that of the children of this name.
    pub(super) child: Sym,
}

/// A comparison with the constants of a slot.
#[derive(Clone, Copy)]
pub(super) struct Comparison {
    pub(super) ask: Ask,
    pub(super) place: Place,
}

/// What was gathered of the values of a path.
#[derive(Clone, Copy)]
pub(super) struct Values {
    pub(super) numbers: Span,
    pub(super) strings: Span,
    pub(super) texts: Span,
}

/// What values ask of a constant.
pub(super) enum Verdict {
    Always,
    Never,
    If(Test),
}

/// The children of a name, where the value is theirs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Child {
    None,
    One(NodeIx),
    Many,
}

impl Nodes {
    /// The child of a name that at most one node has; of others, `Many` for all that is known.
    #[inline(always)]
    pub(super) fn only_child(&self, parent: NodeIx, name: Sym) -> Child {
        let first = self.first_of(name);
        match self.count_of(name) {
            0 => Child::None,
            1 if self.recs[first as usize].parent != parent => Child::None,
            1 => Child::One(first),
            _ => Child::Many,
        }
    }
}

impl Arm {
    pub(super) fn new(value: Value) -> Arm {
        let child = match &value {
            Value::Str { twig, first: false, normalize: false } => match &twig.nodes[..] {
                [Node { test: NodeTest::Exactly(sym), deep: false, filters, .. }] if filters.is_empty() => *sym,
                _ => NO_SYM,
            },
            _ => NO_SYM,
        };
        Arm { value, varied: vec![], fixed: vec![], as_number: false, as_string: false, as_text: false, child }
    }

    /// The values below the centre, in as many forms as are asked for.
    #[inline(always)]
    pub(super) fn gather(
        &self,
        child: Child,
        search: &mut Search<'_>,
        message: Message<'_>,
        centre: NodeIx,
        bytes: &mut Vec<u8>,
        asked: &mut Asked,
    ) -> Result<Values, GaveUp> {
        let mark = asked.mark();
        match child {
            Child::One(n) => self.add(message.nodes.value(message.src, n, bytes), message, asked),
            _ => self.gather_all(child, search, message, centre, bytes, asked)?,
        }
        Ok(asked.values_since(mark))
    }

    #[inline(never)]
    fn gather_all(
        &self,
        child: Child,
        search: &mut Search<'_>,
        message: Message<'_>,
        centre: NodeIx,
        bytes: &mut Vec<u8>,
        asked: &mut Asked,
    ) -> Result<(), GaveUp> {
        let (twig, first, normalize) = match &self.value {
            Value::Count(twig) => {
                let count = search.collect(twig, centre, &[])?.len();
                asked.numbers.push(count as f64);
                return Ok(());
            }
            Value::Str { twig, first, normalize } | Value::Length { twig, first, normalize } => {
                (twig, *first, *normalize)
            }
        };
        let mut add = |raw: &[u8]| {
            if normalize {
                self.add(&normalize_space(raw), message, asked);
            } else {
                self.add(raw, message, asked);
            }
        };
        match child {
            Child::None if self.child != NO_SYM => {}
            _ if twig.nodes.is_empty() => add(message.nodes.value(message.src, centre, bytes)),
            _ if !first => search.each(twig, centre, |n| add(message.nodes.value(message.src, n, bytes)))?,
            _ => {
                let mut least = None;
                search.each(twig, centre, |n| least = Some(least.map_or(n, |m: NodeIx| m.min(n))))?;
                add(least.map_or(b"", |n| message.nodes.value(message.src, n, bytes)));
            }
        }
        Ok(())
    }

    #[inline]
    fn add(&self, value: &[u8], message: Message<'_>, asked: &mut Asked) {
        if self.as_number {
            let counted = matches!(self.value, Value::Length { .. });
            asked.numbers.push(if counted { length(value) as f64 } else { number(value) });
        }
        if self.as_string {
            asked.strings.push(message.constants.find(value).unwrap_or(u32::MAX));
        }
        if self.as_text {
            asked.add_text(value);
        }
    }
}

impl Asked {
    pub(super) fn values_since(&self, mark: Mark) -> Values {
        let (numbers, strings, texts) = self.since(mark);
        Values { numbers, strings, texts }
    }

    /// What the values ask of each constant.
    #[inline(always)] // so that a check is written where it is to lie, and not copied there
    pub(super) fn test(&mut self, ask: Ask, values: Values) -> Verdict {
        let (numbers, strings) = (&mut self.numbers[values.numbers.range()], &mut self.strings[values.strings.range()]);
        let known = numbers.iter().copied().filter(|v| !v.is_nan());
        let than = |v: Option<f64>, op| v.map_or(Verdict::Never, |v| Verdict::If(Test::Number(op, v)));
        match ask {
            Ask::Number(op) => match (op, &*numbers) {
                (_, []) => Verdict::Never,
                (Op::Eq, [v]) => Verdict::If(Test::Number(op, *v)),
                (Op::Eq, _) => Verdict::If(Test::AnyNumber(values.numbers)),
                // one value only: it differs from every other constant
                (Op::Ne, [v, rest @ ..]) if !v.is_nan() && rest.iter().all(|x| x == v) => than(Some(*v), op),
                (Op::Ne, _) => Verdict::Always,
                // some value is below the constant if the least is
                (Op::Lt | Op::Le, _) => than(known.reduce(f64::min), op),
                (Op::Gt | Op::Ge, _) => than(known.reduce(f64::max), op),
            },
            Ask::Is => match &*strings {
                [] => Verdict::Never,
                [id] => Verdict::If(Test::Is(*id)),
                _ => Verdict::If(Test::AnyString(values.strings)),
            },
            Ask::IsNot => match &*strings {
                [] => Verdict::Never,
                [id, rest @ ..] if *id != u32::MAX && rest.iter().all(|x| x == id) => Verdict::If(Test::IsNot(*id)),
                _ => Verdict::Always,
            },
            Ask::Contains | Ask::StartsWith if values.texts.is_empty() => Verdict::Never,
            Ask::Contains => Verdict::If(Test::Contains(values.texts)),
            Ask::StartsWith => Verdict::If(Test::StartsWith(values.texts)),
        }
    }
}
