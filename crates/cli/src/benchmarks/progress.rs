//! Progress on standard error: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Where a session shows how far it is.
pub struct Progress {
    bar: ProgressBar,
    plain: bool,
}

impl Progress {
    /// A bar on a terminal; with `quiet` nothing at all; otherwise a line a block.
    pub fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target =
            if quiet || !terminal { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{elapsed_precise}] {prefix} {wide_msg}") {
            bar.set_style(style);
        }
        Progress { bar, plain: !quiet && !terminal }
    }

    /// A block begins.
    pub fn block(&self, number: u32, last: u32, benchmarks: usize, warm_up: bool) {
        let kind = if warm_up { "warm-up block" } else { "block" };
        let text = format!("{kind} {} of at most {last}, {benchmarks} benchmarks", number + 1);
        if self.plain {
            eprintln!("{text}");
        }
        self.bar.set_prefix(text);
    }

    /// A run begins.
    pub fn run(&self, benchmark: &str) {
        self.bar.set_message(benchmark.to_string());
        self.bar.tick();
    }

    /// Something worth a line of its own.
    pub fn line(&self, text: &str) {
        if self.plain {
            eprintln!("{text}");
        } else {
            self.bar.println(text);
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
