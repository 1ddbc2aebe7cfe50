//! One path against one tag path, bit-parallel: bit `d` of a mask says that a step can lie at depth `d`
//! (KERNEL.md §2.6). Used where a single path meets a known tag path: paths added to a warm trie, and elements
//! the trie did not admit.

use super::Step;
use crate::names::{Names, Sym};

/// Does the path select the node whose tags, root first, are `tags`?
pub fn accepts(names: &Names, path: &[Step], tags: &[Sym]) -> bool {
    if path.len() > tags.len() {
        return false;
    }
    // Steps at the end that are tied by `/` have one place only; most candidates fail here.
    let mut depth = tags.len();
    for (i, step) in path.iter().enumerate().rev() {
        if depth == 0 || !names.satisfies(tags[depth - 1], step.test()) {
            return false;
        }
        depth -= 1;
        if step.descendant() {
            return reaches(names, &path[..i], &tags[..depth]);
        }
    }
    depth == 0
}

/// Does some prefix of the tag path (the whole of it, or the root's parent included) end the path?
fn reaches(names: &Names, path: &[Step], tags: &[Sym]) -> bool {
    if path.is_empty() {
        return true;
    }
    if tags.len() > 62 {
        return reaches_deep(names, path, tags);
    }
    let all = (2u64 << tags.len()) - 1;
    let mut at = 1u64; // depth 0: the document node
    for step in path {
        let mut here = 0u64;
        for (d, &tag) in tags.iter().enumerate() {
            here |= (names.satisfies(tag, step.test()) as u64) << (d + 1);
        }
        let from = if step.descendant() { (at & at.wrapping_neg()).wrapping_neg() << 1 } else { at << 1 };
        at = from & here & all;
        if at == 0 {
            return false;
        }
    }
    true
}

/// The same with no bound on depth.
fn reaches_deep(names: &Names, path: &[Step], tags: &[Sym]) -> bool {
    let mut at = vec![false; tags.len() + 1];
    at[0] = true;
    for step in path {
        let mut next = vec![false; tags.len() + 1];
        let mut above = false;
        for d in 1..=tags.len() {
            above |= at[d - 1];
            let from = if step.descendant() { above } else { at[d - 1] };
            next[d] = from && names.satisfies(tags[d - 1], step.test());
        }
        at = next;
    }
    at.contains(&true)
}
