//! What matched subscriptions select, as columns over many matches.
//!
//! The number of a node is its place in document order: the document is 0, an element's attributes follow it, then its
//! children; namespace declarations are no nodes.

use super::fragment::Fragments;
use crate::names::is_element;
use crate::shapes::nodes::NodeIx;
use crate::shapes::search::Message;
use crate::shapes::select::{Form, SelectionId, Wanted};
use crate::xml::Limits;
use hashbrown::HashMap;

/// Columns of more than this many nodes or bytes are not begun; whoever reads the messages hands them on before.
pub const MOST_NODES: usize = 1 << 28;
pub const MOST_BYTES: usize = 1 << 30;

/// Results of matches in their order. Lists end where the next one begins.
#[derive(Default)]
pub struct Results {
    pub forms: Vec<Option<Form>>,
    /// Nothing was left out for a limit.
    pub complete: Vec<bool>,
    pub nodes: Vec<NodeIx>,
    /// Ends of the matches' lists in `nodes`.
    pub node_ends: Vec<u32>,
    /// All fragments, one after the other.
    pub bytes: Vec<u8>,
    /// Ends of the fragments in `bytes`.
    pub fragments: Vec<u32>,
    /// Ends of the matches' lists in `fragments`.
    pub fragment_ends: Vec<u32>,
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
        self.bytes.len() + 4 * (self.nodes.len() + self.fragments.len()) + 16 * self.forms.len()
    }

    pub fn truncate(&mut self, matches: usize) {
        fn last(ends: &[u32]) -> usize {
            ends.last().map_or(0, |&e| e as usize)
        }
        self.forms.truncate(matches);
        self.complete.truncate(matches);
        self.node_ends.truncate(matches);
        self.nodes.truncate(last(&self.node_ends));
        self.fragment_ends.truncate(matches);
        self.fragments.truncate(last(&self.fragment_ends));
        self.bytes.truncate(last(&self.fragments));
    }

    fn end(&mut self, form: Option<Form>, complete: bool) {
        self.forms.push(form);
        self.complete.push(complete);
        self.node_ends.push(self.nodes.len() as u32);
        self.fragment_ends.push(self.fragments.len() as u32);
    }
}

/// Working memory of one thread: what has been selected and rendered of the message so far.
#[derive(Default)]
pub struct Collector {
    /// The nodes, as many as the limit lets through, and whether these are all.
    selected: HashMap<SelectionId, (Box<[NodeIx]>, bool)>,
    fragments: Fragments,
}

impl Collector {
    /// Appends the results of the subscriptions that the message satisfies.
    pub fn collect(
        &mut self,
        wanted: &Wanted,
        message: Message<'_>,
        fuel: u32,
        limits: &Limits,
        numbers: &[u32],
        out: &mut Results,
    ) {
        for &number in numbers {
            let Some((selection, form)) = wanted.of(number) else {
                out.end(None, true);
                continue;
            };
            let (nodes, all) = self.selected.entry(selection).or_insert_with(|| {
                let mut nodes = wanted.select(selection, message, fuel);
                let found = nodes.len();
                nodes.truncate(limits.max_result_nodes as usize);
                let all = nodes.len() == found;
                (nodes.into(), all)
            });
            let given = match form {
                Form::Nodes => {
                    let room = MOST_NODES.saturating_sub(out.nodes.len());
                    let fitting = &nodes[..nodes.len().min(room)];
                    out.nodes.extend_from_slice(fitting);
                    fitting.len()
                }
                Form::Fragments => render(&mut self.fragments, message, limits, nodes, out),
            };
            out.end(Some(form), *all && given == nodes.len());
        }
        self.selected.clear();
        self.fragments.clear();
    }
}

/// Appends fragments as long as they fit; answers how many did.
fn render(
    fragments: &mut Fragments,
    message: Message<'_>,
    limits: &Limits,
    nodes: &[NodeIx],
    out: &mut Results,
) -> usize {
    let most = (out.bytes.len() + limits.max_result_bytes as usize).min(MOST_BYTES);
    for (i, &n) in nodes.iter().enumerate() {
        // A look at the size first: an element that does not fit is not worth rendering. Other nodes may be shorter than
        // what stands in the document: an attribute without its name, a character without its reference.
        let place = message.nodes.place(n);
        let least = if n != 0 && is_element(message.nodes.recs[n as usize].sym) { place.end - place.start } else { 0 };
        if out.bytes.len() + least as usize > most || out.fragments.len() >= MOST_NODES {
            return i;
        }
        let fragment = fragments.get(message.src, message.nodes, n);
        if out.bytes.len() + fragment.len() > most {
            return i;
        }
        out.bytes.extend_from_slice(fragment);
        out.fragments.push(out.bytes.len() as u32);
    }
    nodes.len()
}
