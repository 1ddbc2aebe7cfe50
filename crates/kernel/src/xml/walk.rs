//! Stage 2: from one `<` to the next over a plain document, checking everything and telling the sink.

use super::chars::{at, is_space, skip_space, verify};
use super::error::{code, fault, show, show_char, Fault, Result};
use super::limits::Limits;
use super::markup::{self, Reference};
use super::names;
use super::namespaces::Namespaces;
use super::scan::{Index, Scan, SEEN_CONTROL, SEEN_WIDE, WINDOW};
use super::sink::{Attr, Sink, Tag, Text};
use super::tag::{qname, ReadTag};

/// A document in UTF-8 that can be read in place.
pub(super) struct Plain<'a> {
    pub src: &'a [u8],
    /// Where the prolog ends: the walk begins here.
    pub body: usize,
    /// A reference to an undeclared entity may be skipped: its declaration may be in a DTD that is not read.
    pub lenient: bool,
    pub part: Part,
    pub limits: &'a Limits,
}

/// Which part of a document `src` is; all of nearly every one.
#[derive(Clone, Copy, Default)]
pub(super) struct Part {
    /// It goes on from where the last walk stopped.
    pub continued: bool,
    /// More follows, and it begins with `<`.
    pub more: bool,
}

/// What the walk needs and a reader keeps from one message to the next.
pub(super) struct Scratch {
    index: Index,
    /// Offset and length of the name of each open element.
    open: Vec<(u32, u32)>,
    attrs: Vec<Attr>,
    namespaces: Namespaces,
    /// The root element has been seen.
    root: bool,
    /// The markup that could not be read, if the walk stopped at some.
    pub stopped: Option<usize>,
}

impl Scratch {
    pub fn new() -> Self {
        Scratch {
            index: Index::new(),
            open: Vec::with_capacity(64),
            attrs: Vec::with_capacity(32),
            namespaces: Namespaces::new(),
            root: false,
            stopped: None,
        }
    }

    /// Names of the open elements, as spans of what was walked last.
    pub fn open(&self) -> &[(u32, u32)] {
        &self.open
    }

    /// Writes the names that a walk needs to go on, each open element as `<name`, and takes them from there.
    pub fn carry(&mut self, src: &[u8], out: &mut Vec<u8>) {
        for (name, length) in &mut self.open {
            let span = *name as usize - 1..(*name + *length) as usize;
            *name = out.len() as u32 + 1;
            out.extend_from_slice(&src[span]);
        }
        self.namespaces.carry(src, out);
    }

    /// Gives back what an unusual message made it take.
    pub fn shrink(&mut self) {
        const KEEP: usize = 4096;
        self.open.shrink_to(KEEP);
        self.attrs.shrink_to(KEEP);
        self.namespaces.shrink(KEEP);
    }
}

/// Walks the document. `V` is the processor's way to look at many bytes at once.
#[inline(always)]
pub(super) fn walk<V: ReadTag, S: Sink>(doc: &Plain<'_>, scratch: &mut Scratch, sink: &mut S) -> Result<()> {
    let Scratch { index, open, attrs, namespaces, root, stopped } = scratch;
    let (src, limits) = (doc.src, doc.limits);
    let mut pos = doc.body; // everything before has been read
    let mut plain = true; // of the character data from `pos` on
    let mut from = pos;
    *stopped = None;
    if !doc.part.continued {
        open.clear();
        namespaces.clear();
        *root = false;
        from = 0;
    }
    let mut verified = from;
    // Says where the walk stopped, in case the markup there is only cut off.
    macro_rules! stop {
        ($read:expr, $at:expr) => {
            match $read {
                Ok(read) => read,
                Err(fault) => {
                    *stopped = Some($at);
                    return Err(fault);
                }
            }
        };
    }
    while from < src.len() {
        let to = src.len().min(from + WINDOW);
        let seen = V::index(src, from, to, index);
        let mut bad = None;
        if seen & (SEEN_CONTROL | SEEN_WIDE) != 0 || verified < from {
            match verify(src, verified, to, to == src.len(), seen & SEEN_CONTROL != 0) {
                Ok(done) => verified = done,
                Err(fault) => {
                    // What comes before the bad character is still walked: the first error is the one to report.
                    index.lt_len = index.lt[..index.lt_len].partition_point(|&p| (p as usize) < fault.at);
                    index.special_len =
                        index.special[..index.special_len].partition_point(|&p| (p as usize) < fault.at);
                    bad = Some(fault);
                }
            }
        } else {
            verified = to;
        }
        let specials = &index.special[..index.special_len];
        let mut next_special = 0;

        for &p in &index.lt[..index.lt_len] {
            let p = p as usize;
            if p != pos {
                if p < pos {
                    continue; // inside a comment, instruction or CDATA section, or the prolog
                }
                if open.is_empty() {
                    outside(src, pos, p)?;
                } else {
                    if next_special < specials.len() && (specials[next_special] as usize) < p {
                        plain &= special_text(doc, specials, &mut next_special, pos, p)?;
                    }
                    let text = Text { src, start: pos as u32, end: p as u32, plain, cdata: false };
                    sink.text(&text);
                    plain = true;
                }
            }
            let c = at(src, p + 1);
            if c == b'/' {
                let Some(&(name, length)) = open.last() else {
                    *stopped = Some(p);
                    return Err(fault(code::MISMATCHED_TAG, p, format!("end tag {} closes nothing", end_tag(src, p))));
                };
                let mut e = p + 2 + length as usize;
                if !V::same(src, p + 2, name as usize, length as usize) {
                    *stopped = Some(p);
                    return Err(mismatch(src, p, name, length));
                }
                if at(src, e) != b'>' {
                    e = skip_space(src, e);
                    if at(src, e) != b'>' {
                        *stopped = Some(p);
                        return Err(end_tag_fault(src, p, e, name, length));
                    }
                }
                open.pop();
                pos = e + 1;
                sink.end(src, p as u32, pos as u32);
                if namespaces.innermost() == open.len() as u32 {
                    namespaces.leave(src);
                }
                continue;
            }
            if c == b'!' || c == b'?' {
                if c == b'?' {
                    pos = stop!(markup::instruction::<V>(src, p, limits.max_name), p);
                    sink.instruction(src, p as u32, pos as u32);
                } else if src[p..].starts_with(b"<!--") {
                    pos = stop!(markup::comment::<V>(src, p), p);
                    sink.comment(src, p as u32, pos as u32);
                } else {
                    let end = stop!(cdata::<V>(src, p, open.is_empty()), p);
                    let start = p + b"<![CDATA[".len();
                    pos = end + 3;
                    if end > start {
                        let plain = memchr::memchr(b'\r', &src[start..end]).is_none();
                        let text = Text { src, start: start as u32, end: end as u32, plain, cdata: true };
                        sink.text(&text);
                    }
                }
                continue;
            }

            // A start tag.
            if open.is_empty() && *root {
                return Err(fault(code::MULTIPLE_ROOTS, p, "a second root element"));
            }
            if !names::starts(src, p + 1) {
                *stopped = Some(p);
                return Err(bad_markup(src, p));
            }
            let (local, end) = stop!(qname::<V>(src, p + 1, V::name_end(src, p + 1), limits.max_name), p);
            attrs.clear();
            let mut empty = false;
            let mut declared = false;
            let mut ns = namespaces.unprefixed();
            if at(src, end) == b'>' {
                pos = end + 1;
            } else {
                let inside = stop!(V::attributes(doc, p, end, attrs), p);
                pos = inside.past;
                empty = inside.empty;
                declared = inside.declares;
                if declared {
                    namespaces.declare(src, open.len() as u32, attrs, sink)?;
                    ns = namespaces.unprefixed();
                }
                if inside.prefixed {
                    namespaces.resolve_attributes(src, attrs, sink)?;
                }
            }
            if local != p + 1 {
                ns = namespaces.resolve(src, p + 1, local - 1, sink)?.0;
            }
            if open.len() >= limits.max_depth as usize {
                let message = format!("elements nested deeper than {}", limits.max_depth);
                return Err(fault(code::LIMIT_DEPTH, p, message));
            }
            let tag = Tag {
                src,
                start: p as u32,
                end: pos as u32,
                local: local as u32,
                name_end: end as u32,
                ns,
                attrs,
                declares: declared,
            };
            sink.start(&tag);
            *root = true;
            if empty {
                sink.end(src, pos as u32, pos as u32);
                if declared {
                    namespaces.leave(src);
                }
            } else {
                open.push((p as u32 + 1, (end - p - 1) as u32));
            }
        }

        if let Some(bad) = bad {
            return Err(bad);
        }
        if !open.is_empty() {
            // The next window has an index of its own.
            plain &= special_text(doc, specials, &mut next_special, pos, to)?;
        }
        from = to;
    }
    if doc.part.more {
        if open.is_empty() {
            return outside(src, pos, src.len());
        }
        if pos < src.len() {
            sink.text(&Text { src, start: pos as u32, end: src.len() as u32, plain, cdata: false });
        }
        return Ok(());
    }
    if let Some(&(name, length)) = open.last() {
        let name = name as usize;
        let message = format!("the message ends inside <{}>", show(&src[name..name + length as usize]));
        return Err(fault(code::UNCLOSED_ELEMENT, src.len(), message).related("opened at", name - 1));
    }
    outside(src, pos, src.len())?;
    if !*root {
        return Err(fault(code::NO_ROOT, src.len(), "the message has no root element"));
    }
    Ok(())
}

/// Outside the root element only white space may stand.
#[inline(always)]
fn outside(src: &[u8], from: usize, to: usize) -> Result<()> {
    match src.get(from..to).unwrap_or(&[]).iter().position(|&c| !is_space(c)) {
        None => Ok(()),
        Some(i) => {
            let message = format!("{} outside the root element", show_char(src, from + i));
            Err(fault(code::TEXT_OUTSIDE_ROOT, from + i, message))
        }
    }
}

/// Checks the `&`, `]` and CR in the character data `from..to`; is it plain?
#[inline(never)]
fn special_text(doc: &Plain<'_>, specials: &[u32], next: &mut usize, from: usize, to: usize) -> Result<bool> {
    let src = doc.src;
    let mut plain = true;
    while let Some(&s) = specials.get(*next) {
        let s = s as usize;
        if s >= to {
            break;
        }
        *next += 1;
        if s < from {
            continue;
        }
        match src[s] {
            b'&' => {
                plain = false;
                if let (Reference::Entity(name, end), _) = markup::reference(src, s, doc.limits.max_name)? {
                    if !doc.lenient {
                        return markup::undeclared(&src[name..end], s);
                    }
                }
            }
            b'\r' => plain = false,
            _ => {
                if at(src, s + 1) == b']' && at(src, s + 2) == b'>' {
                    return Err(fault(code::CDATA_END_IN_TEXT, s, "]]> in character data; write ]]&gt;"));
                }
            }
        }
    }
    Ok(plain)
}

/// Reads the CDATA section at `start`; answers the offset of its `]]>`.
#[inline(always)]
fn cdata<V: Scan>(src: &[u8], start: usize, outside: bool) -> Result<usize> {
    let rest = &src[start..];
    if !rest.starts_with(b"<![CDATA[") {
        return Err(if rest.starts_with(b"<!DOCTYPE") {
            fault(code::BAD_DOCTYPE, start, "a DOCTYPE must be the only one and stand before the root element")
        } else {
            bad_markup(src, start)
        });
    }
    if outside {
        return Err(fault(code::BAD_CDATA, start, "a CDATA section outside the root element"));
    }
    let mut end = start + b"<![CDATA[".len();
    loop {
        end = V::find_pair(src, end, b']', b']');
        if end >= src.len() {
            return Err(fault(code::BAD_CDATA, start, "the CDATA section is not closed"));
        }
        if at(src, end + 2) == b'>' {
            return Ok(end);
        }
        end += 1;
    }
}

fn end_tag(src: &[u8], p: usize) -> String {
    let end = names::qname_end(src, p + 2);
    format!("</{}>", show(&src[p + 2..end.max(p + 2).min(src.len())]))
}

#[cold]
#[inline(never)]
fn mismatch(src: &[u8], p: usize, name: u32, length: u32) -> Box<Fault> {
    let open = name as usize;
    if names::qname_end(src, p + 2) == p + 2 {
        return fault(code::BAD_TAG, p, "</ is not followed by a name");
    }
    let start_tag = show(&src[open..open + length as usize]);
    let message = format!("end tag {} does not match start tag <{start_tag}>", end_tag(src, p));
    fault(code::MISMATCHED_TAG, p, message).related("opened at", open - 1)
}

#[cold]
#[inline(never)]
fn end_tag_fault(src: &[u8], p: usize, e: usize, name: u32, length: u32) -> Box<Fault> {
    if names::qname_end(src, p + 2) > p + 2 + length as usize {
        return mismatch(src, p, name, length);
    }
    fault(code::BAD_TAG, e, format!("{} in end tag {}", show_char(src, e), end_tag(src, p)))
}

#[cold]
#[inline(never)]
fn bad_markup(src: &[u8], p: usize) -> Box<Fault> {
    let next = show_char(src, p + 1);
    fault(code::BAD_MARKUP, p, format!("< followed by {next} begins no markup; write &lt; for a plain <"))
}
