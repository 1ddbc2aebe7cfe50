//! The bytes of a document cut into pieces that are documents: stretches between units, in the tags of the elements
//! that are open around them.
//!
//! To read a document only in order to cut it would cost as much as to match it. So a piece is cut where an end tag
//! of a unit stands, in the belief that it is one and that the open elements are those of the last piece. Whoever reads
//! the piece finds out: if all pieces up to some place are well-formed with these tags around them, then that is what
//! the document has there. If one is not, it is read again from its start by the streaming reader, which knows where
//! it may be cut, or what is wrong with the document, and where. Only for UTF-8, and without a DTD that changes content.

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
    finished: bool,
    error: Option<XmlError>,
}

const FIRST: usize = 1 << 16;
const DOCTYPE: &[u8] = b"<!DOCTYPE d SYSTEM \"d\">";

impl Pieces {
    /// `units` are elements that are not to be cut.
    pub fn new(names: Names, units: Vec<Keep>, settings: Settings) -> Pieces {
        let stream = Stream::new(settings.limits, settings.window, settings.max_total);
        let cutter = Cutter::new(names, Automaton::new(units));
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
            finished: false,
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
        self.resume();
        for content in contents.iter().copied().chain([&rest[..]]) {
            self.push(content);
        }
        if std::mem::take(&mut self.finished) {
            self.finish();
        }
    }

    /// Takes the next bytes of the document.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let most = self.settings.max_total;
        if self.total > most && matches!(self.mode, Mode::Guess(_)) {
            let place = self.place.after(&self.buffer[self.head..]);
            self.mode = Mode::Done;
            self.error = Some(place.too_large("a document", most));
        }
        self.push(bytes);
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
            match cutter.take(self.place.offset) {
                Some((at, cut)) => self.cut_exactly(at, cut),
                None if (self.buffer.len() - self.head) as u64 > self.settings.limits.max_bytes => {
                    let most = self.settings.limits.max_bytes;
                    return self.fail(self.place.too_large("what must not be cut, a part", most));
                }
                None => {}
            }
        }
        while self.guess() {}
    }

    fn cut_exactly(&mut self, at: u64, cut: Cut) {
        let length = (at - self.place.offset) as usize;
        let Cut { chain, unit, .. } = cut;
        self.emit(length, chain, false);
        self.patience = self.patience.saturating_sub(1);
        if let (Some(end), 0) = (unit, self.patience) {
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
                let rest = self.buffer.split_off(self.head);
                self.resume();
                self.patience = 1;
                self.push(&rest);
                return false;
            }
        };
        let chain = self.chain.clone();
        self.emit(length, chain, true);
        true
    }

    /// The content up to `length` is a piece, at the end of which the elements of `chain` are open.
    fn emit(&mut self, length: usize, chain: Chain, guessed: bool) {
        let rest = self.buffer.split_off(self.head + length);
        let mut xml = std::mem::take(&mut self.buffer);
        let content = (self.head, xml.len());
        let place = self.place.after(&xml[self.head..]);
        xml.extend_from_slice(&chain.ends);
        self.ready(xml, content, guessed);
        (self.chain, self.place) = (chain, place);
        self.size = (2 * self.size).min(self.settings.target);
        self.begin();
        self.buffer.extend_from_slice(&rest);
    }

    fn ready(&mut self, xml: Vec<u8>, content: (usize, usize), guessed: bool) {
        let number = self.first + self.unsettled.len() as u64;
        self.unsettled.push_back((self.chain.clone(), self.place));
        self.ready.push(Piece { number, xml, content, guessed });
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

    /// Reads on with the streaming reader.
    fn resume(&mut self) {
        let Some((names, units)) = self.parts.take() else {
            return;
        };
        let Settings { limits, window, max_total, .. } = self.settings;
        let mut cutter = Cutter::new(names, units);
        match Stream::resume(limits, window, max_total, &self.buffer[..self.head], self.place, &mut cutter) {
            Ok(stream) => self.mode = Mode::Exact(Box::new((stream, cutter))),
            Err(error) => self.fail(error),
        }
    }

    fn recover(&mut self) {
        if let Mode::Exact(exact) = std::mem::replace(&mut self.mode, Mode::Done) {
            self.parts = Some(exact.1.into_parts());
        }
    }

    fn fail(&mut self, error: XmlError) {
        if let Mode::Exact(exact) = &mut self.mode {
            let plain = exact.0.is_plain() == Some(true);
            if let (Some((at, cut)), true) = (exact.1.take(self.place.offset), plain) {
                let length = (at - self.place.offset) as usize;
                self.emit(length, cut.chain, false);
            }
        }
        self.recover();
        self.error = Some(error);
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
        self.ready(xml, content, guessed);
        self.recover();
    }
}
