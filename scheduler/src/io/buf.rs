//! Buffers that an operation owns while the kernel may use them.
#![expect(unsafe_code, reason = "promises about memory that the kernel uses")]

use std::mem::MaybeUninit;

/// What can be written: bytes that an operation may own.
///
/// Implemented for `Vec<u8>`, `Box<[u8]>`, `String`, `[u8; N]`, `&'static [u8]`, `&'static str`.
///
/// # Safety
/// 1. What [`Buf::bytes`] returns stays valid, in its place and unchanged as long as the buffer is neither moved,
///    dropped nor borrowed mutably.
/// 2. [`Buf::bytes`] does not panic, and there are as many bytes every time.
pub unsafe trait Buf: Send + Unpin + 'static {
    /// The bytes to write.
    fn bytes(&self) -> &[u8];
}

/// Where can be read to: room that an operation may own.
///
/// Implemented for `Vec<u8>` (its whole capacity is the room, and afterwards it holds what was read, nothing else),
/// `Box<[u8]>` and `[u8; N]` (what was read stands at the beginning).
///
/// # Safety
/// 1. What [`BufMut::room`] returns stays valid and in its place, and nobody else uses it, as long as the buffer is
///    neither moved, dropped nor borrowed.
/// 2. Neither function panics.
pub unsafe trait BufMut: Send + Unpin + 'static {
    /// The room; reads fill it from the beginning.
    fn room(&mut self) -> &mut [MaybeUninit<u8>];

    /// So many bytes of the room have been filled.
    ///
    /// # Safety
    /// 1. They have, and were initialised.
    unsafe fn filled(&mut self, bytes: usize);
}

// SAFETY: on the heap, and the vector's.
unsafe impl Buf for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as above.
unsafe impl BufMut for Vec<u8> {
    fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        // Its length stays as it is unless something is read.
        let place = std::ptr::slice_from_raw_parts_mut(self.as_mut_ptr().cast(), self.capacity());
        // SAFETY: the vector's memory, all of it; who fills it writes initialised bytes only.
        unsafe { &mut *place }
    }
    unsafe fn filled(&mut self, bytes: usize) {
        // SAFETY: 1.
        unsafe { self.set_len(bytes) };
    }
}

/// Initialised bytes as room.
pub(super) fn as_room(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    let place = std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>];
    // SAFETY: the same memory; who fills it writes initialised bytes only.
    unsafe { &mut *place }
}

// SAFETY: on the heap, and the box's.
unsafe impl Buf for Box<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as above.
unsafe impl BufMut for Box<[u8]> {
    fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        as_room(self)
    }
    unsafe fn filled(&mut self, _: usize) {}
}

// SAFETY: a part of the buffer itself.
unsafe impl<const N: usize> Buf for [u8; N] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as above.
unsafe impl<const N: usize> BufMut for [u8; N] {
    fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        as_room(self)
    }
    unsafe fn filled(&mut self, _: usize) {}
}

// SAFETY: on the heap, and the string's.
unsafe impl Buf for String {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

// SAFETY: never freed.
unsafe impl Buf for &'static [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: never freed.
unsafe impl Buf for &'static str {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}
