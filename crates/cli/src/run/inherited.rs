//! What this process was started with and the standard library's start-up changed: the guest must
//! find it as it was.
//!
//! The standard library ignores SIGPIPE and opens `/dev/null` for standard descriptors that are
//! closed, both before `main`. A function that runs earlier remembers how they were.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// Bit n: descriptor n was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn remember() {
    // SAFETY: only asks.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut old);
        SIGPIPE_WAS_IGNORED.store(old.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
        for fd in 0..3 {
            if libc::fcntl(fd, libc::F_GETFD) < 0 {
                CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
            }
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember;

/// Whether the standard descriptor `fd` was open when the process started.
pub fn was_open(fd: i32) -> bool {
    !(0..3).contains(&fd) || CLOSED.load(Ordering::Relaxed) & (1 << fd) == 0
}

/// The state to go back to when the execution fails.
pub struct Before {
    ignored: bool,
}

/// Restores what the guest must find.
pub fn restore() -> Before {
    for fd in (0..3).filter(|&fd| !was_open(fd)) {
        // SAFETY: the descriptor was opened by the standard library as a placeholder.
        unsafe { libc::close(fd) };
    }
    let ignored = SIGPIPE_WAS_IGNORED.load(Ordering::Relaxed);
    if !ignored {
        // SAFETY: the default action needs no handler.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    Before { ignored }
}

impl Before {
    /// Goes back to what the standard library wants: writing to a closed pipe is an error.
    pub fn undo(self) {
        if !self.ignored {
            // SAFETY: ignoring a signal needs no handler.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
    }
}
