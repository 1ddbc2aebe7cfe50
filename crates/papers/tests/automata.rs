//! The automata against brute force, over random trees and random sets of paths that change between messages.

#[path = "../../kernel/tests/trees/mod.rs"]
#[allow(dead_code)] // the trie's test uses more of it
mod trees;

use proptest::prelude::*;
use trees::{op, run, World};
use twigcast_kernel::internals::PathMatcher;
use twigcast_papers::automata::{fsm, nfa, Following};

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn automata_agree_with_the_definition(ops in prop::collection::vec(op(), 1..40), delta in 0usize..6) {
        let mut w = World::new(delta);
        let (mut nfa, mut fsms) = (Following::<nfa::Automaton>::default(), Following::<fsm::Automaton>::default());
        for op in ops {
            let Some((doc, _, want)) = w.apply(op) else { continue };
            prop_assert_eq!(&run(&mut nfa, &w.index, &doc), &want);
            prop_assert_eq!(&run(&mut fsms, &w.index, &doc), &want);
        }
        w.remove_all();
        nfa.sync(&w.index);
        prop_assert!(nfa.automaton().is_empty(), "the automaton keeps states of no path");
    }
}
