//! The records of a spool, by id.

use tallygraph_wire::WireError;
use tallygraph_wire::config::Config;
use tallygraph_wire::spool::{Block, Edge, Record, Section, records};

/// See [`Record::Object`].
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    /// avma − svma.
    pub bias: u64,
    /// Path as mapped.
    pub path: &'a [u8],
    /// Build-id, or empty.
    pub build_id: &'a [u8],
}

/// See [`Record::Function`].
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    /// Object, 0 for anonymous code.
    pub object: u32,
    /// Start, svma.
    pub start: u64,
    /// Section of the start.
    pub section: Section,
    /// Raw symbol name, or empty.
    pub name: &'a [u8],
}

/// See [`Record::Context`].
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Function, 0 for skipped code without a caller.
    pub function: u32,
    /// Recursion level.
    pub level: u32,
    /// Context that names the callers kept apart, or 0.
    pub caller: u32,
    /// Block that pays for this skipped context, or 0.
    pub site_block: u32,
}

/// See [`Record::Jump`].
#[derive(Clone, Copy, Debug)]
pub struct Jump {
    /// Block with the branch.
    pub block: u32,
    /// It is conditional.
    pub conditional: bool,
    /// avma of the branch.
    pub from: u64,
    /// avma of the target.
    pub to: u64,
    /// Counter.
    pub counter: u32,
}

/// All records of one log. Elements 0 stand for "none".
#[derive(Default)]
pub struct Tables<'a> {
    /// The agent's configuration.
    pub config: Config,
    /// Objects.
    pub objects: Vec<Option<Object<'a>>>,
    /// Functions.
    pub functions: Vec<Option<Function<'a>>>,
    /// Calling contexts.
    pub contexts: Vec<Option<Context>>,
    /// Basic blocks.
    pub blocks: Vec<Option<Block<'a>>>,
    /// Call edges.
    pub edges: Vec<Edge>,
    /// Jumps.
    pub jumps: Vec<Jump>,
    /// Arena slot and thread number of each thread.
    pub threads: Vec<(u32, u32)>,
    /// `desc:` lines of the part that is not complete yet.
    pub descriptions: Vec<&'a [u8]>,
}

/// Ids are handed out one by one; one far beyond those seen is damage, not a reason to allocate.
fn put<T: Clone>(table: &mut Vec<Option<T>>, id: u32, value: T) -> Result<(), WireError> {
    let at = id as usize;
    if at > table.len() + (1 << 20) {
        return Err(WireError::Unknown(id));
    }
    if at >= table.len() {
        table.resize(at + 1, None);
    }
    table[at] = Some(value);
    Ok(())
}

/// The element under an id, if it was recorded.
pub fn get<T>(table: &[Option<T>], id: u32) -> Option<&T> {
    table.get(id as usize)?.as_ref()
}

impl<'a> Tables<'a> {
    /// Reads a log.
    pub fn read(log: &'a [u8]) -> Result<Tables<'a>, WireError> {
        let mut t = Tables::default();
        for record in records(log) {
            match record? {
                Record::Config(blob) => t.config = Config::decode(blob)?,
                Record::Object { id, bias, path, build_id, .. } => {
                    put(&mut t.objects, id, Object { bias, path, build_id })?;
                }
                Record::Function { id, object, start, section, name, .. } => {
                    put(&mut t.functions, id, Function { object, start, section, name })?;
                }
                Record::Context { id, function, level, caller, site_block } => {
                    put(&mut t.contexts, id, Context { function, level, caller, site_block })?;
                }
                Record::Block(block) => {
                    let id = block.id;
                    put(&mut t.blocks, id, block)?;
                }
                Record::Edge(edge) => t.edges.push(edge),
                Record::Thread { slot, number, .. } => t.threads.push((slot, number)),
                Record::Description(text) => t.descriptions.push(text),
                Record::PartEnd { .. } => t.descriptions.clear(),
                Record::Jump { block, conditional, from, to, counter } => {
                    t.jumps.push(Jump { block, conditional: conditional != 0, from, to, counter });
                }
            }
        }
        Ok(t)
    }
}
