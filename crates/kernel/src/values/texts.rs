//! Which of many strings does a text contain, or begin with?

use super::constants::{Constants, StrId};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

pub enum Texts {
    /// One pass over the text finds all of them.
    Contained { searcher: AhoCorasick, ids: Box<[StrId]>, empty: Option<StrId> },
    /// The prefixes of these lengths are looked up among all constants.
    Prefixes { lengths: Box<[u32]> },
}

impl Texts {
    /// None if the strings are too many or too long.
    pub fn contained(ids: impl Iterator<Item = StrId>, constants: &Constants) -> Option<Texts> {
        let (some, none): (Vec<StrId>, Vec<StrId>) = ids.partition(|&id| !constants.get(id).is_empty());
        let searcher = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            // a table of all moves would take kilobytes per letter of all strings
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(some.iter().map(|&id| constants.get(id)))
            .ok()?;
        Some(Texts::Contained { searcher, ids: some.into(), empty: none.first().copied() })
    }

    pub fn prefixes(ids: impl Iterator<Item = StrId>, constants: &Constants) -> Texts {
        let mut lengths: Vec<u32> = ids.map(|id| constants.get(id).len() as u32).collect();
        lengths.sort_unstable();
        lengths.dedup();
        Texts::Prefixes { lengths: lengths.into() }
    }

    /// Appends the strings, some perhaps several times, and perhaps others that the text has too.
    pub fn find(&self, text: &[u8], constants: &Constants, out: &mut Vec<StrId>) {
        match self {
            Texts::Contained { searcher, ids, empty } => {
                out.extend(empty);
                let mut most = out.len() + 2 * ids.len() + 1024;
                for found in searcher.find_overlapping_iter(text) {
                    out.push(ids[found.pattern().as_usize()]);
                    if out.len() > most {
                        out.sort_unstable();
                        out.dedup();
                        most = out.len() + 2 * ids.len() + 1024;
                    }
                }
            }
            Texts::Prefixes { lengths } => {
                let fitting = lengths.iter().map(|&n| n as usize).take_while(|&n| n <= text.len());
                out.extend(fitting.filter_map(|n| constants.find(&text[..n])));
            }
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Texts::Contained { searcher, ids, .. } => searcher.memory_usage() + 4 * ids.len(),
            Texts::Prefixes { lengths } => 4 * lengths.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_there() {
        let mut constants = Constants::default();
        let words = ["", "a", "ab", "abc", "bc", "c", "aa", "aaa", "zz", "abcabc"];
        let ids: Vec<StrId> = words.iter().map(|w| constants.intern(w.as_bytes())).collect();
        let contained = Texts::contained(ids.iter().copied(), &constants).unwrap();
        let prefixes = Texts::prefixes(ids.iter().copied(), &constants);
        for text in ["", "a", "abc", "xabcabcx", "aaaaaaaa", "zzz", "b"] {
            for (texts, holds) in
                [(&contained, (|t, w| t.contains(w)) as fn(&str, &str) -> bool), (&prefixes, |t, w| t.starts_with(w))]
            {
                let mut found = vec![];
                texts.find(text.as_bytes(), &constants, &mut found);
                found.sort_unstable();
                found.dedup();
                let want: Vec<StrId> =
                    words.iter().zip(&ids).filter(|(w, _)| holds(text, w)).map(|(_, &id)| id).collect();
                assert_eq!(found, want, "{text}");
            }
        }
    }
}
