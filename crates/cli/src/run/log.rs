//! The log: lines with the guest's process number before them, as Valgrind prints them.

use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};

/// An open log.
pub struct Log {
    /// Not closed here: the descriptor belongs to the guest's process. None discards everything.
    file: Option<ManuallyDrop<File>>,
    pid: u32,
}

impl Log {
    /// The log of process `pid` on a descriptor that stays open; negative for none.
    pub fn inherited(fd: RawFd, pid: u32) -> Log {
        // SAFETY: the file is never dropped, so a descriptor owned elsewhere stays open; one that is
        // not open makes writes fail, which is ignored.
        let file = (fd >= 0).then(|| ManuallyDrop::new(unsafe { File::from_raw_fd(fd) }));
        Log { file, pid }
    }

    /// Appends lines.
    pub fn lines(&mut self, lines: &[impl AsRef<str>]) {
        let Some(file) = &mut self.file else { return };
        let _ = file.write_all(prefixed(self.pid, lines).as_bytes());
    }

    /// Ends a line that others began.
    pub fn unfinished(&mut self, rest: &str) {
        let Some(file) = &mut self.file else { return };
        let _ = file.write_all(format!("{rest}\n").as_bytes());
    }

    /// Appends remarks of the tool about itself.
    pub fn notes(&mut self, notes: &[String]) {
        let Some(file) = &mut self.file else { return };
        for note in notes {
            let _ = file.write_all(format!("--{}-- {note}\n", self.pid).as_bytes());
        }
    }
}

/// Lines as they appear in the log.
fn prefixed(pid: u32, lines: &[impl AsRef<str>]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&format!("=={pid}== {}\n", line.as_ref()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::prefixed;

    #[test]
    fn every_line_names_the_process() {
        assert_eq!(prefixed(7, &["a", ""]), "==7== a\n==7== \n");
    }
}
