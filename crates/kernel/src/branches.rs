//! BrPred (relational §3.5.2): do the branches of a subscription meet in the same nodes at their branch points?
//!
//! Each branch gives a relation: its branch points are the columns, top first, and a row says which nodes they can be.
//! The predicate holds if the natural join of all of them is not empty. Branch points form a tree, and a branch passes
//! through every one above its last; so relations with the same last point have the same columns. From the deepest
//! points up, these are intersected and the last column is dropped: no step makes more rows than it was given.

use std::collections::{BTreeMap, HashSet};

type Row = Box<[i32]>;

/// One row of the relation of a branch: a number for the branch, its points and the nodes they are.
pub struct Binding<'a> {
    pub branch: i32,
    pub points: &'a [i32],
    pub nodes: &'a [i32],
}

/// Every branch has at least one row here; one that has none is for the caller to know of.
pub fn meet<'a>(bindings: impl IntoIterator<Item = Binding<'a>>) -> bool {
    // by columns: the relation of each branch
    let mut by_points: BTreeMap<(usize, Row), BTreeMap<i64, HashSet<Row>>> = BTreeMap::new();
    for b in bindings {
        let relation = by_points.entry((b.points.len(), b.points.into())).or_default();
        relation.entry(b.branch.into()).or_default().insert(b.nodes.into());
    }
    let mut dropped = i64::from(i32::MAX);
    while let Some(((len, points), relations)) = by_points.pop_last() {
        let mut all = relations.into_values();
        let mut joint = all.next().unwrap_or_default();
        for relation in all {
            joint.retain(|row| relation.contains(row));
        }
        if joint.is_empty() {
            return false;
        }
        if len > 1 {
            let shorter = joint.into_iter().map(|row| row[..row.len().saturating_sub(1)].into()).collect();
            dropped += 1;
            by_points.entry((len - 1, points[..len - 1].into())).or_default().insert(dropped, shorter);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(rows: &[(i32, &[i32], &[i32])]) -> bool {
        meet(rows.iter().map(|&(branch, points, nodes)| Binding { branch, points, nodes }))
    }

    #[test]
    fn the_papers_example() {
        let (one, two) = (&[1][..], &[1, 2][..]);
        let first: [(i32, &[i32], &[i32]); 4] =
            [(0, one, &[2]), (1, one, &[2]), (2, two, &[2, 10]), (3, two, &[2, 10])];
        assert!(holds(&first));
        let second: [(i32, &[i32], &[i32]); 5] =
            [(0, one, &[2]), (1, one, &[2]), (2, two, &[16, 18]), (2, two, &[17, 18]), (3, two, &[2, 10])];
        assert!(!holds(&second));
        assert!(holds(&[]));
    }

    #[test]
    fn sibling_points_meet_above() {
        // two points below the first one, in different nodes of it
        let rows: [(i32, &[i32], &[i32]); 4] =
            [(0, &[1, 2], &[1, 5]), (1, &[1, 2], &[1, 5]), (2, &[1, 3], &[9, 7]), (3, &[1, 3], &[9, 7])];
        assert!(!holds(&rows));
        let mut rows = rows.to_vec();
        rows.extend([(2, &[1, 3][..], &[1, 8][..]), (3, &[1, 3][..], &[1, 8][..])]);
        assert!(holds(&rows));
    }
}
