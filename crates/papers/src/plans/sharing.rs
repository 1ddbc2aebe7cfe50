//! Many plans as one (broker §5.2-5.3), built and unbuilt plan by plan.
//!
//! Selections are pulled up over the semijoins: plans that read the same paths share their join whatever their
//! constants, and what tells them apart is looked up in an index of these. The paper pulls up over one predicate path;
//! here any number, for a semijoin only asks whether some tuple fits: so whether a bound node qualifies is decided path
//! by path, and no product of tuples is ever made. Return streams are grouped by the binding field once for all who
//! read them, and outer joins with the same inputs, and results with the same template, are one.

use super::checks::CheckIx;
use super::codes::{Op, Top};
use super::set::Terms;
use hashbrown::HashMap;
use twigcast_kernel::internals::{key, AtomIx, Atoms, Condition, Making, PathIx, Shared, Twig};

pub type SelIx = u32;

/// A path as left plans read it: a binding path, or a predicate path below the bound node.
#[derive(Default)]
pub struct Input {
    pub path: PathIx,
    /// The binding field.
    pub field: u32,
    /// The stream comes in the order of that field.
    pub ordered: bool,
    /// Whoever asks for no more than that there is a tuple.
    pub plain: Option<SelIx>,
    /// Selections on one value each, which an index holds.
    pub indexed: Vec<Indexed>,
    /// Other selections, tried one by one.
    pub others: Vec<SelIx>,
}

/// The selections on what a twig finds from the node in a field, as `Atoms` hold them: by a number of their own.
pub struct Indexed {
    pub field: u32,
    pub twig: Twig,
    pub number: u32,
    users: u32,
}

/// A selection on an input: for each output (broker's tpLists) that reads it first.
pub struct Sel {
    pub input: u32,
    kind: SelKind,
    /// Outputs that it leads to.
    pub leads: Vec<u32>,
}

#[derive(PartialEq, Eq, Hash, Debug)]
enum SelKind {
    Plain,
    Atom(AtomIx, u32),
    Tests(Box<[(u32, CheckIx)]>),
}

impl Sel {
    pub fn tests(&self) -> &[(u32, CheckIx)] {
        match &self.kind {
            SelKind::Tests(tests) => tests,
            _ => &[],
        }
    }
}

/// The bound nodes of plans that differ only in what they return.
pub struct Output {
    /// Selections that have to hold, the one that leads here left out; selections that must not; conditions.
    pub others: Box<[SelIx]>,
    pub anti: Box<[SelIx]>,
    pub wheres: Box<[CheckIx]>,
    access: SelIx,
    pub results: Vec<u32>,
}

/// What is returned: nodes of streams, grouped, or found by search.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Lists {
    Groups(Box<[u32]>),
    Twigs(Box<[u32]>),
}

pub struct Joined {
    output: u32,
    pub lists: Lists,
    pub itself: bool,
    pub making: Making,
    pub subs: Vec<u32>,
}

impl Joined {
    pub fn returns(&self) -> usize {
        let (Lists::Groups(l) | Lists::Twigs(l)) = &self.lists;
        l.len() + self.itself as usize
    }
}

/// A return stream, grouped by the binding field.
pub struct GroupBy {
    pub path: PathIx,
    pub field: u32,
    pub tests: Box<[(u32, CheckIx)]>,
    pub ordered: bool,
    pub distinct: bool,
}

#[derive(Default)]
pub struct Sharing {
    pub atoms: Atoms,
    indexes: u32,
    inputs: Shared<Input>,
    sels: Shared<Sel>,
    of_atom: Vec<SelIx>,
    outputs: Shared<Output>,
    results: Shared<Joined>,
    groups: Shared<GroupBy>,
    /// Combinations of inputs: the paper's shared joins.
    joins: HashMap<Box<[u32]>, u32>,
}

/// A left plan taken apart.
#[derive(Default)]
struct Left<'a> {
    inputs: Vec<Branch<'a>>,
    anti: Vec<Branch<'a>>,
    wheres: Vec<CheckIx>,
}

struct Branch<'a> {
    path: PathIx,
    tests: &'a [(u32, CheckIx)],
    ordered: bool,
}

/// The stream at the bottom of an operator, with the selection on it and whether duplicates are taken out above.
fn bottom(op: &Op) -> (PathIx, &[(u32, CheckIx)], bool) {
    match op {
        Op::Stream(path) => (*path, &[], false),
        Op::Selection(input, tests) => (bottom(input).0, tests, false),
        Op::DupElim(input, ..) => {
            let (path, tests, _) = bottom(input);
            (path, tests, true)
        }
        Op::WhereFilter(input, ..) => bottom(input),
        Op::Semijoin { left, .. } => bottom(left),
    }
}

fn taken_apart<'a>(op: &'a Op, left: &mut Left<'a>) {
    match op {
        Op::WhereFilter(input, _, check) => {
            left.wheres.push(*check);
            taken_apart(input, left);
        }
        Op::Semijoin { left: below, right, merge, anti, .. } => {
            let (path, tests, _) = bottom(right);
            let list = if *anti { &mut left.anti } else { &mut left.inputs };
            list.push(Branch { path, tests, ordered: *merge });
            taken_apart(below, left);
        }
        // Duplicates vanish by themselves: bound nodes are gathered by node. A binding stream is always in their order.
        _ => {
            let (path, tests, _) = bottom(op);
            // with predicate paths, which begin with it, a binding path without filters has nothing to add
            if !tests.is_empty() || left.inputs.is_empty() {
                left.inputs.push(Branch { path, tests, ordered: true });
            }
        }
    }
}

impl Sharing {
    /// The number of the result that the subscription is one of.
    pub fn add(&mut self, sub: u32, top: &Top, itself: bool, making: Making, terms: &Terms) -> u32 {
        let (op, field) = match top {
            Top::ReturnSelect { input, field, .. } => (input, *field),
            Top::OuterJoinSelect { left, field, .. } => (left, *field),
        };
        let mut left = Left::default();
        taken_apart(op, &mut left);
        let output = self.acquire_output(&left, field, terms);
        let lists = match top {
            Top::ReturnSelect { twigs, .. } => Lists::Twigs(twigs.clone()),
            Top::OuterJoinSelect { rights, merge, .. } => {
                Lists::Groups(rights.iter().map(|right| self.acquire_group(right, field, *merge)).collect())
            }
        };
        let known_as = key(&(output, itself, &lists, &making));
        let kept = lists.clone();
        let make = || Joined { output, lists: kept, itself, making, subs: vec![] };
        let (result, fresh) = self.results.acquire(&known_as, make);
        if fresh {
            self.outputs.get_mut(output).results.push(result);
        } else {
            self.release_output(output);
            self.release_lists(&lists);
        }
        self.results.get_mut(result).subs.push(sub);
        result
    }

    pub fn remove(&mut self, sub: u32, result: u32) {
        self.results.get_mut(result).subs.retain(|&s| s != sub);
        if let Some(gone) = self.results.release(result) {
            self.outputs.get_mut(gone.output).results.retain(|&r| r != result);
            self.release_output(gone.output);
            self.release_lists(&gone.lists);
        }
    }

    fn acquire_output(&mut self, left: &Left<'_>, field: u32, terms: &Terms) -> u32 {
        let mut sels: Vec<SelIx> = left.inputs.iter().map(|b| self.acquire_sel(b, field, terms)).collect();
        let mut anti: Vec<SelIx> = left.anti.iter().map(|b| self.acquire_sel(b, field, terms)).collect();
        // the best way in first, the rest in a fixed order: it does not matter how a query puts them
        sels.sort_unstable_by_key(|&s| (self.rank(s), s));
        anti.sort_unstable();
        for list in [&mut sels, &mut anti] {
            let twice: Vec<SelIx> = list.windows(2).filter(|w| w[0] == w[1]).map(|w| w[0]).collect();
            twice.into_iter().for_each(|s| self.release_sel(s));
            list.dedup();
        }
        sels[1..].sort_unstable();
        let join = self.join_of(&sels);
        let known_as = key(&(&sels, &anti, &left.wheres));
        let (access, others) = (sels[0], Box::from(&sels[1..]));
        let (kept, wheres) = (Box::from(&anti[..]), left.wheres[..].into());
        let make = || Output { others, anti: kept, wheres, access, results: vec![] };
        let (output, fresh) = self.outputs.acquire(&known_as, make);
        if fresh {
            self.sels.get_mut(access).leads.push(output);
            *self.joins.entry(join).or_insert(0) += 1;
        } else {
            sels.into_iter().chain(anti).for_each(|s| self.release_sel(s));
        }
        output
    }

    fn release_output(&mut self, id: u32) {
        let Some(output) = self.outputs.release(id) else { return };
        self.sels.get_mut(output.access).leads.retain(|&o| o != id);
        let all = [&[output.access], &output.others[..]].concat();
        let join = self.join_of(&all);
        if let Some(users) = self.joins.get_mut(&join) {
            *users -= 1;
            if *users == 0 {
                self.joins.remove(&join);
            }
        }
        all.into_iter().chain(output.anti).for_each(|s| self.release_sel(s));
    }

    fn join_of(&self, sels: &[SelIx]) -> Box<[u32]> {
        let mut inputs: Vec<u32> = sels.iter().map(|&s| self.sels.get(s).input).collect();
        inputs.sort_unstable();
        inputs.into()
    }

    /// How often a selection holds, as a rank: the lower, the better it is to begin with.
    fn rank(&self, sel: SelIx) -> u8 {
        match self.sels.get(sel).kind {
            SelKind::Atom(atom, _) => self.atoms.condition(atom).rank(),
            SelKind::Tests(_) => 6,
            SelKind::Plain => 7,
        }
    }

    fn acquire_sel(&mut self, branch: &Branch<'_>, field: u32, terms: &Terms) -> SelIx {
        let known_as = key(&(branch.path, field, branch.ordered));
        let made = || Input { path: branch.path, field, ordered: branch.ordered, ..Input::default() };
        let (input, _) = self.inputs.acquire(&known_as, made);
        let kind = self.kind_of(input, branch.tests, terms);
        let known_as = key(&(input, &kind));
        let atom = match kind {
            SelKind::Atom(atom, at) => Some((atom, at)),
            _ => None,
        };
        let is_plain = kind == SelKind::Plain;
        let (sel, fresh) = self.sels.acquire(&known_as, || Sel { input, kind, leads: vec![] });
        if !fresh {
            self.release_input(input, atom);
        } else if let Some((atom, _)) = atom {
            if self.of_atom.len() <= atom as usize {
                self.of_atom.resize(atom as usize + 1, 0);
            }
            self.of_atom[atom as usize] = sel;
        } else if is_plain {
            self.inputs.get_mut(input).plain = Some(sel);
        } else {
            self.inputs.get_mut(input).others.push(sel);
        }
        sel
    }

    /// What kind of selection tests are, its place in the index taken.
    fn kind_of(&mut self, input: u32, tests: &[(u32, CheckIx)], terms: &Terms) -> SelKind {
        let [(field, check)] = *tests else {
            return if tests.is_empty() { SelKind::Plain } else { SelKind::Tests(tests.into()) };
        };
        let Some((step, row)) = terms.check(check).step() else { return SelKind::Tests(tests.into()) };
        let found = match &step.filters[..] {
            [pred] if !step.positional => Condition::of(pred, row),
            _ => None,
        };
        let Some((twig, condition)) = found.filter(|(twig, _)| twig.nodes.iter().all(|n| n.filters.is_empty())) else {
            return SelKind::Tests(tests.into());
        };
        let next = self.indexes;
        let indexed = &mut self.inputs.get_mut(input).indexed;
        let at = match indexed.iter().position(|i| i.field == field && i.twig == *twig) {
            Some(at) => at,
            None => {
                self.indexes += 1;
                indexed.push(Indexed { field, twig: twig.clone(), number: next, users: 0 });
                indexed.len() - 1
            }
        };
        indexed[at].users += 1;
        let number = indexed[at].number;
        let atom = self.atoms.acquire(number, condition).0;
        self.atoms.lead(atom);
        SelKind::Atom(atom, number)
    }

    fn release_sel(&mut self, id: SelIx) {
        let Some(sel) = self.sels.release(id) else { return };
        let input = self.inputs.get_mut(sel.input);
        let mut atom = None;
        match sel.kind {
            SelKind::Plain => input.plain = None,
            SelKind::Tests(_) => input.others.retain(|&s| s != id),
            SelKind::Atom(a, number) => atom = Some((a, number)),
        }
        self.release_input(sel.input, atom);
    }

    fn release_input(&mut self, input: u32, atom: Option<(AtomIx, u32)>) {
        if let Some((atom, number)) = atom {
            self.atoms.lead_no_more(atom);
            self.atoms.release(atom);
            let indexed = &mut self.inputs.get_mut(input).indexed;
            indexed.retain_mut(|i| {
                i.users -= (i.number == number) as u32;
                i.users > 0
            });
        }
        self.inputs.release(input);
    }

    fn acquire_group(&mut self, op: &Op, field: u32, ordered: bool) -> u32 {
        let (path, tests, dupelim) = bottom(op);
        let known_as = key(&(path, field, tests, ordered, dupelim));
        let make = || GroupBy { path, field, tests: tests.into(), ordered, distinct: !dupelim };
        self.groups.acquire(&known_as, make).0
    }

    fn release_lists(&mut self, lists: &Lists) {
        if let Lists::Groups(groups) = lists {
            groups.iter().for_each(|&g| drop(self.groups.release(g)));
        }
    }

    // -- what runs

    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    pub fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter().map(|(_, input)| input)
    }

    pub fn sel(&self, id: SelIx) -> &Sel {
        self.sels.get(id)
    }

    pub fn input_of(&self, id: SelIx) -> &Input {
        self.inputs.get(self.sels.get(id).input)
    }

    #[inline]
    pub fn sel_of_atom(&self, atom: AtomIx) -> SelIx {
        self.of_atom[atom as usize]
    }

    /// Numbers of selections and groups are below these.
    pub fn bounds(&self) -> (usize, usize) {
        (self.sels.bound(), self.groups.bound())
    }

    pub fn output(&self, id: u32) -> &Output {
        self.outputs.get(id)
    }

    pub fn result(&self, id: u32) -> &Joined {
        self.results.get(id)
    }

    pub fn group(&self, id: u32) -> &GroupBy {
        self.groups.get(id)
    }

    /// How many operators there are: joins, their outputs, group-bys, results.
    pub fn counts(&self) -> [usize; 4] {
        [self.joins.len(), self.outputs.len(), self.groups.len(), self.results.len()]
    }
}
