//! The reader: finds out how a message is to be read, reads it, and says where an error is.

use super::chars::verify;
use super::dtd;
use super::encoding::{self, Encoding};
use super::entities::Budget;
use super::error::{code, fault, line_column, Fault, Result, XmlError};
use super::limits::{Limits, ADDRESSABLE};
use super::output::{Map, Output};
use super::place::Places;
use super::prolog::{self, Declaration, Doctype, Misc};
use super::rewrite::Rewriter;
use super::scan::Portable;
use super::sink::Sink;
use super::walk::{walk, Part, Plain, Scratch};

/// Reads messages one after the other; keeps its working memory between them.
pub struct Reader {
    avx2: bool,
    pub(super) scratch: Scratch,
    misc: Vec<Misc>,
    /// The message in UTF-8, if it came in another encoding.
    text: Vec<u8>,
    /// The plain form of the message, if its DTD changes its content.
    plain: Vec<u8>,
}

/// An internal subset: where it begins, and what decides how it is read.
struct Subset {
    past: usize,
    external: bool,
    standalone: bool,
}

/// Memory that a reader keeps for the next message; what a larger one took is given back.
const KEEP: usize = 1 << 20;

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    pub fn new() -> Self {
        #[cfg(target_arch = "x86_64")]
        let avx2 =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("popcnt");
        #[cfg(not(target_arch = "x86_64"))]
        let avx2 = false;
        Reader { avx2, ..Self::portable() }
    }

    /// A reader that uses no special instructions of the processor, for tests.
    pub fn portable() -> Self {
        Reader { avx2: false, scratch: Scratch::new(), misc: Vec::new(), text: Vec::new(), plain: Vec::new() }
    }

    /// Reads one message. The sink may have been told of a part of it when an error is found: it has to discard that.
    /// Until this answers `Ok`, the spans that the sink is given need not be UTF-8.
    pub fn read<S: Sink>(&mut self, bytes: &[u8], limits: &Limits, sink: &mut S) -> std::result::Result<(), XmlError> {
        let most = limits.max_bytes.min(ADDRESSABLE);
        if bytes.len() as u64 > most {
            let message = format!("a message of {} bytes; the limit is {most}", bytes.len());
            return Err(XmlError { code: code::LIMIT_SIZE, message, line: 1, column: 1, offset: 0 });
        }
        let result = self.read_any(bytes, limits, sink);
        if bytes.len() > KEEP || self.plain.capacity() > KEEP {
            self.scratch.shrink();
            self.misc = Vec::new();
            self.text = Vec::new();
            self.plain = Vec::new();
        }
        result
    }

    fn read_any<S: Sink>(&mut self, bytes: &[u8], limits: &Limits, sink: &mut S) -> std::result::Result<(), XmlError> {
        let in_place = |fault: Box<Fault>| locate(bytes, *fault, |at| at);
        let (mut encoding, mark) = encoding::detect(bytes).map_err(in_place)?;
        let mut declared = Declaration::default();
        if !matches!(encoding, Encoding::Utf16 { .. }) && prolog::has_declaration(bytes, mark) {
            declared = prolog::declaration(bytes, mark).map_err(in_place)?;
            if let Some((from, to)) = declared.encoding {
                encoding = encoding::declared(&bytes[from..to], from, encoding, mark).map_err(in_place)?;
            }
        }
        if encoding == Encoding::Utf8 || (bytes.is_ascii() && !matches!(encoding, Encoding::Utf16 { .. })) {
            return self.read_utf8(bytes, mark, declared, limits, sink, &Places::new(Encoding::Utf8, mark));
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let transcoded = encoding.transcode(&bytes[mark..], &mut text);
        let places = Places::new(encoding, mark);
        let result = transcoded.and_then(|()| {
            if text.len() as u64 > ADDRESSABLE {
                return Err(fault(code::LIMIT_SIZE, 0, "the message in UTF-8 is 4 GiB or more"));
            }
            let mut declared = Declaration::default();
            if prolog::has_declaration(&text, 0) {
                declared = prolog::declaration(&text, 0)?;
                if let Some((from, to)) = declared.encoding {
                    encoding::declared(&text[from..to], from, encoding, mark)?;
                }
            }
            Ok(declared)
        });
        let result = match result {
            Err(fault) => Err(places.locate(&text, 0, *fault)),
            Ok(declared) => self.read_utf8(&text, 0, declared, limits, sink, &places),
        };
        self.text = text;
        result
    }

    /// Reads a message in UTF-8 whose content begins at `start`. `places` lead from its offsets to the message as it
    /// was given.
    fn read_utf8<S: Sink>(
        &mut self,
        src: &[u8],
        start: usize,
        declared: Declaration,
        limits: &Limits,
        sink: &mut S,
        places: &Places,
    ) -> std::result::Result<(), XmlError> {
        let mut misc = std::mem::take(&mut self.misc);
        misc.clear();
        let mut doctype = None;
        let prolog = prolog::misc(src, start.max(declared.end), &mut misc, &mut doctype, limits.max_name);
        let result = match (prolog, doctype) {
            (Ok(past), Some(Doctype { external, subset: Some(_) })) => {
                let subset = Subset { past, external, standalone: declared.standalone };
                self.read_subset(src, subset, &mut misc, limits, sink)
            }
            (Ok(body), doctype) => {
                let lenient = doctype.is_some_and(|d| d.external) && !declared.standalone;
                let doc = Plain { src, body, lenient, part: Part::default(), limits };
                self.deliver(&doc, &misc, sink).map(|()| Map::default())
            }
            (Err(fault), _) => Err(fault),
        };
        self.misc = misc;
        let map = result.map_err(|fault| places.locate(src, start, *fault))?;
        let mut place = places.finder(src, start);
        sink.locate(&mut |at| place(map.original(at as usize)));
        Ok(())
    }

    /// Reads a document with an internal subset. Answers the way from what was delivered back to `src`.
    #[cold]
    #[inline(never)]
    fn read_subset<S: Sink>(
        &mut self,
        src: &[u8],
        subset: Subset,
        misc: &mut Vec<Misc>,
        limits: &Limits,
        sink: &mut S,
    ) -> Result<Map> {
        let Subset { past, external, standalone } = subset;
        verify(src, 0, src.len(), true, true)?;
        let mut budget = Budget::new(limits, src.len());
        let (mut dtd, past) = dtd::read(src, past, external, standalone, &mut budget)?;
        if dtd.changes_nothing() {
            let body = prolog::misc(src, past, misc, &mut Some(Doctype { external, subset: None }), limits.max_name)?;
            let lenient = dtd.general.unread && !standalone;
            let doc = Plain { src, body, lenient, part: Part::default(), limits };
            return self.deliver(&doc, misc, sink).map(|()| Map::default());
        }
        for (element, attribute) in dtd.attributes.ids() {
            sink.id_attribute(element, attribute);
        }
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let mut out = Output::new(src, &mut plain);
        for misc in misc.iter() {
            out.copy(misc.start as usize, misc.end as usize);
        }
        let (rewritten, map) = Rewriter::new(&mut dtd, &mut budget, out).run(src, past);
        let doc = Plain { src: &plain, body: 0, lenient: false, part: Part::default(), limits };
        let walked = self.deliver(&doc, &[], sink);
        let cut = plain.len();
        self.plain = plain;
        match (rewritten, walked) {
            (Ok(true), Ok(())) => Ok(map),
            (Ok(_), Err(fault)) => Err(map.back(fault)),
            (Ok(false), Ok(())) => Err(map.back(fault(code::BAD_MARKUP, cut, "the message is not well-formed here"))),
            // What was written before the rewriter gave up may have an error that comes first.
            (Err(_), Err(fault)) if fault.at < cut => Err(map.back(fault)),
            (Err(fault), _) => Err(fault),
        }
    }

    fn deliver<S: Sink>(&mut self, doc: &Plain<'_>, misc: &[Misc], sink: &mut S) -> Result<()> {
        sink.begin(doc.src);
        for misc in misc {
            if misc.comment {
                sink.comment(doc.src, misc.start, misc.end);
            } else {
                sink.instruction(doc.src, misc.start, misc.end);
            }
        }
        self.walk(doc, sink)?;
        sink.finish(doc.src);
        Ok(())
    }

    pub(super) fn walk<S: Sink>(&mut self, doc: &Plain<'_>, sink: &mut S) -> Result<()> {
        #[cfg(target_arch = "x86_64")]
        if self.avx2 {
            // SAFETY: `avx2` says that the processor has what the function is compiled for.
            return unsafe { walk_avx2(doc, &mut self.scratch, sink) };
        }
        walk::<Portable, S>(doc, &mut self.scratch, sink)
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,popcnt")]
unsafe fn walk_avx2<S: Sink>(doc: &Plain<'_>, scratch: &mut Scratch, sink: &mut S) -> Result<()> {
    walk::<super::scan::Avx2, S>(doc, scratch, sink)
}

/// The error that a fault at an offset of `src` is; `original` leads to offsets of the message as it was given.
#[cold]
fn locate(src: &[u8], fault: Fault, original: impl Fn(usize) -> usize) -> XmlError {
    let (line, column) = line_column(src, fault.at);
    let mut message = fault.message;
    if let Some((words, at)) = fault.related {
        let (line, column) = line_column(src, at);
        message = format!("{message} {words} {line}:{column}");
    }
    XmlError { code: fault.code, message, line, column, offset: original(fault.at.min(src.len())) as u64 }
}
