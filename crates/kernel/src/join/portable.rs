//! Witnesses as bytes, for a process that joins messages which another one has read. Blocks and columns have numbers of
//! their own in each process, so the bytes name them by keys that callers give: equal ones have equal keys everywhere.
//!
//! ```text
//! 0 or 1 (too much) · blocks: keys · cells: (key of the column, node, value) · ends of values · their bytes
//! · bindings: (key of the block, roots, edges: (parent, node)); lists begin with their length, all in 32 or 64 bits
//! ```

use super::witness::{Bindings, Blocks, Cell, Witness};
use super::{BlockIx, ColumnIx, NO_VALUE};
use std::collections::HashMap;

/// The keys of blocks and columns.
#[derive(Default)]
pub(super) struct Keys {
    blocks: Both<BlockIx>,
    columns: Both<ColumnIx>,
}

#[derive(Default)]
struct Both<N> {
    number_of: HashMap<u64, N>,
    key_of: HashMap<N, u64>,
}

impl<N: Copy + Eq + std::hash::Hash> Both<N> {
    fn add(&mut self, number: N, key: u64) {
        self.number_of.insert(key, number);
        self.key_of.insert(number, key);
    }
}

impl Keys {
    pub(super) fn add(&mut self, block: BlockIx, key: u64, columns: impl Iterator<Item = (ColumnIx, u64)>) {
        self.blocks.add(block, key);
        columns.for_each(|(column, key)| self.columns.add(column, key));
    }

    pub(super) fn remove(&mut self, block: BlockIx) {
        if let Some(key) = self.blocks.key_of.remove(&block) {
            self.blocks.number_of.remove(&key);
        }
    }
}

impl Blocks {
    /// Appends a witness as bytes. What has no key is left out.
    pub fn write(&self, witness: &Witness, out: &mut Vec<u8>) {
        let Keys { blocks, columns } = &self.keys;
        let keyed: Vec<u64> = witness.blocks.iter().filter_map(|block| blocks.key_of.get(block).copied()).collect();
        let cells: Vec<(u64, &Cell)> =
            witness.cells.iter().filter_map(|cell| Some((*columns.key_of.get(&cell.column)?, cell))).collect();
        out.push(u8::from(witness.too_much));
        length(out, keyed.len());
        keyed.iter().for_each(|key| out.extend(key.to_le_bytes()));
        length(out, cells.len());
        for (key, cell) in cells {
            out.extend(key.to_le_bytes());
            number(out, cell.node);
            number(out, cell.value);
        }
        let (ends, texts) = witness.values.parts();
        length(out, ends.len());
        ends.iter().for_each(|&end| number(out, end));
        out.extend(texts);
        let bindings: Vec<(u64, &Bindings)> =
            witness.bindings.iter().filter_map(|(block, b)| Some((*blocks.key_of.get(block)?, b))).collect();
        length(out, bindings.len());
        for (key, Bindings { roots, edges }) in bindings {
            out.extend(key.to_le_bytes());
            length(out, roots.len());
            roots.iter().for_each(|&root| number(out, root));
            length(out, edges.len());
            for pairs in edges {
                length(out, pairs.len());
                pairs.iter().for_each(|&(parent, node)| {
                    number(out, parent);
                    number(out, node);
                });
            }
        }
    }

    /// Reads a witness from bytes; blocks and columns that are not known here are left out. Returns false if the message
    /// must be read again, because a value that is compared here is missing or the bytes are damaged.
    pub fn read_witness(&self, bytes: &[u8], witness: &mut Witness) -> bool {
        witness.clear();
        let usable = self.parse(&mut Bytes(bytes), witness).unwrap_or(false);
        witness.blocks.sort_unstable();
        witness.cells.sort_unstable();
        witness.bindings.sort_by_key(|b| b.0);
        usable && witness.bindings.iter().all(|(block, bindings)| self.fits(*block, bindings, &witness.cells))
    }

    fn parse(&self, bytes: &mut Bytes<'_>, witness: &mut Witness) -> Option<bool> {
        let Keys { blocks, columns } = &self.keys;
        let joined = self.joined();
        witness.too_much = bytes.take(1)?[0] != 0;
        for _ in 0..bytes.number()? {
            witness.blocks.extend(blocks.number_of.get(&bytes.key()?));
        }
        let mut usable = true;
        let mut most = 0;
        for _ in 0..bytes.number()? {
            let (key, node, value) = (bytes.key()?, bytes.number()?, bytes.number()?);
            let Some(&column) = columns.number_of.get(&key) else { continue };
            usable &= value != NO_VALUE || !joined(column);
            let value = if joined(column) { value } else { NO_VALUE };
            most = most.max(value.wrapping_add(1)); // none is 0
            witness.cells.push(Cell { column, node, value });
        }
        let mut ends = vec![];
        for _ in 0..bytes.number()? {
            ends.push(bytes.number()?);
        }
        usable &= ends.is_sorted() && most as usize <= ends.len();
        let texts = bytes.take(ends.last().copied().unwrap_or(0) as usize)?;
        witness.values.set(ends, texts);
        for _ in 0..bytes.number()? {
            let key = bytes.key()?;
            let mut bindings = Bindings::default();
            for _ in 0..bytes.number()? {
                bindings.roots.push(bytes.number()?);
            }
            for _ in 0..bytes.number()? {
                let mut pairs = vec![];
                for _ in 0..bytes.number()? {
                    pairs.push((bytes.number()?, bytes.number()?));
                }
                bindings.edges.push(pairs);
            }
            if let Some(&block) = blocks.number_of.get(&key) {
                witness.bindings.push((block, bindings));
            }
        }
        Some(usable && bytes.0.is_empty())
    }
}

fn number(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

fn length(out: &mut Vec<u8>, length: usize) {
    number(out, length as u32);
}

/// What is left to be read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn key(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}
