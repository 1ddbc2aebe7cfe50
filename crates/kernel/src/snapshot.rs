//! A compiled set of subscriptions as bytes.
//!
//! Only what cannot be told from the rest is written: names, constants, paths in sorted order with their items, shapes
//! and the blocks of their buckets, the words of queries and the programs of transforms, each as one array. The blocks,
//! which are most of it, are used where they lie; the rest
//! is derived in linear time (the automaton of sorted paths, what each number stands for, the hash tables), so that no
//! file, however made, opens to an engine that contradicts itself: every number is checked once, and no derived pointer
//! is ever read.

mod open;
mod save;

use crate::engine::{Engine, Number};
use crate::gates::Behind;
use crate::shapes::store::Shape;
use crate::used::Used;
use crate::words::{Held, Words};
use open::Roles;
use std::sync::Arc;

/// Why bytes are no snapshot.
type Read<T> = Result<T, &'static str>;

const NO_SLOT: u32 = u32::MAX;
/// Of a subscription whose query selects.
const NO_SELECTOR: u32 = u32::MAX;
/// The length of a local name where there is none, for the test `ns:*`.
const ANY_LOCAL: u32 = u32::MAX;
/// The same where the symbol has no name any more.
const NO_NAME: u32 = u32::MAX - 1;
/// The length of a namespace name where there is none, for the test `*:local`.
const ANY_URI: u32 = u32::MAX;

/// What is left of the bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array(&mut self, width: usize) -> Read<&'a [u8]> {
        const SHORT: &str = "it ends early";
        let (len, rest) = self.0.split_first_chunk::<8>().ok_or(SHORT)?;
        let bytes = usize::try_from(u64::from_le_bytes(*len)).ok().and_then(|n| n.checked_mul(width)).ok_or(SHORT)?;
        let array = rest.get(..bytes).ok_or(SHORT)?;
        self.0 = rest.get(bytes.next_multiple_of(8)..).ok_or(SHORT)?;
        Ok(array)
    }

    /// Words that are used where they lie.
    fn words_in_place(&mut self, all: &Arc<dyn Held>) -> Read<Words> {
        let array = self.array(4)?;
        let at = array.as_ptr() as usize - all.bytes().as_ptr() as usize;
        Words::open(all, at, array.len() / 4).ok_or("it ends early")
    }
}

/// A number in an array of a snapshot.
trait Item: Copy {
    /// Appends its bytes, least significant first.
    fn write(self, out: &mut Vec<u8>);
    fn read(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! item {
    ($type:ty) => {
        impl Item for $type {
            fn write(self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Vec<$type> {
                bytes.as_chunks().0.iter().map(|&item| <$type>::from_le_bytes(item)).collect()
            }
        }
    };
}
item!(u8);
item!(u32);
item!(u64);

/// Appends an array after its length, padded to eight bytes.
fn write<T: Item>(items: &[T], out: &mut Vec<u8>) {
    out.extend((items.len() as u64).to_le_bytes());
    items.iter().for_each(|item| item.write(out));
    out.resize(out.len().next_multiple_of(8), 0);
}

fn read<T: Item>(file: &mut Reader<'_>) -> Read<Vec<T>> {
    Ok(T::read(file.array(size_of::<T>())?))
}

/// Declares a section of a snapshot: arrays that are written one after another, and read in the same order.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($(#[$note:meta])* $array:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Default)]
        struct $name {
            $($(#[$note])* $array: Vec<$type>,)*
        }

        impl $name {
            fn write(&self, out: &mut Vec<u8>) {
                $(write(&self.$array, out);)*
            }

            fn read(file: &mut Reader<'_>) -> Read<$name> {
                Ok($name { $($array: read(file)?,)* })
            }
        }
    };
}

section! {
    /// Symbols keep their numbers, so those that are no longer in use leave gaps.
    SavedNames {
        text: u8,
        /// By place: whether it is an attribute's, and the lengths of namespace name and local name.
        heads: u32,
    }
}
section! {
    SavedConstants { text: u8, lens: u32, numbers: u64, }
}
section! {
    /// Distinct paths in ascending order, each with the items that are tied to it.
    SavedPaths { steps: u32, lens: u32, items: u32, counts: u32, }
}
section! {
    SavedShapes {
        /// The free numbers, in the order in which they will be used. What the others stand for is told by paths and
        /// buckets.
        free: u32,
        words: u32,
        /// By bucket its shape, item, room, and whether its numbers are doubles.
        buckets: u32,
    }
}
section! {
    /// Queries: their strings, then the number and the length of each, then their words.
    SavedQueries { text: u8, lens: u32, heads: u32, programs: u32, }
}
section! {
    SavedTransforms {
        /// The numbers that are held.
        held: u32,
        /// Programs, each after its length, which is zero for those whose queries are among the queries.
        words: u32,
        /// By plan the numbers of its program, its subscriptions, its constants and the bytes of its code.
        heads: u32,
        /// Subscriptions, each with a flag for those that want to know if nothing is bound.
        subs: u32,
        /// Constants, where strings are their numbers.
        rows: u64,
        /// The code of what is made.
        codes: u8,
    }
}
section! {
    /// What subscriptions select.
    SavedWanted {
        /// The programs of selectors, each after its length.
        words: u32,
        /// By subscription its number, form and selector.
        heads: u32,
        rows: u64,
    }
}

impl Engine {
    /// The subscriptions with the names and constants that they use: those of removed subscriptions are left out.
    pub fn save(&self) -> Vec<u8> {
        let mut out = vec![];
        let used = Used::by(self);
        SavedNames::of(&self.index.names, &used).write(&mut out);
        SavedConstants::of(&self.constants, &used).write(&mut out);
        SavedPaths::of(self, &used).write(&mut out);
        let (shapes, blocks) = SavedShapes::of(self, &used);
        shapes.write(&mut out);
        write(&blocks, &mut out);
        SavedQueries::of(&self.queries).write(&mut out);
        SavedTransforms::of(self, &used).write(&mut out);
        SavedWanted::of(&self.wanted, &used).write(&mut out);
        out
    }

    pub fn open(data: Arc<dyn Held>, cache_bytes: usize) -> Read<Engine> {
        let mut file = Reader(data.bytes());
        let mut engine = Engine::new(cache_bytes);
        let names = SavedNames::read(&mut file)?.open()?;
        engine.constants = SavedConstants::read(&mut file)?.open()?;
        let paths = SavedPaths::read(&mut file)?;
        paths.check(&names, &engine.constants)?;
        engine.index.names = names;
        let SavedShapes { free, words, buckets } = SavedShapes::read(&mut file)?;
        engine.free = free;
        let blocks = file.words_in_place(&data)?;
        // earlier versions had no queries, and no transforms
        let (queries, transforms) = match file.0.is_empty() {
            true => Default::default(),
            false => (SavedQueries::read(&mut file)?, SavedTransforms::read(&mut file)?),
        };
        // earlier versions had no selections
        let wanted = if file.0.is_empty() { SavedWanted::default() } else { SavedWanted::read(&mut file)? };
        if !file.0.is_empty() {
            return Err("there is something after its end");
        }
        // a row takes at least a word
        let rows = buckets.iter().skip(2).step_by(4).map(|&len| len as usize).sum::<usize>().min(blocks.len());
        let mut roles = Roles::new(&engine.free, rows + paths.items.len() + transforms.numbers().count())?;
        engine.open_shapes(&words, &mut roles)?;
        engine.open_buckets(&buckets, blocks, &mut roles)?;
        engine.open_paths(paths, &mut roles)?;
        transforms.take_roles(&mut roles)?;
        engine.numbers = roles.finish()?;
        engine.check_buckets()?;
        queries.add_to(&mut engine)?;
        transforms.add_to(&mut engine)?;
        wanted.add_to(&mut engine)?;
        engine.has_patterns |= !engine.constants.is_empty() || engine.constants.has_numbers();
        for sub in engine.transforms.subs() {
            engine.acquire_gate(Behind::Transforms, sub);
        }
        Ok(engine)
    }

    /// By number: does it stand for a subscription?
    pub fn subscriptions(&self) -> Vec<bool> {
        self.numbers.iter().map(|n| matches!(n, Number::Paths(_) | Number::Row { .. } | Number::Transform)).collect()
    }

    /// The shapes by number.
    pub fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.store.shapes()
    }
}
