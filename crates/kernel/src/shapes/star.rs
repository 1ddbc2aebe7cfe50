//! The commonest pattern by far: some node, and constants compared with the values of paths below it, all at once
//! (`/stock[symbol = "IBM"][price > 50][volume > 1000]`). The values are taken from the message once; what they ask of
//! the constants of all subscriptions of a bucket is then checked column by column (`rows`).

use super::block::Place;
use super::nodes::{NodeIx, Nodes};
use super::program::{Node, Op, Pred, Test as NodeTest, Twig, Value};
use super::rows::{Asked, Check, Mark, Span, Test};
use super::search::{length, normalize_space, GaveUp, Message, Search};
use super::store::Access;
use crate::names::{Sym, NO_SYM};
use crate::paths::Step;
use crate::values::number::number;

/// How a constant is compared with values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    Number(Op),
    Is,
    IsNot,
    Contains,
    StartsWith,
}

pub struct Star {
    /// From the document to the centre.
    trunk: Twig,
    arms: Vec<Arm>,
    /// What else must hold at the centre; without slots.
    rest: Vec<Pred>,
    key: Option<Key>,
    /// The arm that is the way to the bucket: it holds at one centre at least.
    reached: Option<usize>,
}

/// A value below the centre, without slots, and its comparisons.
struct Arm {
    value: Value,
    /// With constants that differ from row to row, and with such that all rows share.
    varied: Vec<Comparison>,
    fixed: Vec<Comparison>,
    /// The forms in which the value is asked for.
    as_number: bool,
    as_string: bool,
    as_text: bool,
    /// It is that of the children of this name.
    child: Sym,
}

/// A comparison with the constants of a slot.
#[derive(Clone, Copy)]
struct Comparison {
    ask: Ask,
    place: Place,
}

/// The comparison by whose constants rows are sorted: those that hold lie together. It is the first that is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    pub place: Place,
    pub order: Order,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Numbers that hold are the first ones.
    Ascending,
    Descending,
    /// Strings, by their numbers.
    Id,
    /// The same, and values are searched for the strings.
    Contained,
    Prefix,
}

/// Working memory.
#[derive(Default)]
pub struct Scratch {
    centres: Vec<NodeIx>,
    children: Vec<Child>,
    fixed: Vec<Check>,
    bytes: Vec<u8>,
}

impl Star {
    /// The star that a pattern is, if it is one.
    pub fn new(pred: &Pred, places: &[Place], access: &[Access]) -> Option<Star> {
        let (trunk, filters, below) = match pred {
            Pred::Exists(twig) => {
                let centre = twig.nodes.iter().position(|n| !n.filters.is_empty())?;
                let node = &twig.nodes[centre];
                if node.positional || twig.nodes[centre + 1..].iter().any(|n| n.positional) {
                    return None;
                }
                let mut trunk = twig.nodes[..=centre].to_vec();
                trunk[centre].filters = vec![];
                (trunk, node.filters.clone(), twig.nodes[centre + 1..].to_vec())
            }
            Pred::And(_)
            | Pred::Text { .. }
            | Pred::Number { .. }
            | Pred::Contains { .. }
            | Pred::StartsWith { .. } => (vec![], vec![pred.clone()], vec![]),
            _ => return None,
        };
        let mut star = Star { trunk: Twig { nodes: trunk }, arms: vec![], rest: vec![], key: None, reached: None };
        for f in filters {
            star.add(f, places)?;
        }
        if !below.is_empty() {
            star.add(Pred::Exists(Twig { nodes: below }), places)?;
        }
        star.choose_key();
        star.reached = star.arms.iter().position(|arm| star.is_reached(arm, places, access));
        (!star.arms.is_empty()).then_some(star)
    }

    fn add(&mut self, pred: Pred, places: &[Place]) -> Option<()> {
        let (value, ask, slot) = match pred {
            Pred::And(ps) => return ps.into_iter().try_for_each(|p| self.add(p, places)),
            Pred::Text { value, equal, slot } => (value, if equal { Ask::Is } else { Ask::IsNot }, slot),
            Pred::Number { value, op, slot } => (value, Ask::Number(op), slot),
            Pred::Contains { value, slot } => (value, Ask::Contains, slot),
            Pred::StartsWith { value, slot } => (value, Ask::StartsWith, slot),
            other if !has_slots(&other) => {
                self.rest.push(other);
                return Some(());
            }
            _ => return None,
        };
        let (Value::Str { twig, .. } | Value::Length { twig, .. } | Value::Count(twig)) = &value;
        if twig.nodes.iter().any(|n| n.filters.iter().any(has_slots)) {
            return None;
        }
        let arm = match self.arms.iter_mut().position(|a| a.value == value) {
            Some(i) => &mut self.arms[i],
            None => {
                self.arms.push(Arm::new(value));
                self.arms.last_mut()?
            }
        };
        match ask {
            Ask::Number(_) => arm.as_number = true,
            Ask::Is | Ask::IsNot => arm.as_string = true,
            Ask::Contains | Ask::StartsWith => arm.as_text = true,
        }
        let place = places[slot as usize];
        let list = if place.is_fixed() { &mut arm.fixed } else { &mut arm.varied };
        list.push(Comparison { ask, place });
        Some(())
    }

    /// Equality rules out most, then text, then bounds. The key's value comes first, and its comparison before others.
    fn choose_key(&mut self) {
        let mut best: Option<(u32, usize, usize, Key)> = None;
        for (i, arm) in self.arms.iter().enumerate() {
            for (j, c) in arm.varied.iter().enumerate() {
                let (rank, order) = match c.ask {
                    Ask::IsNot | Ask::Number(Op::Ne) => continue,
                    Ask::Is => (0, Order::Id),
                    Ask::Number(Op::Eq) => (1, Order::Ascending),
                    Ask::StartsWith => (2, Order::Prefix),
                    Ask::Contains => (3, Order::Contained),
                    Ask::Number(Op::Gt | Op::Ge) => (4, Order::Ascending),
                    Ask::Number(Op::Lt | Op::Le) => (4, Order::Descending),
                };
                if best.is_none_or(|b| rank < b.0) {
                    best = Some((rank, i, j, Key { place: c.place, order }));
                }
            }
        }
        if let Some((_, i, j, key)) = best {
            self.arms.swap(0, i);
            self.arms[0].varied.swap(0, j);
            self.key = Some(key);
        }
    }

    /// Is the one comparison of this arm the access predicate?
    fn is_reached(&self, arm: &Arm, places: &[Place], access: &[Access]) -> bool {
        let (Value::Str { twig, first: false, normalize: false }, [], [c], [way]) =
            (&arm.value, &arm.varied[..], &arm.fixed[..], access)
        else {
            return false;
        };
        let nodes = || self.trunk.nodes.iter().chain(&twig.nodes);
        way.slot.is_some_and(|slot| places[slot as usize] == c.place)
            && matches!(c.ask, Ask::Is | Ask::Number(Op::Eq))
            && nodes().count() == way.path.len()
            && nodes().zip(&way.path).all(|(node, step)| node.filters.is_empty() && node.is_step(*step))
    }

    pub fn key(&self) -> Option<Key> {
        self.key
    }

    /// Calls `each` for every centre at which a row may hold, after its checks have been appended to `asked`.
    pub fn ask(
        &self,
        message: Message<'_>,
        fuel: u32,
        scratch: &mut Scratch,
        asked: &mut Asked,
        mut each: impl FnMut(&mut Asked, Span),
    ) -> Result<(), GaveUp> {
        let mut search = Search::new(message, fuel);
        let mut centres = std::mem::take(&mut scratch.centres);
        centres.clear();
        let found = search.each(&self.trunk, 0, |n| centres.push(n));
        if centres.len() > 1 {
            centres.sort_unstable();
            centres.dedup();
        }
        let found = found.and_then(|_| {
            let certain = if centres.len() == 1 { self.reached } else { None };
            for &centre in &centres {
                let mark = asked.mark();
                if self.ask_at(centre, certain, &mut search, message, scratch, asked)? {
                    let checks = asked.checks_since(mark);
                    each(asked, checks);
                } else {
                    asked.rewind(mark);
                }
            }
            Ok(())
        });
        scratch.centres = centres;
        found
    }

    /// False if no row can hold at the centre.
    fn ask_at(
        &self,
        centre: NodeIx,
        certain: Option<usize>,
        search: &mut Search<'_>,
        message: Message<'_>,
        scratch: &mut Scratch,
        asked: &mut Asked,
    ) -> Result<bool, GaveUp> {
        for p in &self.rest {
            if !search.holds(p, centre, (1, 1), &[])? {
                return Ok(false);
            }
        }
        scratch.fixed.clear();
        scratch.children.clear();
        let nodes = message.nodes;
        scratch.children.extend(self.arms.iter().map(|arm| nodes.only_child(centre, arm.child)));
        if scratch.children.contains(&Child::Many) {
            // children may have the names of others: look at each
            scratch.children.fill(Child::None);
            let recs = &nodes.recs;
            let (mut n, end) = (centre + 1, recs[centre as usize].end);
            while n < end {
                let r = &recs[n as usize];
                for (arm, child) in self.arms.iter().zip(&mut scratch.children) {
                    if r.sym == arm.child {
                        *child = if *child == Child::None { Child::One(n) } else { Child::Many };
                    }
                }
                n = r.end;
            }
        }
        for (i, arm) in self.arms.iter().enumerate() {
            if Some(i) == certain {
                continue;
            }
            let values = arm.gather(scratch.children[i], search, message, centre, &mut scratch.bytes, asked)?;
            for c in &arm.varied {
                match asked.test(c.ask, values) {
                    Verdict::Never => return Ok(false),
                    Verdict::Always => {}
                    Verdict::If(test) => asked.push(Check { place: c.place, test }),
                }
            }
            for c in &arm.fixed {
                match asked.test(c.ask, values) {
                    Verdict::Never => return Ok(false),
                    Verdict::Always => {}
                    Verdict::If(test) => scratch.fixed.push(Check { place: c.place, test }),
                }
            }
        }
        // they are checked apart
        scratch.fixed.iter().for_each(|&check| asked.push(check));
        Ok(true)
    }
}

/// What was gathered of the values of a path.
#[derive(Clone, Copy)]
struct Values {
    numbers: Span,
    strings: Span,
    texts: Span,
}

/// What values ask of a constant.
enum Verdict {
    Always,
    Never,
    If(Test),
}

/// The children of a name, where the value is theirs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Child {
    None,
    One(NodeIx),
    Many,
}

impl Nodes {
    /// The child of a name that at most one node has; of others, `Many` for all that is known.
    #[inline(always)]
    fn only_child(&self, parent: NodeIx, name: Sym) -> Child {
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
    fn new(value: Value) -> Arm {
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
    fn gather(
        &self,
        child: Child,
        search: &mut Search<'_>,
        message: Message<'_>,
        centre: NodeIx,
        bytes: &mut Vec<u8>,
        asked: &mut Asked,
    ) -> Result<Values, GaveUp> {
        let mark = asked.mark();
        if let Child::One(n) = child {
            self.add(message.nodes.value(message.src, n, bytes), message, asked);
            return Ok(asked.values_since(mark));
        }
        let (twig, first, normalize) = match &self.value {
            Value::Count(twig) => {
                let count = search.collect(twig, centre, &[])?.len();
                asked.numbers.push(count as f64);
                return Ok(asked.values_since(mark));
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
        Ok(asked.values_since(mark))
    }

    #[inline]
    fn add(&self, value: &[u8], message: Message<'_>, asked: &mut Asked) {
        if self.as_number {
            let counted = matches!(self.value, Value::Length { .. });
            asked.numbers.push(if counted { length(value) } else { number(value) });
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
    fn values_since(&self, mark: Mark) -> Values {
        let (numbers, strings, texts) = self.since(mark);
        Values { numbers, strings, texts }
    }

    /// What the values ask of each constant.
    #[inline(always)] // so that a check is written where it is to lie, and not copied there
    fn test(&mut self, ask: Ask, values: Values) -> Verdict {
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

impl Node {
    /// Is it this step of a path? (Not every step that means the same is recognised.)
    fn is_step(&self, step: Step) -> bool {
        self.deep == step.descendant() && self.test == NodeTest::Exactly(step.test())
    }
}

fn has_slots(p: &Pred) -> bool {
    let in_twig = |twig: &Twig| twig.nodes.iter().any(|n| n.filters.iter().any(has_slots));
    match p {
        Pred::Bool(_) | Pred::NodeIs(_) | Pred::Position { .. } => false,
        Pred::And(ps) | Pred::Or(ps) => ps.iter().any(has_slots),
        Pred::Not(p) => has_slots(p),
        Pred::Exists(twig) => in_twig(twig),
        Pred::Text { .. } | Pred::Number { .. } | Pred::Contains { .. } | Pred::StartsWith { .. } => true,
    }
}
