//! Conditions on what a relative path finds, indexed by their constants: a value of a message is looked up once for
//! all transforms that compare it (broker §5.2, shared selection).
//!
//! A value may satisfy very many conditions that are no equalities. Such a condition is in the index only while it leads
//! to classes; others are checked at the nodes that the index has led to (see `conditions`).

use crate::shapes::nodes::NodeIx;
use crate::shapes::program::{Ask, Op, Pred, Twig, Value};
use crate::shapes::search::{Message, Row};
use crate::tagpaths::PathIx;
use crate::values::constants::{Constants, StrId};
use crate::values::number::number;
use hashbrown::HashMap;

pub type AtomIx = u32;

/// Some node that the path finds ... (which path is said elsewhere).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Condition {
    Exists,
    Is(StrId),
    IsNot(StrId),
    Contains(StrId),
    StartsWith(StrId),
    Number(Op, f64),
}

impl Condition {
    /// The condition that a predicate is, if it is one: the twig whose nodes are looked at, and what of them.
    pub fn of<'a>(pred: &'a Pred, row: Row<'_>) -> Option<(&'a Twig, Condition)> {
        let string = |slot: &u32| row[*slot as usize] as StrId;
        let (value, condition) = match pred {
            Pred::Exists(twig) => return Some((twig, Condition::Exists)),
            Pred::Compare { value, ask, slot } => {
                let condition = match ask {
                    Ask::Is => Condition::Is(string(slot)),
                    Ask::IsNot => Condition::IsNot(string(slot)),
                    Ask::Contains => Condition::Contains(string(slot)),
                    Ask::StartsWith => Condition::StartsWith(string(slot)),
                    // one zero
                    Ask::Number(op) => Condition::Number(*op, f64::from_bits(row[*slot as usize]) + 0.0),
                };
                (value, condition)
            }
            _ => return None,
        };
        match value {
            // `first` matters where several nodes may be found
            Value::Str { twig, first, normalize: false } if !*first || twig.nodes.is_empty() => Some((twig, condition)),
            _ => None,
        }
    }

    fn key(self) -> (u8, u64) {
        match self {
            Condition::Exists => (0, 0),
            Condition::Is(s) => (1, s as u64),
            Condition::IsNot(s) => (2, s as u64),
            Condition::Contains(s) => (3, s as u64),
            Condition::StartsWith(s) => (4, s as u64),
            Condition::Number(op, x) => (5 + op as u8, x.to_bits()),
        }
    }

    /// Whether a value may satisfy no more than one condition of this kind on a path.
    fn is_equality(self) -> bool {
        matches!(self, Condition::Is(_) | Condition::Number(Op::Eq, _))
    }

    /// Whether a node that the path finds satisfies it.
    pub fn holds(self, constants: &Constants, value: &mut NodeValue<'_>) -> bool {
        match self {
            Condition::Exists => true,
            Condition::Is(s) => value.bytes() == constants.get(s),
            Condition::IsNot(s) => value.bytes() != constants.get(s),
            Condition::Contains(s) => memchr::memmem::find(value.bytes(), constants.get(s)).is_some(),
            Condition::StartsWith(s) => value.bytes().starts_with(constants.get(s)),
            Condition::Number(op, x) => op.holds(value.number(), x),
        }
    }

    /// How often it holds, as a rank: the lower, the better it is to begin with.
    pub fn rank(self) -> u8 {
        match self {
            Condition::Is(_) | Condition::Number(Op::Eq, _) => 0,
            Condition::StartsWith(_) => 1,
            Condition::Contains(_) => 2,
            Condition::Number(Op::Lt | Op::Le | Op::Gt | Op::Ge, _) => 3,
            Condition::Exists => 4,
            Condition::IsNot(_) | Condition::Number(Op::Ne, _) => 5,
        }
    }
}

struct Atom {
    rel: PathIx,
    condition: Condition,
    users: u32,
    /// How many classes it leads to.
    leads: u32,
}

/// The conditions on one path that are in the index.
#[derive(Default)]
struct OfPath {
    exists: Option<AtomIx>,
    strings: HashMap<StrId, AtomIx>,
    numbers: HashMap<u64, AtomIx>,
    /// `< <= > >=`, each by ascending constant.
    bounds: [Vec<(f64, AtomIx)>; 4],
    others: Vec<AtomIx>,
    /// How many there are that are not in the index.
    checked: u32,
}

impl OfPath {
    fn is_empty(&self) -> bool {
        self.exists.is_none() && !self.reads_values()
    }

    fn reads_values(&self) -> bool {
        self.reads_numbers() || !self.strings.is_empty() || !self.others.is_empty()
    }

    fn reads_numbers(&self) -> bool {
        !self.numbers.is_empty() || self.bounds.iter().any(|b| !b.is_empty())
    }
}

#[derive(Default)]
pub struct Atoms {
    atoms: Vec<Atom>,
    ids: HashMap<(PathIx, u8, u64), AtomIx>,
    free: Vec<AtomIx>,
    by_rel: Vec<OfPath>,
}

impl Atoms {
    /// True if the condition is new.
    pub fn acquire(&mut self, rel: PathIx, condition: Condition) -> (AtomIx, bool) {
        let (kind, constant) = condition.key();
        if let Some(&id) = self.ids.get(&(rel, kind, constant)) {
            self.atoms[id as usize].users += 1;
            return (id, false);
        }
        let atom = Atom { rel, condition, users: 1, leads: 0 };
        let id = self.free.pop().unwrap_or(self.atoms.len() as AtomIx);
        if id as usize == self.atoms.len() {
            self.atoms.push(atom);
        } else {
            self.atoms[id as usize] = atom;
        }
        self.ids.insert((rel, kind, constant), id);
        if self.by_rel.len() <= rel as usize {
            self.by_rel.resize_with(rel as usize + 1, OfPath::default);
        }
        if condition.is_equality() {
            self.enter(id);
        } else {
            self.by_rel[rel as usize].checked += 1;
        }
        (id, true)
    }

    /// The path of the condition if that was its last user. It leads to no class any more.
    pub fn release(&mut self, id: AtomIx) -> Option<PathIx> {
        let atom = &mut self.atoms[id as usize];
        atom.users -= 1;
        if atom.users > 0 {
            return None;
        }
        let (rel, condition) = (atom.rel, atom.condition);
        let (kind, constant) = condition.key();
        self.ids.remove(&(rel, kind, constant));
        self.free.push(id);
        if condition.is_equality() {
            self.leave(id);
        } else {
            self.by_rel[rel as usize].checked -= 1;
        }
        Some(rel)
    }

    /// The condition leads to one more class.
    pub fn lead(&mut self, id: AtomIx) {
        let atom = &mut self.atoms[id as usize];
        atom.leads += 1;
        if atom.leads == 1 && !atom.condition.is_equality() {
            self.by_rel[atom.rel as usize].checked -= 1;
            self.enter(id);
        }
    }

    /// The condition leads to one class less.
    pub fn lead_no_more(&mut self, id: AtomIx) {
        let atom = &mut self.atoms[id as usize];
        atom.leads -= 1;
        if atom.leads == 0 && !atom.condition.is_equality() {
            self.by_rel[atom.rel as usize].checked += 1;
            self.leave(id);
        }
    }

    fn enter(&mut self, id: AtomIx) {
        let Atom { rel, condition, .. } = self.atoms[id as usize];
        let of = &mut self.by_rel[rel as usize];
        match condition {
            Condition::Exists => of.exists = Some(id),
            Condition::Is(s) => drop(of.strings.insert(s, id)),
            Condition::Number(Op::Eq, x) => drop(of.numbers.insert(x.to_bits(), id)),
            Condition::Number(op, x) if op != Op::Ne => {
                let list = &mut of.bounds[bound(op)];
                let at = list.partition_point(|&(y, _)| y < x);
                list.insert(at, (x, id));
            }
            _ => of.others.push(id),
        }
    }

    fn leave(&mut self, id: AtomIx) {
        let Atom { rel, condition, .. } = self.atoms[id as usize];
        let of = &mut self.by_rel[rel as usize];
        match condition {
            Condition::Exists => of.exists = None,
            Condition::Is(s) => drop(of.strings.remove(&s)),
            Condition::Number(Op::Eq, x) => drop(of.numbers.remove(&x.to_bits())),
            Condition::Number(op, _) if op != Op::Ne => of.bounds[bound(op)].retain(|b| b.1 != id),
            _ => of.others.retain(|&o| o != id),
        }
    }

    pub fn bound(&self) -> usize {
        self.atoms.len()
    }

    /// The path that a condition is on.
    pub fn rel(&self, id: AtomIx) -> PathIx {
        self.atoms[id as usize].rel
    }

    pub fn condition(&self, id: AtomIx) -> Condition {
        self.atoms[id as usize].condition
    }

    /// Whether the index has a condition.
    pub(crate) fn is_indexed(&self, id: AtomIx) -> bool {
        let Atom { leads, condition, .. } = self.atoms[id as usize];
        leads > 0 || condition.is_equality()
    }

    /// Are there conditions on the path that the index does not have?
    #[inline]
    pub(crate) fn checks(&self, rel: PathIx) -> bool {
        self.by_rel.get(rel as usize).is_some_and(|of| of.checked > 0)
    }

    /// Does the index have a condition on the path?
    #[inline]
    pub fn test(&self, rel: PathIx) -> bool {
        self.by_rel.get(rel as usize).is_some_and(|of| !of.is_empty())
    }

    /// Calls `f` for all conditions on the path that the index has and a node satisfies.
    pub fn satisfied(&self, rel: PathIx, constants: &Constants, value: &mut NodeValue<'_>, mut f: impl FnMut(AtomIx)) {
        let of = &self.by_rel[rel as usize];
        if let Some(atom) = of.exists {
            f(atom);
        }
        if !of.reads_values() {
            return;
        }
        if !of.strings.is_empty() {
            if let Some(atom) = value.string(constants).and_then(|s| of.strings.get(&s)) {
                f(*atom);
            }
        }
        if of.reads_numbers() {
            let x = value.number();
            if !x.is_nan() {
                if let Some(&atom) = of.numbers.get(&(x + 0.0).to_bits()) {
                    f(atom);
                }
                let [lt, le, gt, ge] = &of.bounds;
                lt[lt.partition_point(|b| b.0 <= x)..].iter().for_each(|b| f(b.1));
                le[le.partition_point(|b| b.0 < x)..].iter().for_each(|b| f(b.1));
                gt[..gt.partition_point(|b| b.0 < x)].iter().for_each(|b| f(b.1));
                ge[..ge.partition_point(|b| b.0 <= x)].iter().for_each(|b| f(b.1));
            }
        }
        for &id in &of.others {
            if self.atoms[id as usize].condition.holds(constants, value) {
                f(id);
            }
        }
    }
}

fn bound(op: Op) -> usize {
    match op {
        Op::Lt => 0,
        Op::Le => 1,
        Op::Gt => 2,
        _ => 3,
    }
}

/// A node's value, read and converted at most once.
pub struct NodeValue<'v> {
    message: Message<'v>,
    node: NodeIx,
    scratch: &'v mut Vec<u8>,
    is_read: bool,
    /// The value where it is a piece of the message; else it is in `scratch`.
    plain: Option<&'v [u8]>,
    string: Option<Option<StrId>>,
    number: Option<f64>,
}

impl<'v> NodeValue<'v> {
    pub fn new(message: Message<'v>, node: NodeIx, scratch: &'v mut Vec<u8>) -> NodeValue<'v> {
        NodeValue { message, node, scratch, is_read: false, plain: None, string: None, number: None }
    }

    /// A value of which it may be known already which constant it is.
    pub fn known(
        message: Message<'v>,
        node: NodeIx,
        scratch: &'v mut Vec<u8>,
        string: Option<Option<StrId>>,
    ) -> NodeValue<'v> {
        NodeValue { string, ..NodeValue::new(message, node, scratch) }
    }

    /// Which constant it is, if that has been asked.
    pub fn known_string(&self) -> Option<Option<StrId>> {
        self.string
    }

    fn read(&mut self) {
        if self.is_read {
            return;
        }
        self.is_read = true;
        let src = self.message.src;
        let value = self.message.nodes.value(src, self.node, self.scratch);
        let (at, len) = ((value.as_ptr() as usize).wrapping_sub(src.as_ptr() as usize), value.len());
        self.plain = if len == 0 { Some(&[]) } else { at.checked_add(len).and_then(|end| src.get(at..end)) };
    }

    fn bytes(&mut self) -> &[u8] {
        self.read();
        self.plain.unwrap_or(self.scratch)
    }

    fn string(&mut self, constants: &Constants) -> Option<StrId> {
        if self.string.is_none() {
            self.string = Some(constants.find(self.bytes()));
        }
        self.string.flatten()
    }

    fn number(&mut self) -> f64 {
        if self.number.is_none() {
            self.number = Some(number(self.bytes()));
        }
        self.number.unwrap_or(f64::NAN)
    }
}
