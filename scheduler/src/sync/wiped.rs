//! A few values in memory that reads as zeros in the child of a fork. Under loom a plain box: there is no fork.
#![expect(unsafe_code, reason = "values in memory mapped by hand")]

use std::io;
use std::ops::Deref;

/// Values that a child process finds wiped. They are not dropped, only unmapped: for plain atomics.
pub struct Wiped<T> {
    #[cfg(not(loom))]
    memory: crate::sys::WipeMemory<T>,
    #[cfg(loom)]
    memory: Box<[T]>,
}

impl<T> Wiped<T> {
    /// Moves `values` there.
    ///
    /// # Safety
    /// 1. All bytes zero is a valid `T`.
    /// 2. `T` needs no drop.
    ///
    /// # Errors
    /// What `mmap` says.
    pub unsafe fn new(values: Vec<T>) -> io::Result<Self> {
        #[cfg(not(loom))]
        return Ok(Wiped { memory: crate::sys::WipeMemory::new(values)? });
        #[cfg(loom)]
        return Ok(Wiped { memory: values.into_boxed_slice() });
    }
}

impl<T> Deref for Wiped<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        #[cfg(not(loom))]
        return self.memory.values();
        #[cfg(loom)]
        return &self.memory;
    }
}
