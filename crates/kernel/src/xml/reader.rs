//! The reader: finds out how a message is to be read, reads it, and says where an error is.

use super::chars::at;
use super::error::{code, fault, line_column, Fault, Result, XmlError};
use super::limits::{Limits, ADDRESSABLE};
use super::prolog::{self, Declaration, Misc};
use super::scan::Portable;
use super::sink::Sink;
use super::walk::{walk, Plain, Scratch};

/// Reads messages one after the other; keeps its working memory between them.
pub struct Reader {
    avx2: bool,
    scratch: Scratch,
    misc: Vec<Misc>,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    pub fn new() -> Self {
        #[cfg(target_arch = "x86_64")]
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("popcnt");
        #[cfg(not(target_arch = "x86_64"))]
        let avx2 = false;
        Reader {
            avx2,
            ..Self::portable()
        }
    }

    /// A reader that uses no special instructions of the processor, for tests.
    pub fn portable() -> Self {
        Reader {
            avx2: false,
            scratch: Scratch::new(),
            misc: Vec::new(),
        }
    }

    /// Reads one message. The sink may have been told of a part of it when an error is found: it has to discard that.
    pub fn read<S: Sink>(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        sink: &mut S,
    ) -> std::result::Result<(), XmlError> {
        self.read_utf8(bytes, limits, sink)
            .map_err(|fault| locate(bytes, *fault))
    }

    fn read_utf8<S: Sink>(&mut self, src: &[u8], limits: &Limits, sink: &mut S) -> Result<()> {
        if src.len() as u64 > limits.max_bytes.min(ADDRESSABLE) {
            let most = limits.max_bytes.min(ADDRESSABLE);
            let message = format!("a message of {} bytes; the limit is {most}", src.len());
            return Err(fault(code::LIMIT_SIZE, 0, message));
        }
        let start = if src.starts_with(b"\xEF\xBB\xBF") {
            3
        } else {
            0
        };
        let mut declared = Declaration::default();
        if at(src, start + 1) == b'?' && prolog::has_declaration(src, start) {
            declared = prolog::declaration(src, start)?;
        }
        self.misc.clear();
        let mut doctype = None;
        let body = prolog::misc(
            src,
            start.max(declared.end),
            &mut self.misc,
            &mut doctype,
            limits.max_name,
        )?;
        let lenient = doctype.is_some_and(|d| d.external) && !declared.standalone;
        sink.begin(src);
        for misc in &self.misc {
            if misc.comment {
                sink.comment(src, misc.start, misc.end);
            } else {
                sink.instruction(src, misc.start, misc.end);
            }
        }
        self.walk(
            &Plain {
                src,
                body,
                lenient,
                limits,
            },
            sink,
        )
    }

    fn walk<S: Sink>(&mut self, doc: &Plain<'_>, sink: &mut S) -> Result<()> {
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

#[cold]
fn locate(src: &[u8], fault: Fault) -> XmlError {
    let (line, column) = line_column(src, fault.at);
    let mut message = fault.message;
    if let Some((words, at)) = fault.related {
        let (line, column) = line_column(src, at);
        message = format!("{message} {words} {line}:{column}");
        if words.starts_with('(') {
            message.push(')');
        }
    }
    XmlError {
        code: fault.code,
        message,
        line,
        column,
        offset: fault.at as u64,
    }
}
