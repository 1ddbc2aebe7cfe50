//! Which names and constants the subscriptions of an engine use. A snapshot has these and no others: an engine does not
//! know when a name or constant is used for the last time, so those of removed subscriptions stay in it until it is saved
//! and opened again.

use crate::engine::Engine;
use crate::names::{is_value, number_value, string_value, Entry, Sym, VALUE};
use crate::paths::{Step, NONE};
use crate::shapes::block::Column;
use crate::shapes::program::Slot;

/// The names in use, and the new numbers of constants: the strings in use are numbered without gaps, in their old order,
/// so that columns of strings stay sorted; and so are the numbers.
pub(crate) struct Used {
    /// By symbol.
    names: Vec<bool>,
    /// By number; `NONE` for those that are not in use.
    strings: Vec<u32>,
    numbers: Vec<u32>,
}

impl Used {
    pub(crate) fn by(engine: &Engine) -> Used {
        let constants = &engine.constants;
        let mut used = Used {
            names: vec![false; engine.names().bound()],
            strings: vec![NONE; constants.len()],
            numbers: vec![NONE; constants.numbers().len()],
        };
        for path in engine.index.live() {
            engine.index.steps(path).iter().for_each(|step| used.mark(step.test()));
        }
        for shape in engine.store.shapes().filter(|s| s.subscriptions > 0) {
            // Some words of a program are counts or numbers of slots. A name that one is taken for is kept in vain.
            shape.words.iter().for_each(|&word| used.mark_name(word));
            for access in shape.access.iter().chain(&shape.guards) {
                access.path.iter().for_each(|step| used.mark(step.test()));
            }
        }
        engine.queries.symbols(|sym| used.mark_name(sym));
        for (selector, row) in engine.wanted.entries().into_iter().filter_map(|(.., selection)| selection) {
            selector.words.iter().for_each(|&word| used.mark_name(word));
            used.mark_strings(&selector.slots, row);
        }
        engine.store.each_string(|id| used.strings[id as usize] = 0);
        for (_, plan) in engine.transforms.plans() {
            plan.words.iter().for_each(|&word| used.mark_name(word));
            used.mark_strings(&plan.slots(engine.names()), &plan.row);
        }
        number(&mut used.strings);
        number(&mut used.numbers);
        used
    }

    fn mark(&mut self, sym: Sym) {
        if !is_value(sym) {
            return self.mark_name(sym);
        }
        let constant = (sym & !VALUE) >> 2;
        let of = if string_value(constant) == sym { &mut self.strings } else { &mut self.numbers };
        of[constant as usize] = 0;
    }

    fn mark_name(&mut self, sym: Sym) {
        if let Some(name) = self.names.get_mut(Step(sym).test() as usize) {
            *name = true;
        }
    }

    fn mark_strings(&mut self, slots: &[Slot], row: &[u64]) {
        let strings = slots.iter().zip(row).filter(|(slot, _)| **slot == Slot::Str);
        strings.for_each(|(_, &id)| self.strings[id as usize] = 0);
    }

    pub(crate) fn has_name(&self, entry: &Entry<'_>) -> bool {
        self.names[entry.sym as usize]
    }

    pub(crate) fn has_string(&self, id: usize) -> bool {
        self.strings[id] != NONE
    }

    pub(crate) fn has_number(&self, id: usize) -> bool {
        self.numbers[id] != NONE
    }

    /// A step with the new number of its constant, if it has one.
    pub(crate) fn step(&self, step: Step) -> Step {
        let sym = step.test();
        if !is_value(sym) {
            return step;
        }
        let constant = (sym & !VALUE) >> 2;
        let new = if string_value(constant) == sym {
            string_value(self.strings[constant as usize])
        } else {
            number_value(self.numbers[constant as usize])
        };
        Step::new(step.descendant(), new)
    }

    /// The constants of a row as they are saved: strings by their new numbers.
    pub(crate) fn row<'a>(&'a self, slots: &'a [Slot], row: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        slots.iter().zip(row).map(|(slot, &x)| match slot {
            Slot::Str => (self.string(x as u32) as f64).to_bits(),
            Slot::Num => x,
        })
    }

    /// The new number of a string.
    pub(crate) fn string(&self, id: u32) -> u32 {
        self.strings[id as usize]
    }
}

/// Numbers the marked ones.
fn number(marks: &mut [u32]) {
    let marked = marks.iter_mut().filter(|mark| **mark != NONE);
    (0..).zip(marked).for_each(|(new, mark)| *mark = new);
}

impl crate::shapes::store::Store {
    /// The strings that subscriptions compare with.
    fn each_string(&self, mut each: impl FnMut(u32)) {
        for (block, places) in self.blocks() {
            for &place in places {
                let Column::Strings(column) = block.column(place) else { continue };
                if place.is_fixed() {
                    each(column[0]);
                } else {
                    block.live().for_each(|(row, _)| each(column[row]));
                }
            }
        }
    }
}
