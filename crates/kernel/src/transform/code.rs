//! The code of what is made of groups, in which snapshots have it too.
//!
//! Numbers take four bytes, lowest first; flags and kinds one; bytes and lists come after their length. Fields follow each
//! other in the order of the types in `factory`.

use super::factory::{Bound, Expr, Key, Making, Piece, Start, Template};
use crate::output::fragment::Under;

type Read<T> = Result<T, &'static str>;

/// Expressions may be nested so deep.
const MAX_DEPTH: u32 = 500;

/// The code of a template without markup.
pub(crate) const NOTHING: &[u8] = &[0; 16];

impl Making {
    pub fn decode(code: &[u8]) -> Read<Making> {
        let mut code = Code { rest: code, depth: 0 };
        let order = code.list(Code::key)?;
        let template = Template { before: code.bytes()?, pieces: code.list(Code::piece)?, after: code.bytes()? };
        if code.rest.is_empty() {
            Ok(Making { order, template })
        } else {
            Err("a template with something after its end")
        }
    }
}

/// What is left of the code.
struct Code<'a> {
    rest: &'a [u8],
    depth: u32,
}

impl<'a> Code<'a> {
    fn take(&mut self, len: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or("a template that ends early")?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Read<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    fn flag(&mut self) -> Read<bool> {
        Ok(self.byte()? != 0)
    }

    fn bytes(&mut self) -> Read<Box<[u8]>> {
        let len = self.number()?;
        Ok(self.take(len as usize)?.into())
    }

    /// Each item takes at least a byte, so that no code asks for more memory than it has bytes.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Read<T>) -> Read<Box<[T]>> {
        (0..self.number()?).map(|_| item(self)).collect()
    }

    fn pair(&mut self) -> Read<Bound> {
        Ok((self.bytes()?, self.bytes()?))
    }

    fn pairs(&mut self) -> Read<Vec<Bound>> {
        Ok(self.list(Code::pair)?.into_vec())
    }

    fn key(&mut self) -> Read<Key> {
        let value = self.expr()?;
        Ok(Key { value, numeric: self.flag()?, descending: self.flag()?, none_last: self.flag()? })
    }

    fn piece(&mut self) -> Read<Piece> {
        Ok(match self.byte()? {
            0 => Piece::Markup(self.bytes()?),
            1 => Piece::Copy(self.number()?, if self.flag()? { Under::Default } else { Under::NoDefault }),
            2 => {
                let returns = self.list(Code::number)?;
                let start = Start { declared: self.pairs()?, scope: self.pairs()?, attributes: self.pairs()? };
                Piece::Attributes(returns, Box::new(start))
            }
            3 => Piece::Item(self.expr()?),
            4 => Piece::Sequence,
            5 => Piece::Quoted(self.expr()?),
            _ => return Err("a template with an unknown piece"),
        })
    }

    fn expr(&mut self) -> Read<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("a template with expressions nested too deep");
        }
        let expr = match self.byte()? {
            0 => Expr::Constant(self.bytes()?),
            1 => Expr::Joined(self.number()?),
            2 => Expr::First(self.number()?),
            3 => Expr::Count(self.number()?),
            4 => Expr::Sum(self.number()?),
            5 => Expr::Min(self.number()?),
            6 => Expr::Max(self.number()?),
            7 => Expr::Average(self.number()?),
            8 => Expr::Concat(self.list(Code::expr)?),
            9 => Expr::Spaced(self.list(Code::expr)?),
            _ => return Err("a template with an unknown expression"),
        };
        self.depth -= 1;
        Ok(expr)
    }
}
