#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod assemble;
mod bind;
mod binding;
mod cpuset;
mod discover;
mod facts;
#[cfg(feature = "hwloc")]
mod hwloc;
mod ids;
mod limits;
mod list;
mod memory;
#[cfg(all(test, not(loom)))]
mod noise;
mod order;
mod parse;
mod placement;
pub mod spec;
mod sys;
mod sysfs;
mod topology;
mod uniform;

pub use bind::{bind_current_thread, current_affinity, current_cpu, current_node};
pub use binding::{Binding, PinCheck};
pub use cpuset::CpuSet;
pub use facts::{FileRead, Note, ReadOutcome, Source};
#[cfg(feature = "hwloc")]
pub use hwloc::HwlocError;
pub use ids::{CpuId, NodeId};
pub use limits::Limits;
pub use list::ListError;
pub use memory::{Local, MemoryError, PageNodes, page_nodes};
pub use parse::ParsePlacementError;
pub use placement::{Pin, Placement, PlacementError, Seat, plan};
pub use spec::SpecError;
pub use sysfs::DiscoverError;
pub use topology::{Core, Cpu, Llc, Node, Topology};
