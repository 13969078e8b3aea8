//! Names of objects, files and functions.
//!
//! A file may give the same text two ids (Callgrind does, for one function in two files) and, in
//! a new part, one id two texts. So a name has two numbers: the *slot* is what the file defined,
//! the *text* is unique by its bytes. Records refer to slots; aggregation goes by text.

use hashbrown::HashMap;
use std::borrow::Cow;

/// Which of the three separate id spaces a name belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameSpace {
    /// `ob=`, `cob=`
    Object,
    /// `fl=`, `fi=`, `fe=`, `cfi=`, `cfl=`, `jfi=`
    File,
    /// `fn=`, `cfn=`, `jfn=`, `cfni=`
    Function,
}

impl NameSpace {
    /// All three, in the order of [`Names`]' fields.
    pub const ALL: [NameSpace; 3] = [NameSpace::Object, NameSpace::File, NameSpace::Function];

    /// Word used in messages.
    pub fn noun(self) -> &'static str {
        match self {
            NameSpace::Object => "object",
            NameSpace::File => "file",
            NameSpace::Function => "function",
        }
    }
}

/// Number of a slot within its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

/// Number of a text within its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(pub u32);

/// A name as the file introduced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The number in parentheses, if the name was compressed.
    pub id: Option<u64>,
    /// Its text.
    pub text: TextId,
}

/// The names of one space.
#[derive(Debug, Clone, Default)]
pub struct NameTable {
    slots: Vec<Slot>,
    texts: Vec<Box<[u8]>>,
    by_text: HashMap<Box<[u8]>, TextId>,
    plain: HashMap<TextId, SlotId>,
}

impl PartialEq for NameTable {
    fn eq(&self, other: &Self) -> bool {
        self.slots == other.slots && self.texts == other.texts
    }
}

impl Eq for NameTable {}

impl NameTable {
    /// Number of slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no name was seen.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Number of different texts.
    pub fn text_count(&self) -> usize {
        self.texts.len()
    }

    /// What slot `id` holds.
    pub fn slot(&self, id: SlotId) -> Slot {
        self.slots[id.0 as usize]
    }

    /// The bytes of a text.
    pub fn bytes(&self, id: TextId) -> &[u8] {
        &self.texts[id.0 as usize]
    }

    /// The text, with bytes that are not UTF-8 replaced.
    pub fn text(&self, id: TextId) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes(id))
    }

    /// The number of a text, new or known.
    pub fn intern(&mut self, text: &[u8]) -> TextId {
        if let Some(&id) = self.by_text.get(text) {
            return id;
        }
        let id = TextId(self.texts.len() as u32);
        self.texts.push(text.into());
        self.by_text.insert(text.into(), id);
        id
    }

    /// The number of a text, if known.
    pub fn find(&self, text: &[u8]) -> Option<TextId> {
        self.by_text.get(text).copied()
    }

    /// A new slot for a compressed name.
    pub fn define(&mut self, id: u64, text: &[u8]) -> SlotId {
        let text = self.intern(text);
        self.push(Slot { id: Some(id), text })
    }

    /// The slot of a name written in full.
    pub fn plain(&mut self, text: &[u8]) -> SlotId {
        let text = self.intern(text);
        if let Some(&slot) = self.plain.get(&text) {
            return slot;
        }
        let slot = self.push(Slot { id: None, text });
        self.plain.insert(text, slot);
        slot
    }

    fn push(&mut self, slot: Slot) -> SlotId {
        self.slots.push(slot);
        SlotId(self.slots.len() as u32 - 1)
    }

    fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.texts.iter().map(|t| 2 * (t.len() + size_of::<Box<[u8]>>() + 16)).sum::<usize>()
    }
}

/// The names of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Executables and libraries.
    pub objects: NameTable,
    /// Source files.
    pub files: NameTable,
    /// Functions.
    pub functions: NameTable,
}

impl Names {
    /// The table of a space.
    pub fn table(&self, space: NameSpace) -> &NameTable {
        match space {
            NameSpace::Object => &self.objects,
            NameSpace::File => &self.files,
            NameSpace::Function => &self.functions,
        }
    }

    /// The table of a space, to add to.
    pub fn table_mut(&mut self, space: NameSpace) -> &mut NameTable {
        match space {
            NameSpace::Object => &mut self.objects,
            NameSpace::File => &mut self.files,
            NameSpace::Function => &mut self.functions,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        NameSpace::ALL.iter().map(|&s| self.table(s).heap_bytes()).sum()
    }
}
