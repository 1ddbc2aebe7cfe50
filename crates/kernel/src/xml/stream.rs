//! Documents that are too large for memory, read in one pass as their bytes arrive.
//!
//! What has arrived is read up to its last `<`, so that no text, reference or character is ever cut; markup that is
//! not all there is read again when more has come. What the walk must remember of the bytes that are gone (the names of
//! open elements and the prefixes in scope) is written before the next ones: to the walk this is one document. Memory is
//! bounded by the window, the depth, and the longest piece of markup or text, for which `max_bytes` is the limit.

use super::chars::verify;
use super::dtd::{self, Dtd};
use super::encoding::{self, Encoding};
use super::entities::Budget;
use super::error::{code, fault, Fault, Result, XmlError};
use super::limits::{Limits, ADDRESSABLE};
use super::markup;
use super::output::{Map, Output};
use super::place::{Place, Places};
use super::prolog::{self, Declaration, Doctype, Misc};
use super::reader::Reader;
use super::rewrite::Rewriter;
use super::sink::Sink;
use super::walk::{Part, Plain};

enum Phase {
    /// The encoding is not known yet.
    Start,
    Prolog,
    Body(Body),
    Done,
}

struct Body {
    /// Nothing of it has been walked.
    first: bool,
    lenient: bool,
    /// What the DTD declares, if that changes the content.
    dtd: Option<Box<Dtd>>,
    /// Spent on entities and defaults so far.
    spent: u64,
}

/// What is known of the end of the buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The document may go on in the middle of anything.
    Open,
    /// It goes on after whole markup.
    Whole,
    /// It ends here.
    Last,
}

/// What a part came to: how far it was read.
type Step = std::result::Result<usize, XmlError>;

/// Reads one document, in pieces of any size.
pub struct Stream {
    reader: Reader,
    limits: Limits,
    /// Bytes of the document; a limit of its own, for `max_bytes` bounds what is in memory.
    max_total: u64,
    window: usize,
    phase: Phase,
    encoding: Encoding,
    /// Bytes that are not decoded yet.
    raw: Vec<u8>,
    /// Bytes that have come.
    total: u64,
    /// Length of the byte order mark.
    mark: usize,
    /// What the walk remembers, and from `head` on the text that is not read yet.
    buffer: Vec<u8>,
    head: usize,
    /// Reading is tried again when there is this much text.
    want: usize,
    places: Places,
    /// The plain form of a part, for a document that is rewritten.
    plain: Vec<u8>,
    /// From the plain form of the last part to its text.
    map: Option<Map>,
    spare: Vec<u8>,
    misc: Vec<Misc>,
    lenient: bool,
    is_plain: Option<bool>,
}

// SAFETY: what keeps it from being sent and shared are the counted texts of entities. All their owners are in the stream
// and none is ever given out, so they go to another thread together; and what can be asked through a shared reference
// does not look at them.
unsafe impl Send for Stream {}
unsafe impl Sync for Stream {}

impl Stream {
    /// A window is what is gathered before it is read.
    pub fn new(limits: Limits, window: usize, max_total: u64) -> Stream {
        let window = window.max(1);
        Stream {
            reader: Reader::new(),
            limits,
            max_total,
            window,
            phase: Phase::Start,
            encoding: Encoding::Utf8,
            raw: Vec::new(),
            total: 0,
            mark: 0,
            buffer: Vec::new(),
            head: 0,
            want: window,
            places: Places::new(Encoding::Utf8, 0),
            plain: Vec::new(),
            map: None,
            spare: Vec::new(),
            misc: Vec::new(),
            lenient: false,
            is_plain: None,
        }
    }

    /// A stream that goes on in the middle of a document in UTF-8, at `place`. `preamble` is what leads there: the start
    /// tags of the elements that are open.
    pub fn resume<S: Sink>(
        limits: Limits,
        window: usize,
        max_total: u64,
        preamble: &[u8],
        place: Place,
        sink: &mut S,
    ) -> std::result::Result<Stream, XmlError> {
        let mut stream = Stream::new(limits, window, max_total);
        stream.phase = Phase::Prolog;
        stream.buffer.extend_from_slice(preamble);
        let body = stream.prolog(true, sink)?;
        if body > 0 {
            stream.advance(body, sink);
        }
        let end = stream.body(End::Whole, sink)?;
        stream.advance(end, sink);
        stream.places.go(place);
        stream.total = place.offset;
        Ok(stream)
    }

    /// The document is in UTF-8 and its DTD, if it has one, does not change it; not known before its body.
    pub fn is_plain(&self) -> Option<bool> {
        self.is_plain
    }

    /// References to entities that are not declared are passed over: an external DTD, which is not read, may do that.
    pub fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Takes the next bytes. After an error nothing more is read.
    pub fn push<S: Sink>(&mut self, bytes: &[u8], sink: &mut S) -> std::result::Result<(), XmlError> {
        for part in bytes.chunks(self.window) {
            self.total += part.len() as u64;
            if self.total > self.max_total {
                let message = format!("a document of more than {} bytes", self.max_total);
                return self.fail(fault(code::LIMIT_SIZE, self.buffer.len(), message));
            }
            self.take(part, false, sink)?;
        }
        Ok(())
    }

    /// There is no more: reads what is left.
    pub fn finish<S: Sink>(&mut self, sink: &mut S) -> std::result::Result<(), XmlError> {
        self.take(&[], true, sink)
    }

    fn take<S: Sink>(&mut self, bytes: &[u8], last: bool, sink: &mut S) -> std::result::Result<(), XmlError> {
        if matches!(self.phase, Phase::Done) {
            return Ok(());
        }
        let started = !matches!(self.phase, Phase::Start);
        if started && self.encoding == Encoding::Utf8 {
            self.buffer.extend_from_slice(bytes);
            return self.read(last, sink);
        }
        self.raw.extend_from_slice(bytes);
        if !started {
            if !last && !prolog::shows_encoding(&self.raw) && !self.is_full(self.raw.len()) {
                return Ok(());
            }
            self.start()?;
        }
        let decoded = self.decode(last);
        self.read(last && decoded.is_ok(), sink)?;
        decoded.or_else(|fault| self.fail(fault))
    }

    /// Finds out the encoding.
    fn start(&mut self) -> std::result::Result<(), XmlError> {
        let raw = std::mem::take(&mut self.raw);
        let found = encoding::detect(&raw).and_then(|(detected, mark)| {
            let mut encoding = detected;
            if !matches!(detected, Encoding::Utf16 { .. }) && prolog::has_declaration(&raw, mark) {
                if let Some((from, to)) = prolog::declaration(&raw, mark)?.encoding {
                    encoding = encoding::declared(&raw[from..to], from, detected, mark)?;
                }
            }
            Ok((encoding, mark))
        });
        match found {
            Err(mut fault) => {
                let mark = if raw.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
                fault.at = fault.at.saturating_sub(mark);
                self.places = Places::new(Encoding::Utf8, mark);
                self.buffer = raw[mark..].to_vec();
                self.fail(fault)
            }
            Ok((encoding, mark)) => {
                (self.encoding, self.mark, self.phase) = (encoding, mark, Phase::Prolog);
                self.places = Places::new(encoding, mark);
                self.raw = raw;
                self.raw.drain(..mark);
                Ok(())
            }
        }
    }

    fn decode(&mut self, last: bool) -> Result<()> {
        if self.encoding == Encoding::Utf8 {
            self.buffer.append(&mut self.raw);
            return Ok(());
        }
        let whole = if last { self.raw.len() } else { self.encoding.whole(&self.raw) };
        let decoded = self.encoding.transcode(&self.raw[..whole], &mut self.buffer);
        self.raw.drain(..whole);
        decoded
    }

    fn is_full(&self, length: usize) -> bool {
        length as u64 >= self.limits.max_bytes.min(ADDRESSABLE / 2)
    }

    /// Reads as far as it can be read.
    fn read<S: Sink>(&mut self, last: bool, sink: &mut S) -> std::result::Result<(), XmlError> {
        loop {
            let length = self.buffer.len() - self.head;
            if !last && length < self.want {
                return Ok(());
            }
            let text = self.head;
            let read = match &self.phase {
                Phase::Start | Phase::Done => return Ok(()),
                Phase::Prolog => {
                    let read = self.prolog(last, sink)?;
                    if read == 0 && matches!(self.phase, Phase::Body(_)) {
                        continue;
                    }
                    read
                }
                Phase::Body(_) => self.body(if last { End::Last } else { End::Open }, sink)?,
            };
            if last && matches!(self.phase, Phase::Done) {
                return Ok(());
            }
            if read == text {
                if self.is_full(length) {
                    let most = self.limits.max_bytes.min(ADDRESSABLE / 2);
                    let message = format!("markup or text of more than {most} bytes in one piece; that is the limit");
                    return self.fail(fault(code::LIMIT_SIZE, self.head, message));
                }
                self.want = length.saturating_mul(2).max(length + 1);
            } else {
                self.advance(read, sink);
                self.want = self.window;
            }
        }
    }

    /// Reads what stands before the root element, if it is all there. Answers how far it was read.
    fn prolog<S: Sink>(&mut self, last: bool, sink: &mut S) -> Step {
        let src = std::mem::take(&mut self.buffer);
        let found = self.read_prolog(&src, last);
        self.buffer = src;
        match found {
            Err(fault) if last || self.is_full(self.buffer.len()) => self.fail(fault),
            Ok((end, body)) if last || end + 16 <= self.buffer.len() => {
                sink.begin(&self.buffer);
                for misc in &self.misc {
                    if misc.comment {
                        sink.comment(&self.buffer, misc.start, misc.end);
                    } else {
                        sink.instruction(&self.buffer, misc.start, misc.end);
                    }
                }
                self.lenient = body.lenient;
                self.is_plain = Some(self.encoding == Encoding::Utf8 && body.dtd.is_none());
                self.phase = Phase::Body(body);
                Ok(end)
            }
            _ => Ok(0),
        }
    }

    fn read_prolog(&mut self, src: &[u8], last: bool) -> Result<(usize, Body)> {
        let mut declared = Declaration::default();
        if prolog::has_declaration(src, 0) {
            declared = prolog::declaration(src, 0)?;
            if let Some((from, to)) = declared.encoding {
                encoding::declared(&src[from..to], from, self.encoding, self.mark)?;
            }
        }
        let (max_name, standalone) = (self.limits.max_name, declared.standalone);
        self.misc.clear();
        let mut doctype = None;
        let end = prolog::misc(src, declared.end, &mut self.misc, &mut doctype, max_name)?;
        let external = doctype.is_some_and(|d| d.external);
        let mut body = Body { first: true, lenient: external && !standalone, dtd: None, spent: 0 };
        if doctype.is_none_or(|d| d.subset.is_none()) {
            verify(src, 0, end, true, true)?;
            return Ok((end, body));
        }
        // Only what is known to be characters is read.
        let (good, bad) = match verify(src, 0, src.len(), last, true) {
            Ok(good) => (good, None),
            Err(fault) => (fault.at, Some(fault)),
        };
        let mut budget = Budget::resumed(&self.limits, self.total, 0);
        let read = dtd::read(&src[..good], end, external, standalone, &mut budget);
        let (dtd, past) = match (read, bad) {
            (Ok(read), _) => read,
            (Err(_), Some(bad)) => return Err(bad),
            (Err(fault), None) => return Err(fault),
        };
        if dtd.changes_nothing() {
            body.lenient = dtd.general.unread && !standalone;
            let mut seen = Some(Doctype { external, subset: None });
            return Ok((prolog::misc(src, past, &mut self.misc, &mut seen, max_name)?, body));
        }
        body.lenient = false;
        body.spent = budget.spent;
        body.dtd = Some(Box::new(dtd));
        Ok((past, body))
    }

    /// Reads content. Answers how far it was read.
    fn body<S: Sink>(&mut self, upto: End, sink: &mut S) -> Step {
        let last = upto == End::Last;
        let end = match memchr::memrchr(b'<', &self.buffer[self.head..]) {
            _ if upto != End::Open => self.buffer.len(),
            Some(at) => self.head + at,
            None => self.head,
        };
        if end == self.head && !last {
            return Ok(end);
        }
        let Phase::Body(mut body) = std::mem::replace(&mut self.phase, Phase::Done) else {
            return Ok(end);
        };
        let part = Part { continued: !body.first, more: !last };
        let read = match body.dtd.take() {
            None => self.walk(end, part, body.lenient, sink)?,
            Some(mut dtd) => {
                let read = self.rewrite(end, part, &mut dtd, &mut body.spent, sink)?;
                body.dtd = Some(dtd);
                read
            }
        };
        if last {
            self.turn(read, 0, sink);
            sink.finish(if body.dtd.is_some() { &self.plain } else { &self.buffer });
            return Ok(read);
        }
        // The first markup may not be all there: then the walk begins anew.
        body.first &= read == self.head;
        self.phase = Phase::Body(body);
        Ok(read)
    }

    fn walk<S: Sink>(&mut self, end: usize, part: Part, lenient: bool, sink: &mut S) -> Step {
        let src = &self.buffer[..end];
        let doc = Plain { src, body: self.head, lenient, part, limits: &self.limits };
        let walked = self.reader.walk(&doc, sink);
        let read = match (walked, self.reader.scratch.stopped) {
            (Ok(()), _) => end,
            (Err(_), Some(at)) if part.more && !markup::is_whole(src, at) => at,
            (Err(fault), _) => {
                self.turn(self.head, 0, sink);
                return self.fail(fault);
            }
        };
        Ok(read)
    }

    /// As `walk`, for a document that its DTD changes.
    fn rewrite<S: Sink>(&mut self, end: usize, part: Part, dtd: &mut Dtd, spent: &mut u64, sink: &mut S) -> Step {
        if let Err(fault) = verify(&self.buffer[..end], self.head, end, true, true) {
            return self.fail(fault);
        }
        let src = &self.buffer[..end];
        self.plain.clear();
        self.plain.extend_from_slice(&src[..self.head]);
        let mut budget = Budget::resumed(&self.limits, self.total, *spent);
        let out = Output::new(src, &mut self.plain);
        let depth = self.reader.scratch.open().len() * usize::from(part.continued);
        let rewriter = Rewriter::new(dtd, &mut budget, out);
        let (rewritten, map, read) = rewriter.run_part(src, self.head, depth, part.more);
        *spent = budget.spent;
        let more = match rewritten {
            Ok(whole) => part.more && whole,
            Err(_) => true,
        };
        let part = Part { more, ..part };
        let doc = Plain { src: &self.plain, body: self.head, lenient: false, part, limits: &self.limits };
        let walked = self.reader.walk(&doc, sink);
        let cut = self.plain.len();
        let fault = match (rewritten, walked) {
            (Ok(true), Ok(())) => {
                self.map = Some(map);
                return Ok(read);
            }
            (_, Err(fault)) => map.back(fault),
            (Err(fault), Ok(())) => fault,
            (Ok(false), Ok(())) => map.back(fault(code::BAD_MARKUP, cut, "the message is not well-formed here")),
        };
        self.map = Some(map);
        self.turn(self.head, 0, sink);
        self.fail(fault)
    }

    /// Tells the sink that another buffer follows, whose text begins at `next`, for the text before `read` is done.
    fn turn<S: Sink>(&self, read: usize, next: usize, sink: &mut S) {
        let mut offset = self.places.offsets(&self.buffer, self.head);
        match &self.map {
            None => sink.turn(&self.buffer, read as u32, next as u32, &mut |at| offset(at as usize)),
            Some(map) => {
                let read = if read > self.head { self.plain.len() } else { read };
                sink.turn(&self.plain, read as u32, next as u32, &mut |at| offset(map.original(at as usize)));
            }
        }
    }

    /// Lets go of the text before `to`, but for what the walk remembers of it.
    fn advance<S: Sink>(&mut self, to: usize, sink: &mut S) {
        let walked = if self.map.is_some() { &self.plain } else { &self.buffer };
        let scratch = &mut self.reader.scratch;
        let before: Vec<usize> = scratch.open().iter().map(|&(name, _)| name as usize - 1).collect();
        self.spare.clear();
        scratch.carry(walked, &mut self.spare);
        self.turn(to, self.spare.len(), sink);
        let (map, scratch) = (self.map.take(), &self.reader.scratch);
        let open = before.iter().zip(scratch.open()).map(|(&at, &(name, _))| {
            let at = map.as_ref().map_or(at, |map| map.original(at));
            (at, name - 1)
        });
        self.places.advance(&self.buffer, self.head, to, open);
        self.head = self.spare.len();
        self.spare.extend_from_slice(&self.buffer[to..]);
        std::mem::swap(&mut self.buffer, &mut self.spare);
    }

    #[allow(clippy::boxed_local)] // as all faults are
    fn fail<T>(&mut self, fault: Box<Fault>) -> std::result::Result<T, XmlError> {
        self.phase = Phase::Done;
        Err(self.places.locate(&self.buffer, self.head, *fault))
    }
}
