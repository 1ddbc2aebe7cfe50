//! The bytes of a document cut into pieces that are documents: stretches between units, in the tags of the elements
//! that are open around them.
//!
//! To read a document only in order to cut it would cost as much as to match it. So a piece is cut where an end tag
//! of a unit stands, in the belief that it is one and that the open elements are those of the last piece. Whoever reads
//! the piece finds out: if all pieces up to some place are well-formed with these tags around them, then that is what
//! the document has there. If one is not, it is read again from its start by the streaming reader, which knows where
//! it may be cut, or what is wrong with the document, and where. Only for UTF-8, and without a DTD that changes content.
//!
//! A unit that is too large is cut nevertheless, and so are those that are open where the document breaks off; what is
//! found in parts of them then does not hold for every subscription, so that they are told.

use super::automaton::Automaton;
use super::cutter::{Chain, Cut, Cutter};
use crate::names::Names;
use crate::xml::{Limits, Place, Stream, XmlError};
use memchr::memmem;
use std::collections::VecDeque;

pub use super::automaton::Keep;

/// A piece; it is a document on its own.
pub struct Piece {
    pub number: u64,
    pub xml: Vec<u8>,
    /// The part of it that is a part of the document.
    pub content: (usize, usize),
    /// It may have been cut wrongly.
    pub guessed: bool,
    /// So many elements are open around it. Some may be units that are cut through.
    pub around: usize,
    /// Units, by the number of their path, that are cut through at its end.
    pub parted: Vec<usize>,
}

pub struct Settings {
    pub limits: Limits,
    pub window: usize,
    pub max_total: u64,
    /// The size of a piece, about.
    pub target: usize,
}

enum Mode {
    Exact(Box<(Stream, Cutter)>),
    /// By this end tag.
    Guess(Vec<u8>),
    Done,
}

pub struct Pieces {
    settings: Settings,
    /// The size of the piece at hand. The first ones are small: what is found in them need not be looked for in others.
    size: usize,
    mode: Mode,
    /// What a cutter needs, while there is none.
    parts: Option<(Names, Automaton)>,
    /// The piece at hand: the tags of `chain`, of `head` bytes, and the content so far.
    buffer: Vec<u8>,
    head: usize,
    chain: Chain,
    /// Where the piece at hand begins.
    place: Place,
    lenient: bool,
    /// Bytes that have come.
    total: u64,
    /// The chain and the beginning of pieces that are not settled, which have the numbers from `first` on.
    unsettled: VecDeque<(Chain, Place)>,
    first: u64,
    ready: Vec<Piece>,
    /// Pieces to be cut exactly before guessing is tried again, and how many that was last time.
    patience: u32,
    last_patience: u32,
    /// How often what is at hand has been read again because some unit is too large.
    widened: u32,
    finished: bool,
    broken: bool,
    error: Option<XmlError>,
}

const FIRST: usize = 1 << 16;
const DOCTYPE: &[u8] = b"<!DOCTYPE d SYSTEM \"d\">";

impl Pieces {
    /// `units` are elements that are not to be cut.
    pub fn new(names: Names, units: Vec<Keep>, settings: Settings) -> Pieces {
        let stream = Stream::new(settings.limits, settings.window, settings.max_total);
        let cutter = Cutter::new(names, Automaton::new(units), 0);
        Pieces {
            size: settings.target.min(FIRST),
            settings,
            mode: Mode::Exact(Box::new((stream, cutter))),
            parts: None,
            buffer: vec![],
            head: 0,
            chain: Chain::default(),
            place: Place::START,
            lenient: false,
            total: 0,
            unsettled: VecDeque::new(),
            first: 0,
            ready: vec![],
            patience: 0,
            last_patience: 0,
            widened: 0,
            finished: false,
            broken: false,
            error: None,
        }
    }

    /// What is wrong with the document; the pieces before are all there are.
    pub fn error(&self) -> Option<&XmlError> {
        self.error.as_ref()
    }

    pub fn take(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.ready)
    }

    /// The first of the pieces that are not settled was well-formed.
    pub fn settle(&mut self) {
        self.unsettled.pop_front();
        self.first += 1;
    }

    /// The first of the pieces that are not settled was not: given its content and that of all after it, cuts anew.
    pub fn reject(&mut self, contents: &[&[u8]]) {
        let Some((chain, place)) = self.unsettled.pop_front() else {
            return;
        };
        self.first += 1 + self.unsettled.len() as u64;
        self.unsettled.clear();
        self.ready.clear();
        self.last_patience = (2 * self.last_patience).clamp(1, 64);
        self.patience = self.last_patience;
        let rest = self.buffer.split_off(self.head.min(self.buffer.len()));
        self.error = None;
        self.recover();
        (self.chain, self.place) = (chain, place);
        self.begin();
        self.resume(self.chain.depth);
        for content in contents.iter().copied().chain([&rest[..]]) {
            self.push(content);
        }
        if self.total > self.settings.max_total {
            self.fail_at_limit();
        } else if self.broken {
            self.break_off();
        } else if std::mem::take(&mut self.finished) {
            self.finish();
        }
    }

    /// Takes the next bytes of the document.
    pub fn feed(&mut self, bytes: &[u8]) {
        let room = self.settings.max_total.saturating_sub(self.total).min(bytes.len() as u64) as usize;
        self.total += bytes.len() as u64;
        self.push(&bytes[..room]);
        if room < bytes.len() {
            self.fail_at_limit();
        }
    }

    fn fail_at_limit(&mut self) {
        if self.error.is_none() {
            let place = self.place.after(&self.buffer[self.head..]);
            self.fail(place.too_large("a document", self.settings.max_total));
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(self.size.min(rest.len()));
            rest = after;
            let done = matches!(self.mode, Mode::Done);
            // While a piece may yet be rejected, nothing is known of what follows, not even an error.
            if done && self.unsettled.is_empty() {
                return;
            }
            self.buffer.extend_from_slice(part);
            if !done {
                self.read(part);
            }
        }
    }

    fn read(&mut self, part: &[u8]) {
        if let Mode::Exact(exact) = &mut self.mode {
            let (stream, cutter) = &mut **exact;
            if let Err(error) = stream.push(part, cutter) {
                return self.fail(error);
            }
            if stream.is_plain() != Some(true) {
                return; // it stays in one piece
            }
            self.lenient = stream.is_lenient();
            if self.buffer.len() - self.head < self.size && self.place.offset > 0 {
                return;
            }
            let most = self.settings.limits.max_bytes;
            let length = (self.buffer.len() - self.head) as u64;
            match (cutter.take(self.place.offset), cutter.depth_of_unit()) {
                (Some(cut), _) => self.cut_exactly(cut),
                (None, _) if length <= most => {}
                (None, Some(depth)) => {
                    // Ever more at once, for a unit in it may be as large, and a unit in that.
                    self.widened = (self.widened + 1).min(16);
                    return self.read_again(depth - 1 + (1 << (self.widened - 1)));
                }
                // the reader tells of markup or text only when it has a little more than that
                (None, None) if length <= 2 * most => {}
                (None, None) => return self.fail(self.place.too_large("what cannot be cut, a part", most)),
            }
        }
        while self.guess() {}
    }

    fn cut_exactly(&mut self, mut cut: Cut) {
        let unit = cut.unit.take();
        self.emit_upto(cut);
        self.patience = self.patience.saturating_sub(1);
        if let (Some(end), 0, None) = (unit, self.patience, &self.error) {
            self.recover();
            self.mode = Mode::Guess(end);
        }
    }

    /// Cuts a piece without reading it, if there is enough for one.
    fn guess(&mut self) -> bool {
        let Mode::Guess(end) = &self.mode else {
            return false;
        };
        let content = &self.buffer[self.head..];
        let target = self.size;
        if content.len() < target {
            return false;
        }
        // The last one of a piece, so that little has to be moved.
        let length = match memmem::rfind(content, end) {
            Some(at) => at + end.len(),
            None if content.len() < 2 * target => return false,
            None => {
                self.patience = 1;
                self.read_again(self.chain.depth);
                return false;
            }
        };
        let chain = self.chain.clone();
        self.emit(length, chain, true, vec![]);
        true
    }

    fn emit_upto(&mut self, cut: Cut) {
        let Cut { at, chain, parted, .. } = cut;
        self.emit((at - self.place.offset) as usize, chain, false, parted);
        let most = self.settings.limits.max_bytes / 4; // so that a piece stays below all of it
        if self.chain.tags.len() as u64 > most {
            self.recover();
            self.error = Some(self.place.too_large("the tags of open elements, together", most));
        }
    }

    /// The content up to `length` is a piece, at the end of which the elements of `chain` are open.
    fn emit(&mut self, length: usize, chain: Chain, guessed: bool, parted: Vec<usize>) {
        let rest = self.buffer.split_off(self.head + length);
        let mut xml = std::mem::take(&mut self.buffer);
        let content = (self.head, xml.len());
        let place = self.place.after(&xml[self.head..]);
        xml.extend_from_slice(&chain.ends);
        self.ready(xml, content, guessed, parted);
        (self.chain, self.place) = (chain, place);
        if length >= self.settings.target {
            self.widened = 0;
        }
        // Every piece has all the tags around it: with long ones, pieces have to be few.
        self.size = (2 * self.size).min(self.settings.target).max(self.chain.tags.len());
        self.begin();
        self.buffer.extend_from_slice(&rest);
    }

    fn ready(&mut self, xml: Vec<u8>, content: (usize, usize), guessed: bool, parted: Vec<usize>) {
        let number = self.first + self.unsettled.len() as u64;
        let around = self.chain.depth;
        self.unsettled.push_back((self.chain.clone(), self.place));
        self.ready.push(Piece { number, xml, content, guessed, around, parted });
    }

    /// Begins a piece.
    fn begin(&mut self) {
        self.buffer = Vec::with_capacity(self.size + self.size / 4);
        if self.lenient && !self.chain.tags.is_empty() {
            self.buffer.extend_from_slice(DOCTYPE);
        }
        self.buffer.extend_from_slice(&self.chain.tags);
        self.head = self.buffer.len();
    }

    /// Reads what is at hand with the streaming reader, and then on. The outermost `free` elements may be cut through.
    fn read_again(&mut self, free: usize) {
        let rest = self.buffer.split_off(self.head);
        self.recover();
        self.resume(free);
        self.push(&rest);
    }

    /// Makes the streaming reader ready to read from the beginning of the piece at hand.
    fn resume(&mut self, free: usize) {
        let Some((names, units)) = self.parts.take() else {
            return;
        };
        let Settings { limits, window, max_total, .. } = self.settings;
        let mut cutter = Cutter::new(names, units, free);
        let stream = if self.place.offset == 0 {
            Ok(Stream::new(limits, window, max_total))
        } else {
            Stream::resume(limits, window, max_total, &self.buffer[..self.head], self.place, &mut cutter)
        };
        match stream {
            Ok(stream) => self.mode = Mode::Exact(Box::new((stream, cutter))),
            Err(error) => self.error = Some(error),
        }
    }

    fn recover(&mut self) {
        if let Mode::Exact(exact) = std::mem::replace(&mut self.mode, Mode::Done) {
            self.parts = Some(exact.1.into_parts());
        }
    }

    fn fail(&mut self, error: XmlError) {
        self.emit_rest();
        self.error = Some(error);
    }

    /// The document breaks off. What there is up to the last tag makes pieces, one before each unit that is open then,
    /// so that what one subscription gets does not depend on what must be whole for others.
    fn emit_rest(&mut self) {
        self.recover();
        let rest = self.buffer.split_off(self.head);
        self.resume(Cutter::ALL);
        self.buffer.extend_from_slice(&rest);
        let Mode::Exact(exact) = &mut self.mode else {
            return;
        };
        let (stream, cutter) = &mut **exact;
        let _ = stream.push(&rest, cutter).and_then(|()| stream.finish(cutter)); // what is wrong is known
        let mut cuts = vec![];
        if stream.is_plain() == Some(true) {
            // as long as the tags that go with every piece are not more than what there is
            let mut left = rest.len();
            cuts.extend(cutter.before_open_units(self.chain.depth).take_while(|cut| {
                left = left.saturating_sub(cut.chain.tags.len());
                left > 0
            }));
            cuts.extend(cutter.take(self.place.offset));
        }
        self.recover();
        for cut in cuts {
            if cut.at > self.place.offset {
                self.emit_upto(cut);
            }
        }
    }

    /// No more comes, though the document has not ended.
    pub fn break_off(&mut self) {
        self.broken = true;
        if !matches!(self.mode, Mode::Done) {
            self.emit_rest();
        }
    }

    /// There is no more: the rest is the last piece.
    pub fn finish(&mut self) {
        self.finished = true;
        let guessed = match &mut self.mode {
            Mode::Done => return,
            Mode::Guess(_) => true,
            Mode::Exact(exact) => {
                let (stream, cutter) = &mut **exact;
                match stream.finish(cutter) {
                    Err(error) => return self.fail(error),
                    Ok(()) => false,
                }
            }
        };
        let xml = std::mem::take(&mut self.buffer);
        let content = (self.head, xml.len());
        self.head = 0;
        self.ready(xml, content, guessed, vec![]);
        self.recover();
    }
}
