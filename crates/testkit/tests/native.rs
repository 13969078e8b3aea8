//! Every guest passes natively: what it checks is true of the machine.

include!(concat!(env!("OUT_DIR"), "/for_each_guest.rs"));

for_each_guest!(tallygraph_testkit::check::passes_natively);
