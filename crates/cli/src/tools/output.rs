//! Standard output and result files.

use super::Outcome;
use anyhow::Context;
use clap::ValueEnum;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum Color {
    /// On a terminal, unless NO_COLOR says otherwise
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Prints text that may hold colours, which are removed where they are not wanted.
pub fn print(text: &str, color: Color) -> Outcome {
    let choice = match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    };
    let choice = if choice == anstream::ColorChoice::Auto {
        anstream::AutoStream::choice(&io::stdout())
    } else {
        choice
    };
    let mut out = anstream::AutoStream::new(io::stdout().lock(), choice);
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints bytes as they are.
pub fn print_bytes(bytes: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// Writes to a file, by way of a temporary one beside it, or to standard output for `None` and `-`.
pub fn write(path: Option<&Path>, bytes: &[u8]) -> Outcome {
    match path.filter(|p| *p != Path::new("-")) {
        None => print_bytes(bytes),
        Some(path) => {
            let mut name = path.file_name().unwrap_or_default().to_os_string();
            name.push(format!(".{}.tmp", std::process::id()));
            let beside = path.with_file_name(name);
            let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
            if written.is_err() {
                let _ = fs::remove_file(&beside);
            }
            written.with_context(|| format!("{}", path.display()))?;
            Ok(())
        }
    }
}

/// Whether an error means that the reader of our output has gone.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|e| e.downcast_ref::<io::Error>()).any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Columns of the terminal, if standard output is one.
pub fn terminal_width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).or_else(tty_columns)
}

/// Columns as the terminal driver knows them.
fn tty_columns() -> Option<usize> {
    let (_, columns) = console::Term::stdout().size_checked()?;
    Some(usize::from(columns))
}
