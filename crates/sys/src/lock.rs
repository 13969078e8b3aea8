//! A futex lock that needs no thread-local storage.

use crate::{abi, syscall};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// A mutual-exclusion lock around a value. Not reentrant.
pub struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock lets one thread at a time reach the value.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Access to the value until dropped.
pub struct Guard<'l, T>(&'l Lock<T>);

impl<T> Lock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Lock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits until the lock is free and takes it.
    pub fn lock(&self) -> Guard<'_, T> {
        if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
        Guard(self)
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..100 {
            if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
            core::hint::spin_loop();
        }
        while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            // SAFETY: the word outlives the call; a spurious return is handled by the loop.
            let _ = unsafe {
                syscall!(
                    abi::__NR_futex,
                    self.word.as_ptr(),
                    abi::FUTEX_WAIT | abi::FUTEX_PRIVATE_FLAG,
                    CONTENDED,
                    0
                )
            };
        }
    }

    /// Frees the lock in a forked child, where its holder may not exist.
    ///
    /// # Safety
    ///
    /// No other thread exists and the value is consistent.
    pub unsafe fn reset(&self) {
        self.word.store(FREE, Ordering::Release);
    }

    /// Gives up a lock whose guard was forgotten.
    ///
    /// # Safety
    ///
    /// The calling thread holds the lock and uses the value no more.
    pub unsafe fn unlock(&self) {
        if self.word.swap(FREE, Ordering::Release) == CONTENDED {
            // SAFETY: waking is harmless.
            let _ = unsafe {
                syscall!(abi::__NR_futex, self.word.as_ptr(), abi::FUTEX_WAKE | abi::FUTEX_PRIVATE_FLAG, 1)
            };
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this guard holds the lock and is gone after this.
        unsafe { self.0.unlock() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increments_from_several_threads_are_all_seen() {
        static COUNT: Lock<u32> = Lock::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..10_000).for_each(|_| *COUNT.lock() += 1));
            }
        });
        assert_eq!(*COUNT.lock(), 40_000);
    }
}
