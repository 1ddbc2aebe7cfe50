//! The registered plans: those that run on their own, and those that share. Adding or removing one touches what it uses
//! and nothing else.

use super::checks::{Check, CheckIx};
use super::codes::{step, twig, Decoded, Op, Top};
use super::sharing::Sharing;
use hashbrown::HashMap;
use twigcast_kernel::internals::{constants_of, LinearPath, Making, Names, PathSet, Pred, Shared, Slot, Twig};

/// A plan on its own.
pub struct Single {
    pub sub: u32,
    pub plan: Resolved,
}

/// A plan whose operators speak of what the set knows.
pub struct Resolved {
    pub top: Top,
    pub itself: bool,
    pub making: Making,
}

impl Resolved {
    pub fn returns(&self) -> usize {
        let lists = match &self.top {
            Top::ReturnSelect { twigs, .. } => twigs.len(),
            Top::OuterJoinSelect { rights, .. } => rights.len(),
        };
        lists + self.itself as usize
    }
}

/// What operators speak of.
#[derive(Default)]
pub struct Terms {
    pub paths: PathSet,
    checks: Shared<Check>,
    twigs: Shared<(Twig, Box<[u64]>)>,
}

impl Terms {
    pub fn check(&self, id: CheckIx) -> &Check {
        self.checks.get(id)
    }

    pub fn twig(&self, id: u32) -> (&Twig, &[u64]) {
        let (twig, row) = self.twigs.get(id);
        (twig, row)
    }

    fn acquire_op(&mut self, op: &Op, items: &[Pred], row: &[u64]) -> Op {
        let boxed = |me: &mut Self, op: &Op| Box::new(me.acquire_op(op, items, row));
        match op {
            Op::Stream(item) => Op::Stream(self.paths.acquire(LinearPath::without_filters(twig(items, *item)))),
            Op::Selection(input, tests) => {
                let tests = tests.iter().map(|&(field, item)| (field, self.acquire_passes(items, item, row))).collect();
                Op::Selection(boxed(self, input), tests)
            }
            Op::DupElim(input, fields, scan) => Op::DupElim(boxed(self, input), fields.clone(), *scan),
            Op::WhereFilter(input, field, item) => {
                let pred = &items[*item as usize];
                let key = format!("holds {pred:?} {:?}", constants_of(&[pred], row));
                let check = self.checks.acquire(key.as_bytes(), || Check::Holds(pred.clone(), row.into())).0;
                Op::WhereFilter(boxed(self, input), *field, check)
            }
            Op::Semijoin { left, right, field, merge, anti } => Op::Semijoin {
                left: boxed(self, left),
                right: boxed(self, right),
                field: *field,
                merge: *merge,
                anti: *anti,
            },
        }
    }

    fn acquire_passes(&mut self, items: &[Pred], item: u32, row: &[u64]) -> CheckIx {
        let step = step(items, item);
        let filters: Vec<&Pred> = step.filters.iter().collect();
        let key = format!("passes {step:?} {:?}", constants_of(&filters, row));
        self.checks.acquire(key.as_bytes(), || Check::passes(step, row)).0
    }

    fn acquire_twig(&mut self, twig: &Twig, row: &[u64]) -> u32 {
        let filters: Vec<&Pred> = twig.nodes.iter().flat_map(|n| &n.filters).collect();
        let key = format!("{twig:?} {:?}", constants_of(&filters, row));
        self.twigs.acquire(key.as_bytes(), || (twig.clone(), row.into())).0
    }

    fn resolve(&mut self, plan: &Decoded, row: &[u64], making: Making) -> Resolved {
        let items = &plan.items[..];
        let top = match &plan.top {
            Top::ReturnSelect { input, field, twigs } => Top::ReturnSelect {
                input: self.acquire_op(input, items, row),
                field: *field,
                twigs: twigs.iter().map(|&item| self.acquire_twig(twig(items, item), row)).collect(),
            },
            Top::OuterJoinSelect { left, rights, field, merge } => Top::OuterJoinSelect {
                left: self.acquire_op(left, items, row),
                rights: rights.iter().map(|right| self.acquire_op(right, items, row)).collect(),
                field: *field,
                merge: *merge,
            },
        };
        Resolved { top, itself: plan.itself, making }
    }

    fn release_op(&mut self, op: &Op) {
        match op {
            Op::Stream(path) => self.paths.release(*path),
            Op::Selection(input, tests) => {
                tests.iter().for_each(|t| drop(self.checks.release(t.1)));
                self.release_op(input);
            }
            Op::DupElim(input, ..) => self.release_op(input),
            Op::WhereFilter(input, _, check) => {
                self.checks.release(*check);
                self.release_op(input);
            }
            Op::Semijoin { left, right, .. } => {
                self.release_op(left);
                self.release_op(right);
            }
        }
    }

    pub fn release(&mut self, top: &Top) {
        match top {
            Top::ReturnSelect { input, twigs, .. } => {
                self.release_op(input);
                twigs.iter().for_each(|&t| drop(self.twigs.release(t)));
            }
            Top::OuterJoinSelect { left, rights, .. } => {
                self.release_op(left);
                rights.iter().for_each(|r| self.release_op(r));
            }
        }
    }
}

/// Where a subscription's plan is.
enum Place {
    Single(usize),
    Shared(u32, Top),
}

#[derive(Default)]
pub struct Set {
    pub terms: Terms,
    pub singles: Vec<Option<Single>>,
    free: Vec<usize>,
    pub sharing: Sharing,
    of_sub: HashMap<u32, Place>,
}

impl Set {
    pub fn is_empty(&self) -> bool {
        self.of_sub.is_empty()
    }

    pub fn len(&self) -> usize {
        self.of_sub.len()
    }

    /// Adds a subscription: its plan's codes, the program with their items, the constants of its slots, and what is made
    /// of the groups.
    #[allow(clippy::too_many_arguments)]
    pub fn add(
        &mut self,
        sub: u32,
        codes: &[u32],
        words: &[u32],
        row: &[f64],
        making: Making,
        shared: bool,
        (names, strings): (&Names, usize),
    ) -> Result<(), &'static str> {
        let plan = Decoded::decode(codes, words, names)?;
        if plan.slots.len() != row.len() {
            return Err("a row with another number of constants than its program has slots");
        }
        let row: Vec<u64> = plan.slots.iter().zip(row).map(|(slot, &x)| slot.word(x)).collect();
        if plan.slots.iter().zip(&row).any(|(s, &x)| *s == Slot::Str && x >= strings as u64) {
            return Err("a string that is not known");
        }
        if !making.fits(plan.returns()) {
            return Err("a template that asks for what is not returned");
        }
        if self.of_sub.contains_key(&sub) {
            return Err("a subscription that is there already");
        }
        let plan = self.terms.resolve(&plan, &row, making);
        let place = if shared {
            let Resolved { top, itself, making } = plan;
            Place::Shared(self.sharing.add(sub, &top, itself, making, &self.terms), top)
        } else {
            let at = self.free.pop().unwrap_or(self.singles.len());
            if at == self.singles.len() {
                self.singles.push(None);
            }
            self.singles[at] = Some(Single { sub, plan });
            Place::Single(at)
        };
        self.of_sub.insert(sub, place);
        Ok(())
    }

    /// False if there is no such subscription.
    pub fn remove(&mut self, sub: u32) -> bool {
        match self.of_sub.remove(&sub) {
            None => return false,
            Some(Place::Single(at)) => {
                if let Some(single) = self.singles[at].take() {
                    self.terms.release(&single.plan.top);
                }
                self.free.push(at);
            }
            Some(Place::Shared(result, top)) => {
                self.sharing.remove(sub, result);
                self.terms.release(&top);
            }
        }
        true
    }
}
