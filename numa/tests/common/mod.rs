//! Temporary trees, a writer of sysfs trees, and random hosts.
#![allow(dead_code, reason = "every test binary uses its own part of this")]

pub(crate) mod fixtures;
pub(crate) mod hosts;
pub(crate) mod tree;

use numa::{CpuId, CpuSet};

/// The set a list means.
pub(crate) fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// Plain numbers of a set.
pub(crate) fn ids(cpus: &CpuSet) -> Vec<u32> {
    cpus.iter().map(CpuId::get).collect()
}
