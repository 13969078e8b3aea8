//! The call graph machine: shadow stacks, calling contexts and call edges.
//!
//! It knows no machine code. It is told of calls, returns, jumps and unwinding by addresses and
//! stack pointers, decides what they mean for the call graph, and says which context and which
//! edge the costs belong to. Counters themselves are numbers handed out by a [`Sink`]; whoever
//! executes the program adds to them, on fast paths of its own that must agree with this crate.
//!
//! The rules (what is a call, a return, a jump that counts as a call, a recursion level) are
//! Callgrind's, so that profiles stay comparable; `docs/counting.md` lists them.
//!
//! - [`graph`]: functions, contexts, edges, the decision about a transfer of control;
//! - [`rules`]: what options say of single functions;
//! - [`shadow_stack`]: the entries that calls push and returns pop.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod graph;
pub mod hash;
pub mod parked;
pub mod rules;
pub mod shadow_stack;

pub use graph::{CallVariant, Context, Edge, Graph, Options, Sink, Transfer};
pub use rules::Rules;
pub use shadow_stack::{Entry, EntryInfo, EntryKind, ReturnOutcome, Stack};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// Stands for the absence of one.
            pub const NONE: Self = $name(0);

            /// True for [`Self::NONE`].
            pub fn is_none(self) -> bool {
                self.0 == 0
            }
        }
    };
}

id!(
    /// A function: an object's symbol, or the address of a call target without one.
    FnId
);
id!(
    /// A calling context: a function at a recursion level, with the callers kept apart.
    CtxId
);
id!(
    /// A basic block in a context.
    BlockId
);
id!(
    /// A call edge.
    EdgeId
);

/// What is known of a code address, as far as the call graph cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of the object, 0 for anonymous code.
    pub object: u32,
    /// Kind of section; equal numbers are equal kinds.
    pub section: u8,
    /// The address is the first instruction of a function with a symbol.
    pub entry: bool,
    /// Code here is skipped: its cost belongs to the caller.
    pub skip: bool,
}
