//! Payloads: the messages that the templates of subscribers make of the nodes of joined messages.
//!
//! The messages of a result are read again, one while the other is open: first the new one, which all results have, then
//! the others in an order in which each is read once, or in chains not much oftener.

use super::query::Form;
use super::results::Found;
use super::state::State;
use super::Slot;
use crate::document::read;
use crate::evaluate::{Budget, Queries, Scratch, Tree};
use crate::output::share::{share, Cut};
use crate::shapes::nodes::{NodeIx, Nodes};
use crate::shapes::search::Message;
use crate::transform::factory::{Factory, Making, Returned};
use crate::transform::shared::{key, Shared};
use crate::vocabulary::Vocabulary;
use crate::xml::{Limits, Reader};
use hashbrown::HashMap;

/// What payloads are made by: a template, and the paths to the nodes that it takes.
pub struct Template {
    making: Making,
    paths: Box<[Path]>,
    /// The same for equal templates only.
    key: Box<[u8]>,
}

/// A path from the node of a variable, which is given by its block and its place among those shown.
#[derive(Clone, Hash)]
pub struct Path {
    pub block: u32,
    pub shown: u32,
    /// The words of a query, and the strings in it; no words for the node itself.
    pub words: Box<[u32]>,
    pub strings: Box<[String]>,
}

impl Template {
    /// From the code of what is made of a group with a list for each path.
    pub fn new(code: &[u8], paths: Vec<Path>) -> Result<Template, &'static str> {
        let making = Making::decode(code)?;
        if !making.fits(paths.len()) {
            return Err("a template that asks for what no path leads to");
        }
        Ok(Template { making, key: key(&(code, &paths)).into(), paths: paths.into() })
    }

    /// Does it take nothing but what a query shows?
    pub(super) fn fits(&self, form: &Form) -> bool {
        let fits = |path: &Path| form.shown.get(path.shown as usize).is_some_and(|place| place.block == path.block);
        self.paths.iter().all(fits)
    }
}

/// The templates of all subscribers. Equal ones are one.
#[derive(Default)]
pub(super) struct Templates {
    of: HashMap<u32, u32>,
    all: Shared<Compiled>,
    queries: Queries,
    /// Numbers of queries that are free.
    free: Vec<u32>,
    pub(super) vocabulary: Vocabulary,
}

struct Compiled {
    making: Making,
    paths: Box<[CompiledPath]>,
}

struct CompiledPath {
    block: u32,
    shown: u32,
    /// The number of its query; none for the node itself.
    query: Option<u32>,
}

impl Templates {
    pub(super) fn add(&mut self, subscriber: u32, template: &Template) -> Result<(), &'static str> {
        let Templates { of, all, queries, free, vocabulary } = self;
        let mut compile = |path: &Path| {
            let mut query = None;
            if !path.words.is_empty() {
                let strings: Vec<&str> = path.strings.iter().map(|s| &**s).collect();
                let number = free.pop().unwrap_or(queries.len() as u32);
                queries.add(number, &path.words, &strings, &vocabulary.names)?;
                query = Some(number);
            }
            Ok(CompiledPath { block: path.block, shown: path.shown, query })
        };
        let id = match all.find(&template.key) {
            Some(id) => id,
            None => {
                let paths = template.paths.iter().map(&mut compile).collect::<Result<_, _>>()?;
                let compiled = Compiled { making: template.making.clone(), paths };
                of.insert(subscriber, all.acquire(&template.key, || compiled).0);
                return Ok(());
            }
        };
        all.acquire_again(id);
        of.insert(subscriber, id);
        Ok(())
    }

    pub(super) fn remove(&mut self, subscriber: u32) {
        let released = self.of.remove(&subscriber).and_then(|id| self.all.release(id));
        for number in released.iter().flat_map(|template| &template.paths).filter_map(|path| path.query) {
            self.queries.remove(number);
            self.free.push(number);
        }
    }
}

/// Payloads, each once, and by subscriber of each result which one it gets: none if it gets no more.
#[derive(Default)]
pub struct Payloads {
    pub made: Vec<Box<[u8]>>,
    pub of: Vec<Option<u32>>,
    /// Bytes of all of them.
    pub size: usize,
}

/// Makes payloads. Keeps its working memory from one message to the next.
#[derive(Default)]
pub(super) struct Maker {
    levels: Vec<Level>,
    factory: Factory,
    scratch: Scratch,
}

/// What a message is read with.
#[derive(Default)]
struct Level {
    reader: Reader,
    nodes: Nodes,
}

/// A payload that is to be made of a result.
struct Job<'a> {
    template: u32,
    of: &'a Found,
    /// The messages but for the new one, block by block.
    others: Vec<Slot>,
    made: Made,
}

enum Made {
    Not,
    Bytes(Box<[u8]>),
    /// It has so many bytes, which were too many to keep.
    Size(usize),
    /// It took too much to find its nodes.
    Failed,
}

impl Maker {
    /// Makes the payloads of the results of a new message. Appends, result by result, those that the subscribers get, and
    /// the subscribers that do not get all of theirs.
    pub(super) fn make(
        &mut self,
        (found, new): (&[Found], Slot),
        (state, templates): (&State, &Templates),
        limits: &Limits,
        out: &mut Payloads,
        cuts: &mut Vec<(u32, Cut)>,
    ) {
        let mut jobs: Vec<Job<'_>> = vec![];
        let mut wanted: Vec<(u32, u32)> = vec![]; // subscribers and jobs
        let mut known: HashMap<(u32, &[Slot], &[NodeIx]), u32> = HashMap::new();
        for one in found {
            let mut last = None;
            for &subscriber in one.asking.iter() {
                let template = templates.of[&subscriber];
                let job = match last {
                    Some((before, job)) if before == template => job,
                    _ => *known.entry((template, &one.slots, &one.nodes)).or_insert_with(|| {
                        let others = one.slots.iter().copied().filter(|&slot| slot != new).collect();
                        jobs.push(Job { template, of: one, others, made: Made::Not });
                        jobs.len() as u32 - 1
                    }),
                };
                last = Some((template, job));
                wanted.push((subscriber, job));
            }
        }
        let budget = limits.max_message_result_bytes as usize;
        let mut run = Run { maker: self, state, templates, limits, new, left: budget + budget / 8 };
        run.all(jobs.iter_mut().collect());
        let given = shared_out(&wanted, &jobs, limits, cuts);
        let is_given: Vec<bool> = given.iter().fold(vec![false; jobs.len()], |mut is_given, job| {
            job.iter().for_each(|&job| is_given[job as usize] = true);
            is_given
        });
        run.left = usize::MAX; // what is given is within the budget
        run.all(jobs.iter_mut().zip(&is_given).filter(|j| *j.1 && j.0.is_to_be_made()).map(|j| j.0).collect());
        let places: Vec<u32> =
            jobs.into_iter().zip(is_given).map(|(job, is_given)| out.add(job.made, is_given)).collect();
        out.of.extend(given.into_iter().map(|job| job.map(|job| places[job as usize])));
    }
}

impl Job<'_> {
    fn is_to_be_made(&self) -> bool {
        matches!(self.made, Made::Size(_))
    }

    /// The number of the message of a block: 0 is the new one.
    fn source(&self, block: usize, new: Slot) -> usize {
        let slots = &self.of.slots;
        if slots[block] == new {
            0
        } else {
            1 + slots[..block].iter().filter(|&&slot| slot != new).count()
        }
    }
}

impl Payloads {
    /// Appends a payload if it is given to somebody, and returns its place.
    fn add(&mut self, made: Made, is_given: bool) -> u32 {
        if let (Made::Bytes(bytes), true) = (made, is_given) {
            self.size += bytes.len();
            self.made.push(bytes);
        }
        (self.made.len() as u32).saturating_sub(1)
    }
}

/// Returns the jobs whose payloads are given: no subscriber gets more bytes than it may have, nor more than its share of
/// the message's budget, and none after one that it does not get.
fn shared_out(
    wanted: &[(u32, u32)],
    jobs: &[Job<'_>],
    limits: &Limits,
    cuts: &mut Vec<(u32, Cut)>,
) -> Vec<Option<u32>> {
    let (own, budget) = (limits.max_result_bytes as u64, limits.max_message_result_bytes as u64);
    let size = |job: u32| match &jobs[job as usize].made {
        Made::Bytes(bytes) => Some(bytes.len() as u64),
        Made::Size(size) => Some(*size as u64),
        Made::Not | Made::Failed => None,
    };
    let sum = wanted.iter().map(|&(_, job)| size(job)).sum::<Option<u64>>();
    if sum.is_some_and(|sum| sum <= own.min(budget)) {
        return wanted.iter().map(|&(_, job)| Some(job)).collect();
    }
    let give = |most: u64, reason: Cut| {
        let mut had: HashMap<u32, (u64, Option<Cut>)> = HashMap::new();
        let one = |&(subscriber, job): &(u32, u32)| {
            let (used, cut) = had.entry(subscriber).or_default();
            if cut.is_none() {
                match size(job) {
                    None => *cut = Some(Cut::Costly),
                    Some(size) if *used + size > most => *cut = Some(reason),
                    Some(size) => *used += size,
                }
            }
            cut.is_none().then_some(job)
        };
        let given: Vec<Option<u32>> = wanted.iter().map(one).collect();
        (given, had)
    };
    let (mut given, mut had) = give(own, Cut::Bytes);
    if had.values().map(|h| h.0).sum::<u64>() > budget {
        let mut claims: Vec<(u64, u64)> = had.values().map(|h| (h.0, 1)).collect();
        let level = share(&mut claims, budget);
        (given, had) = if own <= level { (given, had) } else { give(level, Cut::BudgetBytes) };
    }
    cuts.extend(had.into_iter().filter_map(|(subscriber, (_, cut))| Some((subscriber, cut?))));
    cuts.sort_unstable_by_key(|cut| cut.0);
    given
}

/// Makes payloads of the results of one message.
struct Run<'r> {
    maker: &'r mut Maker,
    state: &'r State,
    templates: &'r Templates,
    limits: &'r Limits,
    new: Slot,
    /// Bytes that may still be kept.
    left: usize,
}

impl Run<'_> {
    fn all(&mut self, mut jobs: Vec<&mut Job<'_>>) {
        if jobs.is_empty() {
            return;
        }
        jobs.sort_by(|a, b| a.others.cmp(&b.others));
        let mut levels = std::mem::take(&mut self.maker.levels);
        let depth = 1 + jobs.iter().map(|job| job.others.len()).max().unwrap_or(0);
        levels.resize_with(depth.max(levels.len()), Level::default);
        self.open(self.new, &mut levels, &[], &mut jobs);
        self.maker.levels = levels;
    }

    /// Reads a message beside those that are open, for jobs that all have these.
    fn open(&mut self, slot: Slot, levels: &mut [Level], open: &[Message<'_>], jobs: &mut [&mut Job<'_>]) {
        let Some((level, deeper)) = levels.split_first_mut() else { return };
        let Run { state, templates, limits, .. } = *self;
        self.maker.factory.begin(open.len());
        // it has been read before: what cannot be read now has been made by nobody
        let _ = read(
            &mut level.reader,
            &mut level.nodes,
            templates.vocabulary.parts(),
            &state.get(slot).xml,
            limits,
            |message| {
                let open: Vec<Message<'_>> = open.iter().copied().chain([message]).collect();
                let (complete, others) = jobs.split_at_mut(jobs.partition_point(|job| job.others.len() < open.len()));
                complete.iter_mut().for_each(|job| self.make(&open, job));
                let next = |job: &&mut Job<'_>| job.others[open.len() - 1];
                for same in others.chunk_by_mut(|a, b| next(a) == next(b)) {
                    self.open(next(&same[0]), deeper, &open, same);
                }
                Ok(())
            },
        );
    }

    fn make(&mut self, open: &[Message<'_>], job: &mut Job<'_>) {
        let Templates { all, queries, .. } = self.templates;
        let Maker { factory, scratch, .. } = &mut *self.maker;
        let template = all.get(job.template);
        let mut lists = Lists(vec![]);
        for path in &template.paths {
            let (source, node) = (job.source(path.block as usize, self.new), job.of.nodes[path.shown as usize]);
            let message = open[source];
            let Message { src, nodes, names, .. } = message;
            let tree = Tree { src, nodes, names, id_attributes: &[] };
            let found = match path.query.and_then(|number| queries.of(number)) {
                None => Ok(vec![nodes.or_root(node)]),
                Some(query) => queries.select_from(query, node, tree, Budget::of(self.limits), scratch),
            };
            let Ok(found) = found else {
                job.made = Made::Failed;
                return;
            };
            lists.0.push((source, message, found));
        }
        let most = self.limits.max_result_bytes.min(self.limits.max_message_result_bytes) as usize;
        let mut bytes = vec![];
        job.made = match factory.make(&template.making, &[0], &mut lists, most, &mut bytes) {
            Ok(()) if bytes.len() <= self.left => Made::Bytes(bytes.into()),
            Ok(()) => Made::Size(bytes.len()),
            Err(_) => Made::Size(most + 1),
        };
        if let Made::Bytes(bytes) = &job.made {
            self.left -= bytes.len();
        }
    }
}

/// By path of a template its message, with the number of that, and the nodes.
struct Lists<'m>(Vec<(usize, Message<'m>, Vec<NodeIx>)>);

impl<'m> Returned<'m> for Lists<'m> {
    fn nodes<'s>(&'s mut self, r: u32, _bound: &'s NodeIx) -> &'s [NodeIx] {
        &self.0[r as usize].2
    }

    fn message(&self, r: u32) -> (usize, Message<'m>) {
        let (number, message, _) = self.0[r as usize];
        (number, message)
    }
}
