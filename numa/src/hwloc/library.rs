//! The calls into libhwloc that the `hwloc2` crate does not offer: which version it is, whether it describes this
//! host, and the topology as XML, which tells about nodes and distances without a look into the library's structures.
#![expect(unsafe_code, reason = "calls into libhwloc through pointers it gave us")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong};
use std::ptr::{self, NonNull};

#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

// The same in all of 2.x. `hwloc2` has the linker find the library.
unsafe extern "C" {
    fn hwloc_get_api_version() -> c_uint;
    fn hwloc_topology_init(topology: *mut *mut Opaque) -> c_int;
    fn hwloc_topology_set_flags(topology: *mut Opaque, flags: c_ulong) -> c_int;
    fn hwloc_topology_load(topology: *mut Opaque) -> c_int;
    fn hwloc_topology_is_thissystem(topology: *mut Opaque) -> c_int;
    fn hwloc_topology_export_xmlbuffer(
        topology: *mut Opaque,
        buffer: *mut *mut c_char,
        length: *mut c_int,
        flags: c_ulong,
    ) -> c_int;
    fn hwloc_free_xmlbuffer(topology: *mut Opaque, buffer: *mut c_char);
    fn hwloc_topology_destroy(topology: *mut Opaque);
}

/// `HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED`: also the CPUs that are online and not allowed.
const INCLUDE_DISALLOWED: c_ulong = 1;

/// Major and minor version of the interface of the library the process runs with.
pub(super) fn version() -> (u32, u32) {
    // SAFETY: takes nothing, touches nothing of ours.
    let version = unsafe { hwloc_get_api_version() };
    (version >> 16, version >> 8 & 0xff)
}

/// A topology, destroyed when dropped.
struct Loaded(NonNull<Opaque>);

impl Loaded {
    fn new() -> Option<Loaded> {
        let mut topology = ptr::null_mut();
        // SAFETY: a valid place for a pointer.
        let made = unsafe { hwloc_topology_init(&raw mut topology) };
        if made != 0 {
            return None;
        }
        let topology = Loaded(NonNull::new(topology)?);
        // SAFETY: made by init, not loaded yet, as this call wants it.
        let accepted = unsafe { hwloc_topology_set_flags(topology.0.as_ptr(), INCLUDE_DISALLOWED) };
        if accepted != 0 {
            return None;
        }
        // SAFETY: made by init and not loaded yet.
        let loaded = unsafe { hwloc_topology_load(topology.0.as_ptr()) };
        (loaded == 0).then_some(topology)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: made by init, destroyed once, and nothing keeps a pointer into it.
        unsafe { hwloc_topology_destroy(self.0.as_ptr()) };
    }
}

/// The topology as XML, and whether it claims to be this host. `None`: the library refuses.
pub(super) fn xml() -> Option<(String, bool)> {
    let topology = Loaded::new()?;
    // SAFETY: a loaded topology.
    let live = unsafe { hwloc_topology_is_thissystem(topology.0.as_ptr()) } == 1;
    let (mut buffer, mut length) = (ptr::null_mut(), 0);
    // SAFETY: a loaded topology and two valid places for the results.
    let result = unsafe { hwloc_topology_export_xmlbuffer(topology.0.as_ptr(), &raw mut buffer, &raw mut length, 0) };
    if result != 0 || buffer.is_null() {
        return None;
    }
    // SAFETY: the library ends the buffer with a NUL byte, and it lives until it is freed below.
    let text = unsafe { CStr::from_ptr(buffer) };
    let text = text.to_string_lossy().into_owned();
    // SAFETY: exported by this topology, freed once, no longer referred to.
    unsafe { hwloc_free_xmlbuffer(topology.0.as_ptr(), buffer) };
    Some((text, live))
}
