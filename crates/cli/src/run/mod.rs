//! The profiler's own front: options, launching the guest, writing its profile.

use std::ffi::OsString;
use std::process::ExitCode;

mod caches;
mod execute;
mod frames;
mod help;
mod inherited;
mod launch;
mod log;
mod options;
mod program;
mod recover;
mod spool_dir;
mod write;

use options::{Request, Usage};

/// Runs the profiler's front with the whole command line.
pub fn main(args: &[OsString]) -> ExitCode {
    let word = args.get(1).and_then(|a| a.to_str()).unwrap_or("");
    match word {
        "__write" => return write::main(&args[2..]),
        "__frames" => return frames::main(&args[2..]),
        "recover" => return recover::main(&args[2..]),
        "__exec" => return exec(&args[2..]),
        _ => {}
    }
    let name = args.first().map(|a| std::path::Path::new(a).file_name().unwrap_or_default().to_owned());
    let as_valgrind = name.is_some_and(|n| n.to_string_lossy().contains("valgrind"));
    let explicit = word == "run" || word.starts_with('-') || as_valgrind;
    if !explicit {
        if word.is_empty() {
            print!("{}", help::COMMANDS);
            return ExitCode::from(2);
        }
        eprintln!(
            "tallygraph: unknown command '{word}'; 'tallygraph --help' lists the commands, 'tallygraph run {word}' profiles a program"
        );
        return ExitCode::from(2);
    }
    let own_style = !as_valgrind && !args[1..].iter().any(|a| a.to_string_lossy().starts_with("--tool"));
    let rest = if word == "run" { &args[2..] } else { &args[1..] };
    match options::parse(rest, true) {
        Ok(Request::Version) => {
            println!("{}", version(own_style));
            ExitCode::SUCCESS
        }
        Ok(Request::Help) => {
            if own_style && word != "run" {
                print!("{}", help::COMMANDS);
            }
            print!("{}", help::OPTIONS);
            ExitCode::SUCCESS
        }
        Ok(Request::Run(options)) => fail(launch::launch(*options, None)),
        Err(Usage(lines)) => fail(launch::Failure { lines, status: 1 }),
    }
}

/// A program that a traced guest executes: options, `--`, the file, then the arguments from zero on.
fn exec(args: &[OsString]) -> ExitCode {
    let Some(end) = args.iter().position(|a| a == "--") else { return ExitCode::from(1) };
    let Some((path, command)) = args[end + 1..].split_first() else { return ExitCode::from(1) };
    let mut words = args[..=end].to_vec();
    words.extend_from_slice(command);
    if command.is_empty() {
        words.push(path.clone());
    }
    match options::parse(&words, false) {
        Ok(Request::Run(options)) => fail(launch::launch(*options, Some(path.clone()))),
        _ => ExitCode::from(1),
    }
}

fn fail(failure: launch::Failure) -> ExitCode {
    for line in failure.lines {
        eprintln!("{line}");
    }
    ExitCode::from(failure.status)
}

/// What `--version` prints: our own name, or for callers of Valgrind a line that they can parse.
fn version(own: bool) -> String {
    if let Ok(text) = std::env::var("TALLYGRAPH_VERSION") {
        return text;
    }
    if own { format!("tallygraph {}", env!("CARGO_PKG_VERSION")) } else { "valgrind-3.26.0".into() }
}
