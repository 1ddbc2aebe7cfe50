//! One message: where in the trie its current node is, what it has visited, and what that delivers.

use super::{flag, NodeId, Run, Trie, BYPASS, DEAD};
use crate::bits::fetch;
use crate::names::Sym;
use crate::paths::index::PathIndex;
use crate::paths::NONE;
use crate::sorted::Sorter;

impl Trie {
    pub fn begin(&mut self) {
        let run = &mut self.run;
        if run.message == u32::MAX {
            run.message = 0;
            self.hot.iter_mut().for_each(|h| h.stamp = 0);
            run.path_stamp.fill(0);
        }
        run.message += 1;
        run.cur = 0;
        run.stack.clear();
        run.visited.clear();
        run.values.clear();
        run.late.clear();
        run.bypass.clear();
    }

    /// True if nothing below the current node can match, so that names need not even be looked up.
    #[inline(always)]
    pub fn is_dead(&self) -> bool {
        self.run.cur == DEAD
    }

    #[inline(always)]
    pub fn open(&mut self, index: &PathIndex, sym: Sym) {
        let cur = self.run.cur;
        self.run.stack.push(cur);
        let next = self.tab.get(cur, sym);
        self.run.cur = if next != NONE { next } else { self.miss(index, cur, sym) };
        self.visit(self.run.cur);
    }

    /// An element below a dead node.
    #[inline(always)]
    pub fn open_dead(&mut self) {
        self.run.stack.push(DEAD);
    }

    #[inline(always)]
    pub fn close(&mut self) {
        if self.run.cur == BYPASS {
            self.run.bypass.close();
        }
        self.run.cur = self.run.stack.pop().unwrap_or(0);
    }

    /// Do attributes of the current element matter?
    #[inline(always)]
    pub fn wants_attributes(&self) -> bool {
        self.wants(flag::ATTRIBUTES)
    }

    /// Do text, comments and PIs in the current element matter?
    #[inline(always)]
    pub fn wants_leaves(&self) -> bool {
        self.wants(flag::LEAVES)
    }

    /// Does the value of the current node matter?
    #[inline(always)]
    pub fn wants_values(&self) -> bool {
        self.wants(flag::VALUES)
    }

    #[inline(always)]
    fn wants(&self, flag: u16) -> bool {
        match self.hot.get(self.run.cur as usize) {
            Some(h) => (h.flags | self.common) & flag != 0,
            None => true,
        }
    }

    /// An attribute or leaf of the current node.
    #[inline(always)]
    pub fn leaf(&mut self, index: &PathIndex, sym: Sym) {
        let cur = self.run.cur;
        let next = self.tab.get(cur, sym);
        if next != NONE {
            self.visit(next);
        } else {
            let n = self.miss(index, cur, sym);
            if n == BYPASS {
                self.run.bypass.close();
            } else {
                self.visit(n);
            }
        }
    }

    /// The value of the current node.
    #[inline(always)]
    pub fn value(&mut self, index: &PathIndex, sym: Sym) {
        let cur = self.run.cur;
        if cur == BYPASS {
            return self.leaf(index, sym);
        }
        self.tab.expect(cur, sym);
        self.run.values.push((cur, sym));
    }

    /// Looks the values up.
    pub fn catch_up(&mut self, index: &PathIndex) {
        let mut values = std::mem::take(&mut self.run.values);
        for (cur, sym) in &mut values {
            let mut n = self.tab.get(*cur, *sym);
            if n == NONE {
                n = self.miss(index, *cur, *sym);
                if n == BYPASS {
                    self.run.bypass.close();
                }
            }
            if let Some(h) = self.hot.get(n as usize) {
                fetch(&h.stamp);
            }
            *cur = n;
        }
        values.drain(..).for_each(|(n, _)| self.visit(n));
        self.run.values = values;
    }

    #[inline(always)]
    fn visit(&mut self, n: NodeId) {
        if let Some(h) = self.hot.get_mut(n as usize) {
            if h.stamp != self.run.message {
                h.stamp = self.run.message;
                if h.flags & flag::ACCEPTS != 0 {
                    self.run.visited.push(n);
                    if let Some(first) = self.intervals.get(h.i0 as usize) {
                        fetch(&first.0);
                    }
                }
            }
        }
    }

    /// Appends the subscriptions that the message satisfies, in no particular order. Ends the message.
    pub fn deliver(&mut self, index: &PathIndex, out: &mut Vec<u32>) {
        self.collect(index);
        self.run.runs.drain(&self.laminar, out);
    }

    /// The same in ascending order.
    pub fn deliver_sorted(&mut self, index: &PathIndex, sorter: &mut Sorter, out: &mut Vec<u32>) {
        self.collect(index);
        self.run.runs.drain_sorted(&self.laminar, index.sub_bound(), sorter, out);
    }

    /// Makes ready for `has`.
    pub fn mark(&mut self) {
        self.run.runs.mark();
    }

    /// Did the message that was delivered last satisfy this subscription?
    #[inline(always)]
    pub fn has(&self, sub: u32) -> bool {
        let position = self.laminar.position(sub);
        position != NONE && self.run.runs.has(position)
    }

    /// `has` will be asked.
    #[inline(always)]
    pub fn expect(&self, sub: u32) {
        self.laminar.expect(sub);
    }

    /// Notes the intervals of what the message satisfies.
    fn collect(&mut self, index: &PathIndex) {
        self.catch_up(index);
        let Run { runs, noted, visited, late, .. } = &mut self.run;
        runs.fit(&self.laminar);
        noted.clear();
        for &n in &*visited {
            let h = &self.hot[n as usize];
            match &self.intervals[h.i0 as usize..h.i1 as usize] {
                [one] => noted.push(*one), // many have one, which is not worth a call
                all => noted.extend_from_slice(all),
            }
            if h.flags & flag::EXTRA != 0 {
                noted.extend_from_slice(&self.extra[&n]);
            }
        }
        for (i, &interval) in noted.iter().enumerate() {
            if let Some(later) = noted.get(i + 16) {
                runs.expect(later.0);
            }
            runs.add(interval);
        }
        for &p in &*late {
            index.subs(p, |sub| {
                let position = self.laminar.position(sub);
                runs.add((position, position + 1));
            });
        }
    }
}
