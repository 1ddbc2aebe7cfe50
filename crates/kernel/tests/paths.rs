//! The trie against brute force, over random trees and random sets of paths that change between messages.

mod trees;

use proptest::prelude::*;
use trees::{element, op, run, steps, World};
use twigcast_kernel::internals::{PathIndex, PathMatcher, Trie};

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn the_trie_agrees_with_the_definition(ops in prop::collection::vec(op(), 1..40), delta in 0usize..6) {
        let mut w = World::new(delta);
        let mut tries = vec![Trie::new(&w.index, 1 << 20), Trie::new(&w.index, 12000), Trie::new(&w.index, 0)];
        for op in ops {
            let Some((doc, times, want)) = w.apply(op) else { continue };
            for _ in 0..times {
                for trie in &mut tries {
                    prop_assert_eq!(&run(trie, &w.index, &doc), &want);
                }
            }
        }
        w.remove_all();
        prop_assert!(w.index.is_empty());
    }
}

/// A hundred thousand levels are a handful of nodes, and an endless supply of tag paths stays within the bound.
#[test]
fn hostile_structure_stays_bounded() {
    let mut index = PathIndex::with_delta(0);
    for (i, q) in [vec![(true, 0), (true, 1)], vec![(false, 0), (false, 0), (true, 2)]].iter().enumerate() {
        let st = steps(&mut index.names, q);
        index.add(i as u32, &st);
    }
    index.settle();
    let mut trie = Trie::new(&index, 1 << 16);
    trie.begin(&index);
    for i in 0..100_000 {
        trie.open(&index, element(&index.names, i % 3));
    }
    for _ in 0..100_000 {
        trie.close();
    }
    let mut out = vec![];
    trie.deliver(&index, &mut out);
    out.sort_unstable();
    assert_eq!(out, [0]);
    assert!(trie.cache().0 < 100, "{} nodes", trie.cache().0);

    let mut x = 1u64;
    for message in 0..300 {
        trie.sync(&index);
        trie.begin(&index);
        for _ in 0..100 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            trie.open(&index, element(&index.names, (x >> 33) as u32 % 7));
        }
        for _ in 0..100 {
            trie.close();
        }
        out.clear();
        trie.deliver(&index, &mut out);
        assert!(trie.bytes() < (1 << 16) + 4096, "message {message}: {} bytes", trie.bytes());
    }
}
