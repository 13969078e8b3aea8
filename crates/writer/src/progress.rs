//! Says on a terminal what is being read, when that takes more than a second.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long nothing is said.
const SILENT: Duration = Duration::from_secs(1);

/// What is being done, and a thread that says it.
#[derive(Default)]
pub struct Progress {
    watcher: Option<Watcher>,
}

struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    text: String,
    done: bool,
}

impl Progress {
    /// From here on the file at `path` is read. The thread starts with the first file, if there is
    /// a terminal to say it on.
    pub fn reading(&mut self, path: &Path) {
        if self.watcher.is_none() && io::stderr().is_terminal() {
            self.watcher = Some(Watcher::start(io::stderr(), SILENT));
        }
        if let Some(watcher) = &self.watcher {
            watcher.say(format!("tallygraph: reading debug information of {}", path.display()));
        }
    }
}

impl Watcher {
    fn start(mut out: impl Write + Send + 'static, silent: Duration) -> Watcher {
        let shared = Arc::new(Shared::default());
        let watched = shared.clone();
        let thread = std::thread::spawn(move || watched.watch(&mut out, silent));
        Watcher { shared, thread: Some(thread) }
    }

    fn say(&self, text: String) {
        self.shared.lock().text = text;
        self.shared.changed.notify_one();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.lock().done = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Shows the newest text, each over the one before, until all is done; then nothing is left of it.
    fn watch(&self, out: &mut impl Write, silent: Duration) {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, silent, |s| !s.done);
        let mut state = waited.map_or_else(|e| e.into_inner().0, |(state, _)| state);
        if state.done {
            return;
        }
        let mut shown = String::new();
        while !state.done {
            if shown != state.text {
                shown.clone_from(&state.text);
                let _ = write!(out, "\r{shown}\x1b[K");
                let _ = out.flush();
            }
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        let _ = write!(out, "\r\x1b[K");
        let _ = out.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    struct Sent(Sender<Vec<u8>>);

    impl Write for Sent {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_takes_long_is_said_and_wiped_away() {
        let (sender, receiver) = channel();
        let watcher = Watcher::start(Sent(sender), Duration::ZERO);
        watcher.say("first".into());
        let mut text = String::new();
        while !text.contains("first\x1b[K") {
            text.push_str(&String::from_utf8(receiver.recv().unwrap()).unwrap());
        }
        drop(watcher);
        text.extend(receiver.iter().map(|b| String::from_utf8(b).unwrap()));
        assert!(text.ends_with("\rfirst\x1b[K\r\x1b[K"), "{text:?}");
    }

    #[test]
    fn what_is_quick_is_not_said() {
        let (sender, receiver) = channel();
        let watcher = Watcher::start(Sent(sender), Duration::from_secs(3600));
        watcher.say("first".into());
        drop(watcher);
        assert_eq!(receiver.iter().count(), 0);
    }
}
