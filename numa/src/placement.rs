//! Which worker goes where, and how tightly it is bound there.
//!
//! Everything here is a pure function of a [`Topology`]: no system call, no clock, no randomness. The same host and
//! the same wish give the same seats.

use crate::cpuset::CpuSet;
use crate::ids::{CpuId, NodeId};
use crate::order::{self, Candidate};
use crate::topology::Topology;
use std::error::Error;
use std::fmt;

/// Where workers go.
///
/// Only CPUs this process may use are ever given out, whatever the placement; one that does not fit the host is a
/// [`PlacementError`] that names what is wrong, never a quiet substitute. More workers than CPUs go round again. Nodes
/// of memory only get nobody. The scheduler takes one from its builder, or from the variable `SCHEDULER_PLACEMENT`, or
/// [`Spread`](Placement::Spread).
///
/// | on two nodes of two cores with SMT (CPUs 0-3 and 4-7), four workers | CPUs |
/// |---|---|
/// | `spread` | 0, 4, 2, 6: nodes in turn, cores before siblings |
/// | `pack` | 0, 2, 1, 3: one node, its cores before siblings |
/// | `nodes:1` | 4, 6, 5, 7 |
/// | `cpus:1,5` | 1, 5, 1, 5: a second round |
/// | `unpinned` | homes as for `spread`, nobody bound |
///
/// ```
/// use numa::{Pin, Placement, Topology, plan};
/// let host = Topology::from_spec("2*node cores=2 threads=2").unwrap();
/// let cpus = |placement: &str| -> Vec<Option<u32>> {
///     let seats = plan(&host, &placement.parse().unwrap(), Pin::Auto, 4).unwrap();
///     seats.iter().map(|seat| seat.cpu.map(|cpu| cpu.get())).collect()
/// };
/// assert_eq!(cpus("spread"), [0, 4, 2, 6].map(Some));
/// assert_eq!(cpus("pack"), [0, 2, 1, 3].map(Some));
/// assert_eq!(cpus("nodes:1"), [4, 6, 5, 7].map(Some));
/// assert_eq!(cpus("cpus:1,5"), [1, 5, 1, 5].map(Some));
/// assert_eq!(cpus("unpinned"), [None; 4]);
/// ```
///
/// Reads as `spread`, `pack`, `unpinned`, `cpus:LIST` or `nodes:LIST`:
///
/// ```
/// use numa::{NodeId, Placement};
/// assert_eq!("spread".parse(), Ok(Placement::Spread));
/// assert_eq!("nodes:0,2-3".parse(), Ok(Placement::Nodes([0, 2, 3].map(NodeId::new).to_vec())));
/// let error = "cpus:0-".parse::<Placement>().unwrap_err();
/// assert_eq!(error.to_string(), "placement \"cpus:0-\": position 7: expected a number, found the end");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// One worker per core before SMT siblings; nodes filled evenly, and caches within a node.
    #[default]
    Spread,
    /// One node filled, siblings included, before the next nearest is begun.
    Pack,
    /// [`Spread`](Placement::Spread) over the allowed CPUs of these nodes, given by the kernel's numbers. A node that
    /// is not there, or has no CPU this process may use, is an error.
    Nodes(Vec<NodeId>),
    /// Exactly these CPUs, spread order. One that is not there, switched off or outside of the mask is an error.
    /// Isolated CPUs may be named although no inherited mask has them.
    Cpus(CpuSet),
    /// Homes as for [`Spread`](Placement::Spread), but no worker is bound to anything.
    Unpinned,
}

/// How tightly a worker is bound to its place.
///
/// ```
/// assert_eq!("cache".parse(), Ok(numa::Pin::Cache));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pin {
    /// [`Cache`](Pin::Cache), except on isolated CPUs, where the kernel does not balance and each worker gets its
    /// own CPU.
    ///
    /// Single CPUs are not the default: beside a competing process a worker pinned to one CPU waits for it, while
    /// inside a cache group the kernel moves it to a free one.
    #[default]
    Auto,
    /// One CPU each.
    Cpu,
    /// The CPUs that share the last-level cache, within the node.
    Cache,
    /// The CPUs of the node.
    Node,
    /// Not at all.
    None,
}

/// The place of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seat {
    /// Number of the worker.
    pub index: usize,
    /// Index of its home in [`Topology::nodes`].
    pub node: usize,
    /// Index of its cache group in [`Topology::llcs`].
    pub llc: usize,
    /// The CPU it is planned on; `None` when unpinned. It runs on all of `bind`, so this is the centre, not the
    /// fence.
    pub cpu: Option<CpuId>,
    /// The CPUs to bind it to; `None`: do not bind.
    pub bind: Option<CpuSet>,
    /// Why here, for people.
    pub why: String,
}

/// A placement that cannot be had on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlacementError {
    /// The list of CPUs or nodes is empty.
    EmptyList,
    /// No such CPU on this host.
    UnknownCpu {
        /// The CPU asked for.
        cpu: CpuId,
        /// The CPUs there are.
        online: CpuSet,
    },
    /// The CPU is switched off.
    OfflineCpu {
        /// The CPU asked for.
        cpu: CpuId,
        /// The CPUs that are on.
        online: CpuSet,
    },
    /// The CPU is outside the affinity mask or cpuset.
    ForbiddenCpu {
        /// The CPU asked for.
        cpu: CpuId,
        /// The mask.
        allowed: CpuSet,
    },
    /// No such node on this host.
    UnknownNode {
        /// The node asked for.
        node: NodeId,
        /// The nodes there are.
        known: Vec<NodeId>,
    },
    /// The node has no CPU this process may use.
    NodeWithoutCpu {
        /// The node asked for.
        node: NodeId,
        /// Its online CPUs.
        cpus: CpuSet,
        /// The mask.
        allowed: CpuSet,
    },
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlacementError::EmptyList => f.write_str("the list of CPUs or nodes is empty"),
            PlacementError::UnknownCpu { cpu, online } => {
                write!(f, "CPU {cpu} does not exist (online: {online})")
            }
            PlacementError::OfflineCpu { cpu, online } => {
                write!(f, "CPU {cpu} is offline (online: {online})")
            }
            PlacementError::ForbiddenCpu { cpu, allowed } => {
                write!(f, "CPU {cpu} is outside the mask of this process (allowed: {allowed})")
            }
            PlacementError::UnknownNode { node, known } => {
                let known: Vec<String> = known.iter().map(NodeId::to_string).collect();
                write!(f, "node {node} does not exist (nodes: {})", known.join(","))
            }
            PlacementError::NodeWithoutCpu { node, cpus, allowed } if cpus.is_empty() => {
                write!(f, "node {node} has no online CPU (allowed: {allowed})")
            }
            PlacementError::NodeWithoutCpu { node, cpus, allowed } => {
                write!(f, "no CPU of node {node} ({cpus}) is inside the mask of this process (allowed: {allowed})")
            }
        }
    }
}

impl Error for PlacementError {}

/// Seats `workers` workers. More workers than CPUs wrap around; zero workers are an empty plan.
///
/// ```
/// use numa::{Pin, Placement, Topology, plan};
/// let host = Topology::from_spec("2*node cores=2 threads=2").unwrap(); // CPUs 0-3 and 4-7
/// let seats = plan(&host, &Placement::Spread, Pin::Auto, 4).unwrap();
/// let cpus: Vec<u32> = seats.iter().map(|seat| seat.cpu.unwrap().get()).collect();
/// assert_eq!(cpus, [0, 4, 2, 6]); // nodes in turn, no SMT sibling yet
/// assert_eq!(seats[1].bind.as_ref().unwrap().to_string(), "4-7");
/// ```
///
/// # Errors
/// An explicit list that is empty or names something that is not there, not online or not allowed; the error names
/// the CPU or node and the mask.
pub fn plan(topology: &Topology, placement: &Placement, pin: Pin, workers: usize) -> Result<Vec<Seat>, PlacementError> {
    let cpus = eligible(topology, placement)?;
    let order = match placement {
        Placement::Pack => order::pack(topology, &cpus),
        _ => order::spread(topology, &cpus),
    };
    let seats = (0..workers).map(|index| seat(topology, placement, pin, &cpus, &order, index));
    Ok(seats.collect())
}

/// The CPUs a placement may use. Never empty.
fn eligible(topology: &Topology, placement: &Placement) -> Result<CpuSet, PlacementError> {
    match placement {
        Placement::Spread | Placement::Pack | Placement::Unpinned => Ok(topology.allowed().clone()),
        Placement::Cpus(cpus) => {
            if cpus.is_empty() {
                return Err(PlacementError::EmptyList);
            }
            cpus.iter().try_for_each(|cpu| check_cpu(topology, cpu))?;
            Ok(cpus.clone())
        }
        Placement::Nodes(nodes) => {
            if nodes.is_empty() {
                return Err(PlacementError::EmptyList);
            }
            nodes.iter().try_fold(CpuSet::new(), |all, &node| Ok(all.union(&allowed_on(topology, node)?)))
        }
    }
}

fn check_cpu(topology: &Topology, cpu: CpuId) -> Result<(), PlacementError> {
    let online = topology.online();
    if topology.offline().contains(cpu) {
        return Err(PlacementError::OfflineCpu { cpu, online: online.clone() });
    }
    if !online.contains(cpu) {
        return Err(PlacementError::UnknownCpu { cpu, online: online.clone() });
    }
    if !topology.may_ask_for(cpu) {
        return Err(PlacementError::ForbiddenCpu { cpu, allowed: topology.allowed().clone() });
    }
    Ok(())
}

fn allowed_on(topology: &Topology, node: NodeId) -> Result<CpuSet, PlacementError> {
    let Some(index) = topology.node_index(node) else {
        let known = topology.nodes().iter().map(|node| node.id).collect();
        return Err(PlacementError::UnknownNode { node, known });
    };
    let cpus = topology.nodes()[index].residents();
    let usable = cpus.intersection(topology.allowed());
    if usable.is_empty() {
        return Err(PlacementError::NodeWithoutCpu { node, cpus, allowed: topology.allowed().clone() });
    }
    Ok(usable)
}

fn seat(
    topology: &Topology,
    placement: &Placement,
    pin: Pin,
    cpus: &CpuSet,
    order: &[Candidate],
    index: usize,
) -> Seat {
    let Candidate { cpu, rank } = order[index % order.len()];
    let cpu = &topology.cpus()[cpu];
    let node = &topology.nodes()[cpu.node];
    let rule = match placement {
        Placement::Spread | Placement::Unpinned => "spread",
        Placement::Pack => "pack",
        Placement::Nodes(_) => "listed nodes",
        Placement::Cpus(_) => "listed CPUs",
    };
    let mut why = match rank {
        0 => format!("{rule}: node {}, own core", node.id),
        _ => format!("{rule}: node {}, SMT sibling {rank} of a core in use", node.id),
    };
    let round = index / order.len();
    if round > 0 {
        why += &format!("; round {} over {} CPUs", round + 1, order.len());
    }
    // The kernel does not balance isolated CPUs: a thread that may use them among others would be stuck on one.
    let alone = topology.isolated().contains(cpu.id);
    let pin = match pin {
        _ if *placement == Placement::Unpinned => Pin::None,
        Pin::Auto if alone => Pin::Cpu,
        Pin::Auto => Pin::Cache,
        chosen => chosen,
    };
    let without_isolated = |set: CpuSet| if alone { set } else { set.difference(topology.isolated()) };
    let on_node = || without_isolated(node.residents().intersection(cpus));
    let (bind, how) = match pin {
        Pin::Cpu => (Some(CpuSet::single(cpu.id)), "bound to its CPU"),
        Pin::Cache | Pin::Auto => {
            (Some(on_node().intersection(&topology.llcs()[cpu.llc].cpus)), "bound to the CPUs that share its cache")
        }
        Pin::Node => (Some(on_node()), "bound to its node"),
        Pin::None => (None, "not bound"),
    };
    why = format!("{why}; {how}");
    let planned = (*placement != Placement::Unpinned).then_some(cpu.id);
    Seat { index, node: cpu.node, llc: cpu.llc, cpu: planned, bind, why }
}
