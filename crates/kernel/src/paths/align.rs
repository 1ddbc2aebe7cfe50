//! One path against one tag path. Used where a single path meets a known tag path: paths added to a warm trie, and
//! elements the trie did not admit.

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

/// Does some prefix of the tag path end the path? The steps between two `//` lie next to each other; taking the first
/// place where they fit is never worse than a later one, so there is nothing to go back for.
fn reaches(names: &Names, mut path: &[Step], mut tags: &[Sym]) -> bool {
    while let Some(first) = path.first() {
        let len = 1 + path[1..].iter().take_while(|s| !s.descendant()).count();
        let (run, rest) = path.split_at(len);
        while tags.len() < len || !run.iter().zip(tags).all(|(s, &t)| names.satisfies(t, s.test())) {
            if tags.len() <= len || !first.descendant() {
                return false;
            }
            tags = &tags[1..];
        }
        (path, tags) = (rest, &tags[len..]);
    }
    true
}
