//! One path against one tag path. Used where a single path meets a known tag path: paths added to a warm trie, and
//! elements the trie did not admit.

use super::Step;
use crate::names::{Names, Sym};
use std::collections::BTreeSet;

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

/// Where the chosen steps of the path can lie on the tag path that it selects: every distinct row of depths, from 1, in
/// the order of `points`, which ascend. `None` if there are more than `max`: a path of many `//` on a tag path that
/// repeats a name has more than anyone can use.
pub fn positions(
    names: &Names,
    path: &[Step],
    tags: &[Sym],
    points: &[u32],
    max: usize,
) -> Option<BTreeSet<Box<[u32]>>> {
    let (steps, depth) = (path.len(), tags.len());
    if steps == 0 || steps > depth {
        return Some(BTreeSet::new());
    }
    // fits[i][j]: step i can lie at depth j, and the steps after it below, the last one at the end
    let mut fits = vec![vec![false; depth]; steps];
    for i in (0..steps).rev() {
        let mut later = false; // the next step fits somewhere below j
        for j in (i..depth).rev() {
            let rest = match path.get(i + 1) {
                None => j + 1 == depth,
                Some(next) if next.descendant() => later,
                Some(_) => j + 1 < depth && fits[i + 1][j + 1],
            };
            fits[i][j] = rest && names.satisfies(tags[j], path[i].test());
            later |= i + 1 < steps && fits[i + 1][j];
        }
    }
    let mut states: BTreeSet<(Vec<u32>, usize)> = BTreeSet::from([(vec![], 0)]);
    for (i, step) in path.iter().enumerate() {
        let mut next = BTreeSet::new();
        for (row, from) in states {
            let to = if step.descendant() { depth } else { (from + 1).min(depth) };
            for (j, _) in fits[i][..to].iter().enumerate().skip(from).filter(|(_, fits)| **fits) {
                let mut row = row.clone();
                if points.contains(&(i as u32)) {
                    row.push(j as u32 + 1);
                }
                next.insert((row, j + 1));
                if next.len() > max {
                    return None;
                }
            }
        }
        states = next;
    }
    Some(states.into_iter().map(|(row, _)| row.into_boxed_slice()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_all_alignments() {
        let mut names = Names::new();
        let [a, b, x] = [b"a", b"b", b"x"].map(|n| names.intern(false, b"", Some(n)));
        let path = [Step::new(false, a), Step::new(true, b), Step::new(true, x)];
        let found = |tags: &[Sym], points: &[u32]| {
            let rows = positions(&names, &path, tags, points, 100).unwrap();
            rows.into_iter().map(|row| row.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(found(&[a, b, b, x], &[1, 2]), [[2, 4], [3, 4]]);
        assert_eq!(found(&[a, b, x, x], &[2]), [[4]]);
        assert_eq!(found(&[a, b, x, x], &[]), [[0u32; 0]]);
        assert!(found(&[a, x, b], &[1]).is_empty() && found(&[b, b, x], &[1]).is_empty());
        assert!(positions(&names, &path, &[a, b, b, x], &[1, 2], 1).is_none());
    }

    #[test]
    fn positions_exist_where_the_path_accepts() {
        let mut names = Names::new();
        let [a, b] = [b"a", b"b"].map(|n| names.intern(false, b"", Some(n)));
        let steps: Vec<Step> = [a, b].iter().flat_map(|&t| [Step::new(false, t), Step::new(true, t)]).collect();
        for path in 0..4usize.pow(3) {
            let path: Vec<Step> = (0..3).map(|i| steps[path / 4usize.pow(i) % 4]).collect();
            for tags in 0..2usize.pow(5) {
                let tags: Vec<Sym> = (0..5).map(|i| if tags >> i & 1 == 1 { a } else { b }).collect();
                let found = positions(&names, &path, &tags, &[0, 1, 2], 100).unwrap();
                assert_eq!(accepts(&names, &path, &tags), !found.is_empty());
                for row in found {
                    assert!(row.windows(2).all(|w| w[0] < w[1]) && row[2] == 5);
                    assert!(row.iter().zip(&path).all(|(&p, s)| tags[p as usize - 1] == s.test()));
                }
            }
        }
    }
}
