//! Things that are equal, kept once and counted.

use crate::shapes::program::{Pred, Twig, Value};
use hashbrown::HashMap;
use std::hash::{Hash, Hasher};

/// A thing as bytes, the same for equal ones only: what its hash is made of.
pub fn key(thing: &impl Hash) -> Vec<u8> {
    #[derive(Default)]
    struct Bytes(Vec<u8>);

    impl Hasher for Bytes {
        fn write(&mut self, bytes: &[u8]) {
            self.0.extend_from_slice(bytes);
        }

        fn finish(&self) -> u64 {
            0
        }
    }

    let mut bytes = Bytes::default();
    thing.hash(&mut bytes);
    bytes.0
}

/// Things that are equal are kept once, with the number of their users.
pub struct Shared<T> {
    items: Vec<Option<T>>,
    users: Vec<u32>,
    free: Vec<u32>,
    ids: HashMap<Box<[u8]>, u32>,
    keys: Vec<Box<[u8]>>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared { items: vec![], users: vec![], free: vec![], ids: HashMap::new(), keys: vec![] }
    }
}

impl<T> Shared<T> {
    /// The number of the thing with this key; true if it has just been made.
    pub fn acquire(&mut self, key: &[u8], make: impl FnOnce() -> T) -> (u32, bool) {
        if let Some(&id) = self.ids.get(key) {
            self.users[id as usize] += 1;
            return (id, false);
        }
        let id = self.free.pop().unwrap_or(self.items.len() as u32);
        if id as usize == self.items.len() {
            self.items.push(None);
            self.users.push(0);
            self.keys.push(Box::default());
        }
        self.items[id as usize] = Some(make());
        self.users[id as usize] = 1;
        self.keys[id as usize] = key.into();
        self.ids.insert(key.into(), id);
        (id, true)
    }

    /// The number of the thing with this key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        self.ids.get(key).copied()
    }

    /// One more uses a thing that is there.
    pub fn acquire_again(&mut self, id: u32) {
        self.users[id as usize] += 1;
    }

    /// The thing itself, if nobody uses it any more.
    pub fn release(&mut self, id: u32) -> Option<T> {
        self.users[id as usize] -= 1;
        if self.users[id as usize] > 0 {
            return None;
        }
        self.ids.remove(&std::mem::take(&mut self.keys[id as usize]));
        self.free.push(id);
        self.items[id as usize].take()
    }

    pub fn get(&self, id: u32) -> &T {
        self.items[id as usize].as_ref().expect("in use")
    }

    pub fn get_mut(&mut self, id: u32) -> &mut T {
        self.items[id as usize].as_mut().expect("in use")
    }

    pub fn users(&self, id: u32) -> u32 {
        self.users[id as usize]
    }

    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> Shared<T> {
    /// The things with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.items).filter_map(|(id, item)| Some((id, item.as_ref()?)))
    }
}

#[cfg(feature = "internals")]
impl<T> Shared<T> {
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers are below this.
    pub fn bound(&self) -> usize {
        self.items.len()
    }
}

/// The constants that predicates use, so that what else a transform has does not tell equal ones apart.
pub fn constants_of(preds: &[&Pred], row: &[u64]) -> Vec<u64> {
    fn twig(t: &Twig, f: &mut dyn FnMut(u32)) {
        t.nodes.iter().flat_map(|n| &n.filters).for_each(|p| walk(p, f));
    }
    fn walk(pred: &Pred, f: &mut dyn FnMut(u32)) {
        match pred {
            Pred::Bool(_) | Pred::NodeIs(_) | Pred::Position { .. } => {}
            Pred::And(ps) | Pred::Or(ps) => ps.iter().for_each(|p| walk(p, f)),
            Pred::Not(p) => walk(p, f),
            Pred::Exists(t) => twig(t, f),
            Pred::Compare { value, slot, .. } => {
                let (Value::Str { twig: t, .. } | Value::Length { twig: t, .. } | Value::Count(t)) = value;
                twig(t, f);
                f(*slot);
            }
        }
    }
    let mut constants = vec![];
    preds.iter().for_each(|p| walk(p, &mut |slot| constants.push(row[slot as usize])));
    constants
}
