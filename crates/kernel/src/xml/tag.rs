//! The inside of a start tag: names and attributes. This is where most of the time goes in messages with many
//! attributes, so it is a function of its own, small enough to stay in registers.

use super::chars::{at, is_space, skip_space};
use super::error::{code, fault, show, show_char, Fault, Result};
use super::limits::Limits;
use super::markup::{self, Reference};
use super::names;
use super::namespaces::declares;
use super::scan::{Portable, Scan};
use super::sink::{Attr, NsId};
use super::walk::Plain;

/// Above this many attributes of one element duplicates are found by sorting.
const FEW: usize = 16;

/// What a start tag is, apart from its name and its attributes.
pub(super) struct Inside {
    /// Offset past `>`.
    pub past: usize,
    /// It is an empty-element tag.
    pub empty: bool,
    /// Some attribute has a prefix.
    pub prefixed: bool,
    /// Some attribute declares a namespace.
    pub declares: bool,
}

/// `attributes`, compiled for the instructions that `Self` uses.
pub(super) trait ReadTag: Scan {
    fn attributes(doc: &Plain<'_>, tag: usize, from: usize, attrs: &mut Vec<Attr>) -> Result<Inside>;
}

impl ReadTag for Portable {
    fn attributes(doc: &Plain<'_>, tag: usize, from: usize, attrs: &mut Vec<Attr>) -> Result<Inside> {
        attributes::<Portable>(doc, tag, from, attrs)
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::super::scan::Avx2;
    use super::*;

    impl ReadTag for Avx2 {
        #[inline(always)]
        fn attributes(doc: &Plain<'_>, tag: usize, from: usize, attrs: &mut Vec<Attr>) -> Result<Inside> {
            // SAFETY: `Avx2` is only named where the processor has these instructions.
            unsafe { compiled(doc, tag, from, attrs) }
        }
    }

    #[target_feature(enable = "avx2,bmi1,popcnt")]
    unsafe fn compiled(doc: &Plain<'_>, tag: usize, from: usize, attrs: &mut Vec<Attr>) -> Result<Inside> {
        attributes::<Avx2>(doc, tag, from, attrs)
    }
}

/// Where an NCName ends of which the ASCII characters up to `end` have been read.
#[inline(always)]
fn wide_end(src: &[u8], end: usize) -> usize {
    if at(src, end) >= 0x80 {
        return names::end_wide(src, end);
    }
    end
}

/// Reads the QName at `start`, where a name starts, of which the ASCII characters up to `end` have been read. Answers
/// (offset of the local part, offset past the name).
#[inline(always)]
pub(super) fn qname<V: Scan>(src: &[u8], start: usize, end: usize, max_name: u32) -> Result<(usize, usize)> {
    let mut local = start;
    let mut end = wide_end(src, end);
    if at(src, end) == b':' {
        local = end + 1;
        if !names::starts(src, local) {
            return Err(bad_name(src, local));
        }
        end = wide_end(src, V::name_end(src, local));
        if at(src, end) == b':' {
            return Err(bad_name(src, end));
        }
    }
    if end - start > max_name as usize {
        markup::check_length(start, end, max_name)?;
    }
    Ok((local, end))
}

/// Reads the attributes of the tag at `tag` from `from`, the offset past its name.
#[inline(always)]
fn attributes<V: Scan>(doc: &Plain<'_>, tag: usize, from: usize, attrs: &mut Vec<Attr>) -> Result<Inside> {
    let (src, limits) = (doc.src, doc.limits);
    let max_name = limits.max_name;
    let mut prefixed = false;
    let mut declared = false;
    let mut seen = 0u64; // a small Bloom filter of the names
    let mut e = from;
    let empty = loop {
        let c = at(src, e);
        if c == b'>' {
            break false;
        }
        let gap = e;
        if is_space(c) {
            e += 1;
            if is_space(at(src, e)) {
                e = skip_space(src, e);
            }
        }
        if !names::starts(src, e) || e == gap {
            match at(src, e) {
                b'>' => break false,
                b'/' if at(src, e + 1) == b'>' => {
                    e += 1;
                    break true;
                }
                _ => return Err(tag_fault(src, tag, e)),
            }
        }
        let name = e;
        let mut local = name;
        let mut name_end = V::name_end(src, name);
        let (mut value, mut quote) = (name_end + 2, b'"');
        // Nearly every attribute is `name="`, in ASCII and without prefix: one look at two bytes tells.
        if src.get(name_end..value) != Some(b"=\"") || name_end - name > max_name as usize {
            (local, name_end) = qname::<V>(src, name, name_end, max_name)?;
            (value, quote) = match src.get(name_end..name_end + 2) {
                Some([b'=', quote @ (b'"' | b'\'')]) => (name_end + 2, *quote),
                _ => spaced_value(src, name, name_end)?,
            };
        }
        e = V::value_end(src, value, quote);
        let plain = at(src, e) == quote;
        if !plain {
            e = special_value(doc, e, quote, value - 1)?;
        }
        let length = name_end - name;
        let hash = usize::from(src[name]) * 7 + usize::from(src[name_end - 1]) * 3 + length;
        let bit = 1 << (hash & 63);
        if seen & bit != 0 && attrs.len() < FEW {
            twin(src, attrs, name, name_end)?;
        }
        seen |= bit;
        prefixed |= local != name;
        declared |= declares(src, name, local, name_end);
        if attrs.len() >= limits.max_attributes as usize {
            return Err(too_many(limits, name));
        }
        // Written where it stays: going through the stack stalls the processor.
        attrs.push(Attr {
            name: name as u32,
            local: local as u32,
            name_end: name_end as u32,
            value: value as u32,
            value_end: e as u32,
            ns: NsId::NONE,
            plain,
        });
        e += 1;
    };
    if attrs.len() > FEW {
        check_duplicates(src, attrs)?;
    }
    Ok(Inside { past: e + 1, empty, prefixed, declares: declared })
}

/// White space around `=`; answers the offset of the value and its quote.
#[cold]
#[inline(never)]
fn spaced_value(src: &[u8], name: usize, name_end: usize) -> Result<(usize, u8)> {
    let equals = skip_space(src, name_end);
    let open = skip_space(src, equals + 1);
    match at(src, open) {
        quote @ (b'"' | b'\'') if at(src, equals) == b'=' => Ok((open + 1, quote)),
        _ => {
            let wrong = if at(src, equals) == b'=' { open } else { equals };
            let (name, found) = (show(&src[name..name_end]), show_char(src, wrong));
            let message = format!("attribute {name} needs = and a quoted value, but {found} follows");
            Err(fault(code::BAD_ATTRIBUTE, wrong, message))
        }
    }
}

/// Goes on with an attribute value from `e`, where something other than its closing quote was found.
#[inline(never)]
fn special_value(doc: &Plain<'_>, mut e: usize, quote: u8, open: usize) -> Result<usize> {
    let src = doc.src;
    loop {
        match at(src, e) {
            c if c == quote => return Ok(e),
            b'&' => {
                let (what, past) = markup::reference(src, e, doc.limits.max_name)?;
                if let (Reference::Entity(name, end), false) = (what, doc.lenient) {
                    return markup::undeclared(&src[name..end], e);
                }
                e = past;
            }
            b'<' => {
                let fault = fault(code::LT_IN_ATTRIBUTE, e, "< in the attribute value");
                return Err(fault.related("opened at", open));
            }
            b'\t' | b'\n' | b'\r' => e += 1,
            _ => return Err(fault(code::BAD_ATTRIBUTE, open, "the attribute value is not closed")),
        }
        e = Portable::value_end(src, e, quote);
    }
}

/// Checks that none of `attrs` has the name `name..name_end`.
#[inline(never)]
fn twin(src: &[u8], attrs: &[Attr], name: usize, name_end: usize) -> Result<()> {
    let this = &src[name..name_end];
    if attrs.iter().any(|a| &src[a.name as usize..a.name_end as usize] == this) {
        return Err(duplicate(src, name, name_end));
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn check_duplicates(src: &[u8], attrs: &[Attr]) -> Result<()> {
    let name = |i: u32| {
        let attr = &attrs[i as usize];
        &src[attr.name as usize..attr.name_end as usize]
    };
    let mut order: Vec<u32> = (0..attrs.len() as u32).collect();
    order.sort_by(|&a, &b| name(a).cmp(name(b)));
    match order.windows(2).find(|pair| name(pair[0]) == name(pair[1])) {
        None => Ok(()),
        Some(pair) => {
            let attr = &attrs[pair[1] as usize];
            Err(duplicate(src, attr.name as usize, attr.name_end as usize))
        }
    }
}

#[cold]
#[inline(never)]
fn duplicate(src: &[u8], name: usize, name_end: usize) -> Box<Fault> {
    let message = format!("two attributes named {}", show(&src[name..name_end]));
    fault(code::DUPLICATE_ATTRIBUTE, name, message)
}

#[cold]
#[inline(never)]
fn too_many(limits: &Limits, name: usize) -> Box<Fault> {
    fault(code::LIMIT_ATTRIBUTES, name, format!("more than {} attributes", limits.max_attributes))
}

#[cold]
#[inline(never)]
fn bad_name(src: &[u8], i: usize) -> Box<Fault> {
    fault(code::BAD_NAME, i, format!("{} is wrong in a name", show_char(src, i)))
}

#[cold]
#[inline(never)]
fn tag_fault(src: &[u8], tag: usize, e: usize) -> Box<Fault> {
    let end = names::qname_end(src, tag + 1);
    let name = show(&src[tag + 1..end]);
    let e = e + usize::from(at(src, e) == b'/');
    if e >= src.len() {
        return fault(code::BAD_TAG, e, format!("the message ends inside tag <{name}")).related("opened at", tag);
    }
    if names::starts(src, e) && at(src, e - 1) != b'/' {
        return fault(code::BAD_ATTRIBUTE, e, format!("white space is missing between attributes of <{name}>"));
    }
    fault(code::BAD_TAG, e, format!("{} in tag <{name}>", show_char(src, e)))
}
