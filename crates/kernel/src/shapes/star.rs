//! The commonest pattern by far: some node, and constants compared with the values of paths below it, all at once
//! (`/stock[symbol = "IBM"][price > 50][volume > 1000]`). The values are taken from the message once; then all
//! subscriptions of a bucket are checked column by column.

use super::nodes::NodeIx;
use super::program::{Node, Op, Pred, Slot, Twig, Value};
use super::search::{GaveUp, Message, Row, Search};
use crate::values::number::number;

/// A comparison of a path below the centre with a slot.
struct Arm {
    twig: Twig,
    op: Op,
    slot: u32,
    kind: Slot,
}

pub struct Star {
    /// From the document to the centre.
    trunk: Twig,
    arms: Vec<Arm>,
    /// What else must hold at the centre; without slots.
    rest: Vec<Pred>,
}

/// What a column of constants must satisfy for one centre.
enum Column {
    /// Some value exists that is below (above, ...) the constant: compare with the least (greatest) value.
    Than(Op, f64),
    Numbers(Vec<f64>),
    Strings(Vec<u32>),
    NotNumber(f64),
    NotString(u32),
    Always,
    Never,
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
            Pred::Text { value: Value::Str { twig, first: false, normalize: false }, equal, slot } if plain(&twig.nodes) => {
                let op = if equal { Op::Eq } else { Op::Ne };
                self.arms.push(Arm { twig, op, slot, kind: Slot::Str });
            }
            Pred::Number { value: Value::Str { twig, first: false, normalize: false }, op, slot } if plain(&twig.nodes) => {
                self.arms.push(Arm { twig, op, slot, kind: Slot::Num });
            }
            other if !has_slots(&other) => self.rest.push(other),
            _ => return None,
        }
        Some(())
    }

    /// Calls `hit` for each row of the columns that the message satisfies (perhaps several times). `columns[s]` is
    /// slot `s` of all rows; a slot that is the same for all is in `fixed`.
    pub fn matches(
        &self,
        message: Message<'_>,
        fuel: u32,
        rows: usize,
        columns: &[Vec<u64>],
        column_of: &[u32],
        fixed: &[u64],
        mut hit: impl FnMut(usize),
    ) -> Result<(), GaveUp> {
        let mut search = Search::new(message, fuel);
        let empty: Row<'_> = &[];
        let centres = search.collect(&self.trunk, 0, empty)?;
        let mut keep: Vec<u8> = vec![];
        'centres: for centre in centres {
            for p in &self.rest {
                if !search.holds(p, centre, (1, 1), empty)? {
                    continue 'centres;
                }
            }
            keep.clear();
            keep.resize(rows, 1);
            for arm in &self.arms {
                let test = self.column(&mut search, message, arm, centre)?;
                let column = column_of[arm.slot as usize];
                if column == u32::MAX {
                    if !test.holds(fixed[arm.slot as usize]) {
                        continue 'centres;
                    }
                } else {
                    test.apply(&columns[column as usize], &mut keep);
                }
            }
            for (i, &k) in keep.iter().enumerate() {
                if k != 0 {
                    hit(i);
                }
            }
        }
        Ok(())
    }

    fn column(&self, search: &mut Search<'_>, message: Message<'_>, arm: &Arm, centre: NodeIx) -> Result<Column, GaveUp> {
        let found = search.collect(&arm.twig, centre, &[])?;
        if found.is_empty() {
            return Ok(Column::Never);
        }
        let mut scratch = vec![];
        if arm.kind == Slot::Str {
            let ids: Vec<Option<u32>> = found
                .iter()
                .map(|&n| message.constants.find(message.nodes.value(message.src, n, &mut scratch)))
                .collect();
            return Ok(match arm.op {
                Op::Eq => Column::Strings(ids.into_iter().flatten().collect()),
                _ => match ids[0] {
                    // one value only: it differs from every other constant
                    Some(id) if ids.iter().all(|&x| x == Some(id)) => Column::NotString(id),
                    _ => Column::Always,
                },
            });
        }
        let values: Vec<f64> =
            found.iter().map(|&n| number(message.nodes.value(message.src, n, &mut scratch))).collect();
        let known = || values.iter().copied().filter(|v| !v.is_nan());
        Ok(match arm.op {
            Op::Eq => Column::Numbers(known().collect()),
            Op::Ne => {
                if values[0].is_nan() || values.iter().any(|&v| v != values[0]) {
                    Column::Always
                } else {
                    Column::NotNumber(values[0])
                }
            }
            // some value is below the constant if the least is
            Op::Lt | Op::Le => known().reduce(f64::min).map_or(Column::Never, |v| Column::Than(arm.op, v)),
            Op::Gt | Op::Ge => known().reduce(f64::max).map_or(Column::Never, |v| Column::Than(arm.op, v)),
        })
    }
}

impl Column {
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
