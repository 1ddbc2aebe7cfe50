//! Queries in, messages in, results out.

use super::chain::Chain;
use super::index::{Entry, Index, Reach};
use super::payload::{Maker, Template, Templates};
use super::probe::Probe;
use super::query::{Body, Query, Shape, Subscriber, Tie};
use super::results::{Found, Gathered, Results};
use super::state::{keys_of, Doc, State};
use super::witness::{Cell, Witness};
use super::{BlockIx, QueryIx, Slot, Time, NO_VALUE};
use crate::output::share::Cut;
use crate::shapes::program::Op;
use crate::vocabulary::Vocabulary;
use crate::xml::Limits;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How much later than the newest message one may be; none: as much as the longest window.
    pub lateness: Option<Time>,
    /// Memory for messages and their values; beyond it the oldest go before their time.
    pub max_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { lateness: None, max_bytes: 1 << 30 }
    }
}

/// What has happened so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    pub messages: u64,
    pub late: u64,
    pub expired: u64,
    /// Messages that went before their time.
    pub evicted: u64,
    /// Subscribers for whom not all combinations of a message were tried, message by message.
    pub cut: u64,
}

/// A message that comes in.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub time: Time,
    pub route: u32,
    /// Whatever the caller knows it by.
    pub label: &'a [u8],
    pub xml: &'a [u8],
}

/// The queries that have a block.
#[derive(Default)]
struct Users {
    /// Those of this block alone.
    alone: Vec<QueryIx>,
    /// How many others there are.
    joining: u32,
}

impl Users {
    fn is_empty(&self) -> bool {
        self.alone.is_empty() && self.joining == 0
    }
}

#[derive(Default)]
pub struct Correlator {
    pub settings: Settings,
    pub counts: Counts,
    blocks: Vec<Users>,
    queries: Vec<Option<Query>>,
    free: Vec<QueryIx>,
    ids: HashMap<Body, QueryIx>,
    of_subscriber: HashMap<u32, QueryIx>,
    index: Index,
    state: State,
    probe: Probe,
    arrived: u64,
    newest: Option<Time>,
    /// By span (the greatest time between messages of one result) the number of queries that have it.
    spans: BTreeMap<Time, u32>,
    templates: Templates,
    maker: Maker,
}

impl Correlator {
    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn query_count(&self) -> usize {
        self.ids.len()
    }

    /// The names that the paths of templates have.
    pub fn vocabulary_mut(&mut self) -> &mut Vocabulary {
        &mut self.templates.vocabulary
    }

    /// Subscribes to a query of blocks, whose numbers none had before that were others; those that differ in the last
    /// window alone are one. The payloads of its results are made by `template`.
    pub fn subscribe(
        &mut self,
        number: u32,
        (shape, blocks): (&Arc<Shape>, &[BlockIx]),
        window: Time,
        template: &Template,
    ) -> Result<(), &'static str> {
        if blocks.len() != shape.form.blocks.len() {
            return Err("a shape of another number of blocks");
        }
        if !template.fits(&shape.form) {
            return Err("a template of what the query does not show");
        }
        if self.of_subscriber.contains_key(&number) {
            return Err("a subscriber that is there already");
        }
        self.templates.add(number, template)?;
        let body = Body { shape: shape.clone(), blocks: blocks.into() };
        let id = match self.ids.get(&body) {
            Some(&id) => id,
            None => self.add_query(body),
        };
        let since = self.arrived;
        let query = self.queries[id as usize].as_mut().expect("a query in use");
        forget(&mut self.spans, query);
        query.subscribe(Subscriber { window, since, number });
        *self.spans.entry(query.span()).or_default() += 1;
        self.of_subscriber.insert(number, id);
        self.widen(id);
        Ok(())
    }

    fn add_query(&mut self, body: Body) -> QueryIx {
        let id = self.free.pop().unwrap_or(self.queries.len() as QueryIx);
        let Body { shape, blocks } = &body;
        for role in &shape.roles {
            let (stored, new) = (blocks[role.stored as usize], blocks[role.new as usize]);
            match role.order {
                Some(order) => self.state.order_column(order.stored),
                None if role.pairs.is_empty() => self.state.index_block(stored),
                None => {}
            }
            self.index.add(role, (stored, new), id);
        }
        let comparisons = &shape.form.comparisons;
        if blocks.len() > 2 && comparisons.iter().any(|c| c.op != Op::Eq) {
            blocks.iter().for_each(|&b| self.state.index_block(b));
            for c in comparisons.iter().filter(|c| c.is_order()) {
                self.state.order_column(shape.variable(c.left).column);
                self.state.order_column(shape.variable(c.right).column);
            }
        }
        let bound = blocks.iter().max().map_or(0, |&b| b as usize + 1).max(self.blocks.len());
        self.blocks.resize_with(bound, Users::default);
        match blocks[..] {
            [one] => self.blocks[one as usize].alone.push(id),
            _ => blocks.iter().for_each(|&b| self.blocks[b as usize].joining += 1),
        }
        self.ids.insert(body.clone(), id);
        let query = Some(Query { body, subscribers: vec![] });
        match self.queries.get_mut(id as usize) {
            Some(free) => *free = query,
            None => self.queries.push(query),
        }
        id
    }

    /// The index reaches as far as the query's widest window.
    fn widen(&mut self, id: QueryIx) {
        let Some(query) = &self.queries[id as usize] else { return };
        let span = query.span();
        for role in &query.body.shape.roles {
            let reach = match &query.form().ties[..] {
                [Tie::FollowedBy] if role.new == 1 => Reach { back: span, ahead: 0 },
                [Tie::FollowedBy] => Reach { back: 0, ahead: span },
                _ => Reach { back: span, ahead: span },
            };
            self.index.widen(role, query.body.blocks[role.new as usize], reach);
        }
    }

    /// The blocks that no query has any more; or none if there is no such subscriber.
    pub fn unsubscribe(&mut self, number: u32) -> Option<Vec<BlockIx>> {
        let id = self.of_subscriber.remove(&number)?;
        self.templates.remove(number);
        let query = self.queries[id as usize].as_mut()?;
        forget(&mut self.spans, query);
        query.subscribers.retain(|s| s.number != number);
        if !query.subscribers.is_empty() {
            *self.spans.entry(query.span()).or_default() += 1;
            return Some(vec![]);
        }
        let Query { body, .. } = self.queries[id as usize].take()?;
        self.free.push(id);
        self.ids.remove(&body);
        let Body { shape, blocks } = body;
        for role in &shape.roles {
            let (stored, new) = (blocks[role.stored as usize], blocks[role.new as usize]);
            self.index.remove(role, (stored, new), id);
        }
        match blocks[..] {
            [one] => self.blocks[one as usize].alone.retain(|&q| q != id),
            _ => blocks.iter().for_each(|&b| self.blocks[b as usize].joining -= 1),
        }
        let mut unused = blocks.into_vec();
        unused.sort_unstable();
        unused.dedup();
        unused.retain(|&b| self.blocks[b as usize].is_empty());
        Some(unused)
    }

    /// The subscriber with the longest window: the one that keeps messages longest.
    pub fn widest(&self) -> Option<(u32, Time)> {
        let queries = self.queries.iter().flatten().filter(|q| q.body.blocks.len() > 1);
        let widest = queries.max_by_key(|q| q.span())?;
        widest.subscribers.first().map(|s| (s.number, widest.span()))
    }

    fn span(&self) -> Time {
        self.spans.last_key_value().map_or(0, |s| *s.0)
    }

    /// Messages before this are late.
    pub fn watermark(&self) -> Time {
        let lateness = self.settings.lateness.unwrap_or_else(|| self.span());
        self.newest.map_or(Time::MIN, |t| t.saturating_sub(lateness))
    }

    pub fn is_late(&self, time: Time) -> bool {
        time < self.watermark()
    }

    /// Takes a message in as joins see it, and appends what it completes. False if it was late.
    pub fn push(&mut self, input: Input<'_>, witness: &Witness, limits: &Limits, out: &mut Results) -> bool {
        if self.is_late(input.time) {
            self.counts.late += 1;
            return false;
        }
        self.counts.messages += 1;
        if let Some(slot) = self.store(input, witness) {
            let (mut gathered, mut probe) = (Gathered::new(limits), std::mem::take(&mut self.probe));
            self.gather(&mut probe, slot, &mut gathered);
            if gathered.is_full() {
                gathered.begin_again();
                self.gather_in_order(&mut probe, slot, &mut gathered);
            }
            self.probe = probe;
            let (found, cuts) = gathered.finish();
            self.counts.cut += cuts.iter().filter(|cut| cut.1 == Cut::Work).count() as u64;
            for one in &found {
                out.push(one, one.slots.iter().map(|&s| self.state.get(s)));
            }
            if !found.is_empty() {
                let (from, made) = ((&self.state, &self.templates), &mut out.payloads);
                self.maker.make((&found, slot), from, limits, made, &mut out.cuts);
            }
            out.cuts.extend(cuts);
            self.keep(slot);
        }
        self.reach(input.time);
        true
    }

    /// Finds what a message completes, until that is too much.
    fn gather(&self, probe: &mut Probe, slot: Slot, out: &mut Gathered) {
        if self.is_kept(slot) {
            if !probe.run(&self.state, &self.index, slot, out.most_hits()) {
                out.give_up();
            }
            for &(entry, other) in &probe.hits {
                if out.is_full() {
                    break;
                }
                self.meet(entry, slot, other, out);
            }
        }
        self.gather_alone(slot, out);
    }

    /// The same with one stored message after another, in the order of their arrival.
    fn gather_in_order(&self, probe: &mut Probe, slot: Slot, out: &mut Gathered) {
        if self.is_kept(slot) {
            probe.run_in_order(&self.state, &self.index, slot, |entry, other| self.meet(entry, slot, other, out));
        }
        self.gather_alone(slot, out);
    }

    /// Finds the results of queries of one block.
    fn gather_alone(&self, slot: Slot, out: &mut Gathered) {
        let blocks = self.state.get(slot).blocks.iter();
        for &query in blocks.flat_map(|&block| &self.blocks[block as usize].alone) {
            if out.is_full() {
                return;
            }
            self.give(query, &[slot], out);
        }
    }

    /// The number of the next message, and the time of the newest one.
    pub fn position(&self) -> (u64, Option<Time>) {
        (self.arrived, self.newest)
    }

    /// Takes a message in without asking what it completes: for a state that is restored.
    pub fn restore(&mut self, input: Input<'_>, witness: &Witness) {
        if let Some(slot) = self.store(input, witness) {
            self.keep(slot);
        }
        self.reach(input.time);
    }

    /// Stores a message, not yet to be found, if it matches a block.
    fn store(&mut self, input: Input<'_>, witness: &Witness) -> Option<Slot> {
        let number = self.arrived;
        self.arrived += 1;
        let known = |&b: &BlockIx| self.blocks.get(b as usize).is_some_and(|users| !users.is_empty());
        let blocks: Vec<BlockIx> = witness.blocks.iter().copied().filter(known).collect();
        if blocks.is_empty() {
            return None;
        }
        let values = &mut self.state.values;
        let mut acquire = |cell: &Cell| match cell.value {
            NO_VALUE => *cell,
            value => Cell { value: values.acquire(witness.values.get(value)), ..*cell },
        };
        let cells: Box<[Cell]> = witness.cells.iter().map(&mut acquire).collect();
        let set = self.state.sets.acquire(&blocks);
        let doc = Doc {
            number,
            time: input.time,
            route: input.route,
            label: input.label.into(),
            xml: input.xml.into(),
            blocks: self.state.sets.get(set).clone(),
            set,
            keys: keys_of(&cells),
            cells,
            bindings: witness.bindings.clone().into(),
        };
        Some(self.state.put(doc))
    }

    /// Can a later message join with it?
    fn is_kept(&self, slot: Slot) -> bool {
        self.state.get(slot).blocks.iter().any(|&b| self.blocks[b as usize].joining > 0)
    }

    fn keep(&mut self, slot: Slot) {
        if self.is_kept(slot) {
            self.state.index(slot);
        } else {
            self.state.remove(slot);
        }
    }

    /// Time has come this far: nothing older than the watermark is taken from now on.
    pub fn reach(&mut self, time: Time) {
        self.newest = Some(self.newest.map_or(time, |t| t.max(time)));
        let horizon = self.watermark().saturating_sub(self.span());
        self.counts.expired += self.state.expire(horizon) as u64;
        while self.state.bytes() > self.settings.max_bytes {
            let Some((_, slot)) = self.state.oldest() else { break };
            self.state.remove(slot);
            self.counts.evicted += 1;
        }
    }

    /// A new message may play a part with a stored one.
    fn meet(&self, entry: Entry, new: Slot, stored: Slot, out: &mut Gathered) {
        let Some(query) = &self.queries[entry.query as usize] else { return };
        if query.body.blocks.len() == 2 {
            let slots = if entry.new == 1 { [stored, new] } else { [new, stored] };
            self.give(entry.query, &slots, out);
            return;
        }
        let asking = out.still_asking(query.subscribers.iter().map(|s| s.number));
        if asking.is_empty() {
            return;
        }
        let mut found = vec![];
        let chain = Chain { state: &self.state, query };
        if !chain.complete((entry.new, new), (entry.stored, stored), &mut found) {
            out.unfinished(&asking);
        }
        for slots in found {
            if out.is_full() {
                return;
            }
            self.give(entry.query, &slots, out);
        }
    }

    /// Gathers the results of a query for messages, as far as some subscriber's window has them all.
    fn give(&self, id: QueryIx, slots: &[Slot], out: &mut Gathered) {
        let Some(query) = &self.queries[id as usize] else { return };
        let times: Vec<Time> = slots.iter().map(|&s| self.state.get(s).time).collect();
        let Some(gap) = query.gap(&times).filter(|&gap| gap <= query.widest()) else { return };
        let oldest = slots.iter().map(|&s| self.state.get(s).number).min().unwrap_or(0);
        let asking = query.subscribers.iter().take_while(|s| s.window >= gap).filter(|s| s.since <= oldest);
        let asking = out.still_asking(asking.map(|s| s.number));
        if asking.is_empty() {
            return;
        }
        let plan = &query.body.shape.plan;
        let unbound = |(&slot, (i, &block)): (&Slot, (usize, &BlockIx))| {
            let doc = self.state.get(slot);
            plan.needs_bindings(i as u32, doc) && doc.bindings_of(block).is_none()
        };
        if slots.iter().zip(query.body.blocks.iter().enumerate()).any(unbound) {
            out.unfinished(&asking); // the message had more of them than it may
            return;
        }
        let docs: Vec<&Doc> = slots.iter().map(|&s| self.state.get(s)).collect();
        let numbers: Box<[u64]> = docs.iter().map(|d| d.number).collect();
        let all = plan.solve(&query.body.blocks, &docs, &self.state.values, |nodes| {
            let (numbers, slots, asking) = (numbers.clone(), slots.into(), asking.clone());
            out.push(Found { query: id, numbers, nodes: nodes.into(), slots, asking })
        });
        if !all {
            out.unfinished(&asking);
        }
    }
}

/// Removes the span of a query from the count of spans. A query without subscribers has no span.
fn forget(spans: &mut BTreeMap<Time, u32>, query: &Query) {
    if query.subscribers.is_empty() {
        return;
    }
    if let Some(count) = spans.get_mut(&query.span()) {
        *count -= 1;
        if *count == 0 {
            spans.remove(&query.span());
        }
    }
}
