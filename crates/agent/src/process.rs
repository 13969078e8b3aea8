//! Start and end of the guest's process.

use crate::auxv::{InitialStack, at, c_string};
use crate::loader;
use crate::profiler::Profiler;
use crate::runtime::{self, Runtime};
use crate::spool::Spool;
use crate::{collect, log, selection, signals, simulation, threads};
use alloc::vec::Vec;
use tallygraph_callgraph::Graph;
use tallygraph_callgraph::graph::Options;
use tallygraph_engine::layout::BRK_START;
use tallygraph_engine::{Engine, EngineOptions, Next};
use tallygraph_sys::{abi, fd, syscall};
use tallygraph_wire::config::{Config, Number, Text, Tool};
use tallygraph_wire::spool::Record;

/// Runs the guest. Entered with the kernel's initial stack.
///
/// # Safety
///
/// Called once, first thing in the process.
pub unsafe fn start(stack: *mut u64) -> ! {
    // SAFETY: by this function's contract.
    let mut initial = unsafe { InitialStack::new(stack) };
    // SAFETY: getpid and getppid have no effect.
    let (pid, parent) = unsafe { (syscall!(abi::__NR_getpid), syscall!(abi::__NR_getppid)) };
    let (pid, parent) = (pid.unwrap_or(0), parent.unwrap_or(0));
    tallygraph_engine::set_own_pid(pid as i32);
    // SAFETY: AT_EXECFN points to a string on the stack.
    let exec_fn = initial.auxv.get(at::AT_EXECFN).map(|at| unsafe { c_string(at) });
    let (config, blob) = read_config(exec_fn.unwrap_or(b""));
    log::set_fd(config.get(Number::LogFd) as i32);
    let fail = |what: &str, detail: &dyn core::fmt::Debug| -> ! {
        log!("tallygraph: {what}: {detail:?}");
        exit_raw(1)
    };
    let counts = config.get(Number::Tool) == Tool::Callgrind as u64;
    let dir = config.text(Text::SpoolDir).unwrap_or(b"/tmp");
    let mut spool = match Spool::create(dir, pid as u32, parent as u32) {
        Ok(spool) => spool,
        Err(e) => fail("cannot create the spool", &e),
    };
    spool.append(&Record::Config(&blob));
    let options = Options {
        rules: selection::default_rules(&config),
        most_callers: selection::most_callers(&config),
        skip_direct_rec: config.is(Number::SkipDirectRec),
        start_aside: !config.is(Number::CollectAtStart),
    };
    let engine_options = EngineOptions {
        no_links: config.is(Number::StressNoLinks),
        no_traces: config.is(Number::StressNoTraces),
        block_limit: config.get(Number::StressBlockLimit) as usize,
        cache_size: config.get(Number::StressCacheSize),
        flush_always: config.is(Number::StressFlush),
        no_lookup: config.is(Number::StressNoIbl),
        pause_every: if counts { config.get(Number::DumpEveryBb).min(1 << 31) as u32 } else { 0 },
    };
    // AT_HWCAP2 bit 1: rdfsbase may be used.
    let fs_base = initial.auxv.get(at::AT_HWCAP2).unwrap_or(0) & 2 != 0;
    if counts {
        simulation::configure(&config, fs_base);
    }
    let mut profiler = Profiler::new(spool, counts, &config);
    for path in config.texts(Text::ObjSkip) {
        profiler.skip_object(path);
    }
    for path in config.texts(Text::ExtraDebuginfoPath) {
        profiler.add_debug_root(path);
    }
    let mut engine = match Engine::new(profiler, Graph::new(options), engine_options) {
        Ok(engine) => engine,
        Err(e) => fail("cannot map the code cache", &e),
    };
    engine.simulation = simulation::machine().simulation;
    // What the guest reads at AT_EXECFN must outlive everything.
    let mut execfn = config.text(Text::ExecFn).unwrap_or(b"").to_vec();
    execfn.push(0);
    let execfn = execfn.leak().as_ptr() as u64;
    let mut path = config.text(Text::GuestPath).unwrap_or(b"").to_vec();
    path.push(0);
    let guest = match loader::load_guest(&path, &mut initial.auxv, execfn, config.is(Number::HideVdso)) {
        Ok(guest) => guest,
        Err(e) => fail("cannot load the program", &e),
    };
    set_name(config.text(Text::ExecFn).unwrap_or(b""));
    let mut rt = Runtime {
        engine,
        config,
        brk: BRK_START,
        brk_mapped: BRK_START,
        threads: Vec::new(),
        ended: Vec::new(),
        child: false,
        silent: false,
        instrumenting: true,
        collecting: true,
        paused: None,
        stacks: 0,
        parts: 0,
    };
    let state = match threads::create_first(&mut rt) {
        Ok(state) => state,
        Err(e) => fail("cannot map a thread block", &e),
    };
    runtime::install(rt);
    // SAFETY: the block was just made for this thread.
    let state = unsafe { &mut *state };
    state.tid = pid as u32;
    threads::set_gs(state);
    signals::thread(state).install_stack();
    signals::start();
    state.regs.gpr[4] = stack as u64;
    state.regs.rflags = 0x202;
    let next = {
        let mut rt = runtime::access();
        rt.instrumenting = rt.config.is(Number::InstrAtStart);
        rt.collecting = rt.config.is(Number::CollectAtStart);
        if !rt.instrumenting {
            collect::start_paused(&mut rt);
        }
        if !rt.instrumenting {
            rt.engine.turn_off(state);
        }
        rt.engine.set_root(state, guest.entry);
        let context = signals::root_context(&mut rt, guest.entry);
        rt.engine.resume_at(guest.entry, context)
    };
    if let Next::Fault { pc, why } = next {
        fail("cannot start the program", &(pc, why));
    }
    let at = runtime::follow(state, next);
    threads::enter(state, at)
}

/// Reads the configuration that follows the agent's image in the file named by `/dev/fd/N`.
fn read_config(exec_fn: &[u8]) -> (Config, Vec<u8>) {
    let digits = exec_fn.rsplit(|&b| b == b'/').next().unwrap_or(b"");
    let number = core::str::from_utf8(digits).ok().and_then(|d| d.parse::<i32>().ok());
    let fail = |why: &[u8]| -> ! { tallygraph_sys::die(2, why) };
    let Some(file) = number else {
        fail(b"tallygraph-agent: to be started by tallygraph only\n");
    };
    let Ok(size) = fd::size(file) else { fail(b"tallygraph-agent: cannot read its own file\n") };
    let mut tail = [0u8; 8];
    let _ = fd::pread(file, &mut tail, size.saturating_sub(8));
    let len = u64::from_le_bytes(tail);
    if len > 1 << 30 || len + 8 > size {
        fail(b"tallygraph-agent: no configuration follows the image\n");
    }
    let mut blob = alloc::vec![0u8; len as usize];
    let _ = fd::pread(file, &mut blob, size - 8 - len);
    fd::close(file);
    match Config::decode(&blob) {
        Ok(config) => (config, blob),
        Err(_) => fail(b"tallygraph-agent: the configuration cannot be read\n"),
    }
}

/// Names the process as the kernel names one that executes `path`.
fn set_name(path: &[u8]) {
    let base = path.rsplit(|&b| b == b'/').next().unwrap_or(b"");
    let mut name = [0u8; 16];
    let n = base.len().min(15);
    name[..n].copy_from_slice(&base[..n]);
    const PR_SET_NAME: u64 = 15;
    // SAFETY: the kernel reads at most 16 bytes.
    let _ = unsafe { syscall!(abi::__NR_prctl, PR_SET_NAME, name.as_ptr()) };
}

/// Ends the process.
pub fn exit_raw(status: i32) -> ! {
    loop {
        // SAFETY: does not return.
        let _ = unsafe { syscall!(abi::__NR_exit_group, status) };
    }
}
