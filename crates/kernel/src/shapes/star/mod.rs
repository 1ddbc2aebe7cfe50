//! The commonest pattern by far: some node, and constants compared with the values of paths below it, all at once
//! (`/stock[symbol = "IBM"][price > 50][volume > 1000]`). The values are taken from the message once; what they ask of
//! the constants of all subscriptions of a bucket is then checked column by column (`rows`).
//!
//! A message may have many centres and reach many buckets of a shape. The values at a centre are the same for all of
//! them and taken once; and a bucket with a constant of its own asks only the centres that have this value.

mod arm;

use super::block::{Constant, Place};
use super::nodes::NodeIx;
use super::program::{Ask, Node, Op, Pred, Test as NodeTest, Twig, Value};
use super::rows::{Asked, Check, Span};
use super::search::{GaveUp, Message, Search};
use super::store::{dedup, Access};
use crate::paths::Step;
use crate::values::constants::canonical;
use arm::{Arm, Child, Comparison, Verdict};

pub(crate) struct Star {
    /// From the document to the centre.
    trunk: Twig,
    arms: Vec<Arm>,
    /// What else must hold at the centre; without slots.
    rest: Vec<Pred>,
    key: Option<Key>,
    /// The arm that is the way to the bucket: it holds at one centre at least.
    reached: Option<usize>,
    /// An arm that is compared for equality with a constant that all rows of a bucket share, and this comparison among
    /// its fixed ones: centres are looked up by it.
    lookup: Option<(usize, usize)>,
}

/// The comparison by whose constants rows are sorted: those that hold lie together. It is the first that is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub place: Place,
    pub order: Order,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Numbers that hold are the first ones.
    Ascending,
    Descending,
    /// Strings, by their numbers.
    Id,
    /// The same, and values are searched for the strings.
    Contained,
    Prefix,
}

/// Working memory for star patterns: the values of the current message at the centres, by shape.
#[derive(Default)]
pub(crate) struct Scratch {
    message: u32,
    /// By shape.
    shapes: Vec<Found>,
    centres: Vec<Centre>,
    /// Values by which centres are looked up, with their places in `centres`; those of each shape are sorted.
    values: Vec<(u64, u32)>,
    nodes: Vec<NodeIx>,
    children: Vec<Child>,
    fixed: Vec<Check>,
    bytes: Vec<u8>,
}

/// What a message has for a shape.
#[derive(Clone, Copy, Default)]
struct Found {
    message: u32,
    gave_up: bool,
    /// Ranges of `Scratch::centres` and `Scratch::values`.
    centres: (u32, u32),
    values: (u32, u32),
}

#[derive(Clone, Copy)]
struct Centre {
    node: NodeIx,
    state: State,
}

/// What is known of a centre.
#[derive(Clone, Copy)]
enum State {
    Unasked,
    /// No row can hold there.
    Never,
    Checks(Span),
}

impl Scratch {
    /// Forgets what was found: another message begins, or the checks are gone.
    pub(crate) fn forget(&mut self) {
        if self.message == u32::MAX {
            self.shapes.clear();
            self.message = 0;
        }
        self.message += 1;
        self.centres.clear();
        self.values.clear();
    }
}

impl Star {
    /// The star that a pattern is, if it is one.
    pub(crate) fn new(pred: &Pred, places: &[Place], access: &[Access]) -> Option<Star> {
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
            Pred::And(_) | Pred::Compare { .. } => (vec![], vec![pred.clone()], vec![]),
            _ => return None,
        };
        let mut star =
            Star { trunk: Twig { nodes: trunk }, arms: vec![], rest: vec![], key: None, reached: None, lookup: None };
        for f in filters {
            star.add(f, places)?;
        }
        if !below.is_empty() {
            star.add(Pred::Exists(Twig { nodes: below }), places)?;
        }
        star.choose_key();
        star.reached = star.arms.iter().position(|arm| star.is_reached(arm, places, access));
        let equality = |arm: &Arm| arm.fixed.iter().position(|c| matches!(c.ask, Ask::Is | Ask::Number(Op::Eq)));
        let mut arms = star.reached.into_iter().chain(0..star.arms.len());
        star.lookup = arms.find_map(|i| Some((i, equality(&star.arms[i])?)));
        (!star.arms.is_empty()).then_some(star)
    }

    fn add(&mut self, pred: Pred, places: &[Place]) -> Option<()> {
        let (value, ask, slot) = match pred {
            Pred::And(ps) => return ps.into_iter().try_for_each(|p| self.add(p, places)),
            Pred::Compare { value, ask, slot } => (value, ask, slot),
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

    pub(crate) fn key(&self) -> Option<Key> {
        self.key
    }

    /// Calls `each` with the checks of every centre at which a row of a bucket of this shape may hold. They stay in `asked`
    /// until the message ends. `constant` is the one that all rows of the bucket have in a place.
    pub(crate) fn ask(
        &self,
        shape: u32,
        constant: impl Fn(Place) -> Constant,
        (message, fuel): (Message<'_>, u32),
        scratch: &mut Scratch,
        asked: &mut Asked,
        mut each: impl FnMut(&mut Asked, Span),
    ) -> Result<(), GaveUp> {
        let mut search = Search::new(message, fuel);
        if scratch.shapes.len() <= shape as usize {
            scratch.shapes.resize(shape as usize + 1, Found::default());
        }
        let mut found = scratch.shapes[shape as usize];
        if found.message != scratch.message {
            let gave_up = Found { message: scratch.message, gave_up: true, ..found };
            found = self.find(&mut search, message, scratch, asked).unwrap_or(gave_up);
            scratch.shapes[shape as usize] = found;
        }
        if found.gave_up {
            return Err(GaveUp);
        }
        let (mut from, mut to) = found.centres;
        let certain = if to - from == 1 { self.reached } else { None };
        let looked_up = self.lookup.filter(|_| to - from > 1);
        let mut key = 0;
        if let Some((arm, fixed)) = looked_up {
            key = match constant(self.arms[arm].fixed[fixed].place) {
                Constant::Number(x) => canonical(x),
                Constant::String(id) => id as u64,
            };
            let values = &scratch.values[found.values.0 as usize..found.values.1 as usize];
            from = found.values.0 + values.partition_point(|v| v.0 < key) as u32;
            to = found.values.1;
        }
        for at in from..to {
            let at = match looked_up {
                None => at,
                Some(_) if scratch.values[at as usize].0 != key => break,
                Some(_) => scratch.values[at as usize].1,
            } as usize;
            if let State::Unasked = scratch.centres[at].state {
                let node = scratch.centres[at].node;
                scratch.centres[at].state =
                    self.state(node, (certain, looked_up), &mut search, message, scratch, asked)?;
            }
            if let State::Checks(checks) = scratch.centres[at].state {
                each(asked, checks);
            }
        }
        Ok(())
    }

    /// The centres of a message, and the values by which they are looked up.
    #[inline(always)]
    fn find(
        &self,
        search: &mut Search<'_>,
        message: Message<'_>,
        scratch: &mut Scratch,
        asked: &mut Asked,
    ) -> Result<Found, GaveUp> {
        let mut nodes = std::mem::take(&mut scratch.nodes);
        nodes.clear();
        let each = search.each(&self.trunk, 0, |n| nodes.push(n));
        if nodes.len() > 1 {
            nodes.sort_unstable();
            nodes.dedup();
        }
        let from = scratch.centres.len() as u32;
        scratch.centres.extend(nodes.iter().map(|&node| Centre { node, state: State::Unasked }));
        scratch.nodes = nodes;
        each?;
        let first = scratch.values.len();
        if scratch.nodes.len() > 1 {
            match self.lookup {
                Some((arm, fixed)) => self.list_values(arm, fixed, from, search, message, scratch, asked)?,
                None => self.reduce(from, search, message, scratch, asked)?,
            }
        }
        Ok(Found {
            message: scratch.message,
            gave_up: false,
            centres: (from, scratch.centres.len() as u32),
            values: (first as u32, scratch.values.len() as u32),
        })
    }

    /// Lists the values that an arm has at each centre, in the form in which a comparison asks for them.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn list_values(
        &self,
        arm: usize,
        fixed: usize,
        from: u32,
        search: &mut Search<'_>,
        message: Message<'_>,
        scratch: &mut Scratch,
        asked: &mut Asked,
    ) -> Result<(), GaveUp> {
        let (first, arm) = (scratch.values.len(), &self.arms[arm]);
        for at in from..scratch.centres.len() as u32 {
            let mark = asked.mark();
            let centre = scratch.centres[at as usize].node;
            let child = message.nodes.only_child(centre, arm.child);
            let values = arm.gather(child, search, message, centre, &mut scratch.bytes, asked)?;
            match arm.fixed[fixed].ask {
                Ask::Is => {
                    let ids = asked.strings[values.strings.range()].iter().filter(|&&id| id != u32::MAX);
                    scratch.values.extend(ids.map(|&id| (id as u64, at)));
                }
                _ => {
                    let numbers = asked.numbers[values.numbers.range()].iter().filter(|x| !x.is_nan());
                    scratch.values.extend(numbers.map(|&x| (canonical(x), at)));
                }
            }
            asked.rewind(mark);
        }
        dedup(&mut scratch.values, first);
        Ok(())
    }

    /// Asks every centre from `from` on and leaves those that are needed: a single comparison is asked of all values at
    /// once, and a centre is dropped if another one satisfies whatever it does.
    #[inline(never)]
    fn reduce(
        &self,
        from: u32,
        search: &mut Search<'_>,
        message: Message<'_>,
        scratch: &mut Scratch,
        asked: &mut Asked,
    ) -> Result<(), GaveUp> {
        let nodes = std::mem::take(&mut scratch.nodes);
        scratch.centres.truncate(from as usize);
        if let Some((arm, c)) = self.only_comparison() {
            let mark = asked.mark();
            for &node in &nodes {
                if self.rest_holds(node, search)? {
                    let child = message.nodes.only_child(node, arm.child);
                    arm.gather(child, search, message, node, &mut scratch.bytes, asked)?;
                }
            }
            let state = match asked.test(c.ask, asked.values_since(mark)) {
                Verdict::Never => State::Never,
                Verdict::Always => State::Checks(asked.checks_since(asked.mark())),
                Verdict::If(test) => {
                    asked.push(Check { place: c.place, test });
                    State::Checks(asked.checks_since(mark))
                }
            };
            scratch.centres.push(Centre { node: nodes[0], state });
            scratch.nodes = nodes;
            return Ok(());
        }
        for (seen, &node) in nodes.iter().enumerate() {
            let mark = asked.mark();
            let state = self.state(node, (None, None), search, message, scratch, asked)?;
            let State::Checks(checks) = state else { continue };
            // where they differ in more than bounds, looking for others is in vain
            let kept = scratch.centres.len() - from as usize;
            let vain = kept > FRONT && 2 * kept > seen;
            let mut at = scratch.centres.len() - if vain { 0 } else { kept.min(FRONT) };
            if scratch.centres[at..].iter().any(|other| asked.imply(checks, other.checks())) {
                asked.rewind(mark);
                continue;
            }
            while at < scratch.centres.len() {
                if asked.imply(scratch.centres[at].checks(), checks) {
                    scratch.centres.swap_remove(at);
                } else {
                    at += 1;
                }
            }
            scratch.centres.push(Centre { node, state });
        }
        scratch.nodes = nodes;
        Ok(())
    }

    /// The comparison that is all that is asked of a centre.
    fn only_comparison(&self) -> Option<(&Arm, Comparison)> {
        let [arm] = &self.arms[..] else { return None };
        match (&arm.varied[..], &arm.fixed[..]) {
            ([c], []) | ([], [c]) => Some((arm, *c)),
            _ => None,
        }
    }

    /// Does what has no slots hold at a centre?
    #[inline(always)]
    fn rest_holds(&self, centre: NodeIx, search: &mut Search<'_>) -> Result<bool, GaveUp> {
        for p in &self.rest {
            if !search.holds(p, centre, (1, 1), &[])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Appends the checks of a centre to `asked`, but for those of an arm that is certain to hold and of the comparison by
    /// which the centre was looked up.
    #[inline(always)]
    fn state(
        &self,
        centre: NodeIx,
        given: (Option<usize>, Option<(usize, usize)>),
        search: &mut Search<'_>,
        message: Message<'_>,
        scratch: &mut Scratch,
        asked: &mut Asked,
    ) -> Result<State, GaveUp> {
        let mark = asked.mark();
        if self.rest_holds(centre, search)? && self.ask_at(centre, given, search, message, scratch, asked)? {
            return Ok(State::Checks(asked.checks_since(mark)));
        }
        asked.rewind(mark);
        Ok(State::Never)
    }

    /// False if no row can hold at the centre.
    fn ask_at(
        &self,
        centre: NodeIx,
        (certain, looked_up): (Option<usize>, Option<(usize, usize)>),
        search: &mut Search<'_>,
        message: Message<'_>,
        scratch: &mut Scratch,
        asked: &mut Asked,
    ) -> Result<bool, GaveUp> {
        scratch.fixed.clear();
        scratch.children.clear();
        let nodes = message.nodes;
        scratch.children.extend(self.arms.iter().map(|arm| nodes.only_child(centre, arm.child)));
        if scratch.children.contains(&Child::Many) {
            // children may have the names of others: look at each
            scratch.children.fill(Child::None);
            for n in nodes.children(centre) {
                for (arm, child) in self.arms.iter().zip(&mut scratch.children) {
                    if nodes.recs[n as usize].sym == arm.child {
                        *child = if *child == Child::None { Child::One(n) } else { Child::Many };
                    }
                }
            }
        }
        for (i, arm) in self.arms.iter().enumerate() {
            let given = looked_up.filter(|by| by.0 == i).map(|by| by.1);
            if Some(i) == certain || given.is_some() && arm.varied.len() + arm.fixed.len() == 1 {
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
            for (_, c) in arm.fixed.iter().enumerate().filter(|(j, _)| given != Some(*j)) {
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

/// Centres that a new one is compared with.
const FRONT: usize = 64;

impl Centre {
    fn checks(&self) -> Span {
        match self.state {
            State::Checks(checks) => checks,
            _ => Span { start: 0, end: 0 },
        }
    }
}

impl Node {
    /// Is it this step of a path? (Not every step that means the same is recognised.)
    fn is_step(&self, step: Step) -> bool {
        self.deep == step.descendant() && self.test == NodeTest::Exactly(step.test())
    }
}

/// Does a predicate compare with constants that differ between the subscriptions of a shape?
pub(crate) fn has_slots(p: &Pred) -> bool {
    let in_twig = |twig: &Twig| twig.nodes.iter().any(|n| n.filters.iter().any(has_slots));
    match p {
        Pred::Bool(_) | Pred::NodeIs(_) | Pred::Position { .. } => false,
        Pred::And(ps) | Pred::Or(ps) => ps.iter().any(has_slots),
        Pred::Not(p) => has_slots(p),
        Pred::Exists(twig) => in_twig(twig),
        Pred::Compare { .. } => true,
    }
}
