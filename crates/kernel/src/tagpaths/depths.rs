//! Sets of depths: which of a node's ancestors are meant, itself included. The document has depth 0.

/// A set of depths. Few messages are deeper than 63, so that one word is all that most sets take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Depths {
    Word(u64),
    Words(Box<[u64]>),
}

impl Depths {
    /// Returns the set of one depth. It has room for all that are less.
    pub(crate) fn only(depth: usize) -> Depths {
        if depth < 64 {
            return Depths::Word(1 << depth);
        }
        let mut words = vec![0; depth / 64 + 1].into_boxed_slice();
        words[depth / 64] = 1 << (depth % 64);
        Depths::Words(words)
    }

    fn words(&self) -> &[u64] {
        match self {
            Depths::Word(word) => std::slice::from_ref(word),
            Depths::Words(words) => words,
        }
    }

    fn words_mut(&mut self) -> &mut [u64] {
        match self {
            Depths::Word(word) => std::slice::from_mut(word),
            Depths::Words(words) => words,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words().iter().all(|&word| word == 0)
    }

    /// Returns whether the document is among them.
    pub(crate) fn has_document(&self) -> bool {
        self.words()[0] & 1 != 0
    }

    /// Returns the words that are not empty, each with the depth that its lowest bit stands for.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (0..).step_by(64).zip(self.words().iter().copied()).filter(|part| part.1 != 0)
    }

    /// Keeps the depths for which `keep` is true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        for (i, word) in self.words_mut().iter_mut().enumerate() {
            for bit in bits(*word) {
                if !keep(64 * i + bit as usize) {
                    *word &= !(1 << bit);
                }
            }
        }
    }

    /// Replaces each depth by that of the parent.
    pub(crate) fn move_to_parents(&mut self) {
        let mut carry = 0;
        for word in self.words_mut().iter_mut().rev() {
            let lowest = *word & 1;
            *word = *word >> 1 | carry << 63;
            carry = lowest;
        }
    }

    /// Replaces the set by all depths that are less than its greatest.
    pub(crate) fn move_to_ancestors(&mut self) {
        let words = self.words_mut();
        let Some(last) = words.iter().rposition(|&word| word != 0) else { return };
        words[last] = (1 << words[last].ilog2()) - 1;
        words[..last].fill(u64::MAX);
    }
}

/// Returns the bits that are set, lowest first.
#[inline]
pub(crate) fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(depths: &Depths) -> Vec<u32> {
        depths.parts().flat_map(|(base, word)| bits(word).map(move |bit| base + bit)).collect()
    }

    #[test]
    fn words_are_one_set() {
        for depth in [0, 1, 63, 64, 65, 127, 128, 1000] {
            let mut depths = Depths::only(depth);
            assert_eq!(all(&depths), [depth as u32]);
            depths.move_to_parents();
            assert_eq!(all(&depths), depth.checked_sub(1).map(|d| d as u32).into_iter().collect::<Vec<_>>());
            let mut depths = Depths::only(depth);
            depths.move_to_ancestors();
            assert_eq!(all(&depths), (0..depth as u32).collect::<Vec<_>>());
            depths.retain(|d| d % 3 == 1);
            assert_eq!(all(&depths), (0..depth as u32).filter(|d| d % 3 == 1).collect::<Vec<_>>());
            assert_eq!(depths.is_empty(), depth < 2);
            assert!(!depths.has_document());
            depths.move_to_parents();
            assert_eq!(depths.has_document(), depth > 1);
        }
    }
}
