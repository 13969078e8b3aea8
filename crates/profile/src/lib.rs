//! The profile in memory, and the formats it is read from and written to.
//!
//! A [`Profile`] keeps every line of a Callgrind file as one [`Record`](model::Record) in a compact
//! byte stream, so that what is read can be written back equal. Everything shown to people is
//! computed from it:
//!
//! - [`read`]: every dialect of the Callgrind format, in parallel, with a reason for each malformed line
//! - [`write`](mod@write): the same, back
//! - [`graph`]: functions, call edges, lines and instructions of one or several profiles
//! - [`fold`]: stacks, estimated from a call graph
//! - [`contexts`]: stacks as they were, from a calling-context file
//! - [`diff`]: what changed between two graphs, and the call that explains it
//! - [`validate`]: which consumers of the format refuse a file, and why
//!
//! ```
//! let text = b"events: Ir\nfn=main\n1 7\ncfn=f\ncalls=2 5\n2 30\nfn=f\n5 30\n";
//! let profile = tallygraph_profile::read::bytes("example", text)?;
//! let graph = tallygraph_profile::graph::CallGraph::of(&profile);
//! assert_eq!(graph.total, [37]);
//! assert_eq!(tallygraph_profile::write::callgrind(&profile), text);
//! # Ok::<(), tallygraph_profile::read::ReadError>(())
//! ```

pub mod contexts;
pub mod diff;
pub mod fold;
pub mod graph;
pub mod model;
pub mod read;
pub mod stacks;
pub mod validate;
pub mod write;

pub use model::Profile;
