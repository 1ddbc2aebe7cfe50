//! Queries in, messages in, results out.

use super::chain::Chain;
use super::index::{Entry, Index, Reach};
use super::probe::Probe;
use super::query::{Body, Place, Query, Subscriber, Tie};
use super::results::{Found, Gathered, Results};
use super::solve::Plan;
use super::state::{keys_of, Doc, State};
use super::witness::{Block, Stream, Variable, Witness};
use super::{BlockIx, ColumnIx, QueryIx, Slot, Time};
use crate::shapes::nodes::NodeIx;
use crate::shapes::program::Op;
use crate::xml::{Limits, XmlError};
use hashbrown::HashMap;

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
    /// Combinations whose bindings were not all tried.
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

/// Room for pairs of a query and a message that is kept from one message to the next.
const MOST_KEPT: usize = 1 << 16;

/// Nodes with their string-values.
pub type Values = Vec<(NodeIx, Vec<u8>)>;

#[derive(Default)]
pub struct Correlator {
    pub settings: Settings,
    pub counts: Counts,
    streams: Vec<Stream>,
    columns: HashMap<(u32, u32), ColumnIx>,
    stream_of: Vec<u32>,
    blocks: Vec<Option<Block>>,
    /// By block: queries of it alone, and how many others there are.
    alone: Vec<Vec<QueryIx>>,
    users: Vec<u32>,
    queries: Vec<Option<Query>>,
    ids: HashMap<Body, QueryIx>,
    of_subscriber: HashMap<u32, QueryIx>,
    index: Index,
    state: State,
    probe: Probe,
    arrived: u64,
    newest: Option<Time>,
    /// How far apart messages of a result can be, over all queries.
    span: Time,
    witness: Witness,
    hits: Vec<(Entry, Slot)>,
}

impl Correlator {
    /// A new stream.
    pub fn add_stream(&mut self) -> u32 {
        self.streams.push(Stream::default());
        self.streams.len() as u32 - 1
    }

    pub fn stream_mut(&mut self, stream: u32) -> Option<&mut Stream> {
        self.streams.get_mut(stream as usize)
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn query_count(&self) -> usize {
        self.ids.len()
    }

    /// A block: the program of its root, with the paths from parents to the other variables as what it returns, the
    /// paths from the document to all of them, and each one's parent.
    pub fn add_block(
        &mut self,
        stream: u32,
        words: &[u32],
        row: &[f64],
        paths: &[u32],
        parents: &[u32],
    ) -> Result<BlockIx, &'static str> {
        let rising = parents.first() == Some(&0) && parents.iter().enumerate().skip(1).all(|(i, &p)| (p as usize) < i);
        if !rising {
            return Err("the variables of a block come after their parents");
        }
        let id = self.blocks.len() as BlockIx;
        let (columns, stream_of) = (&mut self.columns, &mut self.stream_of);
        let column = |bind: u32| {
            *columns.entry((stream, bind)).or_insert_with(|| {
                stream_of.push(stream);
                stream_of.len() as ColumnIx - 1
            })
        };
        let of = self.streams.get_mut(stream as usize).ok_or("no such stream")?;
        let found = of.add(id, words, row, paths, column)?;
        if found.len() != parents.len() {
            of.remove(id);
            return Err("a path for each variable");
        }
        let variables = parents.iter().zip(found).map(|(&parent, column)| Variable { parent, column }).collect();
        self.blocks.push(Some(Block { stream, variables }));
        self.alone.push(vec![]);
        self.users.push(0);
        Ok(id)
    }

    /// Takes a block out that no query uses.
    pub fn remove_block(&mut self, id: BlockIx) -> Result<(), &'static str> {
        let used = |b: &usize| self.users[*b] == 0 && self.alone[*b].is_empty();
        let at = Some(id as usize).filter(|b| *b < self.blocks.len() && used(b)).ok_or("a block in use")?;
        if let Some(block) = self.blocks[at].take() {
            self.streams[block.stream as usize].remove(id);
        }
        Ok(())
    }

    fn block(&self, id: BlockIx) -> &Block {
        self.blocks[id as usize].as_ref().expect("a block in use")
    }

    /// Subscribes to a query; those that differ in the last window alone are one.
    pub fn subscribe(&mut self, number: u32, body: Body, window: Time) -> Result<QueryIx, &'static str> {
        self.check(&body)?;
        if self.of_subscriber.contains_key(&number) {
            return Err("a subscriber that is there already");
        }
        let id = match self.ids.get(&body) {
            Some(&id) => id,
            None => self.add_query(body),
        };
        let since = self.arrived;
        let query = self.queries[id as usize].as_mut().expect("a query in use");
        query.subscribe(Subscriber { window, since, number });
        self.of_subscriber.insert(number, id);
        self.widen(id);
        Ok(id)
    }

    fn check(&self, body: &Body) -> Result<(), &'static str> {
        let known = |&b: &BlockIx| self.blocks.get(b as usize).is_some_and(|b| b.is_some());
        if body.blocks.is_empty() || !body.blocks.iter().all(known) {
            return Err("a query of unknown blocks");
        }
        if body.ties.len() + 1 != body.blocks.len() || body.windows.len() + 1 != body.ties.len().max(1) {
            return Err("a tie for each block after the first, and a window for each but the last");
        }
        let inside = |p: &Place| {
            let block = body.blocks.get(p.block as usize);
            block.is_some_and(|&b| (p.variable as usize) < self.block(b).variables.len())
        };
        let compared = body.comparisons.iter().all(|c| inside(&c.left) && inside(&c.right));
        if !compared || !body.shown.iter().all(inside) {
            return Err("a variable that its block has not");
        }
        Ok(())
    }

    fn column(&self, body: &Body, place: Place) -> ColumnIx {
        self.block(body.blocks[place.block as usize]).variables[place.variable as usize].column
    }

    fn add_query(&mut self, body: Body) -> QueryIx {
        let id = self.queries.len() as QueryIx;
        for c in &body.comparisons {
            for place in [c.left, c.right] {
                let column = self.column(&body, place);
                self.streams[self.stream_of[column as usize] as usize].join_on(column);
            }
        }
        for role in body.roles(|p| self.column(&body, p)) {
            let (stored, new) = (body.blocks[role.stored as usize], body.blocks[role.new as usize]);
            match role.order {
                Some(order) => self.state.order_column(order.stored),
                None if role.pairs.is_empty() => self.state.index_block(stored),
                None => {}
            }
            self.index.add(&role, (stored, new), id);
        }
        if body.blocks.len() > 2 && body.comparisons.iter().any(|c| c.op != Op::Eq) {
            body.blocks.iter().for_each(|&b| self.state.index_block(b));
            for c in body.comparisons.iter().filter(|c| c.is_order()) {
                for place in [c.left, c.right] {
                    self.state.order_column(self.column(&body, place));
                }
            }
        }
        match &body.blocks[..] {
            [one] => self.alone[*one as usize].push(id),
            all => all.iter().for_each(|&b| self.users[b as usize] += 1),
        }
        let plan = Plan::new(&body, |b| self.block(b));
        self.ids.insert(body.clone(), id);
        self.queries.push(Some(Query { body, subscribers: vec![], plan }));
        id
    }

    /// The index reaches as far as the query's widest window.
    fn widen(&mut self, id: QueryIx) {
        let Some(query) = &self.queries[id as usize] else { return };
        let body = query.body.clone();
        let span = query.span();
        self.span = self.span.max(span);
        for role in body.roles(|p| self.column(&body, p)) {
            let reach = match &body.ties[..] {
                [Tie::FollowedBy] if role.new == 1 => Reach { back: span, ahead: 0 },
                [Tie::FollowedBy] => Reach { back: 0, ahead: span },
                _ => Reach { back: span, ahead: span },
            };
            self.index.widen(&role, body.blocks[role.new as usize], reach);
        }
    }

    /// The blocks that no query has any more; or none if there is no such subscriber.
    pub fn unsubscribe(&mut self, number: u32) -> Option<Vec<BlockIx>> {
        let id = self.of_subscriber.remove(&number)?;
        let query = self.queries[id as usize].as_mut()?;
        query.subscribers.retain(|s| s.number != number);
        if !query.subscribers.is_empty() {
            self.span = self.queries.iter().flatten().map(Query::span).max().unwrap_or(0);
            return Some(vec![]);
        }
        let query = self.queries[id as usize].take()?;
        let body = &query.body;
        self.ids.remove(body);
        for role in body.roles(|p| self.column(body, p)) {
            let (stored, new) = (body.blocks[role.stored as usize], body.blocks[role.new as usize]);
            self.index.remove(&role, (stored, new), id);
        }
        match &body.blocks[..] {
            [one] => self.alone[*one as usize].retain(|&q| q != id),
            all => all.iter().for_each(|&b| self.users[b as usize] -= 1),
        }
        self.span = self.queries.iter().flatten().map(Query::span).max().unwrap_or(0);
        let mut unused = body.blocks.to_vec();
        unused.sort_unstable();
        unused.dedup();
        unused.retain(|&b| self.users[b as usize] == 0 && self.alone[b as usize].is_empty());
        Some(unused)
    }

    /// The subscriber with the longest window: the one that keeps messages longest.
    pub fn widest(&self) -> Option<(u32, Time)> {
        let queries = self.queries.iter().flatten().filter(|q| q.body.blocks.len() > 1);
        let widest = queries.max_by_key(|q| q.span())?;
        widest.subscribers.first().map(|s| (s.number, widest.span()))
    }

    /// Messages before this are late.
    pub fn watermark(&self) -> Time {
        let lateness = self.settings.lateness.unwrap_or(self.span);
        self.newest.map_or(Time::MIN, |t| t.saturating_sub(lateness))
    }

    pub fn is_late(&self, time: Time) -> bool {
        time < self.watermark()
    }

    /// Takes a message in on some streams and appends what it completes. False if it was late.
    pub fn push(
        &mut self,
        streams: &[u32],
        input: Input<'_>,
        limits: &Limits,
        out: &mut Results,
    ) -> Result<bool, XmlError> {
        if self.is_late(input.time) {
            self.counts.late += 1;
            return Ok(false);
        }
        let stored = self.store(streams, input, limits)?;
        self.counts.messages += 1;
        let Some(slot) = stored else {
            self.advance(input.time);
            return Ok(true);
        };
        let mut gathered = Gathered::new(limits);
        self.gather(slot, limits, &mut gathered);
        if gathered.is_full() {
            gathered.begin_again();
            self.gather_in_order(slot, limits, &mut gathered);
        }
        let (found, cuts) = gathered.finish();
        for one in &found {
            out.push(one, one.slots.iter().map(|&s| self.state.get(s)));
        }
        out.cuts.extend(cuts);
        self.keep(slot);
        self.advance(input.time);
        Ok(true)
    }

    /// Finds what a message completes, until that is too much.
    fn gather(&mut self, slot: Slot, limits: &Limits, out: &mut Gathered) {
        if self.is_kept(slot) {
            let mut hits = std::mem::take(&mut self.hits);
            hits.clear();
            if !self.probe.run(&self.state, &self.index, slot, out.most_hits(), &mut hits) {
                out.give_up();
            }
            for &(entry, other) in &hits {
                if out.is_full() {
                    break;
                }
                self.meet(entry, slot, other, limits, out);
            }
            hits.clear();
            hits.shrink_to(MOST_KEPT);
            self.hits = hits;
        }
        self.gather_alone(slot, limits, out);
    }

    /// The same with one stored message after another, in the order of their arrival.
    fn gather_in_order(&mut self, slot: Slot, limits: &Limits, out: &mut Gathered) {
        if self.is_kept(slot) {
            let (index, mut probe) = (std::mem::take(&mut self.index), std::mem::take(&mut self.probe));
            let mut state = std::mem::take(&mut self.state);
            probe.run_in_order(&mut state, &index, slot, |state, hits| {
                std::mem::swap(&mut self.state, state);
                for &(entry, other) in hits {
                    self.meet(entry, slot, other, limits, out);
                }
                std::mem::swap(&mut self.state, state);
            });
            (self.index, self.probe, self.state) = (index, probe, state);
        }
        self.gather_alone(slot, limits, out);
    }

    /// Finds the results of queries of one block.
    fn gather_alone(&mut self, slot: Slot, limits: &Limits, out: &mut Gathered) {
        let blocks = self.state.get(slot).blocks.clone();
        for &block in blocks.iter() {
            for i in 0..self.alone[block as usize].len() {
                if out.is_full() {
                    return;
                }
                self.give(self.alone[block as usize][i], &[slot], limits, out);
            }
        }
    }

    /// What a message binds, without keeping it: (block, variable, node of its parent, node), the root's with itself; and
    /// the values of these nodes.
    pub fn witnesses(
        &mut self,
        streams: &[u32],
        xml: &[u8],
        limits: &Limits,
    ) -> Result<(Vec<[u32; 4]>, Values), XmlError> {
        let (mut bound, mut values) = (vec![], vec![]);
        for &s in streams {
            let Some(stream) = self.streams.get_mut(s as usize) else { continue };
            for (block, bindings) in stream.bindings(xml, limits, &self.blocks)? {
                bound.extend(bindings.roots.iter().map(|&n| [block, 0, n, n]));
                for (i, edges) in bindings.edges.iter().enumerate() {
                    bound.extend(edges.iter().map(|&(parent, node)| [block, i as u32 + 1, parent, node]));
                }
            }
            let mut nodes: Vec<NodeIx> = bound.iter().flat_map(|r: &[u32; 4]| [r[2], r[3]]).collect();
            nodes.sort_unstable();
            nodes.dedup();
            let texts = stream.values(xml, limits, &nodes)?;
            values.extend(nodes.into_iter().zip(texts));
        }
        values.sort_unstable();
        values.dedup();
        Ok((bound, values))
    }

    /// Time has come this far: nothing older than the watermark is taken from now on.
    pub fn reach(&mut self, newest: Time) {
        self.advance(newest);
    }

    /// The number of the next message, and the time of the newest one.
    pub fn position(&self) -> (u64, Option<Time>) {
        (self.arrived, self.newest)
    }

    /// Forgets what is older than a time.
    pub fn expire(&mut self, before: Time) {
        self.counts.expired += self.state.expire(before) as u64;
    }

    /// Takes a message in without asking what it completes: for a state that is restored.
    pub fn restore(&mut self, streams: &[u32], input: Input<'_>, limits: &Limits) -> Result<(), XmlError> {
        if let Some(slot) = self.store(streams, input, limits)? {
            self.keep(slot);
        }
        self.advance(input.time);
        Ok(())
    }

    fn store(&mut self, streams: &[u32], input: Input<'_>, limits: &Limits) -> Result<Option<Slot>, XmlError> {
        let number = self.arrived;
        self.arrived += 1;
        let (mut blocks, mut cells) = (vec![], vec![]);
        for &s in streams {
            let Some(of) = self.streams.get_mut(s as usize).filter(|s| !s.set.is_empty()) else { continue };
            if let Err(error) = of.witness(input.xml, limits, &mut self.state.values, &mut self.witness) {
                cells.iter().chain(&self.witness.cells).for_each(|c: &super::witness::Cell| {
                    if c.value != super::NO_VALUE {
                        self.state.values.release(c.value);
                    }
                });
                return Err(error);
            }
            blocks.append(&mut self.witness.blocks);
            cells.append(&mut self.witness.cells);
        }
        if blocks.is_empty() {
            return Ok(None);
        }
        blocks.sort_unstable();
        cells.sort_unstable();
        let doc = Doc {
            number,
            time: input.time,
            route: input.route,
            label: input.label.into(),
            xml: input.xml.into(),
            blocks: self.state.block_set(&blocks),
            keys: keys_of(&cells),
            cells: cells.into(),
            bindings: None,
        };
        Ok(Some(self.state.put(doc)))
    }

    /// Can a later message join with it?
    fn is_kept(&self, slot: Slot) -> bool {
        self.state.get(slot).blocks.iter().any(|&b| self.users[b as usize] > 0)
    }

    fn keep(&mut self, slot: Slot) {
        if self.is_kept(slot) {
            self.state.index(slot);
        } else {
            self.state.remove(slot);
        }
    }

    fn advance(&mut self, time: Time) {
        self.newest = Some(self.newest.map_or(time, |t| t.max(time)));
        let horizon = self.watermark().saturating_sub(self.span);
        self.counts.expired += self.state.expire(horizon) as u64;
        while self.state.bytes() > self.settings.max_bytes {
            let Some((_, slot)) = self.state.oldest() else { break };
            self.state.remove(slot);
            self.counts.evicted += 1;
        }
    }

    /// A new message may play a part with a stored one.
    fn meet(&mut self, entry: Entry, new: Slot, stored: Slot, limits: &Limits, out: &mut Gathered) {
        let Some(query) = &self.queries[entry.query as usize] else { return };
        if query.body.blocks.len() == 2 {
            let slots = if entry.new == 1 { [stored, new] } else { [new, stored] };
            self.give(entry.query, &slots, limits, out);
            return;
        }
        let asking = out.still_asking(query.subscribers.iter().map(|s| s.number));
        if asking.is_empty() {
            return;
        }
        let mut found = vec![];
        let chain = Chain { state: &self.state, query, block: |b| self.block(b) };
        if !chain.complete((entry.new, new), (entry.stored, stored), &mut found) {
            self.counts.cut += 1;
            out.unfinished(&asking);
        }
        for slots in found {
            if out.is_full() {
                return;
            }
            self.give(entry.query, &slots, limits, out);
        }
    }

    /// Gathers the results of a query for messages, as far as some subscriber's window has them all.
    fn give(&mut self, id: QueryIx, slots: &[Slot], limits: &Limits, out: &mut Gathered) {
        let Some(query) = &self.queries[id as usize] else { return };
        let times: Vec<Time> = slots.iter().map(|&s| self.state.get(s).time).collect();
        let Some(gap) = query.gap(&times).filter(|&gap| gap <= query.widest()) else { return };
        let oldest = slots.iter().map(|&s| self.state.get(s).number).min().unwrap_or(0);
        let asking = query.subscribers.iter().take_while(|s| s.window >= gap).filter(|s| s.since <= oldest);
        let asking = out.still_asking(asking.map(|s| s.number));
        if asking.is_empty() {
            return;
        }
        for (i, &slot) in slots.iter().enumerate() {
            let query = self.queries[id as usize].as_ref().expect("a query in use");
            let doc = self.state.get(slot);
            let unknown = doc.bindings.is_none() && query.plan.needs_bindings(i as u32, doc);
            if unknown && !self.bind(slot, limits) {
                out.unfinished(&asking);
            }
        }
        let query = self.queries[id as usize].as_ref().expect("a query in use");
        let docs: Vec<&Doc> = slots.iter().map(|&s| self.state.get(s)).collect();
        let numbers: Box<[u64]> = docs.iter().map(|d| d.number).collect();
        let all = query.plan.solve(&query.body, &docs, &self.state.values, |nodes| {
            let (numbers, slots, asking) = (numbers.clone(), slots.into(), asking.clone());
            out.push(Found { query: id, numbers, nodes: nodes.into(), slots, asking })
        });
        if !all {
            self.counts.cut += 1;
            out.unfinished(&asking);
        }
    }

    /// Makes the bindings of a stored message. False if some could not be made.
    fn bind(&mut self, slot: Slot, limits: &Limits) -> bool {
        let doc = self.state.get(slot);
        let mut streams: Vec<u32> =
            doc.blocks.iter().filter_map(|&b| Some(self.blocks[b as usize].as_ref()?.stream)).collect();
        streams.sort_unstable();
        streams.dedup();
        let mut all = vec![];
        let mut done = true;
        for stream in streams {
            // the message was read before with the same limits; but blocks may have come since
            match self.streams[stream as usize].bindings(&doc.xml, limits, &self.blocks) {
                Ok(found) => all.extend(found),
                Err(_) => {
                    self.counts.cut += 1;
                    done = false;
                }
            }
        }
        all.sort_by_key(|b| b.0);
        self.state.set_bindings(slot, all.into());
        done
    }
}
