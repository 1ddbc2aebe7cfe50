//! Where the elements of a message are in the message as it was given, whatever its encoding and its DTD.

use crate::xml::{Limits, Place, Reader, Sink, Tag, XmlError};

/// Returns the places of the start tags of these elements, which are numbered from 0 in document order; none for a
/// number that no element has.
pub fn places(
    reader: &mut Reader,
    xml: &[u8],
    limits: &Limits,
    wanted: &[u32],
) -> Result<Vec<Option<Place>>, XmlError> {
    let mut sink = Starts { wanted, starts: Vec::new(), found: Vec::new() };
    reader.read(xml, limits, &mut sink)?;
    Ok(sink.found)
}

struct Starts<'a> {
    wanted: &'a [u32],
    starts: Vec<u32>,
    found: Vec<Option<Place>>,
}

impl Sink for Starts<'_> {
    fn start(&mut self, tag: &Tag<'_>) {
        self.starts.push(tag.start);
    }

    fn end(&mut self, _src: &[u8], _at: u32, _past: u32) {}

    fn locate(&mut self, place: &mut dyn FnMut(u32) -> Place) {
        let mut order: Vec<usize> = (0..self.wanted.len()).collect();
        order.sort_unstable_by_key(|&i| self.wanted[i]);
        self.found = vec![None; self.wanted.len()];
        for i in order {
            self.found[i] = self.starts.get(self.wanted[i] as usize).map(|&start| place(start));
        }
    }
}
