//! All ways in which a linear path leads to a node: the path-tuples that the plans of the broker paper join.

use twigcast_kernel::internals::{LinearPath, Names, Sym};

/// Calls `f` with the depths of the steps for every way in which the path leads from the document to the last node of a
/// tag path, inner matches first; false if there are more than `most`.
pub fn alignments(path: &LinearPath, tags: &[Sym], names: &Names, most: usize, f: &mut dyn FnMut(&[u32])) -> bool {
    if !path.selects(tags, names) {
        return true;
    }
    let depths = vec![0; path.len()];
    Search { path, tags, names, depths, left: most }.align(path.len(), tags.len(), f)
}

struct Search<'a> {
    path: &'a LinearPath,
    tags: &'a [Sym],
    names: &'a Names,
    depths: Vec<u32>,
    left: usize,
}

impl Search<'_> {
    /// The first `steps` steps, the last of them above depth `below`.
    fn align(&mut self, steps: usize, below: usize, f: &mut dyn FnMut(&[u32])) -> bool {
        // how far up the step may lie depends on the one after it; the last one is where the tag path ends
        let all = self.path.steps();
        let deep = steps < all.len() && all[steps].1;
        let (test, from_document) = (all[steps - 1].0, !all[steps - 1].1);
        let least = if deep { steps } else { below - 1 };
        for d in (least..below).rev() {
            if d < steps || !test.passes(self.names, self.tags[d]) || steps == 1 && from_document && d != 1 {
                continue;
            }
            self.depths[steps - 1] = d as u32;
            // ways that the steps above do not go on count too: they are what a hostile message multiplies
            let Some(fewer) = self.left.checked_sub(1) else { return false };
            self.left = fewer;
            if steps == 1 {
                f(&self.depths);
            } else if !self.align(steps - 1, d, f) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twigcast_kernel::internals::{Node, Test, Twig};

    #[test]
    fn alignments_are_all_ways_inner_ones_first() {
        let mut names = Names::default();
        let (a, b) = (names.intern(false, b"", Some(b"a")), names.intern(false, b"", Some(b"b")));
        let tags = [Sym::MAX, a, b, a, a]; // the document has no name
        let ways = |steps: &[(Sym, bool)], most| {
            let node = |&(sym, deep): &(Sym, bool)| Node {
                test: Test::Exactly(sym),
                deep,
                filters: vec![],
                positional: false,
            };
            let path = LinearPath::without_filters(&Twig { nodes: steps.iter().map(node).collect() });
            let mut found = vec![];
            alignments(&path, &tags, &names, most, &mut |depths| found.push(depths.to_vec())).then_some(found)
        };
        let all = |steps: &[(Sym, bool)]| ways(steps, 100).unwrap();
        assert_eq!(all(&[(a, true)]), [[4]]);
        assert_eq!(all(&[(a, true), (a, true)]), [[3, 4], [1, 4]]);
        assert_eq!(all(&[(a, false), (a, true)]), [[1, 4]]);
        assert_eq!(all(&[(a, true), (a, false)]), [[3, 4]]);
        assert_eq!(all(&[(a, true), (a, true), (a, true)]), [[1, 3, 4]]);
        assert!(all(&[(b, true)]).is_empty());
        assert!(all(&[(a, true), (b, false), (a, false)]).is_empty());
        assert_eq!(ways(&[(a, true), (a, true)], 2), None);
    }
}
