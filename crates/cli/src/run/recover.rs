//! `tallygraph recover`: profiles of guests that were killed, from the spools they left.

use super::spool_dir;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tallygraph_writer::spool_file::SpoolFile;
use tallygraph_writer::{Request, end_lines};

const HELP: &str = "\
usage: tallygraph recover [DIRECTORY | SPOOL]...

  Writes the profile of each guest that ended without one (it was killed, or its writer failed),
  under the name the guest was given, and deletes the spool. Guests that still run are left alone.
  Without arguments the directories in which guests of this user keep their spools are searched.
";

/// Runs the command with the words after `recover`.
pub fn main(args: &[OsString]) -> ExitCode {
    if args.iter().any(|a| a == "--help" || a == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let (mut written, mut failed) = (0, 0);
    for spool in spools(args, &mut failed) {
        match recover(&spool) {
            Ok(Outcome::Written(files, total)) => {
                for file in files {
                    println!("{} -> {} ({} instructions)", spool.display(), file.display(), total);
                }
                written += 1;
            }
            Ok(Outcome::Running(pid)) => println!("{}: process {pid} is still running", spool.display()),
            Err(e) => {
                eprintln!("tallygraph recover: {e}");
                failed += 1;
            }
        }
    }
    if written == 0 && failed == 0 {
        println!("nothing to recover");
    }
    ExitCode::from(u8::from(failed > 0))
}

/// The spools that the arguments name, or those of all directories in use.
fn spools(args: &[OsString], failed: &mut u32) -> Vec<PathBuf> {
    let places = match args {
        [] => spool_dir::candidates(),
        args => args.iter().map(PathBuf::from).collect(),
    };
    let mut all = Vec::new();
    for place in places {
        match std::fs::read_dir(&place) {
            Ok(entries) => {
                let paths = entries.flatten().map(|e| e.path());
                let mut found: Vec<PathBuf> =
                    paths.filter(|p| p.extension().is_some_and(|x| x == "spool")).collect();
                found.sort();
                all.extend(found);
            }
            Err(_) if place.is_file() => all.push(place),
            Err(_) if args.is_empty() => {}
            Err(e) => {
                eprintln!("tallygraph recover: {}: {e}", place.display());
                *failed += 1;
            }
        }
    }
    all
}

enum Outcome {
    /// Files, and the number of instructions counted.
    Written(Vec<PathBuf>, String),
    /// The guest is alive.
    Running(u32),
}

fn recover(path: &Path) -> Result<Outcome, String> {
    let spool = SpoolFile::open(path).map_err(|e| e.to_string())?;
    if is_running(spool.pid(), spool.start_time()) {
        return Ok(Outcome::Running(spool.pid()));
    }
    let report = tallygraph_writer::write(&spool, &Request::LAST).map_err(|e| e.to_string())?;
    std::fs::remove_file(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(Outcome::Written(report.files, end_lines::grouped(report.totals[0])))
}

/// True when the process that owns a spool still exists and is not a later one of the same number.
fn is_running(pid: u32, start_time: u64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let Some((_, rest)) = stat.rsplit_once(')') else { return true };
    let mut fields = rest.split_ascii_whitespace();
    let gone = matches!(fields.next(), Some("Z" | "X"));
    let started = fields.nth(18).and_then(|f| f.parse::<u64>().ok());
    !gone && (start_time == 0 || started == Some(start_time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_running_and_an_earlier_one_of_its_number_is_not() {
        assert!(is_running(std::process::id(), 0));
        assert!(!is_running(std::process::id(), 1));
        assert!(!is_running(u32::MAX - 1, 0));
    }

    #[test]
    fn only_spools_are_taken_from_a_directory() {
        let directory = std::env::temp_dir().join(format!("tallygraph-recover-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for name in ["2.spool", "1.spool", "note"] {
            std::fs::write(directory.join(name), b"").unwrap();
        }
        let mut failed = 0;
        let found = spools(&[directory.clone().into()], &mut failed);
        assert_eq!(found, [directory.join("1.spool"), directory.join("2.spool")]);
        assert!(spools(&["/no/such/place".into()], &mut failed).is_empty() && failed == 1);
        assert!(recover(&found[0]).is_err_and(|e| e.contains("1.spool")));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
