//! pprof's `profile.proto`, written by hand: it is nine messages of numbers and strings.

use crate::tools::Failure;
use crate::tools::stacks::Stacks;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::HashMap;
use std::io::Write;

/// A protocol buffer message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn number(&mut self, field: u64, n: u64) {
        if n != 0 {
            self.varint(field << 3);
            self.varint(n);
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn packed(&mut self, field: u64, numbers: impl Iterator<Item = u64>) {
        let mut packed = Message::default();
        numbers.for_each(|n| packed.varint(n));
        self.bytes(field, &packed.0);
    }
}

#[derive(Default)]
struct Strings {
    list: Vec<String>,
    index: HashMap<String, u64>,
}

impl Strings {
    fn add(&mut self, text: &str) -> u64 {
        if let Some(&i) = self.index.get(text) {
            return i;
        }
        let i = self.list.len() as u64;
        self.list.push(text.to_string());
        self.index.insert(text.to_string(), i);
        i
    }
}

/// The document, gzipped.
pub fn document(stacks: &Stacks) -> Result<Vec<u8>, Failure> {
    let tree = &stacks.tree;
    let mut strings = Strings::default();
    strings.add("");
    let mut profile = Message::default();
    for event in &tree.events {
        let mut value_type = Message::default();
        value_type.number(1, strings.add(event));
        value_type.number(2, strings.add("count"));
        profile.bytes(1, &value_type.0);
    }
    for (i, node) in tree.nodes.iter().enumerate().filter(|(_, n)| n.cost.iter().any(|&c| c != 0)) {
        let mut sample = Message::default();
        // The leaf first; locations count from 1.
        sample.packed(1, tree.path(i).iter().rev().map(|&f| u64::from(f) + 1));
        sample.packed(2, node.cost.iter().map(|&c| c as u64));
        profile.bytes(2, &sample.0);
    }
    let mut mappings: Vec<&str> = tree.frames.iter().map(|f| f.object.as_str()).collect();
    mappings.sort_unstable();
    mappings.dedup();
    for (i, object) in mappings.iter().enumerate() {
        let mut mapping = Message::default();
        mapping.number(1, i as u64 + 1);
        mapping.number(5, strings.add(object));
        mapping.number(7, 1); // has_functions
        mapping.number(8, 1); // has_filenames
        profile.bytes(3, &mapping.0);
    }
    for (i, frame) in tree.frames.iter().enumerate() {
        let id = i as u64 + 1;
        let mut line = Message::default();
        line.number(1, id);
        let mut location = Message::default();
        location.number(1, id);
        let mapping = mappings.binary_search(&frame.object.as_str()).unwrap_or(0);
        location.number(2, mapping as u64 + 1);
        location.bytes(4, &line.0);
        profile.bytes(4, &location.0);
    }
    for (i, frame) in tree.frames.iter().enumerate() {
        let mut function = Message::default();
        function.number(1, i as u64 + 1);
        function.number(2, strings.add(&frame.name));
        function.number(3, strings.add(&frame.name));
        function.number(4, strings.add(&frame.file));
        profile.bytes(5, &function.0);
    }
    let default = strings.add(&tree.events[stacks.event]);
    let comment = strings.add(match tree.estimated {
        true => "stacks estimated from a call graph",
        false => "recorded stacks",
    });
    for text in &strings.list {
        profile.bytes(6, text.as_bytes());
    }
    profile.packed(13, std::iter::once(comment));
    profile.number(14, default);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&profile.0)?;
    Ok(gzip.finish()?)
}
