//! The commonest pattern by far: some node, and constants compared with the values of paths below it, all at once
//! (`/stock[symbol = "IBM"][price > 50][volume > 1000]`). The values are taken from the message once; what they ask of
//! the constants of all subscriptions of a bucket is then checked column by column (`rows`).

use super::block::{Block, Column, Place};
use super::nodes::NodeIx;
use super::program::{Op, Pred, Twig, Value};
use super::rows::{Asked, Check, Span, Test};
use super::search::{length, normalize_space, GaveUp, Message, Search};
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

/// A comparison with the constants of a slot.
#[derive(Clone, Copy)]
struct Arm {
    ask: Ask,
    place: Place,
}

pub struct Star {
    /// From the document to the centre.
    trunk: Twig,
    /// Values below the centre, each with its comparisons. Without slots.
    arms: Vec<(Value, Vec<Arm>)>,
    /// What else must hold at the centre; without slots.
    rest: Vec<Pred>,
    key: Option<Key>,
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
    bytes: Vec<u8>,
}

impl Star {
    /// The star that a pattern is, if it is one.
    pub fn new(pred: &Pred, places: &[Place]) -> Option<Star> {
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
        let mut star = Star { trunk: Twig { nodes: trunk }, arms: vec![], rest: vec![], key: None };
        for f in filters {
            star.add(f, places)?;
        }
        if !below.is_empty() {
            star.add(Pred::Exists(Twig { nodes: below }), places)?;
        }
        star.choose_key();
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
        let arm = Arm { ask, place: places[slot as usize] };
        match self.arms.iter_mut().find(|(v, _)| *v == value) {
            Some((_, arms)) => arms.push(arm),
            None => self.arms.push((value, vec![arm])),
        }
        Some(())
    }

    /// Equality rules out most, then text, then bounds. The key's values come first, and its comparison before others.
    fn choose_key(&mut self) {
        let mut best: Option<(u32, usize, usize, Key)> = None;
        for (i, (_, arms)) in self.arms.iter().enumerate() {
            for (j, arm) in arms.iter().enumerate() {
                let (rank, order) = match (arm.ask, arm.place) {
                    (_, Place::FixedNumber(_) | Place::FixedString(_)) | (Ask::IsNot | Ask::Number(Op::Ne), _) => {
                        continue
                    }
                    (Ask::Is, _) => (0, Order::Id),
                    (Ask::Number(Op::Eq), _) => (1, Order::Ascending),
                    (Ask::StartsWith, _) => (2, Order::Prefix),
                    (Ask::Contains, _) => (3, Order::Contained),
                    (Ask::Number(Op::Gt | Op::Ge), _) => (4, Order::Ascending),
                    (Ask::Number(Op::Lt | Op::Le), _) => (4, Order::Descending),
                };
                if best.is_none_or(|b| rank < b.0) {
                    best = Some((rank, i, j, Key { place: arm.place, order }));
                }
            }
        }
        if let Some((_, i, j, key)) = best {
            self.arms.swap(0, i);
            self.arms[0].1.swap(0, j);
            self.key = Some(key);
        }
    }

    pub fn key(&self) -> Option<Key> {
        self.key
    }

    /// Calls `each` for every centre at which a row may hold, after its checks have been appended to `asked`.
    pub fn ask(
        &self,
        message: Message<'_>,
        fuel: u32,
        block: Block<'_>,
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
            for &centre in &centres {
                let mark = asked.mark();
                if self.ask_at(centre, &mut search, message, block, scratch, asked)? {
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
        search: &mut Search<'_>,
        message: Message<'_>,
        block: Block<'_>,
        scratch: &mut Scratch,
        asked: &mut Asked,
    ) -> Result<bool, GaveUp> {
        for p in &self.rest {
            if !search.holds(p, centre, (1, 1), &[])? {
                return Ok(false);
            }
        }
        for (value, arms) in &self.arms {
            let values = gather(search, message, value, arms, centre, scratch, asked)?;
            for arm in arms {
                let test = match asked.test(arm.ask, values) {
                    Verdict::Never => return Ok(false),
                    Verdict::Always => continue,
                    Verdict::If(test) => test,
                };
                match arm.place {
                    Place::FixedNumber(_) | Place::FixedString(_) => {
                        let holds = match block.column(arm.place) {
                            Column::Numbers(c) => asked.numbers_hold(&test, c) & 1 == 1,
                            Column::Strings(c) => asked.strings_hold(&test, c, 1, message.constants) & 1 == 1,
                        };
                        if !holds {
                            return Ok(false);
                        }
                    }
                    place => asked.push(Check { place, test }),
                }
            }
        }
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

/// The values of a path below the centre, in as many forms as are asked for.
fn gather(
    search: &mut Search<'_>,
    message: Message<'_>,
    value: &Value,
    arms: &[Arm],
    centre: NodeIx,
    scratch: &mut Scratch,
    asked: &mut Asked,
) -> Result<Values, GaveUp> {
    let mark = asked.mark();
    let (twig, first, normalize) = match value {
        Value::Count(twig) => {
            let count = search.collect(twig, centre, &[])?.len();
            asked.numbers.push(count as f64);
            return Ok(asked.values_since(mark));
        }
        Value::Str { twig, first, normalize } | Value::Length { twig, first, normalize } => (twig, *first, *normalize),
    };
    let counted = matches!(value, Value::Length { .. });
    let as_number = arms.iter().any(|a| matches!(a.ask, Ask::Number(_)));
    let as_string = arms.iter().any(|a| matches!(a.ask, Ask::Is | Ask::IsNot));
    let as_text = arms.iter().any(|a| matches!(a.ask, Ask::Contains | Ask::StartsWith));
    let mut add = |raw: &[u8]| {
        let normal;
        let s = if normalize {
            normal = normalize_space(raw);
            &normal
        } else {
            raw
        };
        if as_number {
            asked.numbers.push(if counted { length(s) } else { number(s) });
        }
        if as_string {
            asked.strings.push(message.constants.find(s).unwrap_or(u32::MAX));
        }
        if as_text {
            asked.add_text(s);
        }
    };
    let bytes = &mut scratch.bytes;
    if twig.nodes.is_empty() {
        add(message.nodes.value(message.src, centre, bytes));
    } else if !first {
        search.each(twig, centre, |n| add(message.nodes.value(message.src, n, bytes)))?;
    } else {
        let mut least = None;
        search.each(twig, centre, |n| least = Some(least.map_or(n, |m: NodeIx| m.min(n))))?;
        add(least.map_or(b"", |n| message.nodes.value(message.src, n, bytes)));
    }
    Ok(asked.values_since(mark))
}

impl Asked {
    fn values_since(&self, mark: super::rows::Mark) -> Values {
        let (numbers, strings, texts) = self.since(mark);
        Values { numbers, strings, texts }
    }

    /// What the values ask of each constant.
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
