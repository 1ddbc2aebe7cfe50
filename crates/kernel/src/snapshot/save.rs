//! What is written of an engine.

use super::{
    SavedConstants, SavedNames, SavedPaths, SavedQueries, SavedShapes, SavedTransforms, SavedWanted, ANY_LOCAL,
    ANY_URI, NO_NAME, NO_SELECTOR, NO_SLOT,
};
use crate::engine::{Engine, Number};
use crate::evaluate::{Queries, Strings};
use crate::names::Names;
use crate::shapes::block::Form;
use crate::shapes::program::Slot;
use crate::shapes::select::{Form as Selected, Wanted};
use crate::shapes::store::Bucket;
use crate::used::Used;
use crate::values::constants::Constants;
use std::collections::{HashMap, HashSet};

impl SavedNames {
    pub(super) fn of(names: &Names, used: &Used) -> SavedNames {
        let mut saved = SavedNames::default();
        for entry in names.entries().map(|entry| entry.filter(|entry| used.has_name(entry))) {
            saved.heads.extend(match &entry {
                Some(e) => {
                    let length = |part: Option<&[u8]>, none| part.map_or(none, |part| part.len() as u32);
                    [e.attribute as u32, length(e.uri, ANY_URI), length(e.local, ANY_LOCAL)]
                }
                None => [0, 0, NO_NAME],
            });
            if let Some(entry) = entry {
                saved.text.extend_from_slice(entry.uri.unwrap_or_default());
                saved.text.extend_from_slice(entry.local.unwrap_or_default());
            }
        }
        saved
    }
}

impl SavedConstants {
    pub(super) fn of(constants: &Constants, used: &Used) -> SavedConstants {
        let mut saved = SavedConstants::default();
        for (_, string) in constants.strings().enumerate().filter(|&(id, _)| used.has_string(id)) {
            saved.text.extend_from_slice(string);
            saved.lens.push(string.len() as u32);
        }
        let numbers = constants.numbers().enumerate().filter(|&(id, _)| used.has_number(id));
        saved.numbers.extend(numbers.map(|(_, x)| x.to_bits()));
        saved
    }
}

impl SavedPaths {
    pub(super) fn of(engine: &Engine, used: &Used) -> SavedPaths {
        let index = &engine.index;
        // gates are made anew when it is opened
        let is_gate = |item: u32| matches!(engine.number_of(item), Number::Gate(_));
        let items_of = |path: u32, items: &mut Vec<u32>| {
            index.subs(path, |item| {
                if !is_gate(item) {
                    items.push(item);
                }
            });
        };
        let mut paths: Vec<u32> = index.live().collect();
        if engine.gates.any() {
            let mut items = vec![];
            paths.retain(|&p| {
                items.clear();
                items_of(p, &mut items);
                !items.is_empty()
            });
        }
        let steps = |p: u32| index.steps(p).iter().map(|&s| used.step(s));
        paths.sort_unstable_by(|&a, &b| steps(a).cmp(steps(b)));
        let mut saved = SavedPaths::default();
        for p in paths {
            saved.steps.extend(steps(p).map(|s| s.0));
            saved.lens.push(index.steps(p).len() as u32);
            let from = saved.items.len();
            items_of(p, &mut saved.items);
            saved.items[from..].sort_unstable();
            saved.counts.push((saved.items.len() - from) as u32);
        }
        saved
    }
}

impl SavedShapes {
    /// With the blocks of the buckets, which come after it.
    pub(super) fn of(engine: &Engine, used: &Used) -> (SavedShapes, Vec<u32>) {
        let mut numbers = vec![0; engine.store.len()];
        let mut saved = SavedShapes { free: free(engine), ..SavedShapes::default() };
        let words = &mut saved.words;
        let shapes = engine.store.shapes().enumerate().filter(|(_, s)| s.subscriptions > 0);
        for (number, (i, shape)) in shapes.enumerate() {
            numbers[i] = number as u32;
            words.push(shape.words.len() as u32);
            words.extend(&shape.words);
            words.push(shape.exact.map_or(0, |steps| steps + 1));
            for list in [&shape.access, &shape.guards] {
                words.push(list.len() as u32);
                for a in list {
                    words.extend([a.slot.unwrap_or(NO_SLOT), a.path.len() as u32]);
                    words.extend(a.path.iter().map(|s| s.0));
                }
            }
            words.extend(&shape.guard_items);
        }
        let mut blocks = vec![];
        let head = |b: &Bucket, form: Form| [numbers[b.shape as usize], b.item, form.room, form.wide as u32];
        engine.store.save(
            |id| used.string(id),
            |b, form, block| {
                saved.buckets.extend(head(b, form));
                blocks.extend_from_slice(block);
            },
        );
        (saved, blocks)
    }
}

fn free(engine: &Engine) -> Vec<u32> {
    let unused = |n: &Number| matches!(n, Number::Free | Number::Gate(_));
    let mut free: Vec<bool> = engine.numbers.iter().map(unused).collect();
    engine.free.iter().for_each(|&n| free[n as usize] = false);
    // reserved, but never used
    let lost = free.iter().enumerate().filter(|(_, &free)| free).map(|(n, _)| n as u32);
    lost.chain(engine.free.iter().copied()).collect()
}

impl SavedQueries {
    pub(super) fn of(queries: &Queries) -> SavedQueries {
        let mut strings = Strings::default();
        let mut saved = SavedQueries::default();
        queries.programs(&mut strings, |number, words| {
            saved.heads.extend([number, words.len() as u32]);
            saved.programs.extend_from_slice(words);
        });
        saved.text = strings.list.concat();
        saved.lens = strings.list.iter().map(|s| s.len() as u32).collect();
        saved
    }
}

impl SavedTransforms {
    pub(super) fn of(engine: &Engine, used: &Used) -> SavedTransforms {
        let set = &engine.transforms;
        let is_held = |&(n, number): &(u32, &Number)| *number == Number::Transform && !set.contains(n);
        let held = (0..).zip(&engine.numbers).filter(is_held).map(|(n, _)| n).collect();
        let mut saved = SavedTransforms { held, ..SavedTransforms::default() };
        let mut numbers: HashMap<*const u32, (u32, Vec<Slot>)> = HashMap::new();
        for (_, plan) in set.plans() {
            let next = numbers.len() as u32;
            let (program, slots) = numbers.entry(plan.words.as_ptr()).or_insert_with(|| {
                saved.words.push(plan.words.len() as u32);
                saved.words.extend_from_slice(&plan.words);
                (next, plan.slots(&engine.index.names))
            });
            let lens = [plan.subs.len(), plan.row.len(), plan.code.len()].map(|len| len as u32);
            saved.heads.push(*program);
            saved.heads.extend(lens);
            let empty: HashSet<u32> = plan.wanting_empty.iter().copied().collect();
            saved.subs.extend(plan.subs.iter().flat_map(|sub| [*sub, empty.contains(sub) as u32]));
            saved.rows.extend(used.row(slots, &plan.row));
            saved.codes.extend_from_slice(&plan.code);
        }
        saved
    }
}

impl SavedWanted {
    pub(super) fn of(wanted: &Wanted, used: &Used) -> SavedWanted {
        let mut saved = SavedWanted::default();
        let mut numbers: HashMap<&[u32], u32> = HashMap::new();
        for (sub, form, selection) in wanted.entries() {
            let selector = selection.map_or(NO_SELECTOR, |(selector, row)| {
                saved.rows.extend(used.row(&selector.slots, row));
                let next = numbers.len() as u32;
                *numbers.entry(&selector.words).or_insert_with(|| {
                    saved.words.push(selector.words.len() as u32);
                    saved.words.extend_from_slice(&selector.words);
                    next
                })
            });
            saved.heads.extend([sub, (form == Selected::Fragments) as u32, selector]);
        }
        saved
    }
}
