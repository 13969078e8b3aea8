//! Counts worked out by hand are those of Valgrind.

include!(concat!(env!("OUT_DIR"), "/for_each_guest.rs"));

for_each_guest!(tallygraph_testkit::check::is_counted_alike_by_valgrind);
