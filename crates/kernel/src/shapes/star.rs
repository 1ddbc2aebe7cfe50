//! The commonest pattern by far: some node, and constants compared with the values of paths below it, all at once
//! (`/stock[symbol = "IBM"][price > 50][volume > 1000]`). The values are taken from the message once; then all
//! subscriptions of a bucket are checked column by column.

use super::nodes::NodeIx;
use super::program::{Node, Op, Pred, Slot, Twig, Value};
use super::search::{GaveUp, Message, Search};
use crate::values::number::number;

/// A comparison with a slot.
#[derive(Clone, Copy)]
struct Arm {
    op: Op,
    slot: u32,
    kind: Slot,
}

pub struct Star {
    /// From the document to the centre.
    trunk: Twig,
    /// Paths below the centre, each with its comparisons.
    arms: Vec<(Twig, Vec<Arm>)>,
    /// What else must hold at the centre; without slots.
    rest: Vec<Pred>,
}

/// The rows of a bucket: `columns[column_of[s]]` is slot `s` of all rows; where that is `u32::MAX`, `fixed[s]` is.
pub struct Rows<'a> {
    pub len: usize,
    pub columns: &'a [Vec<u64>],
    pub column_of: &'a [u32],
    pub fixed: &'a [u64],
}

/// What a column of constants must satisfy for one centre.
enum Column<'a> {
    /// Some value exists that is below (above, ...) the constant: compare with the least (greatest) value.
    Than(Op, f64),
    Numbers(&'a [f64]),
    Strings(&'a [u32]),
    NotNumber(f64),
    NotString(u32),
    Always,
    Never,
}

/// Working memory.
#[derive(Default)]
pub struct Scratch {
    keep: Vec<u8>,
    centres: Vec<NodeIx>,
    numbers: Vec<f64>,
    /// Numbers of the strings; `u32::MAX` for one that no subscription compares with.
    strings: Vec<u32>,
    bytes: Vec<u8>,
}

impl Star {
    /// The star that a pattern is, if it is one.
    pub fn new(pred: &Pred) -> Option<Star> {
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
            Pred::And(_) | Pred::Text { .. } | Pred::Number { .. } => (vec![], vec![pred.clone()], vec![]),
            _ => return None,
        };
        let mut star = Star { trunk: Twig { nodes: trunk }, arms: vec![], rest: vec![] };
        for f in filters {
            star.add(f)?;
        }
        if !below.is_empty() {
            star.add(Pred::Exists(Twig { nodes: below }))?;
        }
        (!star.arms.is_empty()).then_some(star)
    }

    fn add(&mut self, pred: Pred) -> Option<()> {
        match pred {
            Pred::And(ps) => {
                for p in ps {
                    self.add(p)?;
                }
            }
            Pred::Text { value: Value::Str { twig, first: false, normalize: false }, equal, slot }
                if plain(&twig.nodes) =>
            {
                self.arm(twig, Arm { op: if equal { Op::Eq } else { Op::Ne }, slot, kind: Slot::Str });
            }
            Pred::Number { value: Value::Str { twig, first: false, normalize: false }, op, slot }
                if plain(&twig.nodes) =>
            {
                self.arm(twig, Arm { op, slot, kind: Slot::Num });
            }
            other if !has_slots(&other) => self.rest.push(other),
            _ => return None,
        }
        Some(())
    }

    fn arm(&mut self, twig: Twig, arm: Arm) {
        match self.arms.iter_mut().find(|(t, _)| *t == twig) {
            Some((_, arms)) => arms.push(arm),
            None => self.arms.push((twig, vec![arm])),
        }
    }

    /// Calls `hit` for each row that the message satisfies (perhaps several times).
    pub fn matches(
        &self,
        message: Message<'_>,
        fuel: u32,
        rows: &Rows<'_>,
        scratch: &mut Scratch,
        mut hit: impl FnMut(usize),
    ) -> Result<(), GaveUp> {
        let mut search = Search::new(message, fuel);
        let mut centres = std::mem::take(&mut scratch.centres);
        let mut keep = std::mem::take(&mut scratch.keep);
        centres.clear();
        search.each(&self.trunk, 0, |n| centres.push(n))?;
        if centres.len() > 1 {
            centres.sort_unstable();
            centres.dedup();
        }
        'centres: for &centre in &centres {
            for p in &self.rest {
                if !search.holds(p, centre, (1, 1), &[])? {
                    continue 'centres;
                }
            }
            keep.clear();
            keep.resize(rows.len, 1);
            for (twig, arms) in &self.arms {
                self.gather(&mut search, message, twig, arms, centre, scratch)?;
                for arm in arms {
                    let test = scratch.column(arm);
                    match rows.column_of[arm.slot as usize] {
                        u32::MAX if !test.holds(rows.fixed[arm.slot as usize]) => continue 'centres,
                        u32::MAX => {}
                        column => test.apply(&rows.columns[column as usize], &mut keep),
                    }
                }
            }
            for (i, &k) in keep.iter().enumerate() {
                if k != 0 {
                    hit(i);
                }
            }
        }
        (scratch.centres, scratch.keep) = (centres, keep);
        Ok(())
    }

    /// The values of a path below the centre, as numbers or strings or both.
    fn gather(
        &self,
        search: &mut Search<'_>,
        message: Message<'_>,
        twig: &Twig,
        arms: &[Arm],
        centre: NodeIx,
        scratch: &mut Scratch,
    ) -> Result<(), GaveUp> {
        let Scratch { numbers, strings, bytes, .. } = scratch;
        numbers.clear();
        strings.clear();
        let as_number = arms.iter().any(|a| a.kind == Slot::Num);
        let as_string = arms.iter().any(|a| a.kind == Slot::Str);
        search.each(twig, centre, |n| {
            let value = message.nodes.value(message.src, n, bytes);
            if as_number {
                numbers.push(number(value));
            }
            if as_string {
                strings.push(message.constants.find(value).unwrap_or(u32::MAX));
            }
        })
    }
}

impl Scratch {
    /// What the gathered values ask of a column.
    fn column(&self, arm: &Arm) -> Column<'_> {
        if arm.kind == Slot::Str {
            return match (arm.op, &self.strings[..]) {
                (_, []) => Column::Never,
                (Op::Eq, ids) => Column::Strings(ids),
                // one value only: it differs from every other constant
                (_, [id, rest @ ..]) if *id != u32::MAX && rest.iter().all(|x| x == id) => Column::NotString(*id),
                _ => Column::Always,
            };
        }
        let known = self.numbers.iter().copied().filter(|v| !v.is_nan());
        match (arm.op, &self.numbers[..]) {
            (_, []) => Column::Never,
            (Op::Eq, values) => Column::Numbers(values),
            (Op::Ne, [v, rest @ ..]) if !v.is_nan() && rest.iter().all(|x| x == v) => Column::NotNumber(*v),
            (Op::Ne, _) => Column::Always,
            // some value is below the constant if the least is
            (Op::Lt | Op::Le, _) => known.reduce(f64::min).map_or(Column::Never, |v| Column::Than(arm.op, v)),
            (Op::Gt | Op::Ge, _) => known.reduce(f64::max).map_or(Column::Never, |v| Column::Than(arm.op, v)),
        }
    }
}

impl Column<'_> {
    fn holds(&self, constant: u64) -> bool {
        let number = f64::from_bits(constant);
        match self {
            Column::Than(op, v) => op.holds(*v, number),
            Column::Numbers(vs) => vs.contains(&number),
            Column::Strings(ids) => ids.contains(&(constant as u32)),
            Column::NotNumber(v) => *v != number,
            Column::NotString(id) => *id != constant as u32,
            Column::Always => true,
            Column::Never => false,
        }
    }

    /// One loop per operator, so that each is vectorised.
    fn apply(&self, column: &[u64], keep: &mut [u8]) {
        macro_rules! each {
            ($c:ident => $e:expr) => {
                for (k, &$c) in keep.iter_mut().zip(column) {
                    *k &= ($e) as u8;
                }
            };
        }
        match *self {
            Column::Than(Op::Lt, v) => each!(c => v < f64::from_bits(c)),
            Column::Than(Op::Le, v) => each!(c => v <= f64::from_bits(c)),
            Column::Than(Op::Gt, v) => each!(c => v > f64::from_bits(c)),
            Column::Than(_, v) => each!(c => v >= f64::from_bits(c)),
            Column::NotString(id) => each!(c => c as u32 != id),
            Column::Always => {}
            Column::Never => keep.fill(0),
            _ => each!(c => self.holds(c)),
        }
    }
}

fn plain(nodes: &[Node]) -> bool {
    nodes.iter().all(|n| n.filters.is_empty())
}

fn has_slots(p: &Pred) -> bool {
    match p {
        Pred::Bool(_) | Pred::NodeIs(_) | Pred::Position { .. } => false,
        Pred::And(ps) | Pred::Or(ps) => ps.iter().any(has_slots),
        Pred::Not(p) => has_slots(p),
        Pred::Exists(twig) => twig.nodes.iter().any(|n| n.filters.iter().any(has_slots)),
        Pred::Text { .. } | Pred::Number { .. } | Pred::Contains { .. } | Pred::StartsWith { .. } => true,
    }
}
