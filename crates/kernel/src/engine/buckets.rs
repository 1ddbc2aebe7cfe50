//! Subscriptions that are rows of the buckets of their shape, and the guards that buckets need.

use super::{Engine, Number};
use crate::names::{self, is_attribute};
use crate::paths::Step;
use crate::shapes::program::{Program, Slot};
use crate::shapes::store::Access;

impl Engine {
    /// A shape: a program in its encoding, the ways to reach it, further paths that it needs, and how many of its first
    /// steps must find a single node for these and the one way to decide it. Subscriptions of the shape are added by
    /// `add_rows`.
    pub fn add_shape(
        &mut self,
        words: &[u32],
        access: Vec<Access>,
        guards: Vec<Access>,
        exact: Option<u32>,
    ) -> Result<u32, &'static str> {
        let program = Program::decode(words, &self.index.names)?;
        let known = |a: &Access| self.is_known(a, &program.slots);
        if access.is_empty() || !access.iter().chain(&guards).all(known) {
            return Err("a shape needs ways to reach it");
        }
        self.has_patterns = true;
        self.uses_attributes |= words.iter().any(|&w| is_attribute(w)); // generously
        let exact = exact.filter(|&steps| access.len() == 1 && program.trunk(steps).is_some());
        Ok(self.store.add_shape(program, words, access, guards, exact))
    }

    /// Adds subscriptions of a shape under reserved numbers. `rows` holds their constants slot by slot, row after row:
    /// a number, or the number of a string.
    pub fn add_rows(&mut self, shape: u32, numbers: &[u32], rows: &[f64]) -> Result<(), &'static str> {
        let slots = self.store.shape(shape).ok_or("no such shape")?.program.slots.clone();
        self.check_reserved(numbers)?;
        for_rows(&slots, numbers, rows, |number, row| self.add_row(shape, number, row))
    }

    fn add_row(&mut self, shape: u32, sub: u32, row: &[u64]) -> Result<(), &'static str> {
        let s = self.store.shape(shape).ok_or("no such shape")?;
        let strings = s.program.slots.iter().zip(row).filter(|(s, _)| **s == Slot::Str);
        if strings.map(|(_, &x)| x).any(|x| x >= self.constants.len() as u64) {
            return Err("a string that is not known");
        }
        let bucket = match self.store.find_bucket(shape, row) {
            Some(b) => {
                for item in self.store.drop_guards(b, row) {
                    self.release_guard(item);
                }
                b
            }
            None => self.open_bucket(shape, row)?,
        };
        self.changed.push(self.store.bucket(bucket).item);
        if self.has_query(sub) {
            self.store.check_at_once(bucket);
        }
        let row = self.store.push(bucket, row, sub);
        self.numbers[sub as usize] = Number::Row { bucket, row };
        self.subscriptions += 1;
        Ok(())
    }

    fn open_bucket(&mut self, shape: u32, row: &[u64]) -> Result<u32, &'static str> {
        let s = self.store.shape(shape).ok_or("no such shape")?;
        let (slots, access, guards) = (s.program.slots.clone(), s.access.clone(), s.guards.clone());
        if s.buckets == 0 {
            let items = guards.iter().filter(|g| g.slot.is_none()).map(|g| self.acquire_guard(&g.path)).collect();
            self.store.set_shape_guards(shape, items);
        }
        let item = self.number();
        let paths: Vec<Vec<Step>> = access.iter().map(|a| self.path_with_value(a, &slots, row)).collect();
        let first = self.tie(item, paths.iter().map(|p| &p[..]))[0];
        let mut items = vec![];
        for guard in guards.iter().filter(|g| g.slot.is_some()) {
            let path = self.path_with_value(guard, &slots, row);
            items.push(self.acquire_guard(&path));
        }
        let b = self.store.open_bucket(shape, row, item, first, &items);
        self.numbers[item as usize] = Number::Bucket(b);
        Ok(b)
    }

    /// Takes a row out of its bucket, and the bucket out of the path engine with its last row.
    pub(super) fn remove_row(&mut self, bucket: u32, row: u32) {
        let shape = self.store.shape_of(bucket);
        self.changed.push(self.store.bucket(bucket).item);
        let (moved, gone) = self.store.take(bucket, row);
        if let Some(moved) = moved {
            self.numbers[moved as usize] = Number::Row { bucket, row };
        }
        let Some(gone) = gone else { return };
        let paths = self.paths_from(gone.item, gone.path);
        self.untie(gone.item, &paths);
        let unused = self.store.shape(shape).is_none_or(|s| s.buckets == 0);
        let shared = if unused { self.store.take_shape_guards(shape) } else { vec![] };
        for item in gone.guards.into_iter().chain(shared) {
            self.release_guard(item);
        }
    }

    /// Is it a way to a shape, or to a subscription, with such slots?
    pub(super) fn is_known(&self, access: &Access, slots: &[Slot]) -> bool {
        !access.path.is_empty()
            && access.path.iter().all(|s| self.index.names.is_test(s.test()))
            && access.slot.is_none_or(|s| (s as usize) < slots.len())
    }

    /// An access path with the constant of its slot as its last step.
    pub(crate) fn path_with_value(&mut self, access: &Access, slots: &[Slot], row: &[u64]) -> Vec<Step> {
        let mut path = access.path.clone();
        if let Some(slot) = access.slot {
            let x = row[slot as usize];
            path.push(Step::new(
                false,
                match slots[slot as usize] {
                    Slot::Str => names::string_value(x as u32),
                    Slot::Num => names::number_value(self.constants.intern_number(f64::from_bits(x))),
                },
            ));
        }
        path
    }

    fn acquire_guard(&mut self, path: &[Step]) -> u32 {
        if let Some(&number) = self.index.find(path).and_then(|id| self.guards.get(&id)) {
            if let Number::Guard { users, .. } = &mut self.numbers[number as usize] {
                *users += 1;
            }
            return number;
        }
        let number = self.number();
        let id = self.tie(number, std::iter::once(path))[0];
        self.index.hush(number);
        self.numbers[number as usize] = Number::Guard { path: id, users: 1 };
        self.guards.insert(id, number);
        number
    }

    fn release_guard(&mut self, number: u32) {
        if let Number::Guard { path, users } = &mut self.numbers[number as usize] {
            *users -= 1;
            if *users == 0 {
                let path = *path;
                self.guards.remove(&path);
                self.untie(number, &[path]);
            }
        }
    }
}

/// Calls `each` with each number and its row: the constants in `rows` lie slot by slot, row after row.
pub(super) fn for_rows(
    slots: &[Slot],
    numbers: &[u32],
    rows: &[f64],
    mut each: impl FnMut(u32, &[u64]) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    if slots.len() * numbers.len() != rows.len() {
        return Err("a row with another number of constants than there are slots");
    }
    let mut row = vec![];
    for (i, &number) in numbers.iter().enumerate() {
        row.clear();
        row.extend(slots.iter().zip(&rows[i * slots.len()..]).map(|(slot, &x)| slot.word(x)));
        each(number, &row)?;
    }
    Ok(())
}
