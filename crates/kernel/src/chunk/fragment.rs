//! One fragment while it is written.

/// From here on, ids of the fragment and of the document count together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub here: u64,
    pub there: u64,
    /// Where the node with these ids stands in the document as it was given.
    pub offset: u64,
}

/// An element of the document that is open.
pub struct Open {
    /// Its start tag and the length of its name in `Tags::bytes`.
    pub tag: (usize, usize),
    pub name: usize,
    pub id: u64,
    pub attributes: u64,
    /// Offset in the buffer at hand; meaningless once `placed`.
    pub at: u32,
    pub offset: u64,
    pub placed: bool,
}

/// The open elements, of which fragments may need the tags.
#[derive(Default)]
pub struct Tags {
    pub bytes: Vec<u8>,
    pub open: Vec<Open>,
}

impl Tags {
    pub fn push(&mut self, tag: &[u8], name: usize, id: u64, attributes: u64, at: u32) {
        let start = self.bytes.len();
        // An empty-element tag is written as a start tag: something may have to go into it.
        let body = tag.strip_suffix(b"/>").unwrap_or(&tag[..tag.len() - 1]);
        self.bytes.extend_from_slice(body);
        self.bytes.push(b'>');
        let tag = (start, self.bytes.len());
        self.open.push(Open { tag, name, id, attributes, at, offset: 0, placed: false });
    }

    pub fn pop(&mut self) {
        if let Some(open) = self.open.pop() {
            self.bytes.truncate(open.tag.0);
        }
    }

    pub fn tag(&self, depth: usize) -> &[u8] {
        let (start, end) = self.open[depth].tag;
        &self.bytes[start..end]
    }

    pub fn name(&self, depth: usize) -> &[u8] {
        let Open { tag, name, .. } = self.open[depth];
        &self.bytes[tag.0 + 1..tag.0 + 1 + name]
    }

    /// Says where those that were opened in the buffer at hand are in the document.
    pub fn place(&mut self, offset: &mut dyn FnMut(u32) -> u64) {
        let from = self.open.iter().rposition(|open| open.placed).map_or(0, |i| i + 1);
        for open in &mut self.open[from..] {
            (open.offset, open.placed) = (offset(open.at), true);
        }
    }
}

/// What a chunk has of the document.
#[derive(Default)]
pub struct Fragment {
    pub xml: Vec<u8>,
    pub runs: Vec<Run>,
    /// Runs whose `offset` is one in the buffer at hand.
    pub unplaced: Vec<u32>,
    /// The next id.
    pub next: u64,
    /// How many of the open elements are open in it, too: the first ones.
    pub written: usize,
}

impl Fragment {
    /// A node of the document follows, with those after it. It is at `at` of the buffer at hand.
    pub fn run(&mut self, there: u64, at: u32) {
        self.begin(there, u64::from(at));
        self.unplaced.push(self.runs.len() as u32 - 1);
    }

    fn begin(&mut self, there: u64, offset: u64) {
        if self.runs.is_empty() {
            self.runs.push(Run { here: 0, there: 0, offset: 0 }); // the document
            self.next = 1;
        }
        self.runs.push(Run { here: self.next, there, offset });
    }

    /// Opens the first `depth` of the open elements in it.
    pub fn open(&mut self, tags: &Tags, depth: usize) {
        for i in self.written..depth {
            let open = &tags.open[i];
            if open.placed {
                self.begin(open.id, open.offset);
            } else {
                self.run(open.id, open.at);
            }
            self.next += 1 + open.attributes;
            self.xml.extend_from_slice(tags.tag(i));
        }
        self.written = self.written.max(depth);
    }

    /// Closes the elements from `depth` on.
    pub fn close(&mut self, tags: &Tags, depth: usize) {
        while self.written > depth {
            self.written -= 1;
            self.xml.extend_from_slice(b"</");
            self.xml.extend_from_slice(tags.name(self.written));
            self.xml.push(b'>');
        }
    }

    /// Says where its runs of the buffer at hand are in the document.
    pub fn place(&mut self, offset: &mut dyn FnMut(u32) -> u64) {
        for run in self.unplaced.drain(..) {
            let run = &mut self.runs[run as usize];
            run.offset = offset(run.offset as u32);
        }
    }
}
