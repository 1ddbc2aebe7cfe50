//! Namespaces in XML 1.0: which prefix means what, and the rules about that.

use std::collections::HashMap;

use super::decode::decode_attribute;
use super::error::{code, fault, show, Result};
use super::sink::{Attr, NsId, Sink};

const XML: &[u8] = b"http://www.w3.org/XML/1998/namespace";
const XMLNS: &[u8] = b"http://www.w3.org/2000/xmlns/";

/// Few bindings are searched one by one; from here on by a table, so that a message with many cannot slow
/// every look-up down.
const FEW: usize = 16;

struct Binding {
    /// Span of the prefix in the document; empty for the default namespace.
    prefix: (u32, u32),
    /// Span of the namespace name in `names`.
    uri: (u32, u32),
    ns: NsId,
    /// What this binding hides: the default namespace before it, and the entry of `table` that it replaced.
    hides_default: NsId,
    hides_entry: Option<u32>,
}

/// The bindings in scope.
pub(super) struct Namespaces {
    bindings: Vec<Binding>,
    names: Vec<u8>,
    /// (depth of an element that declares, bindings before it).
    marks: Vec<(u32, u32)>,
    /// Last binding of each prefix among those from `FEW` on.
    table: HashMap<Box<[u8]>, u32>,
    /// The namespace of elements without prefix.
    default: NsId,
    xml: Option<NsId>,
    /// Attributes of one tag by namespace, to find two with one expanded name.
    expanded: Vec<(u32, u32)>,
}

fn bytes(of: &[u8], span: (u32, u32)) -> &[u8] {
    &of[span.0 as usize..span.1 as usize]
}

/// Is an attribute with this name a namespace declaration?
#[inline(always)]
pub(super) fn declares(src: &[u8], name: usize, local: usize, name_end: usize) -> bool {
    let length = if local == name { name_end - name } else { local - name - 1 };
    length == 5 && src[name..name + 5] == *b"xmlns"
}

fn is_declaration(src: &[u8], attr: &Attr) -> bool {
    declares(src, attr.name as usize, attr.local as usize, attr.name_end as usize)
}

impl Namespaces {
    pub fn new() -> Self {
        Namespaces {
            bindings: Vec::new(),
            names: Vec::new(),
            marks: Vec::new(),
            table: HashMap::new(),
            default: NsId::NONE,
            xml: None,
            expanded: Vec::new(),
        }
    }

    pub fn clear(&mut self) {
        self.bindings.clear();
        self.names.clear();
        self.marks.clear();
        self.table.clear();
        self.default = NsId::NONE;
        self.xml = None;
    }

    pub fn shrink(&mut self, entries: usize) {
        self.bindings.shrink_to(entries);
        self.names.shrink_to(entries * 16);
        self.marks.shrink_to(entries);
        self.table.shrink_to(entries);
        self.expanded.shrink_to(entries);
    }

    /// Writes the prefixes in scope, which are spans of the document, to `out`, and takes them from there.
    pub fn carry(&mut self, src: &[u8], out: &mut Vec<u8>) {
        for binding in &mut self.bindings {
            let start = out.len() as u32;
            out.extend_from_slice(bytes(src, binding.prefix));
            binding.prefix = (start, out.len() as u32);
        }
    }

    /// The namespace of an element without prefix.
    #[inline(always)]
    pub fn unprefixed(&self) -> NsId {
        self.default
    }

    /// Depth of the innermost element that declares something; `leave` is due at its end.
    #[inline(always)]
    pub fn innermost(&self) -> u32 {
        self.marks.last().map_or(u32::MAX, |mark| mark.0)
    }

    /// Takes the declarations out of `attrs` and brings them into scope.
    pub fn declare<S: Sink>(&mut self, src: &[u8], depth: u32, attrs: &mut Vec<Attr>, sink: &mut S) -> Result<()> {
        self.marks.push((depth, self.bindings.len() as u32));
        for attr in attrs.iter().filter(|attr| is_declaration(src, attr)) {
            self.declare_one(src, attr, sink)?;
        }
        attrs.retain(|attr| !is_declaration(src, attr));
        Ok(())
    }

    fn declare_one<S: Sink>(&mut self, src: &[u8], attr: &Attr, sink: &mut S) -> Result<()> {
        let from = self.names.len();
        let raw = &src[attr.value as usize..attr.value_end as usize];
        if attr.plain {
            self.names.extend_from_slice(raw);
        } else {
            decode_attribute(raw, &mut self.names);
        }
        let uri = &self.names[from..];
        let prefix = if attr.local == attr.name { (0, 0) } else { (attr.local, attr.name_end) };
        let name = bytes(src, prefix);
        let bad = |message: String| Err(fault(code::BAD_NAMESPACE, attr.name as usize, message));
        if name == b"xmlns" {
            return bad("the prefix xmlns must not be declared".into());
        }
        if (name == b"xml") != (uri == XML) {
            return bad(if name == b"xml" {
                format!("the prefix xml is bound to {} and to nothing else", show(XML))
            } else {
                format!("only the prefix xml may be bound to {}", show(XML))
            });
        }
        if uri == XMLNS {
            return bad(format!("nothing may be bound to {}", show(XMLNS)));
        }
        if uri.is_empty() && !name.is_empty() {
            return bad(format!("the prefix {} is bound to an empty namespace name", show(name)));
        }
        let ns = if uri.is_empty() { NsId::NONE } else { sink.namespace(uri) };
        let index = self.bindings.len() as u32;
        let hides_entry = if self.bindings.len() >= FEW { self.table.insert(name.into(), index) } else { None };
        self.bindings.push(Binding {
            prefix,
            uri: (from as u32, self.names.len() as u32),
            ns,
            hides_default: self.default,
            hides_entry,
        });
        if name.is_empty() {
            self.default = ns;
        }
        Ok(())
    }

    /// Takes the bindings of the innermost declaring element out of scope.
    #[cold]
    pub fn leave(&mut self, src: &[u8]) {
        let Some((_, keep)) = self.marks.pop() else {
            return;
        };
        while self.bindings.len() > keep as usize {
            let Some(binding) = self.bindings.pop() else {
                return;
            };
            let prefix = bytes(src, binding.prefix);
            if prefix.is_empty() {
                self.default = binding.hides_default;
            }
            self.names.truncate(binding.uri.0 as usize);
            if self.bindings.len() >= FEW {
                match binding.hides_entry {
                    Some(entry) => self.table.insert(prefix.into(), entry),
                    None => self.table.remove(prefix),
                };
            }
        }
    }

    fn find(&self, src: &[u8], prefix: &[u8]) -> Option<u32> {
        if self.bindings.len() > FEW {
            if let Some(&index) = self.table.get(prefix) {
                return Some(index);
            }
        }
        let few = &self.bindings[..self.bindings.len().min(FEW)];
        let same = |binding: &Binding| {
            // Prefixes are short: byte by byte beats a call of memcmp.
            let known = bytes(src, binding.prefix);
            known.len() == prefix.len() && known.iter().zip(prefix).all(|(a, b)| a == b)
        };
        few.iter().rposition(same).map(|index| index as u32)
    }

    /// The namespace that a prefix at `start` means, and its binding (`None` for the prefix xml).
    pub fn resolve<S: Sink>(
        &mut self,
        src: &[u8],
        start: usize,
        end: usize,
        sink: &mut S,
    ) -> Result<(NsId, Option<u32>)> {
        let prefix = &src[start..end];
        if let Some(index) = self.find(src, prefix) {
            return Ok((self.bindings[index as usize].ns, Some(index)));
        }
        match prefix {
            b"xml" => Ok((*self.xml.get_or_insert_with(|| sink.namespace(XML)), None)),
            b"xmlns" => Err(fault(code::BAD_NAMESPACE, start, "the prefix xmlns is reserved for declarations")),
            _ => {
                let message = format!("namespace prefix {} is not declared", show(prefix));
                Err(fault(code::UNDECLARED_PREFIX, start, message))
            }
        }
    }

    /// Resolves the prefixed attributes and checks that no two have one expanded name.
    pub fn resolve_attributes<S: Sink>(&mut self, src: &[u8], attrs: &mut [Attr], sink: &mut S) -> Result<()> {
        self.expanded.clear();
        for (i, attr) in attrs.iter_mut().enumerate() {
            if attr.local != attr.name {
                let (ns, binding) = self.resolve(src, attr.name as usize, attr.local as usize - 1, sink)?;
                attr.ns = ns;
                self.expanded.push((binding.unwrap_or(u32::MAX), i as u32));
            }
        }
        if self.expanded.len() > 1 {
            self.check_expanded(src, attrs)?;
        }
        Ok(())
    }

    fn check_expanded(&mut self, src: &[u8], attrs: &[Attr]) -> Result<()> {
        let (bindings, names) = (&self.bindings, &self.names);
        let local = |entry: &(u32, u32)| {
            let attr = &attrs[entry.1 as usize];
            bytes(src, (attr.local, attr.name_end))
        };
        let uri = |entry: &(u32, u32)| bindings.get(entry.0 as usize).map_or(XML, |binding| bytes(names, binding.uri));
        let expanded = &mut self.expanded;
        let twin = if expanded.len() <= FEW {
            let pairs = (1..expanded.len()).flat_map(|i| (0..i).map(move |k| (k, i)));
            let same = |a, b| local(a) == local(b) && uri(a) == uri(b);
            { pairs }.find(|&(k, i)| same(&expanded[k], &expanded[i])).map(|(_, i)| expanded[i])
        } else {
            // Many cost no more than n log n. Stable, so that the second in the document is the one reported.
            expanded.sort_by(|a, b| (local(a), uri(a)).cmp(&(local(b), uri(b))));
            let same = |pair: &&[(u32, u32)]| (local(&pair[0]), uri(&pair[0])) == (local(&pair[1]), uri(&pair[1]));
            expanded.windows(2).find(same).map(|pair| pair[1])
        };
        match twin {
            None => Ok(()),
            Some(entry) => {
                let message =
                    format!("two attributes named {} in namespace {}", show(local(&entry)), show(uri(&entry)));
                Err(fault(code::DUPLICATE_ATTRIBUTE, attrs[entry.1 as usize].name as usize, message))
            }
        }
    }
}
