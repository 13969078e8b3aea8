//! Every guest behaves under tallygraph as natively and is profiled as its comment and its golden
//! file state.

include!(concat!(env!("OUT_DIR"), "/for_each_guest.rs"));

for_each_guest!(tallygraph_testkit::check::is_profiled_as_stated);
