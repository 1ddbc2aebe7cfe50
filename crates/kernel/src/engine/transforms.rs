//! Transforms, and the blocks of correlations.

use super::{Engine, Number};
use crate::gates::Behind;
use crate::join::{BlockShape, Blocks, Variable};
use crate::transform::set::Spec;

impl Engine {
    /// Adds a transform under a reserved number: its program with the constants of the slots, as `add_rows` has them, and
    /// the code of what is made of its groups. With `deliver_empty` that is made also where there are none.
    pub fn add_transform(
        &mut self,
        number: u32,
        words: &[u32],
        row: &[f64],
        code: &[u8],
        deliver_empty: bool,
    ) -> Result<(), &'static str> {
        self.check_place(number)?;
        let spec = Spec::decode(words, &self.index.names)?;
        self.transforms.add(number, (&spec, row), code, deliver_empty, self.constants.len())?;
        self.place_transform(number);
        self.acquire_gate(Behind::Transforms, number);
        Ok(())
    }

    /// The blocks of correlations.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Returns the shape of blocks of correlations that may be added: see `Blocks::shape`.
    pub fn block_shape(
        &mut self,
        stream: u32,
        words: &[u32],
        paths: &[u32],
        variables: Vec<Variable>,
    ) -> Result<BlockShape, &'static str> {
        self.blocks.shape(stream, words, paths, variables, &self.index.names)
    }

    /// Adds a block of correlations under its number, which is none of a subscription. Its shape is one of this engine;
    /// `keys` are those of the block and of the columns of its variables, for a witness that is to be read elsewhere.
    pub fn add_block(
        &mut self,
        block: u32,
        shape: &BlockShape,
        row: &[f64],
        keys: Option<(u64, &[u64])>,
    ) -> Result<(), &'static str> {
        self.blocks.add(block, shape, row, keys, self.constants.len())?;
        self.acquire_gate(Behind::Blocks, block);
        Ok(())
    }

    /// Removes a block.
    pub fn remove_block(&mut self, block: u32) -> Result<(), &'static str> {
        if self.blocks.contains(block) {
            self.release_gate(Behind::Blocks, block);
        }
        self.blocks.remove(block)
    }

    /// Values of a column of blocks are compared from now on.
    pub fn join_on(&mut self, column: u32) {
        self.blocks.join_on(column);
    }

    /// Adds a transform that is no pattern under a reserved number: its query, given as words and the strings in it, and
    /// the code of what is made of its groups.
    pub fn add_residual_transform(
        &mut self,
        number: u32,
        (words, strings): (&[u32], &[&str]),
        code: &[u8],
        deliver_empty: bool,
    ) -> Result<(), &'static str> {
        self.check_place(number)?;
        if self.transforms.contains(number) {
            return Err("a subscription that is there already");
        }
        self.queries.add(number, words, strings, &self.index.names)?;
        let added = self.make_residual_transform(number, code, deliver_empty);
        if added.is_err() {
            self.queries.remove(number);
            return added;
        }
        self.place_transform(number);
        self.acquire_gate(Behind::Transforms, number);
        Ok(())
    }

    /// Adds a transform whose query is there.
    pub(crate) fn make_residual_transform(
        &mut self,
        number: u32,
        code: &[u8],
        deliver_empty: bool,
    ) -> Result<(), &'static str> {
        let query = self.queries.of(number).ok_or("a transform without a query")?;
        let returns = self.queries.returns(query).ok_or("a transform with the query of a filter")?;
        self.transforms.add_residual(number, (query, returns), code, deliver_empty)
    }

    /// Keeps a reserved number, or that of a transform, for a transform that is evaluated elsewhere.
    pub fn hold(&mut self, number: u32) -> Result<(), &'static str> {
        if !self.remove_transform(number) {
            self.check_place(number)?;
        }
        self.queries.remove(number);
        self.place_transform(number);
        Ok(())
    }

    /// False if there is no such transform.
    pub(super) fn remove_transform(&mut self, number: u32) -> bool {
        if self.transforms.contains(number) {
            self.release_gate(Behind::Transforms, number);
        }
        self.transforms.remove(number)
    }

    /// A transform takes a reserved number, or one that was held. Earlier versions held numbers by a path.
    fn check_place(&self, number: u32) -> Result<(), &'static str> {
        match self.number_of(number) {
            Number::Transform | Number::Paths(_) => Ok(()),
            _ => self.check_reserved(&[number]),
        }
    }

    fn place_transform(&mut self, number: u32) {
        if let Number::Paths(first) = self.number_of(number) {
            let ids = self.paths_from(number, first);
            self.untie(number, &ids);
            self.free.pop();
            self.subscriptions -= 1;
        }
        if self.number_of(number) == Number::Free {
            self.subscriptions += 1;
        }
        self.numbers[number as usize] = Number::Transform;
    }
}
