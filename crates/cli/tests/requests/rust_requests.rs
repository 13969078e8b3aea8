//! Requests from Rust.

use tallygraph_requests as requests;

#[inline(never)]
fn before() -> u64 {
    std::hint::black_box((1..10u64).fold(1, |a, b| a * b))
}

#[inline(never)]
fn during() -> u64 {
    std::hint::black_box((1..20u64).fold(1, |a, b| a ^ b))
}

fn main() {
    println!("running {}", requests::running() != 0);
    let long = "x".repeat(700);
    println!("printed {}", requests::print!("a line {}\n{long}\n", 7) > 0);
    println!("printed {}", requests::print_backtrace!("where\n") > 0);
    before();
    requests::zero();
    requests::start();
    during();
    requests::stop();
    requests::add_desc(c"of the part");
    requests::dump_at(c"part");
    before();
    // SAFETY: nobody knows the number.
    println!("unknown {}", unsafe { requests::request(77, 0x4d43_0000, [0; 5]) });
}
