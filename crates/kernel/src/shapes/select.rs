//! What subscriptions select. A *selector* is the part that all subscriptions of one shape share; with the constants of
//! a row it is a *selection*, which equal subscriptions share. It is evaluated only for messages that match. Subscriptions
//! beyond tree patterns select the nodes of their query.

use super::nodes::NodeIx;
use super::program::{Counted, Op, Pred, Program, Slot, Twig};
use super::search::{position_holds, GaveUp, Message, Row, Search};
use super::shared::{is_large, Shared};
use crate::evaluate::QueryId;
use crate::names::Names;
use hashbrown::HashMap;

/// The union of what the twigs of those parts find whose guard holds for the document, in document order; of these
/// nodes, only those whose place in the union is picked.
pub(crate) struct Selector {
    parts: Vec<(Pred, Twig)>,
    pick: Option<(Counted, Op, f64)>,
    pub(crate) slots: Vec<Slot>,
    /// The program that all of this was made of.
    pub(crate) words: Box<[u32]>,
}

impl Selector {
    /// Encoded as the program `or` of (guard `and` exists twig); with a pick, as (position `and` that program).
    fn decode(words: &[u32], names: &Names) -> Result<Selector, &'static str> {
        const WRONG: &str = "not the program of a selector";
        let Program { pred, slots } = Program::decode(words, names)?;
        let (pick, union) = match pred {
            Pred::And(both) => match <[Pred; 2]>::try_from(both) {
                Ok([Pred::Position { of, op, n }, union]) => (Some((of, op, n)), union),
                _ => return Err(WRONG),
            },
            union => (None, union),
        };
        let Pred::Or(parts) = union else { return Err(WRONG) };
        let part = |pred: Pred| match pred {
            Pred::And(both) => match <[Pred; 2]>::try_from(both) {
                Ok([guard, Pred::Exists(twig)]) => Ok((guard, twig)),
                _ => Err(WRONG),
            },
            _ => Err(WRONG),
        };
        let parts = parts.into_iter().map(part).collect::<Result<_, _>>()?;
        Ok(Selector { parts, pick, slots, words: words.into() })
    }

    /// The nodes, ascending.
    fn nodes(&self, message: Message<'_>, fuel: u32, row: Row<'_>, shared: &mut Shared) -> Vec<NodeIx> {
        // a search looks at the whole message, of which one selection has little if it is large
        let visits = fuel.saturating_mul(message.nodes.len() as u32 + 256);
        let visits = if is_large(message.nodes.len(), fuel) { 0 } else { visits };
        let mut found = vec![];
        for (guard, twig) in &self.parts {
            found.extend(part(message, visits, row, guard, twig).unwrap_or_else(|GaveUp| {
                if shared.holds(message, fuel, guard, row) {
                    shared.select(message, fuel, twig, row)
                } else {
                    vec![]
                }
            }));
        }
        if self.parts.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        if let Some((of, op, n)) = self.pick {
            let last = found.len() as u32;
            let mut position = 0;
            found.retain(|_| {
                position += 1;
                position_holds(of, op, n, (position, last))
            });
        }
        found
    }
}

fn part(message: Message<'_>, fuel: u32, row: Row<'_>, guard: &Pred, twig: &Twig) -> Result<Vec<NodeIx>, GaveUp> {
    let mut search = Search::new(message, fuel);
    if !search.holds(guard, 0, (1, 1), row)? {
        return Ok(vec![]);
    }
    search.collect(twig, 0, row)
}

/// How what is selected is delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Nodes,
    Fragments,
    /// Not selected but made: the new message of a transform.
    Payload,
}

/// What a subscription selects; equal subscriptions share it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum SelectionId {
    /// What a selector finds, with its constants.
    Pattern(u32),
    /// The nodes of a query.
    Query(QueryId),
}

struct Selection {
    selector: u32,
    row: Box<[u64]>,
    subscriptions: u32,
}

/// A subscription, the form of what it selects, and its selector with the constants; None if its query selects.
pub(crate) type Entry<'a> = (u32, Form, Option<(&'a Selector, &'a [u64])>);

/// The subscriptions that want more than to know that they match.
#[derive(Default)]
pub(crate) struct Wanted {
    selectors: Vec<Selector>,
    selections: Vec<Selection>,
    ids: HashMap<(u32, Box<[u64]>), u32>,
    free: Vec<u32>,
    subs: HashMap<u32, (SelectionId, Form)>,
}

impl Wanted {
    pub(crate) fn add_selector(&mut self, words: &[u32], names: &Names) -> Result<u32, &'static str> {
        self.selectors.push(Selector::decode(words, names)?);
        Ok(self.selectors.len() as u32 - 1)
    }

    /// What the constants of a selector are.
    pub(crate) fn slots(&self, selector: u32) -> Result<&[Slot], &'static str> {
        self.selectors.get(selector as usize).map(|s| &s.slots[..]).ok_or("no such selector")
    }

    /// `strings` is the number of string constants that there are.
    pub(crate) fn add(
        &mut self,
        sub: u32,
        form: Form,
        selector: u32,
        row: &[f64],
        strings: usize,
    ) -> Result<(), &'static str> {
        let slots = self.slots(selector)?;
        if slots.len() != row.len() {
            return Err("a row with another number of constants than its selector has slots");
        }
        if slots.iter().zip(row).any(|(&s, &x)| s == Slot::Str && s.word(x) >= strings as u64) {
            return Err("a string that is not known");
        }
        let row: Box<[u64]> = slots.iter().zip(row).map(|(s, &x)| s.word(x)).collect();
        self.remove(sub);
        let key = (selector, row);
        let id = match self.ids.get(&key) {
            Some(&id) => id,
            None => {
                let selection = Selection { selector, row: key.1.clone(), subscriptions: 0 };
                let id = self.free.pop().unwrap_or(self.selections.len() as u32);
                if id as usize == self.selections.len() {
                    self.selections.push(selection);
                } else {
                    self.selections[id as usize] = selection;
                }
                self.ids.insert(key, id);
                id
            }
        };
        self.selections[id as usize].subscriptions += 1;
        self.subs.insert(sub, (SelectionId::Pattern(id), form));
        Ok(())
    }

    /// From now on the subscription wants the nodes of a query.
    pub(crate) fn add_query(&mut self, sub: u32, form: Form, query: QueryId) {
        self.remove(sub);
        self.subs.insert(sub, (SelectionId::Query(query), form));
    }

    pub(crate) fn remove(&mut self, sub: u32) {
        let Some((SelectionId::Pattern(id), _)) = self.subs.remove(&sub) else { return };
        let selection = &mut self.selections[id as usize];
        selection.subscriptions -= 1;
        if selection.subscriptions == 0 {
            self.ids.remove(&(selection.selector, std::mem::take(&mut selection.row)));
            self.free.push(id);
        }
    }

    /// What subscriptions select, ascending by subscription.
    pub(crate) fn entries(&self) -> Vec<Entry<'_>> {
        let entry = |(&sub, &(id, form)): (&u32, &(SelectionId, Form))| match id {
            SelectionId::Pattern(id) => {
                let Selection { selector, row, .. } = &self.selections[id as usize];
                (sub, form, Some((&self.selectors[*selector as usize], &row[..])))
            }
            SelectionId::Query(_) => (sub, form, None),
        };
        let mut entries: Vec<_> = self.subs.iter().map(entry).collect();
        entries.sort_unstable_by_key(|&(sub, ..)| sub);
        entries
    }

    /// The subscriptions, in no particular order.
    pub(crate) fn subscriptions(&self) -> impl Iterator<Item = u32> + '_ {
        self.subs.keys().copied()
    }

    pub(crate) fn of(&self, sub: u32) -> Option<(SelectionId, Form)> {
        self.subs.get(&sub).copied()
    }

    /// The nodes of the message that a selector with its constants finds, in document order.
    pub(crate) fn select(&self, selection: u32, message: Message<'_>, fuel: u32, shared: &mut Shared) -> Vec<NodeIx> {
        let Selection { selector, row, .. } = &self.selections[selection as usize];
        self.selectors[*selector as usize].nodes(message, fuel, row, shared)
    }

    pub(crate) fn bytes(&self) -> usize {
        let rows: usize = self.selections.iter().map(|s| 2 * s.row.len() * 8 + 64).sum();
        rows + self.subs.capacity() * 16 + self.selectors.iter().map(|s| 200 + s.words.len() * 4).sum::<usize>()
    }
}
