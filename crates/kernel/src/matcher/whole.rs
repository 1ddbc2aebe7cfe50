//! What is left to do once a message is whole: the buckets that its paths reached, queries, transforms, what correlations
//! see, and the results of all that matched.

use super::{Deliver, FirstText, MessageSink, Seen, Table};
use crate::engine::Engine;
use crate::evaluate::{Budget, Failed, Tree};
use crate::gates::{Behind, Open};
use crate::names::{COMMENT, INSTRUCTION};
use crate::output::results::Asked;
use crate::paths::PathMatcher;
use crate::shapes::search::Message;
use crate::shapes::select::SelectionId;
use crate::shapes::shared::is_large;
use crate::transform::set::Set;
use crate::transform::Evaluator;

impl<P: PathMatcher, const TABLE: bool> MessageSink<'_, P, TABLE> {
    #[inline(always)]
    pub(super) fn finish_table(&mut self, src: &[u8]) {
        let nothing = matches!(self.deliver, Deliver::Nothing);
        if nothing && self.seen.is_none() {
            return self.paths.catch_up(&self.engine.index);
        }
        self.table.nodes.finish();
        if self.text.is_some() {
            self.find_text(src);
        }
        let from = self.out.len();
        let open = self.reach();
        if self.seen.is_some() && open.leads_to(Behind::Blocks) {
            self.see(src);
        }
        if nothing {
            return self.out.truncate(from);
        }
        let Engine { index, store, constants, queries, fuel, .. } = self.engine;
        let paths = &*self.paths;
        let Table { nodes, scratch, value, candidates, transformer, .. } = self.table;
        let check = candidates.any();
        let message = Message { src, nodes, names: &index.names, constants };
        let looks = |set: &&Set| open.leads_to(Behind::Transforms) || set.wanting_empty().next().is_some();
        let transforms = self.transforms.filter(looks);
        let transform = transforms.is_some_and(|set| transformer.look(set, message));
        // without buckets to check, all matches are known by now
        let results = matches!(self.deliver, Deliver::Results(_));
        let selects = results && (check || self.out.len() > from);
        if check || transform || selects || queries.any(&self.out[from..]) {
            nodes.link(index.names.bound());
        }
        let selects_many = selects && is_large(nodes.len(), *fuel);
        if (candidates.ask_values() || selects_many) && !constants.is_empty() {
            nodes.index_values(src, constants, value);
        }
        if check || selects {
            scratch.begin_message();
        }
        if check {
            let message = Message { src, nodes, names: &index.names, constants };
            candidates.check((message, *fuel), |guard| paths.has(guard), |guard| paths.expect(guard), self.out);
            for b in candidates.stored(store, |guard| paths.has(guard)) {
                store.evaluate(b, message, *fuel, scratch, self.out);
            }
            scratch.end_message();
        }
        let asked = queries.any(&self.out[from..]);
        if asked || transforms.is_some_and(|set| !set.residual().is_empty()) {
            let Table { nodes, evaluation, id_attributes, .. } = &mut *self.table;
            queries.begin(&Tree { src, nodes, names: &index.names, id_attributes }, evaluation);
        }
        if asked {
            self.keep_satisfied(src, from);
        }
        if transforms.is_some() || results {
            self.make(src, from, transforms);
        } else if matches!(self.deliver, Deliver::Ascending) {
            self.table.sorter.sort(self.out, from, self.engine.bound());
        }
    }

    /// Finds the subscriptions to mere paths that the message satisfies, and the candidates among the others. Answers whom
    /// its gates lead to.
    #[inline(always)]
    fn reach(&mut self) -> Open {
        let Engine { index, store, .. } = self.engine;
        let Table { items, candidates, changes, .. } = self.table;
        items.clear();
        self.paths.deliver(index, items);
        candidates.begin(self.engine.bound(), self.engine.changed.since(changes));
        self.paths.mark();
        let paths = &*self.paths;
        for (i, &item) in items.iter().enumerate() {
            // what is known of them lies apart, and it is known well ahead which come
            if let Some(&later) = items.get(i + 24) {
                candidates.expect(later);
            }
            if let Some(&soon) = items.get(i + 12) {
                paths.expect(candidates.guard(soon));
            }
            if candidates.reach(store, item, |item| self.engine.item(item), |guard| paths.has(guard)) {
                self.out.push(item);
            }
        }
        let mut open = self.engine.gates.always_open();
        open.open(candidates.open());
        open
    }

    /// Evaluates transforms, and delivers what all that matched selects or makes.
    #[inline(never)]
    fn make(&mut self, src: &[u8], from: usize, transforms: Option<&Set>) {
        let Engine { index, constants, wanted, queries, fuel, .. } = self.engine;
        let Table { nodes, scratch, sorter, collector, transformer, made, evaluation, id_attributes, failed, .. } =
            self.table;
        let message = Message { src, nodes, names: &index.names, constants };
        made.clear();
        let tree = Tree { src, nodes, names: &index.names, id_attributes };
        let budget = Budget::of(self.limits);
        if let Some(set) = transforms {
            let evaluator = Evaluator { queries, tree, budget, scratch: evaluation };
            if matches!(self.deliver, Deliver::Results(_)) {
                transformer.transform(set, message, evaluator, self.limits, made);
                self.out.extend_from_slice(&made.subs);
            } else {
                transformer.match_all(set, message, evaluator, self.out);
            }
            failed.extend_from_slice(transformer.failed());
        }
        if !matches!(self.deliver, Deliver::Matches) {
            sorter.sort(self.out, from, self.engine.bound());
        }
        if let Deliver::Results(results) = &mut self.deliver {
            let transforms = made.sorted();
            let numbers = &self.out[from..];
            let asked = Asked { wanted, message, limits: self.limits, numbers, transforms: &transforms, made };
            let mut select = |selection| match selection {
                SelectionId::Pattern(selection) => wanted.select(selection, message, *fuel, &mut scratch.shared),
                SelectionId::Query(query) => {
                    queries.select(query, tree, budget, evaluation).map_or(vec![], |(_, nodes)| nodes)
                }
            };
            collector.collect(asked, &mut select, results);
        }
    }

    /// Takes those from the matches after the first `from` whose queries the message does not satisfy.
    #[inline(never)]
    fn keep_satisfied(&mut self, src: &[u8], from: usize) {
        let Engine { index, queries, wanted, .. } = self.engine;
        let Table { nodes, evaluation, id_attributes, failed, .. } = self.table;
        let tree = Tree { src, nodes, names: &index.names, id_attributes };
        let budget = Budget::of(self.limits);
        let selects = matches!(self.deliver, Deliver::Results(_));
        let mut kept = from;
        for at in from..self.out.len() {
            let number = self.out[at];
            let holds = match queries.of(number) {
                None => Ok(true),
                Some(query) if selects && wanted.of(number).is_some() => {
                    queries.select(query, tree, budget, evaluation).map(|(holds, _)| holds)
                }
                Some(query) => queries.holds(query, tree, budget, evaluation),
            };
            match holds {
                Ok(true) => {
                    self.out[kept] = number;
                    kept += 1;
                }
                Ok(false) => {}
                Err(why) => failed.push(Failed { number, why }),
            }
        }
        self.out.truncate(kept);
    }

    /// Finds what correlations see of the message.
    #[inline(never)]
    fn see(&mut self, src: &[u8]) {
        let Engine { index, constants, blocks, .. } = self.engine;
        let Table { nodes, blocks: scratch, .. } = self.table;
        if blocks.uses_links() {
            nodes.link(index.names.bound());
        }
        let message = Message { src, nodes, names: &index.names, constants };
        if let Some(Seen { streams, witness }) = &mut self.seen {
            blocks.witness(streams, message, scratch, witness);
        }
    }

    /// Finds the text that is asked for. One that takes too much is as one that is not there.
    #[inline(never)]
    fn find_text(&mut self, src: &[u8]) {
        let Engine { index, texts, .. } = self.engine;
        let Table { nodes, value, texting, id_attributes, .. } = self.table;
        let Some(FirstText { path, value: found }) = &mut self.text else { return };
        nodes.link(index.names.bound());
        let tree = Tree { src, nodes, names: &index.names, id_attributes };
        texts.begin(&tree, texting);
        let first = texts.first(*path, tree, Budget::of(self.limits), texting);
        **found = first.map(|node| match nodes.recs[node as usize].sym {
            COMMENT | INSTRUCTION => vec![], // theirs is no text of the message
            _ => nodes.value(src, node, value).to_vec(),
        });
    }
}
