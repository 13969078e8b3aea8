//! No stress option changes what a guest does or its profile.

include!(concat!(env!("OUT_DIR"), "/for_each_guest.rs"));

for_each_guest!(tallygraph_testkit::check::is_the_same_under_stress);
