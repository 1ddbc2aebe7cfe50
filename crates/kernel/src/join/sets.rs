//! The sets of blocks that stored messages match, numbered, and which of them have a block.

use super::{BlockIx, SetIx};
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// Sets of more blocks are not found by block: a message may match very many.
const MOST_BLOCKS: usize = 8;
/// Sets that no message has any more are forgotten when there are so many, and as many as of the others.
const MOST_UNUSED: usize = 1024;

#[derive(Default)]
pub(crate) struct Sets {
    items: Vec<(Arc<[BlockIx]>, u32)>,
    free: Vec<SetIx>,
    ids: HashMap<Arc<[BlockIx]>, SetIx>,
    of_block: HashMap<BlockIx, HashSet<SetIx>>,
    large: HashSet<SetIx>,
    unused: usize,
}

impl Sets {
    /// Returns the number of a set of blocks, ascending, with one more user.
    pub(crate) fn acquire(&mut self, blocks: &[BlockIx]) -> SetIx {
        if let Some(&id) = self.ids.get(blocks) {
            let users = &mut self.items[id as usize].1;
            self.unused -= (*users == 0) as usize;
            *users += 1;
            return id;
        }
        if self.unused >= MOST_UNUSED && 2 * self.unused >= self.ids.len() {
            self.sweep();
        }
        let set: Arc<[BlockIx]> = blocks.into();
        let id = self.free.pop().unwrap_or(self.items.len() as SetIx);
        if id as usize == self.items.len() {
            self.items.push((set.clone(), 1));
        } else {
            self.items[id as usize] = (set.clone(), 1);
        }
        self.ids.insert(set, id);
        if blocks.len() > MOST_BLOCKS {
            self.large.insert(id);
        } else {
            blocks.iter().for_each(|&block| _ = self.of_block.entry(block).or_default().insert(id));
        }
        id
    }

    pub(crate) fn release(&mut self, id: SetIx) {
        let users = &mut self.items[id as usize].1;
        *users -= 1;
        self.unused += (*users == 0) as usize;
    }

    fn sweep(&mut self) {
        let Sets { items, free, of_block, large, .. } = self;
        self.ids.retain(|blocks, &mut id| {
            let is_used = items[id as usize].1 > 0;
            if !is_used {
                items[id as usize].0 = Arc::default();
                free.push(id);
                large.remove(&id);
                for block in blocks.iter() {
                    if let Some(sets) = of_block.get_mut(block) {
                        sets.remove(&id);
                        if sets.is_empty() {
                            of_block.remove(block);
                        }
                    }
                }
            }
            is_used
        });
        self.unused = 0;
    }

    #[inline]
    pub(crate) fn get(&self, id: SetIx) -> &Arc<[BlockIx]> {
        &self.items[id as usize].0
    }

    /// Returns the sets that may have one of these blocks, some more than once; None if they are more than `most`.
    pub(crate) fn with_any(&self, blocks: impl Iterator<Item = BlockIx>, most: usize) -> Option<Vec<SetIx>> {
        let mut found: Vec<SetIx> = vec![];
        for sets in blocks.filter_map(|block| self.of_block.get(&block)).chain([&self.large]) {
            if found.len() + sets.len() > most {
                return None;
            }
            found.extend(sets);
        }
        Some(found)
    }
}
