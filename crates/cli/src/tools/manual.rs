//! Manual pages and shell completions, made from the argument descriptions.

use super::{Failure, Outcome, output};
use clap::Args;

/// Arguments of `completions`.
#[derive(Args)]
pub struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Args)]
pub struct Man {
    /// The command; all of them in short when left out
    command: Option<String>,
}

/// Prints a completion script.
pub fn completions(arguments: Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::command(), "tallygraph", &mut script);
    output::print_bytes(&script)
}

/// Prints a manual page in roff.
pub fn man(arguments: Man) -> Outcome {
    let mut command = super::command();
    command.build();
    let shown = match &arguments.command {
        None => command,
        Some(name) => match command.find_subcommand(name) {
            Some(found) => found.clone(),
            None => return Err(Failure::Usage(format!("there is no command `{name}`"))),
        },
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(shown).render(&mut page)?;
    output::print_bytes(&page)
}
