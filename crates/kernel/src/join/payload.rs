//! Payloads that are put together of text and of whole elements of the joined messages, as most are.
//!
//! A message is read again once, for all its elements that the results of one new message show.

use super::results::Found;
use super::state::State;
use super::Slot;
use crate::shapes::nodes::NodeIx;
use crate::transform::Elements;
use crate::xml::Limits;
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// A part of a payload.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Piece {
    Text(Box<[u8]>),
    /// The element that is bound to a variable: the block of the variable, and its place among those that are shown.
    Element {
        block: u32,
        shown: u32,
    },
}

/// What the payloads of subscribers are put together of; some have none.
#[derive(Default)]
pub(super) struct Recipes {
    of: HashMap<u32, Arc<[Piece]>>,
    known: HashSet<Arc<[Piece]>>,
}

impl Recipes {
    pub(super) fn add(&mut self, subscriber: u32, pieces: &[Piece]) {
        let known = self.known.get(pieces).cloned();
        let recipe = known.unwrap_or_else(|| {
            let new: Arc<[Piece]> = pieces.into();
            self.known.insert(new.clone());
            new
        });
        self.of.insert(subscriber, recipe);
    }

    pub(super) fn remove(&mut self, subscriber: u32) {
        if let Some(recipe) = self.of.remove(&subscriber) {
            if Arc::strong_count(&recipe) == 2 {
                self.known.remove(&recipe);
            }
        }
    }

    /// Calls `f` for each subscriber of a result, with the recipe and whether it is that of the one before.
    fn each<'a>(&'a self, found: &'a Found, mut f: impl FnMut(Option<&'a Arc<[Piece]>>, bool)) {
        let mut last: Option<&Arc<[Piece]>> = None;
        for (i, subscriber) in found.asking.iter().enumerate() {
            let recipe = self.of.get(subscriber);
            let same = i > 0 && last.map(Arc::as_ptr) == recipe.map(Arc::as_ptr);
            f(recipe, same);
            last = recipe;
        }
    }
}

/// Payloads, each once, and by subscriber of each result which one it gets: none if the caller has to make it.
#[derive(Default)]
pub struct Payloads {
    pub made: Vec<Box<[u8]>>,
    pub of: Vec<Option<u32>>,
    /// Bytes of all of them.
    pub size: usize,
}

type Copies = HashMap<(Slot, NodeIx), Box<[u8]>>;
/// What a payload is made of: the recipe, the numbers of the messages, and the nodes shown.
type Key<'a> = (*const Piece, &'a [u64], &'a [NodeIx]);

/// Makes the payloads of the results of one message, but for those beyond its budget.
pub(super) fn make(
    found: &[Found],
    (state, recipes): (&State, &Recipes),
    limits: &Limits,
    elements: &mut Elements,
    out: &mut Payloads,
) {
    if found.is_empty() {
        return;
    }
    let budget = limits.max_message_result_bytes as usize;
    let mut left = budget + budget / 8; // those who divide it need to see that it does not suffice
    let copies = copies(found, (state, recipes), limits, elements, left);
    let mut known: HashMap<Key<'_>, Option<u32>> = HashMap::new();
    for one in found {
        recipes.each(one, |recipe, same| {
            let payload = match (recipe, out.of.last()) {
                (_, Some(&last)) if same => last,
                (None, _) => None,
                (Some(recipe), _) => {
                    let key = (recipe.as_ptr(), &one.numbers[..], &one.nodes[..]);
                    *known.entry(key).or_insert_with(|| join(recipe, one, &copies, &mut left, out))
                }
            };
            out.of.push(payload);
        });
    }
}

/// Appends a payload and returns its number; None if it is beyond the budget, or an element is missing.
fn join(recipe: &[Piece], one: &Found, copies: &Copies, left: &mut usize, out: &mut Payloads) -> Option<u32> {
    let part = |piece| match piece {
        &Piece::Element { block, shown } => copies.get(&(one.slots[block as usize], one.nodes[shown as usize])),
        Piece::Text(text) => Some(text),
    };
    let mut size = 0;
    for piece in recipe {
        size += part(piece)?.len();
    }
    if size > *left {
        return None;
    }
    *left -= size;
    out.size += size;
    let mut payload = Vec::with_capacity(size);
    recipe.iter().filter_map(part).for_each(|bytes| payload.extend_from_slice(bytes));
    out.made.push(payload.into());
    Some(out.made.len() as u32 - 1)
}

/// Copies the elements that results show, until they have more than `left` bytes.
fn copies(
    found: &[Found],
    (state, recipes): (&State, &Recipes),
    limits: &Limits,
    elements: &mut Elements,
    mut left: usize,
) -> Copies {
    let mut wanted: Vec<(Slot, NodeIx)> = vec![];
    for one in found {
        recipes.each(one, |recipe, same| {
            for piece in recipe.filter(|_| !same).into_iter().flat_map(|recipe| recipe.iter()) {
                if let &Piece::Element { block, shown } = piece {
                    wanted.push((one.slots[block as usize], one.nodes[shown as usize]));
                }
            }
        });
    }
    wanted.sort_unstable();
    wanted.dedup();
    let mut copies = Copies::with_capacity(wanted.len());
    let mut nodes: Vec<NodeIx> = vec![];
    for of_message in wanted.chunk_by(|a, b| a.0 == b.0) {
        nodes.clear();
        nodes.extend(of_message.iter().map(|w| w.1));
        let mut at = of_message.iter();
        // what cannot be read or copied is for the caller, who says why
        let _ = elements.get(&state.get(of_message[0].0).xml, limits, &nodes, |bytes| {
            if let (Some(&key), Some(bytes)) = (at.next(), bytes) {
                left = left.saturating_sub(bytes.len());
                copies.insert(key, bytes.into());
            }
            left > 0
        });
    }
    copies
}
