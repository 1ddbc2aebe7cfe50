//! What the values of a message ask of the constants of many rows, and which rows hold.
//!
//! Rows of a large bucket are sorted by the constants of one comparison, its key: those that hold are found by binary
//! search. All other comparisons are checked on those, 64 rows at a time.

use super::block::{number, Block, Column, Pair, Place};
use super::bounds::{self, Side};
use super::columns::{bits, compare, equal, keep, keep_bound, STRIDE};
use super::decimals::{Bound, Decimals};
use super::program::Op;
use super::star::Key;
use crate::bits::fetch;
use crate::paths::NONE;
use crate::values::constants::Constants;
use crate::values::texts::Texts;
use std::ops::Range;

/// A range of some list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    #[inline(always)]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// A comparison of values with each constant of a column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Test {
    /// `value op constant`
    Number(Op, f64),
    AnyNumber(Span),
    Is(u32),
    IsNot(u32),
    AnyString(Span),
    /// Any of the texts contains the constant.
    Contains(Span),
    StartsWith(Span),
}

#[derive(Clone, Copy, Debug)]
pub struct Check {
    pub place: Place,
    pub test: Test,
}

/// Checks, and the values that they speak of.
#[derive(Default)]
pub struct Asked {
    checks: Vec<Check>,
    pub numbers: Vec<f64>,
    /// Numbers of strings; `u32::MAX` for one that no subscription compares with.
    pub strings: Vec<u32>,
    texts: Vec<Span>,
    bytes: Vec<u8>,
    /// Ranges of rows that the key lets through.
    ranges: Vec<(u32, u32)>,
    /// Which rows hold, 64 together.
    masks: Vec<u64>,
    ids: Vec<u32>,
}

/// How far the lists have been filled.
#[derive(Clone, Copy, Default)]
pub struct Mark {
    checks: usize,
    numbers: usize,
    strings: usize,
    texts: usize,
    bytes: usize,
}

impl Asked {
    pub fn mark(&self) -> Mark {
        Mark {
            checks: self.checks.len(),
            numbers: self.numbers.len(),
            strings: self.strings.len(),
            texts: self.texts.len(),
            bytes: self.bytes.len(),
        }
    }

    pub fn rewind(&mut self, to: Mark) {
        self.checks.truncate(to.checks);
        self.numbers.truncate(to.numbers);
        self.strings.truncate(to.strings);
        self.texts.truncate(to.texts);
        self.bytes.truncate(to.bytes);
    }

    pub fn clear(&mut self) {
        self.rewind(Mark::default());
    }

    /// Bytes of all that is asked.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + 8 * (self.numbers.len() + self.strings.len() + self.texts.len()) + 32 * self.checks.len()
    }

    pub fn push(&mut self, check: Check) {
        self.checks.push(check);
    }

    pub fn add_text(&mut self, text: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(text);
        self.texts.push(Span::new(from, self.bytes.len()));
    }

    /// Does every row for which the first checks hold satisfy the others, too? (False if that is hard to tell.)
    pub fn imply(&self, checks: Span, others: Span) -> bool {
        let (checks, others) = (&self.checks[checks.range()], &self.checks[others.range()]);
        checks.len() == others.len()
            && checks.iter().zip(others).all(|(a, b)| {
                a.place == b.place
                    && match (a.test, b.test) {
                        (Test::Number(Op::Lt, x), Test::Number(Op::Lt, y)) => x >= y,
                        (Test::Number(Op::Le, x), Test::Number(Op::Le, y)) => x >= y,
                        (Test::Number(Op::Gt, x), Test::Number(Op::Gt, y)) => x <= y,
                        (Test::Number(Op::Ge, x), Test::Number(Op::Ge, y)) => x <= y,
                        (a, b) => a == b,
                    }
            })
    }

    /// These will be asked for.
    #[inline]
    pub fn expect(&self, checks: Span) {
        self.checks[checks.range()].iter().for_each(fetch);
    }

    pub fn checks_since(&self, mark: Mark) -> Span {
        Span::new(mark.checks, self.checks.len())
    }

    /// Numbers, strings and texts.
    pub fn since(&self, mark: Mark) -> (Span, Span, Span) {
        (
            Span::new(mark.numbers, self.numbers.len()),
            Span::new(mark.strings, self.strings.len()),
            Span::new(mark.texts, self.texts.len()),
        )
    }

    fn text(&self, span: Span) -> impl Iterator<Item = &[u8]> {
        self.texts[span.range()].iter().map(|t| &self.bytes[t.range()])
    }

    /// Leaves the rows of a range for which a check holds.
    fn keep(&self, masks: &mut [u64], check: &Check, rows: &Rows<'_>, range: Range<usize>) {
        match rows.block.column(check.place) {
            Column::Decimals(c) => self.keep_decimals(masks, &check.test, c.scale, &c.words[range]),
            Column::Numbers(c) => keep(masks, &c[range], |part, _| self.numbers_hold(&check.test, part)),
            Column::Strings(c) => {
                keep(masks, &c[range], |part, mask| self.strings_hold(&check.test, part, mask, rows.constants))
            }
        }
    }

    #[inline]
    fn keep_decimals(&self, masks: &mut [u64], test: &Test, scale: u32, column: &[u32]) {
        match *test {
            Test::Number(op, v) => keep_bound(masks, Bound::new(op, v, scale), column),
            Test::AnyNumber(span) => keep(masks, column, |part, mask| {
                self.numbers[span.range()].iter().fold(0, |found, &v| {
                    let mut equal = [mask];
                    keep_bound(&mut equal, Bound::new(Op::Eq, v, scale), part);
                    found | equal[0]
                })
            }),
            _ => masks.fill(0),
        }
    }

    /// Which of at most 64 numbers hold.
    #[inline]
    fn numbers_hold(&self, test: &Test, column: &[Pair]) -> u64 {
        match *test {
            Test::Number(op, v) => compare(op, v, column),
            Test::AnyNumber(span) => {
                self.numbers[span.range()].iter().fold(0, |mask, &v| mask | compare(Op::Eq, v, column))
            }
            _ => 0,
        }
    }

    /// Which of at most 64 strings hold, of those that matter.
    #[inline]
    fn strings_hold(&self, test: &Test, column: &[u32], matter: u64, constants: &Constants) -> u64 {
        match *test {
            Test::Is(id) => equal(id, column),
            Test::IsNot(id) => !equal(id, column) & matter,
            Test::AnyString(span) => self.strings[span.range()].iter().fold(0, |mask, &id| mask | equal(id, column)),
            Test::Contains(span) => self.texts_hold(column, matter, constants, |c| {
                let finder = memchr::memmem::Finder::new(c);
                self.text(span).any(|t| finder.find(t).is_some())
            }),
            Test::StartsWith(span) => {
                self.texts_hold(column, matter, constants, |c| self.text(span).any(|t| t.starts_with(c)))
            }
            _ => 0,
        }
    }

    fn texts_hold(&self, column: &[u32], matter: u64, constants: &Constants, holds: impl Fn(&[u8]) -> bool) -> u64 {
        let mut last = (NONE, false);
        let mut row = 0;
        bits(column, |&id| {
            row += 1;
            if matter >> (row - 1) & 1 == 0 {
                return false;
            }
            if last.0 != id {
                last = (id, holds(constants.get(id)));
            }
            last.1
        })
    }

    /// Appends the subscriptions of the rows for which all checks hold. The first `sorted` rows are sorted by the key,
    /// whose check is the first; checks of constants that all rows share are the last.
    pub fn select(&mut self, checks: Span, rows: &Rows<'_>, out: &mut Vec<u32>) {
        let all = &self.checks[checks.range()];
        let varied = all.iter().position(|c| c.place.is_fixed()).unwrap_or(all.len());
        let holds = |check: &Check| {
            let mut mask = [1];
            self.keep(&mut mask, check, rows, 0..1);
            mask == [1]
        };
        if !all[varied..].iter().all(holds) {
            return;
        }
        let checks = Span { end: checks.start + varied as u32, ..checks };
        let (mut ranges, mut masks) = (std::mem::take(&mut self.ranges), std::mem::take(&mut self.masks));
        ranges.clear();
        let first = self.checks[checks.range()].first().copied();
        let by_key = match (rows.key, first) {
            (Some(key), Some(check)) => rows.sorted > 0 && self.key_ranges(check, key, rows, &mut ranges),
            _ => false,
        };
        let ruled = ranges.len(); // perhaps none: then no sorted row holds
        ranges.push((if by_key { rows.sorted } else { 0 }, rows.block.subs().len() as u32));
        let all = &self.checks[checks.range()];
        for (i, &(from, to)) in ranges.iter().enumerate().filter(|(_, (from, to))| from < to) {
            let checks = if i < ruled { &all[1..] } else { all };
            self.select_range(checks, rows, from as usize..to as usize, &mut masks, out);
        }
        (self.ranges, self.masks) = (ranges, masks);
    }

    fn select_range(
        &self,
        checks: &[Check],
        rows: &Rows<'_>,
        range: Range<usize>,
        masks: &mut Vec<u64>,
        out: &mut Vec<u32>,
    ) {
        let subs = &rows.block.subs()[range.clone()];
        if checks.is_empty() {
            return out.extend(subs.iter().copied().filter(|&s| s != NONE));
        }
        if self.select_bounded(checks, rows, range.clone(), out) {
            return;
        }
        masks.clear();
        masks.extend(subs.chunks(STRIDE).map(|part| u64::MAX >> (STRIDE - part.len())));
        for check in checks {
            self.keep(masks, check, rows, range.clone());
        }
        for (&mask, part) in masks.iter().zip(subs.chunks(STRIDE)) {
            let mut mask = mask;
            while mask != 0 {
                let sub = part[mask.trailing_zeros() as usize];
                // rows that were removed have no subscription
                if sub != NONE {
                    out.push(sub);
                }
                mask &= mask - 1;
            }
        }
    }

    /// The same where all checks are bounds of decimals, as they nearly always are; false if they are not.
    #[inline]
    fn select_bounded(&self, checks: &[Check], rows: &Rows<'_>, range: Range<usize>, out: &mut Vec<u32>) -> bool {
        let mut sides = [Side::default(); bounds::MOST];
        let Some(sides) = sides.get_mut(..checks.len()) else { return false };
        for (side, check) in sides.iter_mut().zip(checks) {
            let (Column::Decimals(c), Test::Number(op, v)) = (rows.block.column(check.place), check.test) else {
                return false;
            };
            let Some(one) = Side::new(&c.words[range.clone()], Bound::new(op, v, c.scale)) else { return false };
            *side = one;
        }
        bounds::deliver(sides, &rows.block.subs()[range], out)
    }

    /// The ranges of sorted rows for which the key's check holds; false if there is no telling.
    fn key_ranges(&mut self, check: Check, key: Key, rows: &Rows<'_>, out: &mut Vec<(u32, u32)>) -> bool {
        let sorted = rows.sorted as usize;
        match (rows.block.column(key.place), check.test) {
            (Column::Numbers(c), Test::Number(Op::Eq, v)) => out.push(equal_numbers(&c[..sorted], v)),
            (Column::Numbers(c), Test::Number(op, v)) => {
                out.push((0, c[..sorted].partition_point(|&c| op.holds(v, number(c))) as u32));
            }
            (Column::Decimals(c), Test::Number(Op::Eq, v)) => out.push(equal_decimals(c, sorted, v)),
            (Column::Decimals(c), Test::Number(op, v)) => {
                let bound = Bound::new(op, v, c.scale);
                out.push((0, c.words[..sorted].partition_point(|&m| bound.holds(m)) as u32));
            }
            (column @ (Column::Numbers(_) | Column::Decimals(_)), Test::AnyNumber(span)) => {
                let values = &mut self.numbers[span.range()];
                values.sort_unstable_by(f64::total_cmp);
                for (i, &v) in values.iter().enumerate() {
                    if i == 0 || values[i - 1] != v {
                        out.push(match column {
                            Column::Decimals(c) => equal_decimals(c, sorted, v),
                            Column::Numbers(c) => equal_numbers(&c[..sorted], v),
                            Column::Strings(_) => (0, 0),
                        });
                    }
                }
            }
            (Column::Strings(c), Test::Is(id)) => out.push(equal_strings(&c[..sorted], id)),
            (Column::Strings(c), Test::AnyString(span)) => {
                let ids = &mut self.strings[span.range()];
                ids.sort_unstable();
                for (i, &id) in ids.iter().enumerate() {
                    if i == 0 || ids[i - 1] != id {
                        out.push(equal_strings(&c[..sorted], id));
                    }
                }
            }
            (Column::Strings(c), Test::Contains(span) | Test::StartsWith(span)) => {
                let Some(texts) = rows.texts else { return false };
                let mut ids = std::mem::take(&mut self.ids);
                ids.clear();
                for t in self.text(span) {
                    texts.find(t, rows.constants, &mut ids);
                }
                ids.sort_unstable();
                ids.dedup();
                out.extend(ids.iter().map(|&id| equal_strings(&c[..sorted], id)));
                self.ids = ids;
            }
            _ => return false,
        }
        true
    }
}

fn equal_numbers(column: &[Pair], v: f64) -> (u32, u32) {
    let from = column.partition_point(|&c| number(c) < v);
    let len = column[from..].partition_point(|&c| number(c) == v);
    (from as u32, (from + len) as u32)
}

fn equal_decimals(column: Decimals<'_>, sorted: usize, v: f64) -> (u32, u32) {
    let Bound::Is(m) = Bound::new(Op::Eq, v, column.scale) else { return (0, 0) };
    let column = &column.words[..sorted];
    let from = column.partition_point(|&c| (c as i32) < m);
    let len = column[from..].partition_point(|&c| c as i32 == m);
    (from as u32, (from + len) as u32)
}

fn equal_strings(column: &[u32], id: u32) -> (u32, u32) {
    let from = column.partition_point(|&c| c < id);
    let len = column[from..].partition_point(|&c| c == id);
    (from as u32, (from + len) as u32)
}

/// The rows of a bucket.
pub struct Rows<'a> {
    pub block: Block<'a>,
    pub key: Option<Key>,
    pub sorted: u32,
    pub texts: Option<&'a Texts>,
    pub constants: &'a Constants,
}
