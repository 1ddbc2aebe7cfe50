//! The memory of buckets: one array of 32-bit words in which each bucket has a block. A block is its bucket's own
//! constants, the items of its guards, the scales of its columns of decimals, then the constants of its rows column by
//! column (numbers that are not all short decimals take two words, everything else one) and their subscriptions. Blocks
//! know nothing of their places, so a snapshot's are used where they lie.

use super::decimals::{self, numerator, rescaled, Decimals};
use super::program::Slot;
use crate::paths::NONE;
use crate::words::Words;

/// Where the constants of a slot are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// All rows share it: words of the block's head.
    FixedNumber(u32),
    FixedString(u32),
    /// The column of numbers, or of strings.
    Numbers(u32),
    Strings(u32),
}

impl Place {
    /// All rows of a bucket share the constant.
    #[inline(always)]
    pub fn is_fixed(self) -> bool {
        matches!(self, Place::FixedNumber(_) | Place::FixedString(_))
    }
}

/// What the blocks of a shape look like.
pub struct Layout {
    /// By slot.
    pub places: Box<[Place]>,
    /// Words of constants that all rows share; the items of guards follow, and the scales, four bits each.
    fixed: u32,
    guards: u32,
    numbers: u32,
    strings: u32,
}

impl Layout {
    pub fn new(slots: &[Slot], is_fixed: impl Fn(u32) -> bool, guards: u32) -> Layout {
        let (mut fixed, mut numbers, mut strings) = (0, 0, 0);
        let next = |n: &mut u32, by: u32| std::mem::replace(n, *n + by);
        let places = (0u32..).zip(slots).map(|(i, slot)| match (slot, is_fixed(i)) {
            (Slot::Num, true) => Place::FixedNumber(next(&mut fixed, 2)),
            (Slot::Str, true) => Place::FixedString(next(&mut fixed, 1)),
            (Slot::Num, false) => Place::Numbers(next(&mut numbers, 1)),
            (Slot::Str, false) => Place::Strings(next(&mut strings, 1)),
        });
        let places = places.collect();
        Layout { places, fixed, guards, numbers, strings }
    }

    fn scales(&self) -> usize {
        (self.fixed + self.guards) as usize
    }

    fn head(&self) -> usize {
        self.scales() + self.numbers.div_ceil(8) as usize
    }

    /// Words of a row.
    fn row(&self, form: Form) -> usize {
        form.width() * self.numbers as usize + self.strings as usize + 1
    }

    /// Words of a block.
    pub fn words(&self, form: Form) -> usize {
        self.head() + form.room as usize * self.row(form)
    }

    /// The constants of a row that all rows of its bucket share, as blocks have them. Zero has one form.
    pub fn fixed(&self, row: &[u64], out: &mut Vec<u32>) {
        out.clear();
        for (place, &x) in self.places.iter().zip(row) {
            match place {
                Place::FixedNumber(_) => out.extend(split((f64::from_bits(x) + 0.0).to_bits())),
                Place::FixedString(_) => out.push(x as u32),
                Place::Numbers(_) | Place::Strings(_) => {}
            }
        }
    }

    /// Where a column begins, and the words of a constant.
    #[inline]
    fn column(&self, place: Place, form: Form) -> (usize, usize) {
        let (room, width) = (form.room as usize, form.width());
        match place {
            Place::Numbers(i) => (self.head() + room * width * i as usize, width),
            Place::Strings(i) => (self.head() + room * (width * self.numbers as usize + i as usize), 1),
            Place::FixedNumber(at) => (at as usize, 2),
            Place::FixedString(at) => (at as usize, 1),
        }
    }

    /// All columns: the subscriptions are like strings, and the last.
    fn columns(&self, form: Form) -> impl Iterator<Item = (usize, usize)> + '_ {
        let places = (0..self.numbers).map(Place::Numbers).chain((0..=self.strings).map(Place::Strings));
        places.map(move |place| self.column(place, form))
    }

    #[inline]
    fn subs(&self, form: Form) -> usize {
        self.column(Place::Strings(self.strings), form).0
    }

    /// The scale of a column of numbers, in the words of a block.
    #[inline]
    fn scale(&self, words: &[u32], column: u32) -> u32 {
        words[self.scales() + column as usize / 8] >> (4 * (column % 8)) & 15
    }

    fn set_scale(&self, words: &mut [u32], column: u32, scale: u32) {
        let (word, shift) = (&mut words[self.scales() + column as usize / 8], 4 * (column % 8));
        *word = *word & !(15 << shift) | scale << shift;
    }
}

/// How the rows of a block lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// There is memory for so many.
    pub room: u32,
    /// Numbers are doubles, not decimals of 32 bits.
    pub wide: bool,
}

impl Form {
    #[inline(always)]
    fn width(self) -> usize {
        1 + self.wide as usize
    }
}

fn split(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

/// A number as two words.
pub type Pair = [u32; 2];

#[inline(always)]
pub fn number(pair: Pair) -> f64 {
    f64::from_bits(pair[0] as u64 | (pair[1] as u64) << 32)
}

/// A column of constants.
#[derive(Clone, Copy)]
pub enum Column<'a> {
    Numbers(&'a [Pair]),
    Decimals(Decimals<'a>),
    Strings(&'a [u32]),
}

impl Column<'_> {
    #[inline(always)]
    pub fn get(&self, i: usize) -> Constant {
        match self {
            Column::Numbers(c) => Constant::Number(number(c[i])),
            Column::Decimals(c) => Constant::Number(c.get(i)),
            Column::Strings(c) => Constant::String(c[i]),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Column::Numbers(c) => c.len(),
            Column::Decimals(Decimals { words, .. }) | Column::Strings(words) => words.len(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Constant {
    Number(f64),
    String(u32),
}

/// A block to read.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    layout: &'a Layout,
    words: &'a [u32],
    form: Form,
    len: u32,
}

impl<'a> Block<'a> {
    /// `words` are at least as many as the layout says.
    pub fn new(layout: &'a Layout, words: &'a [u32], form: Form, len: u32) -> Block<'a> {
        Block { layout, words, form, len }
    }

    /// The constants that all rows share.
    pub fn fixed(&self) -> &'a [u32] {
        &self.words[..self.layout.fixed as usize]
    }

    /// By guard with a slot its item, `NONE` if not all rows share it.
    #[inline]
    pub fn guards(&self) -> &'a [u32] {
        &self.words[self.layout.fixed as usize..self.layout.scales()]
    }

    /// The rows with a subscription, and these.
    pub fn live(&self) -> impl Iterator<Item = (usize, u32)> + 'a {
        self.subs().iter().copied().enumerate().filter(|&(_, sub)| sub != NONE)
    }

    pub fn subs(&self) -> &'a [u32] {
        let at = self.layout.subs(self.form);
        &self.words[at..at + self.len as usize]
    }

    /// The constants of a slot: of all rows, or the one that they share.
    #[inline]
    pub fn column(&self, place: Place) -> Column<'a> {
        let (at, width) = self.layout.column(place, self.form);
        let len = if place.is_fixed() { 1 } else { self.len as usize };
        let words = &self.words[at..at + width * len];
        match place {
            Place::Numbers(i) if !self.form.wide => {
                Column::Decimals(Decimals { scale: self.layout.scale(self.words, i), words })
            }
            Place::Numbers(_) | Place::FixedNumber(_) => Column::Numbers(words.as_chunks().0),
            Place::Strings(_) | Place::FixedString(_) => Column::Strings(words),
        }
    }

    /// Appends the constants of a row by slot: the bits of a number, or the number of a string.
    pub fn row(&self, i: usize, out: &mut Vec<u64>) {
        out.extend(self.layout.places.iter().map(|&place| {
            match self.column(place).get(if place.is_fixed() { 0 } else { i }) {
                Constant::Number(x) => x.to_bits(),
                Constant::String(id) => id as u64,
            }
        }));
    }
}

/// A block to write.
pub struct BlockMut<'a> {
    pub layout: &'a Layout,
    pub words: &'a mut [u32],
    pub form: Form,
}

impl BlockMut<'_> {
    pub fn set_head(&mut self, fixed: &[u32], guards: &[u32]) {
        let at = self.layout.fixed as usize;
        self.words[..at].copy_from_slice(fixed);
        self.words[at..self.layout.scales()].copy_from_slice(guards);
    }

    pub fn guards(&mut self) -> &mut [u32] {
        &mut self.words[self.layout.fixed as usize..self.layout.scales()]
    }

    /// Makes the scales of decimals such that one more row fits; false if there are no such scales.
    pub fn fit(&mut self, row: &[u64], len: u32) -> bool {
        self.layout.places.iter().zip(row).all(|(&place, &x)| match place {
            Place::Numbers(i) => self.fit_number(i, f64::from_bits(x), len),
            Place::Strings(_) | Place::FixedNumber(_) | Place::FixedString(_) => true,
        })
    }

    fn fit_number(&mut self, column: u32, x: f64, len: u32) -> bool {
        let had = self.layout.scale(self.words, column);
        let Some(scale) = (had..=decimals::MOST).find(|&scale| numerator(x, scale).is_some()) else { return false };
        if scale == had {
            return true;
        }
        let at = self.layout.column(Place::Numbers(column), self.form).0;
        let words = &mut self.words[at..at + len as usize];
        if !words.iter().all(|&m| rescaled(m, scale - had).is_some()) {
            return false;
        }
        words.iter_mut().for_each(|m| *m = rescaled(*m, scale - had).unwrap_or_default());
        self.layout.set_scale(self.words, column, scale);
        true
    }

    /// Gives the strings of all rows other numbers.
    pub fn map_strings(&mut self, new: impl Fn(u32) -> u32) {
        for &place in &self.layout.places {
            let len = match place {
                Place::FixedString(_) => 1,
                Place::Strings(_) => self.form.room as usize,
                Place::FixedNumber(_) | Place::Numbers(_) => continue,
            };
            let at = self.layout.column(place, self.form).0;
            self.words[at..at + len].iter_mut().for_each(|id| *id = new(*id));
        }
    }

    /// The row must fit.
    pub fn set_row(&mut self, i: u32, row: &[u64], sub: u32) {
        for (&place, &x) in self.layout.places.iter().zip(row) {
            let (at, width) = self.layout.column(place, self.form);
            let at = at + width * i as usize;
            match place {
                Place::Numbers(_) if self.form.wide => self.words[at..at + 2].copy_from_slice(&split(x)),
                Place::Numbers(column) => {
                    let m = numerator(f64::from_bits(x), self.layout.scale(self.words, column));
                    debug_assert!(m.is_some());
                    self.words[at] = m.unwrap_or_default();
                }
                Place::Strings(_) => self.words[at] = x as u32,
                Place::FixedNumber(_) | Place::FixedString(_) => {}
            }
        }
        self.set_sub(i, sub);
    }

    pub fn set_sub(&mut self, i: u32, sub: u32) {
        self.words[self.layout.subs(self.form) + i as usize] = sub;
    }

    /// Row `to` becomes what row `from` is.
    pub fn copy_row(&mut self, from: u32, to: u32) {
        for (at, width) in self.layout.columns(self.form) {
            let from = at + width * from as usize;
            self.words.copy_within(from..from + width, at + width * to as usize);
        }
    }

    /// The rows of another block, those that `rows` names. Decimals may become doubles here.
    pub fn copy_rows(&mut self, from: Block<'_>, rows: impl Iterator<Item = u32> + Clone) {
        let (head, layout) = (self.layout.head(), self.layout);
        debug_assert!(self.form.wide || !from.form.wide);
        self.words[..head].copy_from_slice(&from.words[..head]);
        let columns = layout.columns(self.form).zip(layout.columns(from.form));
        for (column, ((mut to, width), (at, had))) in (0..).zip(columns) {
            let scale = if width == had { 0 } else { layout.scale(from.words, column) };
            let decimals = Decimals { scale, words: &from.words[at..] };
            for row in rows.clone() {
                let at = at + had * row as usize;
                match (width, had) {
                    (1, _) => self.words[to] = from.words[at],
                    (_, 1) => self.words[to..to + 2].copy_from_slice(&split(decimals.get(row as usize).to_bits())),
                    _ => self.words[to..to + 2].copy_from_slice(&from.words[at..at + 2]),
                }
                to += width;
            }
        }
    }
}

/// Words to put blocks into: those of a snapshot, which stay as they are, and after them our own.
#[derive(Default)]
pub struct Arena {
    base: Words,
    own: Vec<u32>,
    /// Words of our own that no block uses any more.
    waste: usize,
}

impl Arena {
    pub fn open(base: Words) -> Arena {
        Arena { base, ..Arena::default() }
    }

    /// A new block, of zeros.
    pub fn take(&mut self, words: usize) -> u32 {
        let at = self.base.len() + self.own.len();
        if self.own.capacity() - self.own.len() < words {
            // a few more than are needed, but not twice as many: this is most of the memory there is
            self.own.reserve_exact(words.max(self.own.len() / 8));
        }
        self.own.resize(self.own.len() + words, 0);
        // 16 GB of constants
        assert!(at + words < NONE as usize, "too many subscriptions");
        at as u32
    }

    pub fn give(&mut self, at: u32, words: usize) {
        if at as usize >= self.base.len() {
            self.waste += words;
        }
    }

    /// Are there so many words?
    pub fn has(&self, at: u32, words: usize) -> bool {
        at as usize + words <= self.base.len() + self.own.len()
    }

    #[inline(always)]
    pub fn get(&self, at: u32, words: usize) -> &[u32] {
        let (at, base) = (at as usize, self.base.len());
        if at < base {
            &self.base[at..at + words]
        } else {
            &self.own[at - base..at - base + words]
        }
    }

    /// None for a block of the snapshot.
    pub fn get_mut(&mut self, at: u32, words: usize) -> Option<&mut [u32]> {
        let at = (at as usize).checked_sub(self.base.len())?;
        Some(&mut self.own[at..at + words])
    }

    pub fn is_own(&self, at: u32) -> bool {
        at as usize >= self.base.len()
    }

    /// A block that is written while another is read; the first is our own and lies behind the second.
    pub fn both(&mut self, read: (u32, usize), write: (u32, usize)) -> (&[u32], &mut [u32]) {
        let base = self.base.len();
        let (before, after) = self.own.split_at_mut(write.0 as usize - base);
        let at = read.0 as usize;
        let from = if at < base { &self.base[at..at + read.1] } else { &before[at - base..at - base + read.1] };
        (from, &mut after[..write.1])
    }

    /// The same base, and nothing of our own but room for so many words.
    pub fn anew(&self, words: usize) -> Arena {
        Arena { base: self.base.clone(), own: Vec::with_capacity(words), waste: 0 }
    }

    /// Words of our own in use, and not in use.
    pub fn usage(&self) -> (usize, usize) {
        (self.own.len() - self.waste, self.waste)
    }

    pub fn bytes(&self) -> usize {
        4 * (self.base.len() + self.own.capacity())
    }
}
