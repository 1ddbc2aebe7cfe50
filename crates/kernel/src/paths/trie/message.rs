//! One message: where in the trie its current node is, what it has visited, and what that delivers.

use super::{flag, NodeId, Run, Trie, BYPASS, DEAD};
use crate::bits::fetch;
use crate::names::Sym;
use crate::paths::index::PathIndex;
use crate::paths::{PathMatcher, NONE};
use crate::sorted::Sorter;

impl PathMatcher for Trie {
    fn sync(&mut self, index: &PathIndex) {
        self.follow(index);
    }

    fn begin(&mut self, _index: &PathIndex) {
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

    #[inline(always)]
    fn is_dead(&self) -> bool {
        self.run.cur == DEAD
    }

    #[inline(always)]
    fn open(&mut self, index: &PathIndex, sym: Sym) {
        let cur = self.run.cur;
        self.run.stack.push(cur);
        let next = self.tab.get(cur, sym);
        self.run.cur = if next != NONE { next } else { self.miss(index, cur, sym) };
        self.visit(self.run.cur);
    }

    #[inline(always)]
    fn open_dead(&mut self) {
        self.run.stack.push(DEAD);
    }

    #[inline(always)]
    fn close(&mut self) {
        if self.run.cur == BYPASS {
            self.run.bypass.close();
        }
        self.run.cur = self.run.stack.pop().unwrap_or(0);
    }

    #[inline(always)]
    fn wants_attributes(&self) -> bool {
        self.wants(flag::ATTRIBUTES)
    }

    #[inline(always)]
    fn wants_leaves(&self) -> bool {
        self.wants(flag::LEAVES)
    }

    #[inline(always)]
    fn wants_values(&self) -> bool {
        self.wants(flag::VALUES)
    }

    #[inline(always)]
    fn leaf(&mut self, index: &PathIndex, sym: Sym) {
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

    #[inline(always)]
    fn value(&mut self, index: &PathIndex, sym: Sym) {
        let cur = self.run.cur;
        if cur == BYPASS {
            return self.leaf(index, sym);
        }
        self.tab.expect(cur, sym);
        self.run.values.push((cur, sym));
    }

    fn catch_up(&mut self, index: &PathIndex) {
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

    fn deliver(&mut self, index: &PathIndex, out: &mut Vec<u32>) {
        self.collect(index);
        self.run.runs.drain(&self.laminar, out);
    }

    fn deliver_sorted(&mut self, index: &PathIndex, sorter: &mut Sorter, out: &mut Vec<u32>) {
        self.collect(index);
        self.run.runs.drain_sorted(&self.laminar, index.sub_bound(), sorter, out);
    }

    fn mark(&mut self) {
        self.run.runs.mark();
    }

    #[inline(always)]
    fn has(&self, sub: u32) -> bool {
        let position = self.laminar.position(sub);
        position != NONE && self.run.runs.has(position)
    }

    #[inline(always)]
    fn expect(&self, sub: u32) {
        self.laminar.expect(sub);
    }

    fn is_overworked(&self, index: &PathIndex) -> bool {
        self.delta_work > 256 * (index.len() + 16 * self.len()) && !index.delta_is_empty()
    }

    fn cache(&self) -> (usize, usize) {
        (self.len(), self.bytes())
    }
}

impl Trie {
    #[inline(always)]
    fn wants(&self, flag: u16) -> bool {
        match self.hot.get(self.run.cur as usize) {
            Some(h) => (h.flags | self.common) & flag != 0,
            None => true,
        }
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
