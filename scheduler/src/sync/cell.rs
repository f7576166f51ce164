//! Memory that loom can check for races, and memory on lines of its own.

/// A cell whose accesses loom checks: two accesses that are not ordered are reported as a race.
#[cfg(loom)]
pub struct Racy<T>(loom::cell::UnsafeCell<T>);
/// See the loom twin.
#[cfg(not(loom))]
pub struct Racy<T>(std::cell::UnsafeCell<T>);

impl<T> Racy<T> {
    /// Wraps `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Racy(loom::cell::UnsafeCell::new(value))
    }

    /// Wraps `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Racy(std::cell::UnsafeCell::new(value))
    }

    /// Exclusive access through a raw pointer: the caller vouches for it, loom checks it.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(loom)]
        return self.0.with_mut(f);
        #[cfg(not(loom))]
        return f(self.0.get());
    }
}

/// A value on a pair of cache lines of its own (two, because the adjacent-line prefetcher fetches pairs).
#[repr(align(128))]
pub struct Line<T>(
    /// The value.
    pub T,
);
