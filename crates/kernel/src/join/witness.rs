//! Stage 1: which blocks a message matches, and the nodes and values of the columns that joins look at.

use super::portable::Keys;
use super::{BlockIx, ColumnIx, ValueIx, NO_VALUE};
use crate::names::Names;
use crate::paths::Step;
use crate::shapes::nodes::NodeIx;
use crate::shapes::program::{Pred, Program};
use crate::shapes::search::Message;
use crate::tagpaths::{LinearPath, TooMuch};
use crate::transform::code::NOTHING;
use crate::transform::run::Runner;
use crate::transform::set::{Set, Spec};
use crate::values::constants::Constants;
use crate::xml::XmlError;
use std::sync::Arc;

/// Pairs of nodes that the bindings of one message may have. Blocks beyond that have none.
const MAX_PAIRS: usize = 1 << 22;

/// A variable of a block, parents before children; the first one is the block's root.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Variable {
    /// Place of the parent among the block's variables; that of the root is its own.
    pub parent: u32,
    pub column: ColumnIx,
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
    /// By column, then in document order. Values are numbered as they come in `values`.
    pub cells: Vec<Cell>,
    pub values: Texts,
    /// The bindings of its blocks, if it leaves a choice in binding their variables.
    pub bindings: Vec<(BlockIx, Bindings)>,
    /// The message is more work than a message may be.
    pub(super) too_much: bool,
}

/// Texts one after the other, and where they end.
#[derive(Default, Debug)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Texts {
    fn push(&mut self, text: &[u8]) -> u32 {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u32);
        self.ends.len() as u32 - 1
    }

    /// The ends, and all texts one after the other.
    pub(super) fn parts(&self) -> (&[u32], &[u8]) {
        (&self.ends, &self.bytes)
    }

    pub(super) fn set(&mut self, ends: Vec<u32>, bytes: &[u8]) {
        self.ends = ends;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    pub fn get(&self, at: u32) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at as usize - 1] };
        &self.bytes[from as usize..self.ends[at as usize] as usize]
    }
}

impl Witness {
    /// Whether correlations see nothing in the message.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && !self.too_much
    }

    pub fn clear(&mut self) {
        self.blocks.clear();
        self.cells.clear();
        self.values.bytes.clear();
        self.values.ends.clear();
        self.bindings.clear();
        self.too_much = false;
    }

    /// Returns why correlations cannot be tried with the message, if they cannot.
    pub fn check(&self) -> Result<(), XmlError> {
        if !self.too_much {
            return Ok(());
        }
        Err(XmlError {
            code: "too-much-to-correlate",
            message: "the message gives correlations more work than a message may".into(),
            line: 1,
            column: 1,
            offset: 0,
        })
    }
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
    stream: u32,
    /// Some join compares its values.
    joined: bool,
}

struct Block {
    stream: u32,
    variables: Arc<[Variable]>,
}

/// What blocks have in common that differ in their constants alone.
pub struct BlockShape {
    stream: u32,
    spec: Spec,
    pub variables: Arc<[Variable]>,
}

/// The blocks of all streams, one set of patterns.
#[derive(Default)]
pub struct Blocks {
    set: Set,
    blocks: Vec<Option<Block>>,
    /// By binding path the columns that it is, one for each stream.
    columns: Vec<Vec<Column>>,
    /// By stream the number of its blocks.
    counts: Vec<u32>,
    /// By column, whether its values are compared.
    joined: Vec<bool>,
    pub(super) keys: Keys,
}

/// What a thread needs to match blocks.
#[derive(Default)]
pub(crate) struct Scratch {
    runner: Runner,
    value: Vec<u8>,
}

impl Blocks {
    /// Returns the shape of blocks that may be added, and knows the columns of their variables from now on. It is made of a
    /// block's program, which returns the paths from parents to the variables other than the root; a program (`or` of
    /// exists) with the path from the document to each variable; and the variables.
    pub(crate) fn shape(
        &mut self,
        stream: u32,
        words: &[u32],
        paths: &[u32],
        variables: Vec<Variable>,
        names: &Names,
    ) -> Result<BlockShape, &'static str> {
        const WRONG: &str = "not the paths of a block's variables";
        let rising = variables.iter().enumerate().all(|(i, v)| v.parent < i.max(1) as u32);
        let Pred::Or(paths) = Program::decode(paths, names)?.pred else { return Err(WRONG) };
        if variables.is_empty() || !rising || paths.len() != variables.len() {
            return Err("the variables of a block come after their parents, each with a path");
        }
        let linear = |p: &Pred| match p {
            Pred::Exists(twig) => LinearPath::of(twig).ok_or(WRONG),
            _ => Err(WRONG),
        };
        let paths = paths.iter().map(linear).collect::<Result<Vec<_>, _>>()?;
        let spec = Spec::decode(words, names)?;
        for (path, variable) in paths.into_iter().zip(&variables) {
            let bind = self.set.binds.acquire(path) as usize;
            if self.columns.len() <= bind {
                self.columns.resize_with(bind + 1, Vec::new);
            }
            let same = &mut self.columns[bind];
            if same.iter().all(|column| column.id != variable.column) {
                let joined = self.joined.get(variable.column as usize).copied().unwrap_or(false);
                same.push(Column { id: variable.column, stream, joined });
            }
        }
        Ok(BlockShape { stream, spec, variables: variables.into() })
    }

    /// Adds a block under its number. `strings` is how many string constants are known.
    pub(crate) fn add(
        &mut self,
        id: BlockIx,
        shape: &BlockShape,
        row: &[f64],
        keys: Option<(u64, &[u64])>,
        strings: usize,
    ) -> Result<(), &'static str> {
        let BlockShape { stream, spec, variables } = shape;
        self.set.add(id, (spec, row), NOTHING, false, strings)?;
        if let Some((key, columns)) = keys {
            self.keys.add(id, key, variables.iter().map(|v| v.column).zip(columns.iter().copied()));
        }
        if self.blocks.len() <= id as usize {
            self.blocks.resize_with(id as usize + 1, || None);
        }
        self.blocks[id as usize] = Some(Block { stream: *stream, variables: variables.clone() });
        if self.counts.len() <= *stream as usize {
            self.counts.resize(*stream as usize + 1, 0);
        }
        self.counts[*stream as usize] += 1;
        Ok(())
    }

    /// Takes a block out. Its columns stay: others may have them, and messages in the state do.
    pub fn remove(&mut self, id: BlockIx) -> Result<(), &'static str> {
        let block = self.blocks.get_mut(id as usize).and_then(Option::take).ok_or("no such block")?;
        self.counts[block.stream as usize] -= 1;
        self.keys.remove(id);
        self.set.remove(id);
        Ok(())
    }

    /// Whether there is such a block.
    pub(crate) fn contains(&self, id: BlockIx) -> bool {
        self.set.contains(id)
    }

    /// The path that a message must have to match a block. None if any message may do.
    pub(crate) fn gate(&self, id: BlockIx, constants: &mut Constants) -> Option<Vec<Step>> {
        self.set.gate(id, constants)
    }

    /// Values of the column are compared from now on.
    pub fn join_on(&mut self, column: ColumnIx) {
        self.columns.iter_mut().flatten().filter(|c| c.id == column).for_each(|c| c.joined = true);
        if self.joined.len() <= column as usize {
            self.joined.resize(column as usize + 1, false);
        }
        self.joined[column as usize] = true;
    }

    /// Tells whether bindings are of a block's variables, and of nodes that these have.
    pub(super) fn fits(&self, block: BlockIx, bindings: &Bindings, cells: &[Cell]) -> bool {
        let Some(Block { variables, .. }) = self.blocks.get(block as usize).and_then(Option::as_ref) else {
            return false;
        };
        let has = |variable: &Variable, node: NodeIx| {
            let at = cells.partition_point(|c| (c.column, c.node) < (variable.column, node));
            cells.get(at).is_some_and(|c| (c.column, c.node) == (variable.column, node))
        };
        let Bindings { roots, edges } = bindings;
        let mut below = variables[1..].iter().zip(edges);
        edges.len() + 1 == variables.len()
            && roots.iter().all(|&node| has(&variables[0], node))
            && below.all(|(variable, pairs)| pairs.iter().all(|&(_, node)| has(variable, node)))
    }

    /// Tells of a column whether its values are compared.
    pub(super) fn joined(&self) -> impl Fn(ColumnIx) -> bool + '_ {
        |column| self.joined.get(column as usize).copied().unwrap_or(false)
    }

    /// Whether some block reads one of the streams.
    pub fn read(&self, streams: &[u32]) -> bool {
        streams.iter().any(|&s| self.counts.get(s as usize).is_some_and(|&count| count > 0))
    }

    /// Evaluation needs the nodes of each symbol linked (`Nodes::link`).
    pub(crate) fn uses_links(&self) -> bool {
        self.set.uses_links()
    }

    /// Finds what joins see of a message that came by some streams.
    pub(crate) fn witness(&self, streams: &[u32], message: Message<'_>, scratch: &mut Scratch, out: &mut Witness) {
        out.clear();
        out.too_much = self.look(streams, message, scratch, out).is_err();
        out.blocks.sort_unstable();
        out.cells.sort_unstable();
        if out.cells.windows(2).any(|w| w[0].column == w[1].column) {
            self.bind(message, &mut scratch.runner, out);
        }
    }

    fn look(
        &self,
        streams: &[u32],
        message: Message<'_>,
        scratch: &mut Scratch,
        out: &mut Witness,
    ) -> Result<(), TooMuch> {
        let Scratch { runner, value } = scratch;
        let Witness { blocks, cells, values, .. } = out;
        let mut matched: Vec<u32> = vec![];
        runner.run(&self.set, message, |plan, _, _, _| {
            for &id in &self.set.plan(plan).subs {
                let Some(block) = self.blocks[id as usize].as_ref() else { continue };
                if streams.contains(&block.stream) {
                    blocks.push(id);
                    if !matched.contains(&block.stream) {
                        matched.push(block.stream);
                    }
                }
            }
        })?;
        if matched.is_empty() {
            return Ok(());
        }
        for node in 0..message.nodes.len() as NodeIx {
            for &bind in runner.binds_at(node) {
                let columns = self.columns.get(bind as usize).map_or(&[][..], |columns| columns);
                for column in columns.iter().filter(|column| matched.contains(&column.stream)) {
                    let value = match column.joined {
                        true => values.push(message.nodes.value(message.src, node, value)),
                        false => NO_VALUE,
                    };
                    cells.push(Cell { column: column.id, node, value });
                }
            }
        }
        Ok(())
    }

    /// Makes the bindings of the blocks that have several nodes for a variable.
    fn bind(&self, message: Message<'_>, runner: &mut Runner, out: &mut Witness) {
        let Witness { blocks, cells, bindings, .. } = out;
        let is_several = |column: ColumnIx| {
            let from = cells.partition_point(|c| c.column < column);
            cells.get(from + 1).is_some_and(|c| c.column == column)
        };
        let mut pairs_left = MAX_PAIRS;
        runner.plans(&self.set, message, |plan, returns, bound, lists| {
            for &id in &self.set.plan(plan).subs {
                let Some(block) = self.blocks[id as usize].as_ref() else { continue };
                let free = block.variables.iter().any(|v| is_several(v.column));
                if !free || blocks.binary_search(&id).is_err() {
                    continue;
                }
                let mut found: Vec<Vec<NodeIx>> = vec![bound.to_vec()];
                let mut edges = vec![];
                let mut count = bound.len();
                for (variable, &what) in block.variables[1..].iter().zip(returns) {
                    let mut pairs: Vec<(NodeIx, NodeIx)> = vec![];
                    for parent in &found[variable.parent as usize] {
                        if count + pairs.len() > pairs_left {
                            return;
                        }
                        pairs.extend(lists.get(what, parent).iter().map(|&node| (*parent, node)));
                    }
                    count += pairs.len();
                    let mut nodes: Vec<NodeIx> = pairs.iter().map(|p| p.1).collect();
                    nodes.sort_unstable();
                    nodes.dedup();
                    found.push(nodes);
                    edges.push(pairs);
                }
                pairs_left = pairs_left.saturating_sub(count);
                bindings.push((id, Bindings { roots: bound.to_vec(), edges }));
            }
        });
        bindings.sort_by_key(|b| b.0);
    }
}
