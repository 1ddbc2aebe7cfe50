//! Nodes as bytes that stand on their own. An element is its span of the plain document, with the namespaces that it
//! inherits declared in its start tag; attributes and text are escaped text; comments and PIs are as they were; the
//! document is its children, without XML declaration and DTD, on which nothing depends any more.

use super::scope::{name_end, Scopes};
use crate::names::{is_attribute, is_element, COMMENT, INSTRUCTION, TEXT};
use crate::shapes::nodes::{NodeIx, Nodes};
use hashbrown::HashMap;
use memchr::{memchr, memchr_iter, memmem};

/// Where a fragment is put.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Under {
    NoDefault,
    /// In the scope of a default namespace: what has none takes it back.
    Default,
}

/// The fragments of one message, each rendered once as long as there is room to keep it.
#[derive(Default)]
pub struct Fragments {
    bytes: Vec<u8>,
    rendered: HashMap<(NodeIx, Under), (usize, usize)>,
    renderer: Renderer,
}

/// Bytes of fragments that are kept for whoever asks for them again, in one message and from one to the next.
const KEPT: usize = 1 << 24;

impl Fragments {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rendered.clear();
        self.rendered.shrink_to(KEPT >> 4);
        self.renderer.scopes.clear();
    }

    /// Appends a node as bytes that stand on their own.
    pub fn append(&mut self, src: &[u8], nodes: &Nodes, n: NodeIx, under: Under, out: &mut Vec<u8>) {
        if let Some(&(start, end)) = self.rendered.get(&(n, under)) {
            out.extend_from_slice(&self.bytes[start..end]);
            return;
        }
        let from = out.len();
        self.renderer.render(src, nodes, n, under, out);
        let start = self.bytes.len();
        if start + out.len() - from <= KEPT {
            self.bytes.extend_from_slice(&out[from..]);
            self.rendered.insert((n, under), (start, self.bytes.len()));
        }
    }

    /// Returns what the fragment of a node takes at most, without rendering it.
    pub fn size_bound(&mut self, src: &[u8], nodes: &Nodes, n: NodeIx) -> usize {
        if n == 0 {
            return nodes.children(0).map(|child| self.size_bound(src, nodes, child)).sum();
        }
        let sym = nodes.recs[n as usize].sym;
        if sym == TEXT || is_attribute(sym) {
            let value = nodes.value(src, n, &mut self.renderer.value);
            return value.iter().map(|&c| escaped_size(c)).sum();
        }
        let place = nodes.place(n);
        let own = (place.end - place.start) as usize;
        if !is_element(sym) {
            return own;
        }
        let inherited = self.renderer.scopes.inherited(src, nodes, n);
        own + inherited.iter().map(|d| 1 + (d.attribute.1 - d.attribute.0) as usize).sum::<usize>()
    }
}

/// Returns what a node's fragment takes at least, at the cost of a look: an element that does not fit is not worth
/// rendering. Of other nodes nothing is known: an attribute goes without its name, a character without its reference.
pub fn size_floor(nodes: &Nodes, n: NodeIx) -> usize {
    let place = nodes.place(n);
    if n != 0 && is_element(nodes.recs[n as usize].sym) {
        (place.end - place.start) as usize
    } else {
        0
    }
}

#[derive(Default)]
struct Renderer {
    scopes: Scopes,
    value: Vec<u8>,
}

impl Renderer {
    fn render(&mut self, src: &[u8], nodes: &Nodes, n: NodeIx, under: Under, out: &mut Vec<u8>) {
        match nodes.recs[n as usize].sym {
            _ if n == 0 => {
                // an element, comment or PI: no deeper than this
                nodes.children(0).for_each(|child| self.render(src, nodes, child, under, out));
            }
            sym if sym == TEXT || is_attribute(sym) => escape(nodes.value(src, n, &mut self.value), out),
            COMMENT | INSTRUCTION => {
                let place = nodes.place(n);
                out.extend_from_slice(&src[place.start as usize..place.end as usize]);
            }
            _ => self.element(src, nodes, n, under, out),
        }
    }

    fn element(&mut self, src: &[u8], nodes: &Nodes, n: NodeIx, under: Under, out: &mut Vec<u8>) {
        let place = nodes.place(n);
        let (start, end) = (place.start as usize, place.end as usize);
        let name_end = name_end(src, start + 1);
        out.extend_from_slice(&src[start..name_end]);
        for d in self.scopes.inherited(src, nodes, n) {
            if !d.undeclares {
                out.push(b' ');
                push_standalone(&src[d.attribute.0 as usize..d.attribute.1 as usize], out);
            }
        }
        let mut at = name_end;
        if under == Under::Default && !self.scopes.has_default(src, nodes, n) {
            at = self.undeclare(src, nodes, n, name_end, out);
        }
        push_standalone(&src[at..end], out);
    }

    /// In an element that has no default namespace, takes the one around it back in those outermost elements whose names
    /// would fall into it, and nowhere else. `at` is what has been copied so far; answers the same afterwards.
    fn undeclare(&mut self, src: &[u8], nodes: &Nodes, n: NodeIx, mut at: usize, out: &mut Vec<u8>) -> usize {
        let mut e = n;
        while e < nodes.recs[n as usize].end {
            let rec = &nodes.recs[e as usize];
            if !is_element(rec.sym) {
                e += 1;
                continue;
            }
            let start = nodes.place(e).start as usize;
            let named = name_end(src, start + 1);
            let prefixed = memchr(b':', &src[start..named]).is_some();
            match self.scopes.own_default(src, nodes, e) {
                Some(d) if d.undeclares && prefixed => {
                    push_standalone(&src[at..d.attribute.0 as usize], out);
                    at = d.attribute.1 as usize;
                    e += 1;
                }
                Some(_) => e = rec.end,
                None if prefixed => e += 1,
                None => {
                    push_standalone(&src[at..named], out);
                    out.extend_from_slice(b" xmlns=\"\"");
                    at = named;
                    e = rec.end;
                }
            }
        }
        at
    }
}

fn escaped_size(c: u8) -> usize {
    match c {
        b'&' | b'\r' => 5,
        b'<' | b'>' => 4,
        _ => 1,
    }
}

pub fn escape(value: &[u8], out: &mut Vec<u8>) {
    for &c in value {
        match c {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'\r' => out.extend_from_slice(b"&#13;"),
            c => out.push(c),
        }
    }
}

/// Does the reference at the start of `raw` mean something without a DTD?
fn is_known(raw: &[u8]) -> bool {
    [&b"&#"[..], b"&amp;", b"&lt;", b"&gt;", b"&quot;", b"&apos;"].iter().any(|known| raw.starts_with(known))
}

/// Appends markup of the plain document. Where a DTD is not read, references to entities that it may declare are left
/// in there; they stand for nothing, and without the DTD they would be errors.
pub fn push_standalone(raw: &[u8], out: &mut Vec<u8>) {
    if memchr_iter(b'&', raw).all(|at| is_known(&raw[at..])) {
        out.extend_from_slice(raw);
    } else {
        without_unknown(raw, out);
    }
}

/// The markup without references to unknown entities. In comments, PIs and CDATA sections `&` means itself.
fn without_unknown(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|c| matches!(c, b'&' | b'<')) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let verbatim = [(&b"<!--"[..], &b"-->"[..]), (b"<![CDATA[", b"]]>"), (b"<?", b"?>")];
        if rest[0] == b'&' && !is_known(rest) {
            rest = memchr(b';', rest).map_or(&[], |end| &rest[end + 1..]);
            continue;
        }
        let length = match verbatim.iter().find(|(open, _)| rest.starts_with(open)) {
            Some((open, close)) => memmem::find(&rest[open.len()..], close).map(|n| open.len() + n + close.len()),
            None => Some(1),
        };
        let (kept, after) = rest.split_at(length.unwrap_or(rest.len()));
        out.extend_from_slice(kept);
        rest = after;
    }
    out.extend_from_slice(rest);
}
