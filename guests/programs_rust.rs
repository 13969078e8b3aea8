// flags: -C opt-level=3
// Hash maps with a fixed hasher, sorting, formatting, trait objects, recursion, a panic that is caught.
// Started by the C library, since Rust's own start reads /proc/self/maps, whose length is not the program's.
//
// Ir: any
#![no_main]
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};

trait Node {
    fn weight(&self, depth: u32) -> u64;
}
struct Leaf(u64);
struct Pair(Box<dyn Node>, Box<dyn Node>);
impl Node for Leaf {
    fn weight(&self, depth: u32) -> u64 {
        self.0 << (depth % 8)
    }
}
impl Node for Pair {
    fn weight(&self, depth: u32) -> u64 {
        self.0.weight(depth + 1) + self.1.weight(depth + 2)
    }
}

fn tree(depth: u64) -> Box<dyn Node> {
    if depth == 0 { Box::new(Leaf(depth + 3)) } else { Box::new(Pair(tree(depth - 1), tree(depth - 1))) }
}

#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    let mut words: HashMap<String, u32, BuildHasherDefault<DefaultHasher>> = HashMap::default();
    for i in 0..2000u32 {
        *words.entry(format!("word {}", i.wrapping_mul(2654435761) % 300)).or_default() += i;
    }
    let mut sorted: Vec<_> = words.iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let lengths: BTreeMap<usize, usize> = sorted.iter().fold(BTreeMap::new(), |mut m, (w, _)| {
        *m.entry(w.len()).or_default() += 1;
        m
    });
    println!("{:?} {lengths:?} {}", sorted[0], tree(8).weight(0));
    std::panic::set_hook(Box::new(|_| {}));
    let caught = std::panic::catch_unwind(|| {
        let empty: Vec<u32> = Vec::new();
        empty[words.len()]
    });
    assert!(caught.is_err());
    println!("EXIT-SUCCESS");
    0
}
