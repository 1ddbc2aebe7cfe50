//! Stage 1: which blocks a message matches, and the nodes and values of the columns that joins look at.

use super::values::Values;
use super::{BlockIx, ColumnIx, ValueIx, NO_VALUE};
use crate::document::read;
use crate::shapes::nodes::{NodeIx, Nodes};
use crate::shapes::program::{Pred, Program};
use crate::tagpaths::{LinearPath, PathIx};
use crate::transform::code::NOTHING;
use crate::transform::run::Runner;
use crate::transform::set::Set;
use crate::vocabulary::Vocabulary;
use crate::xml::{Limits, Reader, XmlError};

/// A variable of a block, parents before children; the first one is the block's root.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Place of the parent among the block's variables; that of the root is its own.
    pub parent: u32,
    pub column: ColumnIx,
}

pub struct Block {
    pub stream: u32,
    pub variables: Box<[Variable]>,
}

/// A node of a column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cell {
    pub column: ColumnIx,
    pub node: NodeIx,
    pub value: ValueIx,
}

/// A message as joins see it.
#[derive(Default, Debug)]
pub struct Witness {
    /// The blocks that it matches, ascending.
    pub blocks: Vec<BlockIx>,
    /// By column, then in document order.
    pub cells: Vec<Cell>,
}

/// The bindings of a block, restricted to whole embeddings: the paper's R_bin.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bindings {
    pub roots: Vec<NodeIx>,
    /// By variable after the root: pairs of a parent's node and a node below it, in document order.
    pub edges: Vec<Vec<(NodeIx, NodeIx)>>,
}

impl Bindings {
    /// The nodes of a variable below a node of its parent.
    pub fn below(&self, variable: usize, parent: NodeIx) -> impl Iterator<Item = NodeIx> + '_ {
        let edges = &self.edges[variable - 1];
        let from = edges.partition_point(|e| e.0 < parent);
        edges[from..].iter().take_while(move |e| e.0 == parent).map(|e| e.1)
    }
}

#[derive(Clone, Copy)]
struct Column {
    id: ColumnIx,
    /// Some join compares its values.
    joined: bool,
}

/// The blocks of one stream.
#[derive(Default)]
pub struct Stream {
    pub vocabulary: Vocabulary,
    pub set: Set,
    /// By binding path the column that it is.
    columns: Vec<Option<Column>>,
    reader: Reader,
    nodes: Nodes,
    runner: Runner,
    scratch: Vec<u8>,
}

impl Stream {
    /// Adds a block under its number. `paths` is a program (`or` of exists) with the path from the document to each
    /// variable; `column` numbers them.
    pub fn add(
        &mut self,
        id: BlockIx,
        words: &[u32],
        row: &[f64],
        paths: &[u32],
        mut column: impl FnMut(PathIx) -> ColumnIx,
    ) -> Result<Vec<ColumnIx>, &'static str> {
        const WRONG: &str = "not the paths of a block's variables";
        let Pred::Or(paths) = Program::decode(paths, self.vocabulary.names_mut())?.pred else { return Err(WRONG) };
        let linear = |p: &Pred| match p {
            Pred::Exists(twig) => LinearPath::of(twig).ok_or(WRONG),
            _ => Err(WRONG),
        };
        let paths = paths.iter().map(linear).collect::<Result<Vec<_>, _>>()?;
        self.set.add(id, (words, row), NOTHING, false, self.vocabulary.known())?;
        let mut found = vec![];
        for path in paths {
            let bind = self.set.binds.acquire(path);
            if self.columns.len() <= bind as usize {
                self.columns.resize(bind as usize + 1, None);
            }
            let known = &mut self.columns[bind as usize];
            let id = known.get_or_insert_with(|| Column { id: column(bind), joined: false }).id;
            found.push(id);
        }
        Ok(found)
    }

    /// The block's columns stay: others may have them, and messages in the state do.
    pub fn remove(&mut self, id: BlockIx) {
        self.set.remove(id);
    }

    /// Values of the column are compared from now on.
    pub fn join_on(&mut self, column: ColumnIx) {
        self.columns.iter_mut().flatten().filter(|c| c.id == column).for_each(|c| c.joined = true);
    }

    /// What joins see of a message. Every cell with a value holds one use of it.
    pub fn witness(
        &mut self,
        xml: &[u8],
        limits: &Limits,
        values: &mut Values,
        out: &mut Witness,
    ) -> Result<(), XmlError> {
        out.blocks.clear();
        out.cells.clear();
        let Stream { vocabulary, set, columns, reader, nodes, runner, scratch } = self;
        read(reader, nodes, vocabulary.parts(), xml, limits, |message| {
            let Witness { blocks: matched, cells } = out;
            let mut cell = |column: &Column, node: NodeIx| {
                let value = match column.joined {
                    true => values.acquire(message.nodes.value(message.src, node, scratch)),
                    false => NO_VALUE,
                };
                cells.push(Cell { column: column.id, node, value });
            };
            runner.run(set, message, |plan, _, _, _| matched.extend_from_slice(&set.plan(plan).subs))?;
            if matched.is_empty() {
                return Ok(());
            }
            for node in 0..message.nodes.len() as NodeIx {
                for &bind in runner.binds_at(node) {
                    if let Some(Some(column)) = columns.get(bind as usize) {
                        cell(column, node);
                    }
                }
            }
            Ok(())
        })?;
        out.blocks.sort_unstable();
        out.cells.sort_unstable();
        Ok(())
    }

    /// The bindings of all blocks that the message matches.
    pub fn bindings(
        &mut self,
        xml: &[u8],
        limits: &Limits,
        blocks: &[Option<Block>],
    ) -> Result<Vec<(BlockIx, Bindings)>, XmlError> {
        let Stream { vocabulary, set, reader, nodes, runner, .. } = self;
        let mut out: Vec<(BlockIx, Bindings)> = vec![];
        read(reader, nodes, vocabulary.parts(), xml, limits, |message| {
            runner.run(set, message, |plan, returns, bound, lists| {
                for &id in &set.plan(plan).subs {
                    let Some(block) = blocks[id as usize].as_ref() else { continue };
                    let mut found: Vec<Vec<NodeIx>> = vec![bound.to_vec()];
                    let mut edges = vec![];
                    for (variable, &what) in block.variables[1..].iter().zip(returns) {
                        let mut pairs: Vec<(NodeIx, NodeIx)> = vec![];
                        for parent in &found[variable.parent as usize] {
                            pairs.extend(lists.get(what, parent).iter().map(|&node| (*parent, node)));
                        }
                        let mut nodes: Vec<NodeIx> = pairs.iter().map(|p| p.1).collect();
                        nodes.sort_unstable();
                        nodes.dedup();
                        found.push(nodes);
                        edges.push(pairs);
                    }
                    out.push((id, Bindings { roots: bound.to_vec(), edges }));
                }
            })
        })?;
        out.sort_by_key(|b| b.0);
        Ok(out)
    }

    /// The string-values of nodes of a message.
    pub fn values(&mut self, xml: &[u8], limits: &Limits, of: &[NodeIx]) -> Result<Vec<Vec<u8>>, XmlError> {
        let Stream { vocabulary, reader, nodes, scratch, .. } = self;
        let mut out = vec![];
        read(reader, nodes, vocabulary.parts(), xml, limits, |message| {
            out = of.iter().map(|&n| message.nodes.value(message.src, n, scratch).to_vec()).collect();
            Ok(())
        })?;
        Ok(out)
    }
}
