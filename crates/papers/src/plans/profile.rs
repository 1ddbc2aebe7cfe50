//! What operators cost, by kind (the profiler of broker §6.1): how often they run, how many tuples they take, and how
//! long it takes them, their inputs not counted. Off unless asked for: looking at the clock costs more than most of them.

use std::time::Instant;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Kind {
    /// The path matching engine.
    Paths,
    Selection,
    DupElim,
    WhereFilter,
    Semijoin,
    GroupBy,
    OuterJoin,
    ReturnSelect,
    /// Going from plan to plan, and what is done with the results.
    Executor,
}

pub const KINDS: [&str; 9] = [
    "paths",
    "selection",
    "dupelim",
    "where-filter",
    "semijoin",
    "group-by",
    "outer-join-select",
    "return-select",
    "executor",
];

#[derive(Clone, Copy, Default, Debug)]
pub struct Cost {
    pub runs: u64,
    pub tuples: u64,
    pub nanos: u64,
}

pub struct Profile {
    pub is_on: bool,
    pub costs: [Cost; KINDS.len()],
    current: Kind,
    since: Instant,
}

impl Default for Profile {
    fn default() -> Self {
        Profile { is_on: false, costs: Default::default(), current: Kind::Executor, since: Instant::now() }
    }
}

impl Profile {
    /// From now on time is that of an operator, which takes this many tuples; the kind of the one that had it before.
    #[inline]
    pub fn enter(&mut self, kind: Kind, tuples: usize) -> Kind {
        if self.is_on {
            self.costs[kind as usize].runs += 1;
            self.costs[kind as usize].tuples += tuples as u64;
            return self.switch(kind);
        }
        kind
    }

    #[inline]
    pub fn leave(&mut self, before: Kind) {
        if self.is_on {
            self.switch(before);
        }
    }

    /// A message begins.
    pub fn begin(&mut self) {
        if self.is_on {
            (self.current, self.since) = (Kind::Executor, Instant::now());
        }
    }

    /// A message ends.
    pub fn end(&mut self) {
        if self.is_on {
            self.switch(Kind::Executor);
        }
    }

    #[cold]
    fn switch(&mut self, kind: Kind) -> Kind {
        let now = Instant::now();
        self.costs[self.current as usize].nanos += (now - self.since).as_nanos() as u64;
        self.since = now;
        std::mem::replace(&mut self.current, kind)
    }
}
