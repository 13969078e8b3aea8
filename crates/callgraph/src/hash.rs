//! A small hasher with a fixed seed, so that nothing depends on a run's randomness.

use core::hash::{BuildHasherDefault, Hasher};

/// Multiply-and-rotate over 64-bit words.
#[derive(Clone, Copy, Default)]
pub struct WordHasher(u64);

impl WordHasher {
    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        // The low bits of a product depend on few input bits: fold the high half in.
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, v: u8) {
        self.add(v as u64);
    }
    fn write_u32(&mut self, v: u32) {
        self.add(v as u64);
    }
    fn write_u64(&mut self, v: u64) {
        self.add(v);
    }
    fn write_usize(&mut self, v: usize) {
        self.add(v as u64);
    }
}

/// A hash map with [`WordHasher`].
pub type Map<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<WordHasher>>;

/// A hash set with [`WordHasher`].
pub type Set<K> = hashbrown::HashSet<K, BuildHasherDefault<WordHasher>>;
