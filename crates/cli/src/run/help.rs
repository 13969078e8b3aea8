//! Help texts of the profiler's front.

/// The commands.
pub const COMMANDS: &str = "\
tallygraph: counts every instruction a program executes, by function, line and call.

usage: tallygraph COMMAND ...

  run [options] [--] PROGRAM ARGS   profile a program; options are Callgrind's
  --tool=callgrind [options] ...    the same, as a drop-in for valgrind
  control                           ask running guests for dumps, counts and stacks
  recover [DIR|SPOOL]               write profiles of programs that were killed

  annotate, flamegraph, diff, report, export, validate     read profiles
  bench, compare, investigate, history                     run and compare benchmarks

'tallygraph COMMAND --help' tells more of each.
";

/// The options of `run`.
pub const OPTIONS: &str = "\
usage: tallygraph run [options] [--] PROGRAM ARGS

  The word after the options is the program. --name=value is the only form of a value.

 output
  --callgrind-out-file=FILE     name of the profile [callgrind.out.%p]; %p process id, %n counter,
                                %q{VAR} environment variable, %% percent sign
  --dump-line=no|yes            positions by source line [yes]
  --dump-instr=no|yes           positions by instruction [no]
  --dump-inline=no|yes          name inlined functions in cfni= lines, which not all readers know [no]
  --compress-strings=no|yes     each name once [yes]
  --compress-pos=no|yes         relative positions [yes]
  --combine-dumps=no|yes        all parts in one file [no]
  --separate-threads=no|yes     a file for each thread [no]
 call graph
  --separate-recs=N             recursion levels kept apart [2]
  --separate-callers=N          callers kept apart [0]
  --skip-plt=no|yes             cost of PLT stubs goes to the caller [yes]
  --skip-direct-rec=no|yes      direct recursion is no call of its own level [no]
  --separate-recsN=FUNCTION --separate-callersN=FUNCTION --fn-groupN=FUNCTION
  --fn-skip=FUNCTION            what it costs and calls is its caller's
  --obj-skip=PATH|NAME|BUILD-ID the same for all functions of an object
 when
  --instr-atstart=yes|no        measure from the start [yes]
  --collect-atstart=yes|no      collect costs from the start [yes]
  --collect-jumps=no|yes        count jumps within functions [no]
  --toggle-collect=FUNCTION     collect while it is active
  --dump-before=FUNCTION --dump-after=FUNCTION --zero-before=FUNCTION
                                in names * is any text, ? one character
 core
  --trace-children=no|yes       profile programs that the program executes [no]
  --trace-children-skip=P,...   but not those whose path matches
  --child-silent-after-fork=no|yes
  --log-fd=N --log-file=FILE    where messages go [2]
  --demangle=no|yes             readable C++ and Rust names [yes]
  --extra-debuginfo-path=DIR    another place for separate debug files
  --debuginfo-command=COMMAND   fetches debug files that are not installed, e.g. debuginfod-find
  --fullpath-after=STRING       show source paths from after STRING
  --vdso=hide|keep              hide: counts repeat; keep: fast clock calls [hide]
  --tool=callgrind|none         none: run and count nothing
  -q -v --version -h
 simulation
  --cache-sim=no|yes --branch-sim=no|yes
  --I1=SIZE,WAYS,LINE --D1=... --LL=...     the caches [those of this machine]
  --cache-model=NAME            the caches of a named machine: zen3, icelake, graviton-like, ...
  --simulate-wb=no|yes --simulate-hwpref=no|yes   LL writes back; LL prefetches
  --collect-bus=no|yes          count bus events (locked instructions)
  --collect-systime=no|msec|usec|nsec       count system calls and their time

  Further options of Callgrind and of Valgrind's core are accepted too.

  Options are also read from ~/.valgrindrc, $VALGRIND_OPTS and ./.valgrindrc.
";
