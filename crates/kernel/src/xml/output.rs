//! The plain form of a document while it is written, and the way back from it to the document.

use super::entities::Place;
use super::error::Fault;

/// From offsets of the plain form to offsets of the document.
#[derive(Default)]
pub(super) struct Map {
    /// Where a stretch begins in the plain form and in the document, and whether it was copied byte for byte. 32 bits
    /// are enough for offsets and keep this small: a message may hold a reference every four bytes.
    stretches: Vec<(u32, u32, bool)>,
}

impl Map {
    pub fn original(&self, at: usize) -> usize {
        let next = self.stretches.partition_point(|stretch| stretch.0 as usize <= at);
        match next.checked_sub(1).map(|i| self.stretches[i]) {
            Some((plain, document, true)) => document as usize + (at - plain as usize),
            Some((_, document, false)) => document as usize,
            None => at,
        }
    }

    /// A fault of the walk over the plain form, as one of the document.
    pub fn back(&self, mut fault: Box<Fault>) -> Box<Fault> {
        fault.at = self.original(fault.at);
        fault.related = fault.related.map(|(words, at)| (words, self.original(at)));
        fault
    }
}

const BLOCK: usize = 32;

/// Writes the first bytes of a block. A few bytes are written faster as a whole block, of which the rest is taken back,
/// than by a call to copy just them.
#[inline(always)]
fn extend(out: &mut Vec<u8>, block: &[u8; BLOCK], length: usize) {
    let end = out.len() + length;
    out.extend_from_slice(block);
    out.truncate(end);
}

/// Writes the plain form. What is copied from the document is kept back, so that long stretches are copied at once.
pub(super) struct Output<'a> {
    src: &'a [u8],
    out: &'a mut Vec<u8>,
    map: Map,
    /// The stretch of the document that has been copied last and is not written yet.
    kept: (usize, usize),
}

impl<'a> Output<'a> {
    /// Writes after what `out` holds.
    pub fn new(src: &'a [u8], out: &'a mut Vec<u8>) -> Self {
        Output { src, out, map: Map::default(), kept: (0, 0) }
    }

    #[inline]
    fn flush(&mut self) {
        let (start, end) = self.kept;
        if start < end {
            self.map.stretches.push((self.out.len() as u32, start as u32, true));
            match self.src[start..].first_chunk() {
                Some(block) if end - start <= BLOCK => extend(self.out, block, end - start),
                _ => self.out.extend_from_slice(&self.src[start..end]),
            }
            self.kept = (end, end);
        }
    }

    /// Copies a span of the document.
    #[inline]
    pub fn copy(&mut self, start: usize, end: usize) {
        if self.kept.1 != start {
            self.flush();
            self.kept.0 = start;
        }
        self.kept.1 = end;
    }

    /// Writes bytes that the document has in other words at `at`.
    pub fn make(&mut self, bytes: &[u8], at: usize) {
        self.made(at).extend_from_slice(bytes);
    }

    /// To write bytes that the document has in other words at `at`.
    #[inline]
    pub fn made(&mut self, at: usize) -> &mut Vec<u8> {
        self.flush();
        if self.map.stretches.last().is_none_or(|&(_, document, copied)| copied || document as usize != at) {
            self.map.stretches.push((self.out.len() as u32, at as u32, false));
        }
        self.out
    }

    /// Writes `bytes`, which stand at `pos` of a text from `place`.
    #[inline]
    pub fn put(&mut self, bytes: &[u8], pos: usize, place: Place) {
        match place {
            Place::Document(_) => self.copy(pos, pos + bytes.len()),
            Place::Entity(at) => self.make(bytes, at),
        }
    }

    /// Writes a part of the plain form again.
    #[inline]
    pub fn repeat(&mut self, part: (usize, usize), at: usize) {
        let out = self.made(at);
        match out[part.0..].first_chunk().copied() {
            Some(block) if part.1 - part.0 <= BLOCK => extend(out, &block, part.1 - part.0),
            _ => out.extend_from_within(part.0..part.1),
        }
    }

    pub fn len(&self) -> usize {
        self.out.len() + (self.kept.1 - self.kept.0)
    }

    pub fn ends_with(&mut self, end: &[u8]) -> bool {
        self.flush();
        self.out.ends_with(end)
    }

    /// Ends it at `length` and gives the way back.
    pub fn finish(mut self, length: usize) -> Map {
        self.flush();
        self.out.truncate(length);
        self.map
    }
}
