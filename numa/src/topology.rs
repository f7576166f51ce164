//! The host as everything above sees it.

use crate::cpuset::CpuSet;
use crate::facts::{Facts, FileRead, Note, Source};
use crate::ids::{CpuId, NodeId};
use std::path::Path;

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// Its OS id.
    pub id: NodeId,
    /// Online CPUs the source lists for it. Empty for a memory-only node.
    pub cpus: CpuSet,
    /// Online CPUs that are in no node and were given to this one.
    pub dealt: CpuSet,
    /// Memory in kilobytes; `None` when the source does not say, `Some(0)` for a CPU-only node.
    pub memory_kb: Option<u64>,
}

impl Node {
    /// Every CPU whose home this is.
    #[must_use]
    pub fn residents(&self) -> CpuSet {
        self.cpus.union(&self.dealt)
    }

    /// Whether the node may have memory: not known to have none.
    #[must_use]
    pub fn has_memory(&self) -> bool {
        self.memory_kb != Some(0)
    }
}

/// Online CPUs that share their last-level cache: L3, or L2 where there is none, or else what is left of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Llc {
    /// The CPUs. They may belong to several nodes.
    pub cpus: CpuSet,
    /// Cache level, or `None` when no cache is described and the node stands in.
    pub level: Option<u8>,
}

/// One core: the online CPUs that are SMT siblings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Core {
    /// The CPUs, one per hardware thread.
    pub cpus: CpuSet,
}

/// One online CPU and where it belongs, as dense indices.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cpu {
    /// Its OS id.
    pub id: CpuId,
    /// Index of its home in [`Topology::nodes`].
    pub node: usize,
    /// Index of its cache group in [`Topology::llcs`].
    pub llc: usize,
    /// Index of its core in [`Topology::cores`].
    pub core: usize,
}

/// A host: its nodes, caches, cores and CPUs, and what this process may use of it.
///
/// Nodes, caches and cores are three independent partitions of the online CPUs: a cache may span nodes, a node may
/// hold many caches. Indices are dense, ascending by OS id (nodes) or by smallest CPU (caches, cores).
///
/// ```
/// let host = numa::Topology::from_spec("2*node llcs=2 cores=2 threads=2").unwrap();
/// assert_eq!((host.nodes().len(), host.llcs().len(), host.cores().len()), (2, 4, 8));
/// assert_eq!(host.online().to_string(), "0-15");
/// assert_eq!(host.home(numa::CpuId::new(9)), Some(1));
/// assert_eq!(host.distance(0, 1), Some(20));
/// ```
#[derive(Debug, Clone)]
pub struct Topology {
    pub(crate) facts: Facts,
    pub(crate) nodes: Vec<Node>,
    pub(crate) llcs: Vec<Llc>,
    pub(crate) cores: Vec<Core>,
    /// Ascending by id.
    pub(crate) cpus: Vec<Cpu>,
    /// Row-major over `nodes`.
    pub(crate) distances: Vec<Option<u32>>,
    pub(crate) unassigned: CpuSet,
    pub(crate) allowed: CpuSet,
}

impl Topology {
    /// Online nodes, ascending by id.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Groups of CPUs that share a last-level cache.
    #[must_use]
    pub fn llcs(&self) -> &[Llc] {
        &self.llcs
    }

    /// Cores with at least one online CPU.
    #[must_use]
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// Online CPUs, ascending by id.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The online CPU with this id.
    #[must_use]
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        let index = self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()?;
        Some(&self.cpus[index])
    }

    /// Index of the node an online CPU belongs to.
    #[must_use]
    pub fn home(&self, cpu: CpuId) -> Option<usize> {
        self.cpu(cpu).map(|cpu| cpu.node)
    }

    /// Index of the node with this id.
    #[must_use]
    pub fn node_index(&self, id: NodeId) -> Option<usize> {
        self.nodes.binary_search_by_key(&id, |node| node.id).ok()
    }

    /// Index of the node a thread on node `node` (an index) gets memory from: that node itself if it has memory this
    /// process may use, else the nearest one that has. Never fails: with no usable memory anywhere it is `node`.
    ///
    /// # Panics
    /// When `node` is not an index into [`Topology::nodes`].
    ///
    /// ```
    /// let host = numa::Topology::from_spec("node; node mem=0; node; dist 10 20 30/20 10 16/30 16 10").unwrap();
    /// assert_eq!(host.nearest_memory(1), 2);
    /// ```
    #[must_use]
    pub fn nearest_memory(&self, node: usize) -> usize {
        let usable = |&index: &usize| self.nodes[index].has_memory() && self.may_allocate_on(self.nodes[index].id);
        self.nodes_from(node).into_iter().find(usable).unwrap_or(node)
    }

    /// All nodes (indices) as seen from `node`: itself, then by distance, unknown distances last, ties by index.
    ///
    /// ```
    /// let host = numa::Topology::from_spec("4*node; dist 10 30 20 -/30 10 30 30/20 30 10 30/30 30 30 10").unwrap();
    /// assert_eq!(host.nodes_from(0), [0, 2, 1, 3]);
    /// ```
    ///
    /// # Panics
    /// When `node` is not an index into [`Topology::nodes`].
    #[must_use]
    pub fn nodes_from(&self, node: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|&other| (other != node, self.distance(node, other).unwrap_or(u32::MAX), other));
        order
    }

    fn may_allocate_on(&self, id: NodeId) -> bool {
        self.mems_allowed().is_none_or(|mems| mems.contains(&id))
    }

    /// Distance from node `a` to node `b` (indices) in the firmware's unit, 10 being local. `None` when unknown:
    /// absent, zero, or a table that says 10 for everything. Not symmetric on every host.
    ///
    /// # Panics
    /// When `a` or `b` is not an index into [`Topology::nodes`].
    #[must_use]
    pub fn distance(&self, a: usize, b: usize) -> Option<u32> {
        assert!(a < self.nodes.len() && b < self.nodes.len(), "not an index of a node");
        self.distances[a * self.nodes.len() + b]
    }

    /// What kind of source this came from.
    #[must_use]
    pub fn source(&self) -> Source {
        self.facts.source
    }

    /// The directory that was read, when it came from files.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.facts.root.as_deref()
    }

    /// Whether this is the host the process runs on. Only then does pinning make sense.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.facts.live
    }

    /// What was ignored, repaired or assumed.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.facts.notes
    }

    /// The files looked at, in order.
    #[must_use]
    pub fn reads(&self) -> &[FileRead] {
        &self.facts.reads
    }

    /// Online CPUs. Never empty.
    #[must_use]
    pub fn online(&self) -> &CpuSet {
        &self.facts.online
    }

    /// CPUs that exist but are switched off.
    #[must_use]
    pub fn offline(&self) -> &CpuSet {
        &self.facts.offline
    }

    /// Online CPUs in no node. They have a home all the same: see [`Node::dealt`].
    #[must_use]
    pub fn unassigned(&self) -> &CpuSet {
        &self.unassigned
    }

    /// CPUs the kernel's load balancer leaves alone (`isolcpus`): threads there do not move unless moved.
    #[must_use]
    pub fn isolated(&self) -> &CpuSet {
        &self.facts.isolated
    }

    /// Online CPUs this process may run on: its affinity mask at discovery on the live host, otherwise what the
    /// source says. Never empty. The quota is not folded in.
    #[must_use]
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// Whether a worker may be put on this online CPU when it is asked for by number. Isolated CPUs are in nobody's
    /// inherited mask and still are there to be asked for, as long as they are in the cpuset.
    pub(crate) fn may_ask_for(&self, cpu: CpuId) -> bool {
        let in_cpuset = || self.facts.cpuset.as_ref().is_none_or(|cpuset| cpuset.contains(cpu));
        self.allowed.contains(cpu) || (self.isolated().contains(cpu) && in_cpuset())
    }

    /// Nodes this process may allocate on, when the source says.
    #[must_use]
    pub fn mems_allowed(&self) -> Option<&[NodeId]> {
        self.facts.mems_allowed.as_deref()
    }

    /// CPU time per wall time the cgroups grant, in thousandths of a CPU: the minimum over every ancestor. `None`:
    /// no limit.
    #[must_use]
    pub fn quota_millicpus(&self) -> Option<u64> {
        self.facts.quota_millicpus
    }

    /// How many workers to start when nobody says: allowed CPUs, or the quota rounded up if that is less; at least
    /// one.
    ///
    /// ```
    /// let host = numa::Topology::from_spec("node cores=8; quota 2500").unwrap();
    /// assert_eq!(host.default_workers(), 3);
    /// ```
    #[must_use]
    pub fn default_workers(&self) -> usize {
        let by_quota = self
            .quota_millicpus()
            .map_or(usize::MAX, |milli| usize::try_from(milli.div_ceil(1000)).unwrap_or(usize::MAX));
        self.allowed.len().min(by_quota).max(1)
    }
}
