//! What a message must have for a pattern to hold, as far as that shows without a table of its nodes: by the values that
//! nodes of a name have, and by the children that elements of a name lack.

use super::program::{Ask, Op, Pred, Test, Twig, Value};
use super::store::Store;
use crate::names::{is_element, Sym, FIRST};
use crate::values::constants::StrId;

/// Of a bucket with more rows nothing is known.
const MAX_ROWS: usize = 64;
/// Names whose values are watched, pairs of names, and strings kept of a message.
const MAX_WATCHED: usize = 64;
const MAX_STRINGS: usize = 64;

/// What a pattern needs.
#[derive(Debug)]
enum Need {
    /// A node of a watched name with this value.
    Is(u8, StrId),
    /// One with a value that compares so.
    Number(u8, Op, f64),
    /// An element without a child, of a watched pair of names.
    Lack(u8),
    All(Box<[Need]>),
    Any(Box<[Need]>),
}

impl Need {
    fn nothing() -> Need {
        Need::All(Box::new([]))
    }

    fn all(needs: Vec<Need>) -> Need {
        let mut needs: Vec<Need> = needs.into_iter().filter(|n| !n.is_nothing()).collect();
        match needs.len() {
            1 => needs.remove(0),
            _ => Need::All(needs.into()),
        }
    }

    fn is_nothing(&self) -> bool {
        matches!(self, Need::All(needs) if needs.is_empty())
    }
}

/// What is asked of the value of a node: as a string, as a number, and under which number it is kept.
#[derive(Clone, Copy, Default)]
pub struct Question {
    pub string: bool,
    pub number: bool,
    place: u8,
}

impl Question {
    #[inline(always)]
    pub fn is_any(self) -> bool {
        self.string | self.number
    }
}

/// What there is to know of a name.
#[derive(Clone, Copy, Default)]
struct Watched {
    value: Question,
    /// The pairs in which it is the parent, and those in which it is the child.
    parent: u64,
    child: u64,
}

/// What each row of a bucket needs, with its subscription. None: that is not known.
type Rows = Box<[(u32, Need)]>;

/// What buckets need, and what the message at hand has of that.
#[derive(Default)]
pub struct Necessary {
    /// By item, once it has been asked for.
    needs: Vec<Option<Rows>>,
    /// By symbol.
    watched: Vec<Watched>,
    values: usize,
    pairs: Vec<(Sym, Sym)>,
    /// Names that are watched since `take_new`.
    new: Vec<Sym>,
    row: Vec<u64>,
    // Of the message at hand:
    strings: Vec<(u8, StrId)>,
    /// The least and the greatest number among the values of each name.
    ranges: Vec<(f64, f64)>,
    /// Open elements that are parents: their depth, the pairs, and those whose child there is.
    parents: Vec<(u32, u64, u64)>,
    lacking: u64,
}

impl Necessary {
    /// For an engine with items below `bound`.
    pub fn begin_engine(&mut self, bound: usize) {
        *self = Necessary::default();
        self.needs.resize_with(bound, || None);
    }

    /// Names that `open` or `attribute` has to be told of, besides those that it was before.
    pub fn take_new(&mut self) -> impl Iterator<Item = Sym> + '_ {
        self.new.drain(..)
    }

    /// A message begins.
    pub fn begin(&mut self) {
        self.strings.clear();
        self.ranges.clear();
        self.ranges.resize(self.values, (f64::INFINITY, f64::NEG_INFINITY));
        self.parents.clear();
        self.lacking = 0;
    }

    /// May some subscription of the bucket hold, of those that are still looked for?
    pub fn may_hold(&mut self, store: &Store, item: u32, bucket: u32, is_found: impl Fn(u32) -> bool) -> bool {
        match &self.needs[item as usize] {
            Some(rows) => rows.is_empty() || rows.iter().any(|(sub, need)| self.has(need) && !is_found(*sub)),
            None => {
                // the message was not watched for it
                self.needs[item as usize] = Some(self.compile(store, bucket));
                true
            }
        }
    }

    fn has(&self, need: &Need) -> bool {
        match need {
            Need::Is(value, id) => self.strings.len() >= MAX_STRINGS || self.strings.contains(&(*value, *id)),
            Need::Number(value, op, x) => {
                let (least, greatest) = self.ranges[*value as usize];
                match op {
                    Op::Eq => least <= *x && *x <= greatest,
                    Op::Ne => true,
                    Op::Lt | Op::Le => op.holds(least, *x),
                    Op::Gt | Op::Ge => op.holds(greatest, *x),
                }
            }
            Need::Lack(pair) => self.lacking >> pair & 1 != 0,
            Need::All(needs) => needs.iter().all(|n| self.has(n)),
            Need::Any(needs) => needs.iter().any(|n| self.has(n)),
        }
    }

    /// An element opens. Answers what is asked of its value.
    #[inline(always)]
    pub fn open(&mut self, sym: Sym, depth: u32) -> Question {
        match self.watched.get(sym as usize) {
            Some(&Watched { parent, child, value }) => {
                if parent | child != 0 {
                    self.open_pairs(parent, child, depth);
                }
                value
            }
            None => Question::default(),
        }
    }

    #[inline(never)]
    fn open_pairs(&mut self, parent: u64, child: u64, depth: u32) {
        match self.parents.last_mut() {
            Some((above, _, has)) if *above + 1 == depth => *has |= child,
            _ => {}
        }
        if parent != 0 {
            self.parents.push((depth, parent, 0));
        }
    }

    /// An attribute of the element at this depth. Answers what `open` answers.
    #[inline(always)]
    pub fn attribute(&mut self, sym: Sym, depth: u32) -> Question {
        match self.watched.get(sym as usize) {
            Some(&Watched { child, value, .. }) => {
                if child != 0 {
                    self.open_pairs(0, child, depth + 1);
                }
                value
            }
            None => Question::default(),
        }
    }

    /// The element at this depth closes.
    #[inline(always)]
    pub fn close(&mut self, depth: u32) {
        if let Some(&(at, pairs, has)) = self.parents.last() {
            if at == depth {
                self.lacking |= pairs & !has;
                self.parents.pop();
            }
        }
    }

    /// The value of a node, as what was asked for.
    #[inline(always)]
    pub fn value(&mut self, asked: Question, string: Option<StrId>, x: f64) {
        if let Some(id) = string.filter(|_| asked.string && self.strings.len() < MAX_STRINGS) {
            self.strings.push((asked.place, id));
        }
        if asked.number {
            let (least, greatest) = &mut self.ranges[asked.place as usize];
            (*least, *greatest) = (least.min(x), greatest.max(x));
        }
    }

    fn compile(&mut self, store: &Store, bucket: u32) -> Rows {
        let block = store.block(bucket);
        let Some(shape) = store.shape(store.shape_of(bucket)).filter(|_| block.subs().len() <= MAX_ROWS) else {
            return Box::new([]);
        };
        let mut row = std::mem::take(&mut self.row);
        let rows = block.live().map(|(i, sub)| {
            row.clear();
            block.row(i, &mut row);
            (sub, self.need(&shape.program.pred, &row, None))
        });
        let rows = rows.collect();
        self.row = row;
        rows
    }

    /// What a predicate needs of a node of this name, if it is of one name.
    fn need(&mut self, pred: &Pred, row: &[u64], name: Option<Sym>) -> Need {
        let equals = |value: &Value| matches!(value, Value::Str { first: false, normalize: false, .. });
        match pred {
            Pred::Bool(false) => Need::Any(Box::new([])),
            Pred::And(preds) => Need::all(preds.iter().map(|p| self.need(p, row, name)).collect()),
            Pred::Or(preds) => {
                let needs: Vec<Need> = preds.iter().map(|p| self.need(p, row, name)).collect();
                if needs.iter().any(Need::is_nothing) {
                    Need::nothing()
                } else {
                    Need::Any(needs.into())
                }
            }
            Pred::Not(p) => match &**p {
                Pred::Exists(twig) => self.lack(twig, name).unwrap_or_else(Need::nothing),
                _ => Need::nothing(),
            },
            Pred::Exists(twig) => self.along(twig, row),
            Pred::Compare { value: value @ Value::Str { twig, .. }, ask: Ask::Is, slot } if equals(value) => {
                let is = self.watch(twig, name, true).map(|n| Need::Is(n, row[*slot as usize] as StrId));
                Need::all([is, Some(self.along(twig, row))].into_iter().flatten().collect())
            }
            Pred::Compare { value: value @ Value::Str { twig, .. }, ask: Ask::Number(op), slot }
                if equals(value) && *op != Op::Ne =>
            {
                let x = f64::from_bits(row[*slot as usize]);
                let compares = self.watch(twig, name, false).map(|n| Need::Number(n, *op, x));
                Need::all([compares, Some(self.along(twig, row))].into_iter().flatten().collect())
            }
            _ => Need::nothing(),
        }
    }

    /// What the filters of a twig need, one node of which there must be for each.
    fn along(&mut self, twig: &Twig, row: &[u64]) -> Need {
        let filters = twig.nodes.iter().flat_map(|n| n.filters.iter().map(|f| (f, name(n.test))));
        Need::all(filters.map(|(f, name)| self.need(f, row, name)).collect())
    }

    /// The values of the nodes that a twig finds from one of this name.
    fn watch(&mut self, twig: &Twig, from: Option<Sym>, string: bool) -> Option<u8> {
        let sym = twig.nodes.last().map_or(from, |n| name(n.test))?;
        if !self.watched(sym).value.is_any() {
            if self.values == MAX_WATCHED {
                return None;
            }
            self.watched(sym).value.place = self.values as u8;
            self.values += 1;
        }
        let value = &mut self.watched(sym).value;
        value.string |= string;
        value.number |= !string;
        Some(value.place)
    }

    /// An element of this name without a child that the twig finds.
    fn lack(&mut self, twig: &Twig, parent: Option<Sym>) -> Option<Need> {
        let [child] = &twig.nodes[..] else { return None };
        if child.deep || !child.filters.is_empty() {
            return None;
        }
        let (parent, child) = (parent.filter(|&sym| is_element(sym))?, name(child.test)?);
        let known = self.pairs.iter().position(|&pair| pair == (parent, child));
        if known.is_none() && self.pairs.len() == MAX_WATCHED {
            return None;
        }
        let pair = known.unwrap_or_else(|| {
            self.pairs.push((parent, child));
            self.pairs.len() - 1
        });
        self.watched(parent).parent |= 1 << pair;
        self.watched(child).child |= 1 << pair;
        Some(Need::Lack(pair as u8))
    }

    fn watched(&mut self, sym: Sym) -> &mut Watched {
        let sym = sym as usize;
        self.new.push(sym as Sym);
        if self.watched.len() <= sym {
            self.watched.resize(sym + 1, Watched::default());
        }
        &mut self.watched[sym]
    }
}

/// The one name that an element or attribute must have.
fn name(test: Test) -> Option<Sym> {
    match test {
        Test::Exactly(sym) if sym >= FIRST => Some(sym),
        _ => None,
    }
}
