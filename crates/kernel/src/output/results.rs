//! What matched subscriptions select, as columns over many matches.
//!
//! The number of a node is its place in document order: the document is 0, an element's attributes follow it, then its
//! children; namespace declarations are no nodes.

use super::fragment::{size_floor, Fragments, Under};
use super::share::{share, Cut};
use crate::shapes::nodes::NodeIx;
use crate::shapes::search::Message;
use crate::shapes::select::{Form, SelectionId, Wanted};
use crate::transform::Output;
use crate::xml::Limits;
use hashbrown::HashMap;

/// No message adds more nodes or bytes than this to columns, whatever its limits say. Whoever reads messages hands on
/// columns that have as much, so that offsets of 31 bits suffice.
pub const MOST_NODES: usize = 1 << 28;
pub const MOST_BYTES: usize = 1 << 30;

/// Results of matches in their order. Lists end where the next one begins.
#[derive(Default)]
pub struct Results {
    pub forms: Vec<Option<Form>>,
    /// Why something was left out, if it was.
    pub cuts: Vec<Option<Cut>>,
    pub nodes: Vec<NodeIx>,
    /// Ends of the matches' lists in `nodes`.
    pub node_ends: Vec<u32>,
    /// All fragments, one after the other.
    pub bytes: Vec<u8>,
    /// Ends of the fragments in `bytes`.
    pub fragments: Vec<u32>,
    /// Ends of the matches' lists in `fragments`.
    pub fragment_ends: Vec<u32>,
    /// New messages, one after the other, and where they end.
    pub payloads: Vec<u8>,
    pub payload_ends: Vec<u32>,
    /// By match of the form `Payload`, in their order, the new message.
    pub payload_of: Vec<u32>,
    /// Bytes that the matches get of new messages, which some may share.
    delivered: usize,
}

impl Results {
    /// Number of matches.
    pub fn len(&self) -> usize {
        self.forms.len()
    }

    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Bytes that all of it takes.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.delivered + 4 * (self.nodes.len() + self.fragments.len()) + 16 * self.forms.len()
    }

    pub fn truncate(&mut self, matches: usize) {
        fn last(ends: &[u32]) -> usize {
            ends.last().map_or(0, |&e| e as usize)
        }
        let payloads = self.forms.drain(matches..).filter(|&form| form == Some(Form::Payload)).count();
        self.payload_of.truncate(self.payload_of.len() - payloads);
        self.cuts.truncate(matches);
        self.node_ends.truncate(matches);
        self.nodes.truncate(last(&self.node_ends));
        self.fragment_ends.truncate(matches);
        self.fragments.truncate(last(&self.fragment_ends));
        self.bytes.truncate(last(&self.fragments));
    }

    /// Results that there are: nodes and fragments.
    fn results(&self) -> usize {
        self.nodes.len() + self.fragments.len()
    }

    fn end(&mut self, form: Option<Form>, cut: Option<Cut>) {
        self.forms.push(form);
        self.cuts.push(cut);
        self.node_ends.push(self.nodes.len() as u32);
        self.fragment_ends.push(self.fragments.len() as u32);
    }
}

/// What one subscription may get: the share of the message's budget that each may have.
#[derive(Clone, Copy)]
struct Shares {
    results: u64,
    bytes: u64,
}

/// Nodes that are kept of selections, for others that select the same.
const SELECTED: usize = 1 << 20;

/// Working memory of one thread: what has been selected and rendered of the message so far.
#[derive(Default)]
pub struct Collector {
    selected: Selected,
    fragments: Fragments,
}

/// What selections find in a message: nodes, as many as the limit lets through, and whether these are all.
#[derive(Default)]
struct Selected {
    known: HashMap<SelectionId, (Box<[NodeIx]>, bool)>,
    held: usize,
}

/// A message, and what is asked of it.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) wanted: &'a Wanted,
    pub(crate) message: Message<'a>,
    pub(crate) limits: &'a Limits,
    /// The subscriptions that the message satisfies.
    pub(crate) numbers: &'a [u32],
    /// Those of the numbers that are transforms, each with the number of its new message, and these messages.
    pub(crate) transforms: &'a [(u32, u32)],
    pub(crate) made: &'a Output,
}

/// Returns the nodes of a selection in document order.
type Select<'a> = &'a mut dyn FnMut(SelectionId) -> Vec<NodeIx>;

impl Asked<'_> {
    fn budget(&self) -> Shares {
        Shares {
            results: (self.limits.max_message_results as u64).min(MOST_NODES as u64),
            bytes: (self.limits.max_message_result_bytes as u64).min(MOST_BYTES as u64),
        }
    }
}

impl Selected {
    fn clear(&mut self) {
        self.known.clear();
        self.held = 0;
    }

    fn get(&mut self, asked: Asked<'_>, select: Select<'_>, selection: SelectionId) -> &(Box<[NodeIx]>, bool) {
        if self.held > SELECTED {
            self.clear();
        }
        let held = &mut self.held;
        self.known.entry(selection).or_insert_with(|| {
            let mut nodes = select(selection);
            let found = nodes.len();
            nodes.truncate(asked.limits.max_result_nodes as usize);
            *held += nodes.len();
            let all = nodes.len() == found;
            (nodes.into(), all)
        })
    }
}

impl Collector {
    /// Appends the results of the subscriptions that the message satisfies: what filters select, within its budget, and
    /// what has been made for transforms.
    pub(crate) fn collect(&mut self, asked: Asked<'_>, select: Select<'_>, out: &mut Results) {
        let before = out.len();
        if !self.give(asked, select, None, out) {
            out.truncate(before);
            let shares = self.shares(asked, select);
            self.give(asked, select, Some(shares), out);
        }
        let made = asked.made;
        let from = out.payloads.len() as u32;
        out.payloads.extend_from_slice(&made.bytes);
        out.payload_ends.extend(made.ends.iter().map(|end| from + end));
        out.delivered += made.delivered as usize;
        self.selected.clear();
        self.fragments.clear();
    }

    /// Appends what each subscription gets with such shares. Without shares all that it wants: false if that is more than
    /// the budget, and then not all is there.
    fn give(&mut self, asked: Asked<'_>, select: Select<'_>, shares: Option<Shares>, out: &mut Results) -> bool {
        let budget = asked.budget();
        let (all_at_once, shares) = (shares.is_none(), shares.unwrap_or(budget));
        let (results, bytes) = (out.results() as u64, out.bytes.len() as u64);
        let mut transforms = asked.transforms;
        for &number in asked.numbers {
            if let Some((&(_, payload), rest)) = transforms.split_first().filter(|(first, _)| first.0 == number) {
                transforms = rest;
                out.payload_of.push(out.payload_ends.len() as u32 + payload);
                out.end(Some(Form::Payload), asked.made.cuts[payload as usize]);
                continue;
            }
            let Some((selection, form)) = asked.wanted.of(number) else {
                out.end(None, None);
                continue;
            };
            let (nodes, all) = self.selected.get(asked, select, selection);
            let fitting = &nodes[..nodes.len().min(shares.results as usize)];
            let mut cut = match () {
                _ if fitting.len() < nodes.len() => Some(Cut::BudgetResults),
                _ if !all => Some(Cut::Nodes),
                _ => None,
            };
            match form {
                Form::Nodes => out.nodes.extend_from_slice(fitting),
                Form::Payload => {}
                Form::Fragments => cut = render(&mut self.fragments, asked, fitting, shares.bytes, out).or(cut),
            }
            out.end(Some(form), cut);
            let used = (out.results() as u64 - results, out.bytes.len() as u64 - bytes);
            let too_much = used.0 > budget.results || used.1 > budget.bytes;
            if all_at_once && (too_much || matches!(cut, Some(Cut::BudgetResults | Cut::BudgetBytes))) {
                return false;
            }
        }
        true
    }

    /// Divides the budget: first the number of results, then the bytes of those that are left. Nothing is rendered; what
    /// fragments take is bounded from above, so that the bytes given out are never more than the budget.
    fn shares(&mut self, asked: Asked<'_>, select: Select<'_>) -> Shares {
        let budget = asked.budget();
        let wants = |number: &u32| asked.wanted.of(*number);
        let mut claims = vec![];
        for (selection, _) in asked.numbers.iter().filter_map(wants) {
            claims.push((self.selected.get(asked, select, selection).0.len() as u64, 1));
        }
        let results = share(&mut claims, budget.results).min(budget.results);
        let mut sizes: HashMap<SelectionId, u64> = HashMap::new();
        claims.clear();
        for (selection, _) in asked.numbers.iter().filter_map(wants).filter(|w| w.1 == Form::Fragments) {
            let size = *sizes.entry(selection).or_insert_with(|| {
                let (nodes, _) = self.selected.get(asked, select, selection);
                let most = budget.bytes.min(asked.limits.max_result_bytes as u64);
                let mut size = 0;
                for &n in nodes.iter().take(results as usize) {
                    size += self.fragments.size_bound(asked.message.src, asked.message.nodes, n) as u64;
                    if size > most {
                        break;
                    }
                }
                size
            });
            claims.push((size.min(asked.limits.max_result_bytes as u64), 1));
        }
        Shares { results, bytes: share(&mut claims, budget.bytes).min(budget.bytes) }
    }
}

/// Appends fragments as long as they fit; answers why some did not.
fn render(fragments: &mut Fragments, asked: Asked<'_>, nodes: &[NodeIx], share: u64, out: &mut Results) -> Option<Cut> {
    let message = asked.message;
    let own = asked.limits.max_result_bytes as u64;
    let cut = if own <= share { Cut::Bytes } else { Cut::BudgetBytes };
    let most = out.bytes.len() + own.min(share) as usize;
    for &n in nodes {
        let end = out.bytes.len();
        if end + size_floor(message.nodes, n) > most {
            return Some(cut);
        }
        fragments.append(message.src, message.nodes, n, Under::NoDefault, &mut out.bytes);
        if out.bytes.len() > most {
            out.bytes.truncate(end);
            return Some(cut);
        }
        out.fragments.push(out.bytes.len() as u32);
    }
    None
}
