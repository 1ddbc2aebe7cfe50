//! Elements of a message that is read again, for whoever kept the message and the numbers of its nodes.

use crate::document::read;
use crate::names::is_element;
use crate::output::fragment::{Fragments, Under};
use crate::shapes::nodes::{NodeIx, Nodes};
use crate::vocabulary::Vocabulary;
use crate::xml::{Limits, Reader, XmlError};

#[derive(Default)]
pub struct Elements {
    reader: Reader,
    nodes: Nodes,
    nothing: Vocabulary,
    fragments: Fragments,
    bytes: Vec<u8>,
}

impl Elements {
    /// Calls `each` for every wanted node with the bytes of the element, the root where the document is wanted; with
    /// none if it is no element; until it says that no more are wanted.
    pub fn get(
        &mut self,
        xml: &[u8],
        limits: &Limits,
        wanted: &[NodeIx],
        mut each: impl FnMut(Option<&[u8]>) -> bool,
    ) -> Result<(), XmlError> {
        let (fragments, bytes) = (&mut self.fragments, &mut self.bytes);
        let done = read(&mut self.reader, &mut self.nodes, self.nothing.parts(), xml, limits, |message| {
            let recs = &message.nodes.recs;
            let element = |n: NodeIx| recs.get(n as usize).is_some_and(|rec| is_element(rec.sym));
            for &n in wanted {
                let n = message.nodes.or_root(n);
                bytes.clear();
                if element(n) {
                    fragments.append(message.src, message.nodes, n, Under::NoDefault, bytes);
                }
                if !each(element(n).then_some(&bytes[..])) {
                    break;
                }
            }
            Ok(())
        });
        self.fragments.clear();
        self.bytes = vec![];
        done
    }
}
