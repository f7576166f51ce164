//! Where the workers sit: shards, and who is near whom.

use super::Ring;
use crate::config::{SHARD, SHARD_WORKERS};
use numa::{CpuId, Seat, Topology};
use std::collections::HashMap;

/// The place of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Index of its node in the topology.
    pub node: usize,
    /// Index of its cache group in the topology.
    pub llc: usize,
    /// Index of the core it is planned on, if it is.
    pub core: Option<usize>,
    /// Its shard.
    pub shard: usize,
    /// Its bit in the shard's idle word.
    pub bit: usize,
}

/// The workers that share one idle word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Their node.
    pub node: usize,
    /// Their cache.
    pub llc: usize,
    /// Their indices, by bit.
    pub members: Box<[usize]>,
    /// By bit: the bits of all members planned on the same core.
    pub cores: Box<[u32]>,
    /// All shards, nearest first, itself at the head, with how far they are.
    pub near: Box<[(usize, Ring)]>,
}

/// Where all workers sit.
#[derive(Clone, Debug)]
pub struct Layout {
    /// By worker.
    pub spots: Box<[Spot]>,
    /// The shards; those of one node are not necessarily neighbours.
    pub shards: Box<[Shard]>,
    /// By the topology's index of a CPU: the shard of whoever submits there.
    by_cpu: Box<[usize]>,
    /// By node: the shard of whoever means that node.
    by_node: Box<[usize]>,
    /// Workers sit on more than one node.
    apart: bool,
}

impl Layout {
    /// Deals the workers out: those of one cache of one node together, SMT siblings with their core, at most
    /// [`SHARD`] cores and [`SHARD_WORKERS`] workers in each shard.
    pub fn new(topology: &Topology, seats: &[Seat]) -> Self {
        let mut open: Vec<Open> = Vec::new();
        let deal = |seat: &Seat| {
            let core = seat.cpu.and_then(|cpu| topology.cpu(cpu)).map(|cpu| cpu.core);
            let home = (seat.node, seat.llc);
            let sibling = |o: &Open| o.home == home && o.takes_sibling(core, seat.cpu);
            let free = |o: &Open| o.home == home && o.weight < SHARD && o.workers < SHARD_WORKERS;
            let shard = open.iter().position(sibling).or_else(|| open.iter().position(free));
            let shard = shard.unwrap_or_else(|| {
                open.push(Open::new(home));
                open.len() - 1
            });
            open[shard].add(core, seat.cpu);
            shard
        };
        let shards: Vec<usize> = seats.iter().map(deal).collect();
        Self::grouped(topology, seats, &shards)
    }

    /// Worker `i` belongs to shard `shards[i]`; shards are numbered in order of their first worker.
    pub fn grouped(topology: &Topology, seats: &[Seat], shards: &[usize]) -> Self {
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); shards.iter().max().map_or(0, |last| last + 1)];
        let core = |seat: &Seat| seat.cpu.and_then(|cpu| topology.cpu(cpu)).map(|cpu| cpu.core);
        let spot = |(index, (seat, &shard)): (usize, (&Seat, &usize))| {
            members[shard].push(index);
            Spot { node: seat.node, llc: seat.llc, core: core(seat), shard, bit: members[shard].len() - 1 }
        };
        let spots: Box<[Spot]> = seats.iter().zip(shards).enumerate().map(spot).collect();
        let heads: Vec<Spot> = members.iter().map(|members| spots[members[0]]).collect();
        let near: Vec<_> = (0..heads.len()).map(|home| nearest(&heads, home, topology)).collect();
        let shard = |(members, near): (Vec<usize>, Box<[(usize, Ring)]>)| {
            let head = spots[members[0]];
            let cores = members.iter().map(|&worker| core_mates(&spots, &members, worker)).collect();
            Shard { node: head.node, llc: head.llc, members: members.into(), cores, near }
        };
        let shards: Box<[Shard]> = members.into_iter().zip(near).map(shard).collect();
        let apart = shards.iter().any(|shard| shard.node != shards[0].node);
        let by_node: Box<[usize]> = (0..topology.nodes().len()).map(|node| of_node(&shards, topology, node)).collect();
        let by_cpu = (0..topology.cpus().len()).map(|cpu| of_cpu(&spots, &shards, topology, &by_node, cpu)).collect();
        Layout { spots, shards, by_cpu, by_node, apart }
    }

    /// Workers sit on more than one node.
    pub fn is_apart(&self) -> bool {
        self.apart
    }

    /// How far it is from worker to worker.
    pub fn ring(&self, from: usize, to: usize) -> Ring {
        ring(&self.spots[from], &self.spots[to])
    }

    /// How far it is from shard to shard.
    pub fn shard_ring(&self, from: usize, to: usize) -> Ring {
        let (from, to) = (&self.shards[from], &self.shards[to]);
        ring_of((from.node, from.llc), (to.node, to.llc))
    }

    /// The shard of whoever submits on this CPU: that of its core, else one of its cache, its node, the nearest node.
    pub fn shard_at(&self, topology: &Topology, cpu: CpuId) -> Option<usize> {
        let index = topology.cpus().binary_search_by_key(&cpu, |cpu| cpu.id).ok()?;
        Some(self.by_cpu[index])
    }

    /// The shard of whoever means this node: one of it, or of the nearest node with workers. `None`: no such node.
    pub fn shard_on(&self, node: usize) -> Option<usize> {
        self.by_node.get(node).copied()
    }
}

/// A shard that is being filled.
struct Open {
    home: (usize, usize),
    /// Cores, and workers beyond the first on one CPU.
    weight: usize,
    workers: usize,
    cores: Vec<usize>,
    cpus: Vec<CpuId>,
}

impl Open {
    fn new(home: (usize, usize)) -> Self {
        Open { home, weight: 0, workers: 0, cores: Vec::new(), cpus: Vec::new() }
    }

    /// Another hardware thread of a core that is here already.
    fn takes_sibling(&self, core: Option<usize>, cpu: Option<CpuId>) -> bool {
        let known = core.is_some_and(|core| self.cores.contains(&core));
        known && cpu.is_some_and(|cpu| !self.cpus.contains(&cpu)) && self.workers < SHARD_WORKERS
    }

    fn add(&mut self, core: Option<usize>, cpu: Option<CpuId>) {
        self.weight += usize::from(!self.takes_sibling(core, cpu));
        self.workers += 1;
        self.cores.extend(core);
        self.cpus.extend(cpu);
    }
}

fn ring(from: &Spot, to: &Spot) -> Ring {
    ring_of((from.node, from.llc), (to.node, to.llc))
}

fn ring_of(from: (usize, usize), to: (usize, usize)) -> Ring {
    match (from.0 == to.0, from.1 == to.1) {
        (true, true) => Ring::Cache,
        (true, false) => Ring::Node,
        (false, _) => Ring::Remote,
    }
}

/// Distance for sorting; unknown ones last. Not symmetric on every host.
pub(super) fn distance(topology: &Topology, from: usize, to: usize) -> u32 {
    topology.distance(from, to).unwrap_or(u32::MAX)
}

/// Bits of the members on the core of `worker`.
fn core_mates(spots: &[Spot], members: &[usize], worker: usize) -> u32 {
    let own = &spots[worker];
    let mate = |&&other: &&usize| other == worker || own.core.is_some() && spots[other].core == own.core;
    members.iter().filter(mate).map(|&other| 1 << spots[other].bit).sum()
}

/// Shards by distance from `home`; equals begin behind the own one, so that not everybody turns to the same.
fn nearest(heads: &[Spot], home: usize, topology: &Topology) -> Box<[(usize, Ring)]> {
    let count = heads.len();
    let mut order: Vec<usize> = (0..count).map(|i| (home + i) % count).collect();
    let far = |shard: usize| distance(topology, heads[home].node, heads[shard].node);
    order.sort_by_key(|&shard| (shard != home, ring(&heads[home], &heads[shard]), far(shard)));
    order.into_iter().map(|shard| (shard, ring(&heads[home], &heads[shard]))).collect()
}

/// The first shard of `node`, or of the nearest node that has one.
fn of_node(shards: &[Shard], topology: &Topology, node: usize) -> usize {
    let on = |node: usize| shards.iter().position(|shard| shard.node == node);
    topology.nodes_from(node).into_iter().find_map(on).unwrap_or(0)
}

/// See [`Layout::shard_at`].
fn of_cpu(spots: &[Spot], shards: &[Shard], topology: &Topology, by_node: &[usize], cpu: usize) -> usize {
    let at = &topology.cpus()[cpu];
    if let Some(spot) = spots.iter().find(|spot| spot.core == Some(at.core)) {
        return spot.shard;
    }
    let among = |fits: &dyn Fn(&Shard) -> bool| {
        let some: Vec<usize> = (0..shards.len()).filter(|&shard| fits(&shards[shard])).collect();
        (!some.is_empty()).then(|| some[cpu % some.len()])
    };
    let in_cache = among(&|shard| (shard.node, shard.llc) == (at.node, at.llc));
    in_cache.or_else(|| among(&|shard| shard.node == at.node)).unwrap_or(by_node[at.node])
}

/// Checks that can be made of any layout; for tests.
impl Layout {
    /// What is wrong with it.
    #[doc(hidden)]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (index, shard) in self.shards.iter().enumerate() {
            let mut cores: HashMap<Option<usize>, usize> = HashMap::new();
            for &worker in &shard.members {
                let spot = &self.spots[worker];
                *cores.entry(spot.core).or_default() += 1;
                if (spot.node, spot.llc, spot.shard) != (shard.node, shard.llc, index) {
                    faults.push(format!("worker {worker} does not belong to shard {index}"));
                }
            }
            if cores.len() > SHARD || shard.members.len() > SHARD_WORKERS {
                faults.push(format!("shard {index} has {} cores, {} workers", cores.len(), shard.members.len()));
            }
            let rings: Vec<Ring> = shard.near.iter().map(|&(_, ring)| ring).collect();
            if !rings.is_sorted() || shard.near.first() != Some(&(index, Ring::Cache)) {
                faults.push(format!("shard {index} looks around in the wrong order"));
            }
        }
        faults
    }
}
