//! Plans as flat codes: operators in prefix order, counts before lists. What they speak of (paths, filters, conditions)
//! are the items of a program, by number; fields of path-tuples count from 1.

use twigcast_kernel::internals::{Names, Node, Pred, Program, Slot, Twig};

/// An operator whose output is path-tuples of its leftmost stream. Paths, filters and conditions are numbers: of the
/// program's items in a plan just decoded, of what the set knows them as in one that is registered.
#[derive(Debug)]
pub enum Op {
    Stream(u32),
    /// (field, filters)
    Selection(Box<Op>, Box<[(u32, u32)]>),
    /// On these fields; scan or hash.
    DupElim(Box<Op>, Box<[u32]>, bool),
    /// Tree search below the node in a field.
    WhereFilter(Box<Op>, u32, u32),
    Semijoin {
        left: Box<Op>,
        right: Box<Op>,
        field: u32,
        merge: bool,
        anti: bool,
    },
}

/// The operator at the top, which makes groups.
#[derive(Debug)]
pub enum Top {
    /// Tree search for each return path.
    ReturnSelect {
        input: Op,
        field: u32,
        twigs: Box<[u32]>,
    },
    OuterJoinSelect {
        left: Op,
        rights: Box<[Op]>,
        field: u32,
        merge: bool,
    },
}

/// A plan taken from its codes.
#[derive(Debug)]
pub struct Decoded {
    pub top: Top,
    /// The bound node itself is returned too, before all else.
    pub itself: bool,
    pub items: Vec<Pred>,
    pub slots: Vec<Slot>,
}

const WRONG: &str = "not the codes of a plan";
/// Operators on top of each other that recursion can take anywhere.
const MAX_OPERATORS: usize = 1000;

impl Decoded {
    pub fn decode(codes: &[u32], words: &[u32], names: &Names) -> Result<Decoded, &'static str> {
        let Program { pred: Pred::And(items), slots } = Program::decode(words, names)? else { return Err(WRONG) };
        let mut d = Decoder { codes, at: 0, items: &items, operators: 0 };
        let itself = d.word()? == 1;
        let top = d.top()?;
        if d.at != codes.len() {
            return Err("codes after the end of a plan");
        }
        Ok(Decoded { top, itself, items, slots })
    }

    pub fn returns(&self) -> usize {
        let lists = match &self.top {
            Top::ReturnSelect { twigs, .. } => twigs.len(),
            Top::OuterJoinSelect { rights, .. } => rights.len(),
        };
        lists + self.itself as usize
    }
}

/// The twig that an item is.
pub fn twig(items: &[Pred], item: u32) -> &Twig {
    match &items[item as usize] {
        Pred::Exists(twig) => twig,
        _ => unreachable!("checked when the plan was decoded"),
    }
}

/// The step with filters that an item is.
pub fn step(items: &[Pred], item: u32) -> &Node {
    &twig(items, item).nodes[0]
}

struct Decoder<'a> {
    codes: &'a [u32],
    at: usize,
    items: &'a [Pred],
    operators: usize,
}

type Code<T> = Result<T, &'static str>;

impl Decoder<'_> {
    fn word(&mut self) -> Code<u32> {
        let w = *self.codes.get(self.at).ok_or("a plan that ends early")?;
        self.at += 1;
        Ok(w)
    }

    fn flag(&mut self) -> Code<bool> {
        Ok(self.word()? == 1)
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Code<T>) -> Code<Box<[T]>> {
        let n = self.word()?;
        (0..n).map(|_| item(self)).collect()
    }

    /// An item that is a twig of some steps.
    fn twig(&mut self) -> Code<u32> {
        let item = self.word()?;
        match self.items.get(item as usize) {
            Some(Pred::Exists(twig)) if !twig.nodes.is_empty() => Ok(item),
            _ => Err(WRONG),
        }
    }

    fn top(&mut self) -> Code<Top> {
        let kind = self.word()?;
        match kind {
            5 => {
                let field = self.word()?;
                let twigs = self.list(Self::twig)?;
                let (input, width) = self.op()?;
                (field >= 1 && field <= width).then_some(Top::ReturnSelect { input, field, twigs }).ok_or(WRONG)
            }
            6 => {
                let (field, merge) = (self.word()?, self.flag()?);
                let (left, width) = self.op()?;
                let rights = self.list(|d| d.wide(field))?;
                (field >= 1 && field <= width)
                    .then_some(Top::OuterJoinSelect { left, rights, field, merge })
                    .ok_or(WRONG)
            }
            _ => Err(WRONG),
        }
    }

    /// An operator whose tuples have a field.
    fn wide(&mut self, field: u32) -> Code<Op> {
        let (op, width) = self.op()?;
        (field <= width).then_some(op).ok_or(WRONG)
    }

    /// An operator, and how many fields its tuples have.
    fn op(&mut self) -> Code<(Op, u32)> {
        self.operators += 1;
        if self.operators > MAX_OPERATORS {
            return Err("a plan of too many operators");
        }
        let in_range = |field: u32, width: u32| if field >= 1 && field <= width { Ok(()) } else { Err(WRONG) };
        Ok(match self.word()? {
            0 => {
                let item = self.twig()?;
                let path = twig(self.items, item);
                if path.nodes.iter().any(|n| !n.filters.is_empty()) {
                    return Err(WRONG);
                }
                (Op::Stream(item), path.nodes.len() as u32)
            }
            1 => {
                let tests = self.list(|d| Ok((d.word()?, d.twig()?)))?;
                let (input, width) = self.op()?;
                tests.iter().try_for_each(|t| in_range(t.0, width))?;
                (Op::Selection(Box::new(input), tests), width)
            }
            2 => {
                let scan = self.flag()?;
                let fields = self.list(Self::word)?;
                let (input, width) = self.op()?;
                fields.iter().try_for_each(|&f| in_range(f, width))?;
                if fields.is_empty() || fields.len() > 2 {
                    return Err(WRONG);
                }
                (Op::DupElim(Box::new(input), fields, scan), width)
            }
            3 => {
                let (field, item) = (self.word()?, self.word()?);
                let (input, width) = self.op()?;
                in_range(field, width)?;
                if item as usize >= self.items.len() {
                    return Err(WRONG);
                }
                (Op::WhereFilter(Box::new(input), field, item), width)
            }
            4 => {
                let (field, merge, anti) = (self.word()?, self.flag()?, self.flag()?);
                let (left, width) = self.op()?;
                in_range(field, width)?;
                let right = self.wide(field)?;
                (Op::Semijoin { left: Box::new(left), right: Box::new(right), field, merge, anti }, width)
            }
            _ => return Err(WRONG),
        })
    }
}
