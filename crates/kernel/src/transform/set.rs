//! The registered transforms. Equal parts are one: a *plan* is a class with its return paths and template, a *class* a
//! binding with its conditions; paths and conditions are shared by whoever has them. Adding or removing a transform
//! touches its own parts only.

use super::atoms::{AtomIx, Atoms, Condition};
use super::factory::Making;
use super::shared::{constants_of, key, Shared};
use crate::evaluate::QueryId;
use crate::names::{number_value, string_value, Names, ANY, ANY_ATTRIBUTE};
use crate::paths::Step;
use crate::shapes::program::{Node, Op, Pred, Program, Slot, Test, Twig};
use crate::tagpaths::{LinearPath, PathIx, PathSet};
use crate::values::constants::Constants;
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

pub type PlanIx = u32;
type ClassIx = u32;
const NO_CLASS: ClassIx = u32::MAX;

/// A condition on a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cond {
    Atom(AtomIx),
    Generic(u32),
}

/// A condition that no index serves, decided for all nodes of a message at once.
pub enum Generic {
    Holds(Pred),
    /// The node passes a step's test and filters, positions among siblings included.
    Passes(Node),
}

/// What is returned of a bound node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Return {
    Itself,
    Path(PathIx),
    Twig(u32),
}

/// A return in one word, as it is kept with those of other plans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code(u32);

impl Code {
    const ITSELF: u32 = u32::MAX;

    #[inline]
    pub fn get(self) -> Return {
        match self.0 {
            Code::ITSELF => Return::Itself,
            code if code & 1 == 0 => Return::Path(code >> 1),
            code => Return::Twig(code >> 1),
        }
    }
}

impl From<Return> for Code {
    fn from(what: Return) -> Code {
        Code(match what {
            Return::Itself => Code::ITSELF,
            Return::Path(path) => path << 1,
            Return::Twig(id) => id << 1 | 1,
        })
    }
}

/// The plans of a class, each with its returns. All that groups need lies together: with very many plans it is memory
/// that they wait for. (A plan's number and that of its returns come as words before these.)
#[derive(Default)]
struct Given(Vec<Code>);

impl Given {
    fn push(&mut self, plan: PlanIx, returns: &[Return]) {
        self.0.extend([Code(plan), Code(returns.len() as u32)]);
        self.0.extend(returns.iter().map(|&r| Code::from(r)));
    }

    fn remove(&mut self, plan: PlanIx) {
        let mut kept = vec![];
        for (other, returns) in self.iter() {
            if other != plan {
                kept.extend([Code(other), Code(returns.len() as u32)]);
                kept.extend_from_slice(returns);
            }
        }
        self.0 = kept;
    }

    fn iter(&self) -> impl Iterator<Item = (PlanIx, &[Code])> {
        let mut words = &self.0[..];
        std::iter::from_fn(move || {
            let (&[plan, count], rest) = words.split_first_chunk::<2>()?;
            let (returns, after) = rest.split_at(count.0 as usize);
            words = after;
            Some((plan.0, returns))
        })
    }
}

pub struct Binding {
    pub path: PathIx,
    /// Conditions on the nodes of steps before the last one.
    pub filters: Box<[(u32, Cond)]>,
}

pub struct Class {
    pub binding: u32,
    /// Conditions on the bound node, the one that serves as its access first.
    pub conds: Box<[Cond]>,
}

/// A class where a condition or a binding path leads to it, with what decides whether to look at it at all.
#[derive(Clone, Copy)]
pub struct Led {
    pub class: u32,
    pub path: PathIx,
    /// Being bound by the path is all that is left to check.
    pub plain: bool,
}

pub struct Plan {
    class: ClassIx,
    /// What is bound and returned where that is no pattern: then there is no class, no program, and nothing else returned.
    pub query: Option<QueryId>,
    pub returns: Box<[Return]>,
    pub making: Making,
    pub subs: Vec<u32>,
    /// Those of the subscriptions that want to know if nothing is bound.
    pub wanting_empty: Vec<u32>,
    /// The program that all of this was made of, with the constants of its slots, and the code of `making`.
    pub words: Arc<[u32]>,
    pub row: Box<[u64]>,
    pub code: Box<[u8]>,
}

impl Plan {
    /// What the constants of the program are.
    pub fn slots(&self, names: &Names) -> Vec<Slot> {
        Program::decode(&self.words, names).map_or(vec![], |program| program.slots)
    }
}

/// A transform but for its template and its constants, as its program says.
pub struct Spec {
    pub binding: Twig,
    pub conditions: Vec<Pred>,
    pub returns: Vec<Twig>,
    slots: Vec<Slot>,
    words: Box<[u32]>,
}

impl Spec {
    /// Encoded as the program (exists binding `and` (conditions) `and` (`or` of exists return)).
    pub fn decode(words: &[u32], names: &Names) -> Result<Spec, &'static str> {
        const WRONG: &str = "not the program of a transform";
        let Program { pred, slots } = Program::decode(words, names)?;
        let Pred::And(parts) = pred else { return Err(WRONG) };
        let Ok([Pred::Exists(binding), Pred::And(conditions), Pred::Or(returns)]) = <[Pred; 3]>::try_from(parts) else {
            return Err(WRONG);
        };
        let twig = |p: Pred| match p {
            Pred::Exists(twig) => Ok(twig),
            _ => Err(WRONG),
        };
        let returns = returns.into_iter().map(twig).collect::<Result<_, _>>()?;
        Ok(Spec { binding, conditions, returns, slots, words: words.into() })
    }
}

#[derive(Default)]
pub struct Set {
    pub rels: PathSet,
    pub binds: PathSet,
    pub atoms: Atoms,
    /// How many plans return what the path finds.
    returned: Vec<u32>,
    generics: Shared<(Generic, Box<[u64]>)>,
    twigs: Shared<(Twig, Box<[u64]>)>,
    bindings: Shared<Binding>,
    classes: Shared<Class>,
    /// By class.
    given: Vec<Given>,
    plans: Shared<Plan>,
    /// Classes by the condition that leads to them, and by binding path where none does.
    by_atom: Vec<Vec<Led>>,
    by_bind: Vec<Vec<Led>>,
    /// Bindings with filters on steps before the last.
    filtering: usize,
    of_sub: HashMap<u32, PlanIx>,
    /// The programs of the plans. Plans that differ only in constants or templates share one.
    words: HashSet<Arc<[u32]>>,
    /// Plans with subscriptions that want to know if nothing is bound.
    wanting_empty: Vec<PlanIx>,
    /// Plans with a query.
    residual: Vec<PlanIx>,
}

impl Set {
    pub fn is_empty(&self) -> bool {
        self.of_sub.is_empty()
    }

    /// Number of subscriptions.
    pub fn len(&self) -> usize {
        self.of_sub.len()
    }

    /// Distinct plans, classes, bindings, relative paths.
    pub fn distinct(&self) -> [usize; 4] {
        [self.plans.len(), self.classes.len(), self.bindings.len(), self.rels.len()]
    }

    /// Adds a subscription: what its program says, the constants of its slots, and the code of what is made of the groups.
    /// With `deliver_empty` that is made also where there are none. `strings` is how many string constants are known.
    pub fn add(
        &mut self,
        sub: u32,
        (spec, row): (&Spec, &[f64]),
        code: &[u8],
        deliver_empty: bool,
        strings: usize,
    ) -> Result<(), &'static str> {
        if spec.slots.len() != row.len() {
            return Err("a row with another number of constants than its program has slots");
        }
        let row: Vec<u64> = spec.slots.iter().zip(row).map(|(slot, &x)| slot.word(x)).collect();
        if spec.slots.iter().zip(&row).any(|(s, &x)| *s == Slot::Str && x >= strings as u64) {
            return Err("a string that is not known");
        }
        let making = Making::decode(code)?;
        if !making.fits(spec.returns.len()) {
            return Err("a template that asks for what is not returned");
        }
        if self.of_sub.contains_key(&sub) {
            return Err("a subscription that is there already");
        }
        let class = self.acquire_class(spec, &row);
        let returns: Box<[Return]> = spec.returns.iter().map(|twig| self.acquire_return(twig, &row)).collect();
        let known_as = key(&(class, &returns, code));
        let shared = &mut self.words;
        let make = || Plan {
            class,
            query: None,
            returns: returns.clone(),
            making,
            subs: vec![],
            wanting_empty: vec![],
            words: shared.get_or_insert_with(&*spec.words, |words| words.into()).clone(),
            row: row.into(),
            code: code.into(),
        };
        let (id, fresh) = self.plans.acquire(&known_as, make);
        if fresh {
            self.given[class as usize].push(id, &returns);
        } else {
            // the plan there is has these already
            self.release_class(class);
            returns.iter().for_each(|&r| self.release_return(r));
        }
        self.enter(sub, id, deliver_empty);
        Ok(())
    }

    /// Adds a subscription whose query says what is bound, and returned in so many lists, and the code of what is made of
    /// that.
    pub fn add_residual(
        &mut self,
        sub: u32,
        (query, returns): (QueryId, usize),
        code: &[u8],
        deliver_empty: bool,
    ) -> Result<(), &'static str> {
        let making = Making::decode(code)?;
        if !making.fits(returns) {
            return Err("a template that asks for what is not returned");
        }
        if self.of_sub.contains_key(&sub) {
            return Err("a subscription that is there already");
        }
        let make = || Plan {
            class: NO_CLASS,
            query: Some(query),
            returns: Box::default(),
            making,
            subs: vec![],
            wanting_empty: vec![],
            words: Arc::default(),
            row: Box::default(),
            code: code.into(),
        };
        let (id, fresh) = self.plans.acquire(&key(&(NO_CLASS, query, code)), make);
        if fresh {
            self.residual.push(id);
        }
        self.enter(sub, id, deliver_empty);
        Ok(())
    }

    /// Adds a subscription that differs from one that is there in its number at most, and in `deliver_empty`.
    pub fn add_like(&mut self, other: u32, sub: u32, deliver_empty: bool) {
        let id = self.of_sub[&other];
        self.plans.acquire_again(id);
        self.enter(sub, id, deliver_empty);
    }

    fn enter(&mut self, sub: u32, id: PlanIx, deliver_empty: bool) {
        let plan = self.plans.get_mut(id);
        plan.subs.push(sub);
        if deliver_empty {
            if plan.wanting_empty.is_empty() {
                self.wanting_empty.push(id);
            }
            plan.wanting_empty.push(sub);
        }
        self.of_sub.insert(sub, id);
    }

    /// False if there is no such subscription.
    pub fn remove(&mut self, sub: u32) -> bool {
        let Some(id) = self.of_sub.remove(&sub) else { return false };
        let plan = self.plans.get_mut(id);
        plan.subs.retain(|&s| s != sub);
        if plan.wanting_empty.contains(&sub) {
            plan.wanting_empty.retain(|&s| s != sub);
            if plan.wanting_empty.is_empty() {
                self.wanting_empty.retain(|&plan| plan != id);
            }
        }
        if let Some(plan) = self.plans.release(id) {
            if plan.query.is_some() {
                self.residual.retain(|&other| other != id);
                return true;
            }
            self.given[plan.class as usize].remove(id);
            self.release_class(plan.class);
            plan.returns.iter().for_each(|&r| self.release_return(r));
            // one in the plan, one among all
            if Arc::strong_count(&plan.words) == 2 {
                self.words.remove(&plan.words);
            }
        }
        true
    }

    fn acquire_class(&mut self, spec: &Spec, row: &[u64]) -> ClassIx {
        let path = self.binds.acquire(LinearPath::without_filters(&spec.binding));
        // without steps it is the document that is bound
        let before = spec.binding.nodes.len().saturating_sub(1);
        let (before, last) = spec.binding.nodes.split_at(before);
        let mut filters = vec![];
        for (i, node) in before.iter().enumerate() {
            filters.extend(self.acquire_filters(node, row).into_iter().map(|cond| (i as u32, cond)));
        }
        let mut conds: Vec<Cond> = last.iter().flat_map(|node| self.acquire_filters(node, row)).collect();
        for pred in &spec.conditions {
            conds.extend(self.acquire_cond(pred, row));
        }
        // the best way in first; the rest in any fixed order
        let rank = |c: &Cond| match *c {
            Cond::Atom(a) => (self.atoms.condition(a).rank(), *c),
            Cond::Generic(_) => (u8::MAX, *c),
        };
        conds.sort_unstable_by_key(rank);
        let said_twice: Vec<Cond> = conds.windows(2).filter(|w| w[0] == w[1]).map(|w| w[0]).collect();
        said_twice.into_iter().for_each(|c| self.release_cond(c));
        conds.dedup();
        let known_as = key(&(path, &filters));
        let filtering = !filters.is_empty();
        let kept = Binding { path, filters: filters.clone().into() };
        let (binding, fresh) = self.bindings.acquire(&known_as, || kept);
        if fresh {
            self.filtering += filtering as usize;
        } else {
            self.binds.release(path);
            filters.iter().for_each(|f| self.release_cond(f.1));
        }
        let known_as = key(&(binding, &conds));
        let make = || Class { binding, conds: conds.clone().into() };
        let (class, fresh) = self.classes.acquire(&known_as, make);
        if fresh {
            if self.given.len() <= class as usize {
                self.given.resize_with(class as usize + 1, Given::default);
            }
            if let Some(&Cond::Atom(atom)) = conds.first() {
                self.atoms.lead(atom);
            }
            let rest = conds.len() - matches!(conds.first(), Some(Cond::Atom(_))) as usize;
            let led = Led { class, path, plain: rest == 0 && !filtering };
            self.list_of(class).push(led);
        } else {
            self.release_binding(binding);
            conds.iter().for_each(|&c| self.release_cond(c));
        }
        class
    }

    fn release_class(&mut self, id: ClassIx) {
        if self.classes.users(id) == 1 {
            self.list_of(id).retain(|led| led.class != id);
            if let Some(&Cond::Atom(atom)) = self.classes.get(id).conds.first() {
                self.atoms.lead_no_more(atom);
            }
        }
        if let Some(class) = self.classes.release(id) {
            self.release_binding(class.binding);
            class.conds.iter().for_each(|&c| self.release_cond(c));
        }
    }

    fn release_binding(&mut self, id: u32) {
        if let Some(binding) = self.bindings.release(id) {
            self.filtering -= !binding.filters.is_empty() as usize;
            self.binds.release(binding.path);
            binding.filters.iter().for_each(|f| self.release_cond(f.1));
        }
    }

    /// Where a class is found.
    fn list_of(&mut self, id: ClassIx) -> &mut Vec<Led> {
        let class = self.classes.get(id);
        let (lists, at) = match class.conds.first() {
            Some(&Cond::Atom(atom)) => (&mut self.by_atom, atom),
            _ => (&mut self.by_bind, self.bindings.get(class.binding).path),
        };
        if lists.len() <= at as usize {
            lists.resize_with(at as usize + 1, Vec::new);
        }
        &mut lists[at as usize]
    }

    fn acquire_filters(&mut self, node: &Node, row: &[u64]) -> Vec<Cond> {
        if node.positional {
            return vec![self.acquire_generic(Generic::Passes(node.clone()), row)];
        }
        node.filters.iter().flat_map(|f| self.acquire_cond(f, row)).collect()
    }

    fn acquire_cond(&mut self, pred: &Pred, row: &[u64]) -> Vec<Cond> {
        if let Pred::And(all) = pred {
            return all.iter().flat_map(|p| self.acquire_cond(p, row)).collect();
        }
        if let Some((twig, condition)) = Condition::of(pred, row) {
            if let Some(path) = LinearPath::of(twig) {
                let rel = self.rels.acquire(path);
                let (atom, fresh) = self.atoms.acquire(rel, condition);
                if !fresh {
                    self.rels.release(rel);
                }
                return vec![Cond::Atom(atom)];
            }
        }
        vec![self.acquire_generic(Generic::Holds(pred.clone()), row)]
    }

    fn acquire_generic(&mut self, generic: Generic, row: &[u64]) -> Cond {
        let key = match &generic {
            Generic::Holds(pred) => format!("{pred:?} {:?}", constants_of(&[pred], row)),
            Generic::Passes(node) => {
                format!("{node:?} {:?}", constants_of(&node.filters.iter().collect::<Vec<_>>(), row))
            }
        };
        Cond::Generic(self.generics.acquire(key.as_bytes(), || (generic, row.into())).0)
    }

    fn release_cond(&mut self, cond: Cond) {
        match cond {
            Cond::Atom(atom) => {
                if let Some(rel) = self.atoms.release(atom) {
                    self.rels.release(rel);
                }
            }
            Cond::Generic(id) => drop(self.generics.release(id)),
        }
    }

    fn acquire_return(&mut self, twig: &Twig, row: &[u64]) -> Return {
        if twig.nodes.is_empty() {
            return Return::Itself;
        }
        if let Some(path) = LinearPath::of(twig) {
            let rel = self.rels.acquire(path);
            self.returned.resize(self.rels.len(), 0);
            self.returned[rel as usize] += 1;
            return Return::Path(rel);
        }
        let filters: Vec<&Pred> = twig.nodes.iter().flat_map(|n| &n.filters).collect();
        let key = format!("{twig:?} {:?}", constants_of(&filters, row));
        Return::Twig(self.twigs.acquire(key.as_bytes(), || (twig.clone(), row.into())).0)
    }

    fn release_return(&mut self, r: Return) {
        match r {
            Return::Itself => {}
            Return::Path(rel) => {
                self.returned[rel as usize] -= 1;
                self.rels.release(rel);
            }
            Return::Twig(id) => drop(self.twigs.release(id)),
        }
    }

    pub fn plan(&self, id: PlanIx) -> &Plan {
        self.plans.get(id)
    }

    /// All plans.
    pub fn plans(&self) -> impl Iterator<Item = (PlanIx, &Plan)> {
        self.plans.iter()
    }

    /// The plans with subscriptions that want to know if nothing is bound.
    pub fn wanting_empty(&self) -> impl Iterator<Item = PlanIx> + '_ {
        self.wanting_empty.iter().copied()
    }

    /// The plans with a query.
    pub fn residual(&self) -> &[PlanIx] {
        &self.residual
    }

    /// Evaluation needs the nodes of each symbol linked (`Nodes::link`).
    pub fn uses_links(&self) -> bool {
        self.generics.len() + self.twigs.len() + self.residual.len() > 0
    }

    /// The path that a message must have for a transform to bind something: to the bound node, and on to the node of the
    /// condition that leads to it, with its value if that must be equal to a constant. None if any message may do.
    pub fn gate(&self, sub: u32, constants: &mut Constants) -> Option<Vec<Step>> {
        let class = self.classes.get(self.plans.get(*self.of_sub.get(&sub)?).class);
        let mut steps = self.binds.get(self.bindings.get(class.binding).path).steps().to_vec();
        let mut value = None;
        if let Some(&Cond::Atom(atom)) = class.conds.first() {
            steps.extend_from_slice(self.rels.get(self.atoms.rel(atom)).steps());
            value = match self.atoms.condition(atom) {
                Condition::Is(id) => Some(string_value(id)),
                Condition::Number(Op::Eq, x) => Some(number_value(constants.intern_number(x))),
                _ => None,
            };
        }
        let mut path = vec![];
        for (test, deep) in steps {
            let symbol = match test {
                Test::Exactly(symbol) | Test::Wildcard(symbol) => symbol,
                Test::Element => ANY,
                Test::Attribute => ANY_ATTRIBUTE,
                Test::Node => return (!path.is_empty()).then_some(path), // what is before it will do
            };
            path.push(Step::new(deep, symbol));
        }
        path.extend(value.filter(|_| !path.is_empty()).map(|value| Step::new(false, value)));
        (!path.is_empty()).then_some(path)
    }

    /// The subscriptions, ascending.
    pub fn subs(&self) -> Vec<u32> {
        let mut subs: Vec<u32> = self.of_sub.keys().copied().collect();
        subs.sort_unstable();
        subs
    }

    pub fn contains(&self, sub: u32) -> bool {
        self.of_sub.contains_key(&sub)
    }

    pub fn class(&self, id: ClassIx) -> &Class {
        self.classes.get(id)
    }

    /// The plans of a class with what they return.
    #[inline]
    pub fn given(&self, class: ClassIx) -> impl Iterator<Item = (PlanIx, &[Code])> {
        self.given[class as usize].iter()
    }

    pub fn binding(&self, id: u32) -> &Binding {
        self.bindings.get(id)
    }

    pub fn generic(&self, id: u32) -> (&Generic, &[u64]) {
        let (generic, row) = self.generics.get(id);
        (generic, row)
    }

    pub fn twig(&self, id: u32) -> (&Twig, &[u64]) {
        let (twig, row) = self.twigs.get(id);
        (twig, row)
    }

    #[inline]
    pub fn led_to_by_atom(&self, atom: AtomIx) -> &[Led] {
        self.by_atom.get(atom as usize).map_or(&[], |l| l)
    }

    #[inline]
    pub fn led_to_by_bind(&self, bind: PathIx) -> &[Led] {
        self.by_bind.get(bind as usize).map_or(&[], |l| l)
    }

    #[inline]
    pub fn is_returned(&self, rel: PathIx) -> bool {
        self.returned.get(rel as usize).is_some_and(|&n| n > 0)
    }

    /// Conditions are asked of other nodes than bound ones.
    pub fn filters_ancestors(&self) -> bool {
        self.filtering > 0
    }
}
