//! Numbers the operating system uses, as types of their own.
//!
//! An OS id is never an index: CPU ids have holes, node ids are sparse. Everything that indexes a slice in this
//! crate is a plain `usize` counted over what is online; everything the kernel printed is one of these types.

use std::fmt;

/// The number of a logical CPU as Linux shows it (`cpuN`).
///
/// ```
/// use numa::CpuId;
/// let cpu = CpuId::new(17);
/// assert_eq!(cpu.get(), 17);
/// assert_eq!(cpu.to_string(), "17");
/// assert!(CpuId::try_new(u32::MAX).is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(u32);

impl CpuId {
    /// One more than the largest id this crate accepts: twice the largest `NR_CPUS` a kernel can be configured with
    /// (8192). It bounds every mask, so a damaged file cannot make the reader allocate without limit.
    pub const LIMIT: u32 = 16_384;

    /// The CPU with this OS id.
    ///
    /// # Panics
    /// When `id` is [`CpuId::LIMIT`] or more.
    #[must_use]
    pub const fn new(id: u32) -> CpuId {
        assert!(id < CpuId::LIMIT, "CPU id beyond CpuId::LIMIT");
        CpuId(id)
    }

    /// The CPU with this OS id, or `None` when the number is [`CpuId::LIMIT`] or more.
    #[must_use]
    pub const fn try_new(id: u32) -> Option<CpuId> {
        if id < CpuId::LIMIT { Some(CpuId(id)) } else { None }
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The number of a NUMA node as Linux shows it (`nodeN`).
///
/// ```
/// use numa::NodeId;
/// assert_eq!(NodeId::new(250).get(), 250);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// One more than the largest id accepted: four times the kernel's `MAX_NUMNODES` (1024).
    pub const LIMIT: u32 = 4_096;

    /// The node with this OS id.
    ///
    /// # Panics
    /// When `id` is [`NodeId::LIMIT`] or more.
    #[must_use]
    pub const fn new(id: u32) -> NodeId {
        assert!(id < NodeId::LIMIT, "node id beyond NodeId::LIMIT");
        NodeId(id)
    }

    /// The node with this OS id, or `None` when the number is [`NodeId::LIMIT`] or more.
    #[must_use]
    pub const fn try_new(id: u32) -> Option<NodeId> {
        if id < NodeId::LIMIT { Some(NodeId(id)) } else { None }
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu{}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node{}", self.0)
    }
}
