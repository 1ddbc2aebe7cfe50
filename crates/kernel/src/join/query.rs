//! Queries in canonical form: whoever asks the same but for the window is a subscriber of one query.

use super::solve::Plan;
use super::witness::Variable;
use super::{BlockIx, ColumnIx, Time};
use crate::shapes::program::Op;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// How a block is tied to those before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tie {
    /// Within the window, in either order.
    Join,
    /// Later, and within the window.
    FollowedBy,
}

impl Tie {
    /// The age that a window is compared with, if the order of the two is right at all.
    #[inline]
    pub fn gap(self, left: Time, right: Time) -> Option<Time> {
        match self {
            Tie::Join => Some(left.abs_diff(right).min(Time::MAX as u64) as Time),
            Tie::FollowedBy => (right > left).then(|| right.abs_diff(left).min(Time::MAX as u64) as Time),
        }
    }
}

/// A variable of one of the blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    pub block: u32,
    pub variable: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Comparison {
    pub left: Place,
    pub op: Op,
    pub right: Place,
}

impl Comparison {
    /// The operator if its left side is to be that of a block: the other way round where that is its right side.
    pub fn op_from(&self, block: u32) -> Op {
        match self.op {
            op if self.left.block == block => op,
            Op::Lt => Op::Gt,
            Op::Le => Op::Ge,
            Op::Gt => Op::Lt,
            Op::Ge => Op::Le,
            op => op,
        }
    }

    pub fn is_order(&self) -> bool {
        !matches!(self.op, Op::Eq | Op::Ne)
    }

    /// Is it about this block and that one?
    pub fn ties(&self, one: u32, other: u32) -> bool {
        let ends = (self.left.block, self.right.block);
        ends == (one, other) || ends == (other, one)
    }
}

/// What queries ask that differ in the constants of their blocks, or in the window of the last tie, alone.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Form {
    /// By block its variables.
    pub blocks: Box<[Arc<[Variable]>]>,
    /// One less than blocks.
    pub ties: Box<[Tie]>,
    /// The windows of all ties but the last one, which subscribers have.
    pub windows: Box<[Time]>,
    pub comparisons: Box<[Comparison]>,
    /// The bindings that tell results apart.
    pub shown: Box<[Place]>,
}

/// A form, and what follows from it.
pub struct Shape {
    pub form: Form,
    /// Every part that a new message can play.
    pub(crate) roles: Box<[Role]>,
    /// What [`super::solve`] does, in its order.
    pub(crate) plan: Plan,
    hash: u64,
}

impl Shape {
    pub fn new(form: Form) -> Result<Shape, &'static str> {
        if form.ties.len() + 1 != form.blocks.len() || form.windows.len() + 1 != form.ties.len().max(1) {
            return Err("a tie for each block after the first, and a window for each but the last");
        }
        let inside = |p: &Place| form.blocks.get(p.block as usize).is_some_and(|b| (p.variable as usize) < b.len());
        let compared = form.comparisons.iter().all(|c| inside(&c.left) && inside(&c.right));
        if !compared || !form.shown.iter().all(inside) {
            return Err("a variable that its block has not");
        }
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&form);
        Ok(Shape { roles: form.roles().into(), plan: Plan::new(&form), form, hash })
    }

    pub(crate) fn variable(&self, place: Place) -> Variable {
        self.form.variable(place)
    }
}

/// What a query asks, but for the window of its last tie.
#[derive(Clone)]
pub(crate) struct Body {
    pub(crate) shape: Arc<Shape>,
    pub(crate) blocks: Box<[BlockIx]>,
}

impl Hash for Body {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.shape.hash, &self.blocks).hash(state);
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Body) -> bool {
        let same_shape = || Arc::ptr_eq(&self.shape, &other.shape) || self.shape.form == other.shape.form;
        self.blocks == other.blocks && same_shape()
    }
}

impl Eq for Body {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscriber {
    pub window: Time,
    /// Messages before this one are not for it.
    pub since: u64,
    pub number: u32,
}

pub(crate) struct Query {
    pub(crate) body: Body,
    /// The widest window first.
    pub(crate) subscribers: Vec<Subscriber>,
}

impl Query {
    pub(crate) fn form(&self) -> &Form {
        &self.body.shape.form
    }

    pub fn widest(&self) -> Time {
        self.subscribers.first().map_or(0, |s| s.window)
    }

    /// How far apart two of its messages can be.
    pub fn span(&self) -> Time {
        self.form().windows.iter().fold(self.widest(), |sum, w| sum.saturating_add(*w))
    }

    pub fn subscribe(&mut self, new: Subscriber) {
        let at = self.subscribers.partition_point(|s| s.window >= new.window);
        self.subscribers.insert(at, new);
    }

    /// The gap of the last tie if messages of these times satisfy all others; a query of one block has none to satisfy.
    pub fn gap(&self, times: &[Time]) -> Option<Time> {
        let mut left = times[0];
        let mut gap = 0;
        for (i, (tie, &right)) in self.form().ties.iter().zip(&times[1..]).enumerate() {
            gap = tie.gap(left, right)?;
            if self.form().windows.get(i).is_some_and(|&w| gap > w) {
                return None;
            }
            left = left.max(right);
        }
        Some(gap)
    }
}

/// What of a query the index needs to know: the part that one message plays with another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Role {
    /// The block of the new message and that of the stored one, by their places in the query.
    pub new: u32,
    pub stored: u32,
    /// Columns that must agree: of the stored message and of the new one.
    pub pairs: Vec<(ColumnIx, ColumnIx)>,
    /// Without such: a column of the stored message that must be in this order to one of the new one.
    pub order: Option<Order>,
}

/// Columns of a stored message and of a new one, and the operator between them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Order {
    pub stored: ColumnIx,
    pub op: Op,
    pub new: ColumnIx,
}

impl Form {
    fn variable(&self, place: Place) -> Variable {
        self.blocks[place.block as usize][place.variable as usize]
    }

    /// Every part that a new message can play: each block, with that other block which it shares most equalities
    /// with, or else an order.
    fn roles(&self) -> Vec<Role> {
        let column = |place| self.variable(place).column;
        let count = self.blocks.len() as u32;
        let role = |new: u32, stored: u32| {
            let mut pairs = vec![];
            let mut order = None;
            for c in self.comparisons.iter().filter(|c| c.ties(new, stored)) {
                let (one, other) = if c.left.block == stored { (c.left, c.right) } else { (c.right, c.left) };
                if c.op == Op::Eq {
                    pairs.push((column(one), column(other)));
                } else if order.is_none() && c.is_order() {
                    order = Some(Order { stored: column(one), op: c.op_from(stored), new: column(other) });
                }
            }
            pairs.sort_unstable();
            pairs.dedup();
            Role { new, stored, order: order.filter(|_| pairs.is_empty()), pairs }
        };
        let best = |new: u32| {
            let others = (0..count).filter(|&stored| stored != new).map(|stored| role(new, stored));
            // among equals the first: the left neighbour of most
            let leads = |r: &Role| (r.pairs.len(), r.order.is_some());
            others.reduce(|a, b| if leads(&b) > leads(&a) { b } else { a })
        };
        (0..count).filter_map(best).collect()
    }
}
