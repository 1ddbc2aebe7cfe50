//! How the set of an expression is computed: as a list where it has few nodes of a large message, else as bits.

use super::set::{Set, EMPTY, LISTED};
use super::values::extremes_at;
use super::{Known, Sets, DEPTH, GUESS, SPARSE};
use crate::shapes::bitset::{each_of_both, fill, has, insert};
use crate::shapes::expr::{Check, Dag, Expr, ExprId, Question, EVERYTHING};
use crate::shapes::nodes::NodeIx;
use crate::shapes::program::Test;
use crate::shapes::search::Message;

impl Sets {
    /// Of expressions, the one whose set seems to have the fewest nodes.
    #[inline(never)]
    pub(super) fn fewest(&self, dag: &Dag, message: Message<'_>, list: &[ExprId]) -> Option<ExprId> {
        match *list {
            [one] => Some(one),
            _ => list.iter().copied().min_by_key(|&part| self.guess(dag, message, part, GUESS)),
        }
    }

    /// How many nodes a set may have, going by the names and values that there are.
    fn guess(&self, dag: &Dag, message: Message<'_>, id: ExprId, depth: u32) -> usize {
        match self.known(id) {
            Some(EMPTY) => return 0,
            Some(at) if at & LISTED != 0 => return self.view(at).size(),
            _ if depth == 0 => return self.nodes,
            _ => {}
        }
        let guess = |id: ExprId| self.guess(dag, message, id, depth - 1);
        match dag.get(id) {
            Expr::Nothing => 0,
            Expr::Document | Expr::Meet(_) => 1,
            Expr::Test(Test::Exactly(sym)) => message.nodes.count_of(sym) as usize,
            Expr::Valued { of, check } => match dag.check(check).question {
                Question::Is(want) if is_looked_up(message, dag.check(check)) => {
                    message.nodes.count_with(want, SPARSE) + message.nodes.unread(dag.test_of(of)).len()
                }
                _ => guess(of),
            },
            Expr::And(list) => dag.list(list).iter().map(|&p| guess(p)).min().unwrap_or(self.nodes),
            Expr::Or(list) => dag.list(list).iter().map(|&p| guess(p)).sum(),
            Expr::Above { of, with: EVERYTHING, .. }
            | Expr::Below { to: of, .. }
            | Expr::First { of, .. }
            | Expr::Count { of, .. } => guess(of),
            Expr::Above { of, with, .. } => guess(of).min(guess(with)),
            Expr::Counted { of, filter, .. } => {
                conjuncts(dag, of, filter).into_iter().map(guess).min().unwrap_or(self.nodes)
            }
            _ => self.nodes,
        }
    }

    #[inline(never)]
    pub(super) fn find(&mut self, dag: &Dag, message: Message<'_>, id: ExprId) -> u32 {
        // a list and not recursion, for paths can be long
        let base = self.todo.len();
        self.todo.push(id);
        while let Some(&top) = self.todo[base..].last() {
            match self.next_part(dag, message, dag.get(top)) {
                Some(part) => self.todo.push(part),
                None => {
                    let at = self.compute(dag, message, dag.get(top));
                    self.known[top as usize] = Known { stamp: self.stamp, at };
                    self.todo.pop();
                }
            }
        }
        self.known[id as usize].at
    }

    /// A part that is to be known first.
    fn next_part(&self, dag: &Dag, message: Message<'_>, expr: Expr) -> Option<ExprId> {
        let unknown = |id: ExprId| self.known(id).is_none().then_some(id);
        match expr {
            Expr::Nothing
            | Expr::Everything
            | Expr::Document
            | Expr::Test(_)
            | Expr::Numbers(_)
            | Expr::Meet(_)
            | Expr::Position { .. } => None,
            Expr::Valued { of, .. } | Expr::Not(of) | Expr::Compared { of, .. } | Expr::Counted { of, .. } => {
                unknown(of)
            }
            Expr::Above { of, with: EVERYTHING, .. } => unknown(of),
            Expr::Above { of, with, .. } if self.by_node() => self.fewest(dag, message, &[of, with]).and_then(unknown),
            Expr::Above { of, with, .. } => match self.known(of) {
                None => Some(of),
                Some(EMPTY) => None,
                Some(_) => unknown(with),
            },
            Expr::Or(list) => dag.list(list).iter().find_map(|&p| unknown(p)),
            Expr::And(list) if self.by_node() => self.fewest(dag, message, dag.list(list)).and_then(unknown),
            Expr::And(list) => {
                for &p in dag.list(list) {
                    match self.known(p) {
                        None => return Some(p),
                        Some(EMPTY) => return None,
                        Some(_) => {}
                    }
                }
                None
            }
            Expr::Below { from, to, .. } => match self.known(from) {
                None => Some(from),
                Some(EMPTY) => None,
                Some(at) if self.by_node() && self.is_listed(from) => {
                    let mut below = 0;
                    self.view(at).each(|n| below += (message.nodes.recs[n as usize].end - n) as usize);
                    unknown(to).filter(|_| below >= self.guess(dag, message, to, GUESS))
                }
                Some(_) => unknown(to),
            },
            Expr::First { of, .. } | Expr::Count { of, .. } if self.by_node() => unknown(of),
            Expr::First { of, steps, .. } | Expr::Count { of, steps, .. } => {
                unknown(of).or_else(|| dag.list(steps).iter().find_map(|&s| unknown(s / 2)))
            }
        }
    }

    /// Computes what `next_part` says can be computed; answers where it lies.
    #[inline(always)]
    fn compute(&mut self, dag: &Dag, message: Message<'_>, expr: Expr) -> u32 {
        if let Expr::Numbers(steps) = expr {
            return self.find_extremes(dag, message, steps);
        }
        let listed = match expr {
            Expr::Valued { of, check } if is_looked_up(message, dag.check(check)) => {
                let Question::Is(want) = dag.check(check).question else { return EMPTY };
                if message.nodes.first_with(want) == NodeIx::MAX && message.nodes.unread(dag.test_of(of)).is_empty() {
                    return EMPTY; // most subscriptions' values
                }
                true
            }
            Expr::Meet(_) | Expr::Counted { .. } | Expr::First { .. } | Expr::Count { .. } => true,
            _ => self.by_node(),
        };
        match listed.then(|| self.list(dag, message, expr)).flatten() {
            Some(found) => self.keep(found),
            None => self.compute_bits(dag, message, expr),
        }
    }

    /// The nodes of a set, in any order, if they are better listed than set as bits.
    #[inline(never)]
    fn list(&mut self, dag: &Dag, message: Message<'_>, expr: Expr) -> Option<Vec<NodeIx>> {
        let recs = &message.nodes.recs;
        let mut found = vec![];
        match expr {
            Expr::Meet(list) => found.extend(self.meet(dag, message, dag.list(list)).then_some(0)),
            Expr::Valued { of, check } if is_looked_up(message, dag.check(check)) => {
                let check = dag.check(check);
                let Question::Is(want) = check.question else { return None };
                found.extend(message.nodes.with(want));
                let unread = message.nodes.unread(dag.test_of(of)).iter().copied();
                found.extend(unread.filter(|&n| self.values.pass(message, n, check)));
                found.retain(|&n| self.at(dag, message, of, n));
            }
            Expr::Counted { of, filter, .. } => {
                let fewest = self.fewest(dag, message, &conjuncts(dag, of, filter)).unwrap_or(of);
                self.set(dag, message, fewest);
                found = self.members(fewest);
                found.retain(|&n| self.holds_among(dag, message, filter, n, of));
            }
            Expr::First { of, .. } | Expr::Count { of, .. } => {
                found = self.members(of);
                found.retain(|&n| self.context_passes(dag, message, expr, n));
            }
            Expr::Document => found.push(0),
            Expr::Test(Test::Exactly(sym)) if message.nodes.count_of(sym) as usize <= self.nodes / SPARSE => {
                found.extend(message.nodes.of(sym));
            }
            Expr::And(list) => {
                let fewest = self.fewest(dag, message, dag.list(list)).filter(|&p| self.is_listed(p))?;
                found = self.members(fewest);
                found.retain(|&n| self.are_in(dag, message, dag.list(list), n));
            }
            Expr::Or(list) if dag.list(list).iter().all(|&p| self.is_listed(p)) => {
                dag.list(list).iter().for_each(|&p| found.append(&mut self.members(p)));
            }
            Expr::Above { of, with, deep } => {
                let fewest = self.fewest(dag, message, &[of, with]).filter(|_| with != EVERYTHING).unwrap_or(of);
                if !self.is_listed(fewest) {
                    return None;
                }
                let mut ends = self.members(fewest);
                ends.retain(|&n| self.are_in(dag, message, &[of, with], n));
                let ends = ends.into_iter().map(|n| (n, ()));
                self.values.climb(recs, ends, deep, |n, ()| found.push(n));
            }
            Expr::Below { from, deep, to } if self.is_listed(from) && self.known(to).is_none() => {
                for n in self.members(from) {
                    found.extend(message.nodes.below(n, deep).filter(|&below| self.at(dag, message, to, below)));
                }
            }
            Expr::Below { from, deep, to } if self.is_listed(to) => {
                found = self.members(to);
                found.retain(|&n| {
                    let mut n = n;
                    while n != 0 {
                        n = recs[n as usize].parent;
                        if self.at(dag, message, from, n) {
                            return true;
                        }
                        if !deep {
                            break;
                        }
                    }
                    false
                });
            }
            _ => return None,
        }
        Some(found)
    }

    /// Keeps a set; answers where it lies.
    fn keep(&mut self, mut nodes: Vec<NodeIx>) -> u32 {
        if nodes.is_empty() {
            return EMPTY;
        }
        if !self.large || nodes.len() > self.nodes / SPARSE {
            let start = self.words.len();
            self.words.resize(start + self.width, 0);
            nodes.into_iter().for_each(|n| insert(&mut self.words[start..], n));
            return start as u32;
        }
        nodes.sort_unstable();
        nodes.dedup();
        let at = self.lists.len() as u32;
        self.lists.push(nodes.len() as u32);
        self.lists.append(&mut nodes);
        at | LISTED
    }

    /// Computes a set as bits; answers where it lies.
    fn compute_bits(&mut self, dag: &Dag, message: Message<'_>, expr: Expr) -> u32 {
        if self.by_node() {
            // it takes all the parts
            let depth = std::mem::replace(&mut self.depth, DEPTH);
            while let Some(part) = self.next_part(dag, message, expr) {
                self.find(dag, message, part);
            }
            self.depth = depth;
        }
        let start = self.words.len();
        self.words.resize(start + self.width, 0);
        let (old, out) = self.words.split_at_mut(start);
        let (known, width, recs) = (&self.known, self.width, &message.nodes.recs);
        let (old, lists) = (&*old, &self.lists[..]);
        let set = |id: ExprId| match known[id as usize].at {
            EMPTY => None,
            at => Some(Set::new(old, lists, width, at)),
        };
        match expr {
            Expr::Nothing
            | Expr::Position { .. }
            | Expr::Numbers(_)
            | Expr::Meet(_)
            | Expr::Counted { .. }
            | Expr::First { .. }
            | Expr::Count { .. } => {}
            Expr::Everything => fill(out, 0, self.nodes),
            Expr::Document => out[0] = 1,
            Expr::Test(Test::Exactly(sym)) => message.nodes.of(sym).for_each(|n| insert(out, n)),
            Expr::Test(test) => {
                for (n, r) in recs.iter().enumerate().skip(1) {
                    out[n / 64] |= (test.passes(message.names, r.sym) as u64) << (n % 64);
                }
            }
            Expr::Valued { of, check } => {
                let (values, check) = (&mut self.values, dag.check(check));
                if let Some(of) = set(of) {
                    of.each(|n| {
                        if values.pass(message, n, check) {
                            insert(out, n);
                        }
                    });
                }
            }
            Expr::Compared { of, check } => {
                let extremes = extremes_at(&self.extremes, &self.spans, known[of as usize].at);
                let check = dag.check(check);
                extremes.iter().filter(|e| e.pass(check)).for_each(|e| insert(out, e.node));
            }
            Expr::And(list) => {
                let mut first = true;
                for &p in dag.list(list) {
                    match set(p) {
                        None => {
                            out.fill(0);
                            break;
                        }
                        Some(Set::Bits(set)) if first => out.copy_from_slice(set),
                        Some(set) if first => set.each(|n| insert(out, n)),
                        Some(set) => set.retain_in(out),
                    }
                    first = false;
                }
            }
            Expr::Or(list) => {
                for set in dag.list(list).iter().filter_map(|&p| set(p)) {
                    match set {
                        Set::Bits(set) => out.iter_mut().zip(set).for_each(|(a, b)| *a |= b),
                        Set::List(list) => list.iter().for_each(|&n| insert(out, n)),
                    }
                }
            }
            Expr::Not(of) => {
                fill(out, 0, self.nodes);
                match set(of) {
                    None => {}
                    Some(Set::Bits(set)) => out.iter_mut().zip(set).for_each(|(a, b)| *a &= !b),
                    Some(Set::List(list)) => list.iter().for_each(|&n| out[n as usize / 64] &= !(1 << (n % 64))),
                }
            }
            Expr::Above { of, with, deep } => {
                let mut above = |n: NodeIx| {
                    let mut n = n;
                    while n != 0 {
                        n = recs[n as usize].parent;
                        if !deep || has(out, n) {
                            return insert(out, n);
                        }
                        insert(out, n);
                    }
                };
                match set(of) {
                    None => {}
                    Some(of) if with == EVERYTHING => of.each(above),
                    Some(of) => match (of, set(with)) {
                        (_, None) => {}
                        (Set::Bits(of), Some(Set::Bits(with))) => each_of_both(of, with, above),
                        (of, Some(with)) => of.each(|n| {
                            if with.has(n) {
                                above(n);
                            }
                        }),
                    },
                }
            }
            Expr::Below { from, deep, to } => {
                // `to` is not known if there is nothing to start from
                if let Some((from, to)) = set(from).and_then(|from| Some((from, set(to)?))) {
                    if deep {
                        let mut covered = 0;
                        from.each(|n| {
                            let end = recs[n as usize].end;
                            if end > covered {
                                fill(out, n as usize + 1, end as usize);
                                covered = end;
                            }
                        });
                        to.retain_in(out);
                    } else if to.size() > 4 * from.size() {
                        // few parents of many children in all, as with `*`
                        from.each(|n| {
                            message.nodes.children(n).filter(|&c| to.has(c)).for_each(|c| insert(out, c));
                        });
                    } else {
                        to.each(|n| {
                            if n != 0 && from.has(recs[n as usize].parent) {
                                insert(out, n);
                            }
                        });
                    }
                }
            }
        }
        if out.iter().all(|&w| w == 0) {
            self.words.truncate(start);
            return EMPTY;
        }
        start as u32
    }
}

/// Is the check for a value by which nodes are linked?
#[inline]
fn is_looked_up(message: Message<'_>, check: Check) -> bool {
    matches!(check, Check { question: Question::Is(_), normalize: false }) && message.nodes.is_indexed()
}

/// Sets that a node is in if a filter with positions, which count in the set `of`, passes it.
fn conjuncts(dag: &Dag, of: ExprId, filter: ExprId) -> Vec<ExprId> {
    let mut found = vec![of];
    if let Expr::And(list) = dag.get(filter) {
        found.extend(dag.list(list).iter().filter(|&&p| !dag.counts(p)));
    }
    found
}
