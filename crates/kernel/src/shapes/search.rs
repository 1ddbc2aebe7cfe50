//! A pattern over one message, node at a time: depth-first, stopping at the first witness. Fast where witnesses or
//! failures are near, as they are in most messages; where they are not it gives up, and `shared` decides.

use super::nodes::{NodeIx, Nodes};
use super::program::{Ask, Counted, Node, Op, Pred, Test, Twig, Value};
use crate::names::{is_attribute, Names, Sym};
use crate::values::constants::Constants;
use crate::values::number::number;
use crate::values::strings::{length, normalize_space};

/// The message, and what is needed to read it.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    pub src: &'a [u8],
    pub nodes: &'a Nodes,
    pub names: &'a Names,
    pub constants: &'a Constants,
}

/// The constants of one subscription by slot: the number of a string, or the bits of an `f64`.
pub type Row<'a> = &'a [u64];

/// A node's place among the siblings that pass the same test: position and last.
pub type Place = (u32, u32);

/// The search took too long; nothing is decided.
pub struct GaveUp;

pub struct Search<'a> {
    message: Message<'a>,
    fuel: u32,
    scratch: Vec<u8>,
}

type Answer = Result<bool, GaveUp>;

impl<'a> Search<'a> {
    /// Visits at most about `fuel` nodes.
    pub fn new(message: Message<'a>, fuel: u32) -> Search<'a> {
        Search { message, fuel, scratch: vec![] }
    }

    /// How many more nodes it may visit.
    pub(crate) fn fuel(&self) -> u32 {
        self.fuel
    }

    /// Does the predicate hold for a node?
    pub fn holds(&mut self, pred: &Pred, at: NodeIx, place: Place, row: Row<'_>) -> Answer {
        Ok(match pred {
            Pred::Bool(b) => *b,
            Pred::And(ps) => {
                for p in ps {
                    if !self.holds(p, at, place, row)? {
                        return Ok(false);
                    }
                }
                true
            }
            Pred::Or(ps) => {
                for p in ps {
                    if self.holds(p, at, place, row)? {
                        return Ok(true);
                    }
                }
                false
            }
            Pred::Not(p) => !self.holds(p, at, place, row)?,
            Pred::Exists(twig) => self.any(&twig.nodes, at, row, &mut |_, _| Ok(true))?,
            Pred::NodeIs(test) => at != 0 && test.passes(self.message.names, self.message.nodes.recs[at as usize].sym),
            Pred::Compare { value, ask: Ask::Number(op), slot } => {
                let want = f64::from_bits(row[*slot as usize]);
                self.numbers(value, at, row, *op, want)?
            }
            Pred::Compare { value, ask, slot } => {
                let want = self.message.constants.get(row[*slot as usize] as u32);
                self.strings(value, at, row, &mut |s| ask.holds(s, want))?
            }
            Pred::Position { of, op, n } => position_holds(*of, *op, *n, place),
        })
    }

    fn numbers(&mut self, value: &Value, at: NodeIx, row: Row<'_>, op: Op, want: f64) -> Answer {
        match value {
            Value::Count(twig) => {
                let n = self.collect(twig, at, row)?.len();
                Ok(op.holds(n as f64, want))
            }
            Value::Length { .. } => self.strings(value, at, row, &mut |s| op.holds(length(s) as f64, want)),
            Value::Str { .. } => self.strings(value, at, row, &mut |s| op.holds(number(s), want)),
        }
    }

    /// Does the test hold for any of the strings (or the first)?
    fn strings(&mut self, value: &Value, at: NodeIx, row: Row<'_>, test: &mut dyn FnMut(&[u8]) -> bool) -> Answer {
        let (Value::Str { twig, first, normalize } | Value::Length { twig, first, normalize }) = value else {
            return Ok(false);
        };
        let (first, normalize) = (*first, *normalize);
        let mut check = |me: &mut Self, n: NodeIx| {
            let mut scratch = std::mem::take(&mut me.scratch);
            let value = me.message.nodes.value(me.message.src, n, &mut scratch);
            let ok = if normalize { test(&normalize_space(value)) } else { test(value) };
            me.scratch = scratch;
            ok
        };
        if twig.nodes.is_empty() {
            return Ok(check(self, at));
        }
        if !first {
            return self.any(&twig.nodes, at, row, &mut |me, n| Ok(check(me, n)));
        }
        match self.first(twig, at, row)? {
            Some(n) => Ok(check(self, n)),
            None => Ok(test(b"")),
        }
    }

    /// The first node in document order that the twig finds.
    fn first(&mut self, twig: &Twig, at: NodeIx, row: Row<'_>) -> Result<Option<NodeIx>, GaveUp> {
        let mut least = None;
        // child steps alone are searched in document order
        let ordered = !twig.nodes.iter().any(|n| n.deep);
        self.any(&twig.nodes, at, row, &mut |_, n| {
            least = Some(least.map_or(n, |m: NodeIx| m.min(n)));
            Ok(ordered)
        })?;
        Ok(least)
    }

    /// Calls `f` for the nodes that a twig without slots finds, some perhaps several times.
    pub fn each(&mut self, twig: &Twig, at: NodeIx, mut f: impl FnMut(NodeIx)) -> Result<(), GaveUp> {
        if let [Node { test, deep: false, filters, positional: false }] = &twig.nodes[..] {
            if filters.is_empty() {
                // children by name: by far the commonest
                for n in self.message.nodes.children(at) {
                    self.fuel = self.fuel.checked_sub(1).ok_or(GaveUp)?;
                    if test.passes(self.message.names, self.message.nodes.recs[n as usize].sym) {
                        f(n);
                    }
                }
                return Ok(());
            }
        }
        self.any(&twig.nodes, at, &[], &mut |_, n| {
            f(n);
            Ok(false)
        })?;
        Ok(())
    }

    /// All nodes that the twig finds, in document order.
    pub fn collect(&mut self, twig: &Twig, at: NodeIx, row: Row<'_>) -> Result<Vec<NodeIx>, GaveUp> {
        let mut found = vec![];
        self.any(&twig.nodes, at, row, &mut |_, n| {
            found.push(n);
            Ok(false)
        })?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Calls `visit` for nodes that the trunk finds below `at` (some perhaps several times) until it says true.
    fn any(
        &mut self,
        trunk: &[Node],
        at: NodeIx,
        row: Row<'_>,
        visit: &mut dyn FnMut(&mut Self, NodeIx) -> Answer,
    ) -> Answer {
        let Some((node, rest)) = trunk.split_first() else {
            return visit(self, at);
        };
        if at == 0 && !rest.is_empty() {
            if let Some((pivot, sym)) = self.pivot(trunk) {
                return self.any_around(trunk, pivot, sym, row, visit);
            }
        }
        if node.positional {
            return self.any_counted(node, rest, at, row, visit);
        }
        let nodes = self.message.nodes;
        let end = nodes.recs[at as usize].end;
        if node.deep {
            if let Test::Exactly(sym) = node.test {
                // only the nodes of that name
                for n in nodes.of(sym).take_while(|&n| n < end) {
                    self.fuel = self.fuel.checked_sub(1).ok_or(GaveUp)?;
                    if n > at && self.passes_filters(node, n, row)? && self.any(rest, n, row, visit)? {
                        return Ok(true);
                    }
                }
                return Ok(false);
            }
        }
        let attributes = node.test.is_attribute();
        for n in nodes.below(at, node.deep) {
            self.fuel = self.fuel.checked_sub(1).ok_or(GaveUp)?;
            let sym = nodes.recs[n as usize].sym;
            if node.test.passes(self.message.names, sym)
                && self.passes_filters(node, n, row)?
                && self.any(rest, n, row, visit)?
            {
                return Ok(true);
            }
            // attributes come right after their element's start, before its content
            if attributes && !node.deep && !is_attribute(sym) {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// The step of a trunk below the document whose name the fewest nodes have. Everything up to it can be checked from
    /// there upwards, unless positions count.
    fn pivot(&self, trunk: &[Node]) -> Option<(usize, Sym)> {
        let upward = trunk.iter().position(|n| n.positional).unwrap_or(trunk.len());
        let named = trunk[..upward].iter().enumerate().filter_map(|(i, n)| match n.test {
            Test::Exactly(sym) => Some((i, sym)),
            _ => None,
        });
        named.min_by_key(|&(_, sym)| self.message.nodes.count_of(sym))
    }

    fn any_around(
        &mut self,
        trunk: &[Node],
        pivot: usize,
        sym: Sym,
        row: Row<'_>,
        visit: &mut dyn FnMut(&mut Self, NodeIx) -> Answer,
    ) -> Answer {
        let nodes = self.message.nodes;
        let filtered = trunk[..=pivot].iter().any(|n| !n.filters.is_empty());
        for n in nodes.of(sym) {
            if self.above(&trunk[..=pivot], n, None)?
                && (!filtered || self.above(&trunk[..=pivot], n, Some(row))?)
                && self.any(&trunk[pivot + 1..], n, row, visit)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Do a node, which passes the last step's test, and its ancestors fit the steps from the document? Without a row
    /// the filters are left out.
    fn above(&mut self, steps: &[Node], n: NodeIx, row: Option<Row<'_>>) -> Answer {
        self.fuel = self.fuel.checked_sub(1).ok_or(GaveUp)?;
        let Some((node, before)) = steps.split_last() else { return Ok(true) };
        let recs = &self.message.nodes.recs;
        let mut p = recs[n as usize].parent;
        let fits = match before.last() {
            None => node.deep || p == 0,
            Some(prev) => loop {
                if p == 0 {
                    break false;
                }
                if prev.test.passes(self.message.names, recs[p as usize].sym) && self.above(before, p, row)? {
                    break true;
                }
                if !node.deep {
                    break false;
                }
                p = recs[p as usize].parent;
            },
        };
        match row {
            Some(row) if fits => self.passes_filters(node, n, row),
            _ => Ok(fits),
        }
    }

    #[inline]
    fn passes_filters(&mut self, node: &Node, n: NodeIx, row: Row<'_>) -> Answer {
        for f in &node.filters {
            if !self.holds(f, n, (1, 1), row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A step with positional filters: positions count per parent.
    fn any_counted(
        &mut self,
        node: &Node,
        rest: &[Node],
        at: NodeIx,
        row: Row<'_>,
        visit: &mut dyn FnMut(&mut Self, NodeIx) -> Answer,
    ) -> Answer {
        let recs = &self.message.nodes.recs;
        let end = if node.deep { recs[at as usize].end } else { at + 1 };
        let mut parent = at;
        while parent < end {
            self.fuel = self.fuel.checked_sub(1).ok_or(GaveUp)?;
            let subtree = recs[parent as usize].end;
            if subtree > parent + 1 {
                let mut list = children(&self.message, parent, node);
                self.fuel = self.fuel.checked_sub(list.len() as u32).ok_or(GaveUp)?;
                for f in &node.filters {
                    let last = list.len() as u32;
                    let mut kept = vec![];
                    for (i, &n) in list.iter().enumerate() {
                        if self.holds(f, n, (i as u32 + 1, last), row)? {
                            kept.push(n);
                        }
                    }
                    list = kept;
                }
                for n in list {
                    if self.any(rest, n, row, visit)? {
                        return Ok(true);
                    }
                }
            }
            parent += 1;
        }
        Ok(false)
    }
}

/// Children (or attributes) of a node that pass the step's test.
fn children(message: &Message<'_>, parent: NodeIx, node: &Node) -> Vec<NodeIx> {
    let passes = |n: &NodeIx| node.test.passes(message.names, message.nodes.recs[*n as usize].sym);
    message.nodes.children(parent).filter(passes).collect()
}

pub fn position_holds(of: Counted, op: Op, n: f64, (position, last): Place) -> bool {
    let x = match of {
        Counted::Position => position,
        Counted::Last => last,
        Counted::FromEnd => last - position,
    };
    op.holds(x as f64, n)
}
