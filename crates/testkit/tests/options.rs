//! Each option that shapes the call graph, on three programs: every part equal to Valgrind's.

use tallygraph_testkit::against::{Demand, guest_with, installed_with};

/// A program in C, one in C++, and Perl, with options; names of functions are the programs' own.
fn everywhere(test: &str, c: &[&str], cpp: &[&str], perl: &[&str]) {
    let demands = [Demand::Own("options_calls"), Demand::Own("programs_virtual"), Demand::Own("perl")];
    with_demands(test, demands, c, cpp, perl);
}

fn with_demands(test: &str, demands: [Demand; 3], c: &[&str], cpp: &[&str], perl: &[&str]) {
    guest_with(&format!("options/{test}/c"), demands[0], "options_calls.c", c);
    guest_with(&format!("options/{test}/cpp"), demands[1], "programs_virtual.cpp", cpp);
    let script = "my %h; $h{$_ % 17} .= chr(65 + $_ % 26) for 1 .. 60; \
        print join(',', map { length } @h{sort { $a <=> $b } keys %h}), \"\\n\"; \
        sub f { my $n = shift; $n < 2 ? $n : f($n - 1) + f($n - 2) } print f(6), \"\\n\"; \
        for (1 .. 3) { eval { die { code => $_ } }; print $@->{code} }";
    let fixed = [("PERL_HASH_SEED", "0"), ("PERL_PERTURB_KEYS", "0")];
    let words = ["/usr/bin/perl", "-e", script];
    installed_with(&format!("options/{test}/perl"), demands[2], &fixed, perl, &words);
}

#[test]
fn functions_are_skipped() {
    everywhere(
        "fn-skip",
        &["--fn-skip=middle", "--fn-skip=?ong"],
        &["--fn-skip=*::area*"],
        &["--fn-skip=Perl_sv_*", "--fn-skip=*alloc*"],
    );
}

#[test]
fn direct_recursion_is_left_out() {
    let option = &["--skip-direct-rec=yes"];
    everywhere("skip-direct-rec", option, option, option);
}

#[test]
fn recursion_levels() {
    everywhere("separate-recs", &["--separate-recs=4"], &["--separate-recs=1"], &["--separate-recs=3"]);
}

#[test]
fn callers() {
    everywhere(
        "separate-callers",
        &["--separate-callers=3"],
        &["--separate-callers=2"],
        &["--separate-callers=1"],
    );
}

#[test]
fn callers_of_some_functions() {
    everywhere(
        "separate-callers-of",
        &["--separate-callers2=leaf", "--separate-callers1=mi*"],
        &["--separate-callers2=*::area*"],
        &["--separate-callers2=Perl_sv_free2", "--separate-callers1=*alloc"],
    );
}

#[test]
fn groups() {
    everywhere(
        "fn-group",
        &["--fn-group1=middle", "--fn-group1=leaf", "--fn-group2=p?ng"],
        &["--fn-group1=*::area*"],
        &["--fn-group1=Perl_sv_*"],
    );
}

#[test]
fn collection_is_switched() {
    everywhere(
        "toggle-collect",
        &["--toggle-collect=middle"],
        &["--toggle-collect=main"],
        &["--toggle-collect=Perl_pp_entersub"],
    );
}

#[test]
fn switching_off_what_is_collected() {
    everywhere(
        "toggle-collect-off",
        &["--toggle-collect=down", "--collect-atstart=yes"],
        &["--toggle-collect=*::area*", "--collect-atstart=yes"],
        &["--toggle-collect=Perl_pp_entersub", "--collect-atstart=yes"],
    );
}

#[test]
fn parts_before_a_function() {
    everywhere(
        "dump-before",
        &["--dump-before=work"],
        &["--dump-before=main"],
        &["--dump-before=Perl_pp_die"],
    );
}

#[test]
fn parts_after_a_function() {
    everywhere("dump-after", &["--dump-after=work"], &["--dump-after=main"], &["--dump-after=Perl_pp_die"]);
}

#[test]
fn forgetting_before_a_function() {
    let demands =
        [Demand::OwnEdges("options_calls"), Demand::OwnEdges("programs_virtual"), Demand::OwnEdges("perl")];
    with_demands(
        "zero-before",
        demands,
        &["--zero-before=work"],
        &["--zero-before=main"],
        &["--zero-before=Perl_pp_die"],
    );
}

#[test]
fn several_triggers_at_once() {
    everywhere(
        "triggers",
        &["--toggle-collect=work", "--dump-after=tail", "--separate-callers=1"],
        &["--toggle-collect=main", "--dump-after=std::make_shared*"],
        &["--toggle-collect=Perl_pp_entersub", "--dump-after=Perl_pp_die"],
    );
}

#[test]
fn functions_of_rust_are_meant_by_readable_names() {
    for (n, options) in [
        &["--toggle-collect=*::tree"][..],
        &["--toggle-collect=*Pair as *::weight", "--separate-callers1=*::weight"],
        &["--fn-skip=*::drop_in_place<*>", "--separate-recs3=*::tree"],
        &["--dump-before=*::tree", "--toggle-collect=*::tree"],
    ]
    .into_iter()
    .enumerate()
    {
        let demand = Demand::Own("programs_rust");
        guest_with(&format!("options/rust/{n}"), demand, "programs_rust.rs", options);
    }
}
