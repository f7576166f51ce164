//! In which order CPUs are given to workers.
//!
//! Both orders are built greedily, one CPU at a time, so what holds for a plan of `n` workers holds for each shorter one.

use crate::cpuset::CpuSet;
use crate::topology::{Cpu, Topology};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// One CPU in line for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Index into [`Topology::cpus`].
    pub(crate) cpu: usize,
    /// How many CPUs of its core stand before it.
    pub(crate) rank: usize,
}

/// Cores before siblings; among equals the node with fewest workers so far, then the cache with fewest, then the lowest id.
pub(crate) fn spread(topology: &Topology, cpus: &CpuSet) -> Vec<Candidate> {
    let mut line = candidates(topology, cpus);
    let ranks = line
        .iter()
        .map(|candidate| candidate.rank)
        .max()
        .unwrap_or(0);
    let mut on_node = vec![0_usize; topology.nodes().len()];
    let mut on_llc = vec![0_usize; topology.llcs().len()];
    let mut order = Vec::with_capacity(line.len());
    // Lowest index last, so that a group hands it out with `pop`.
    line.sort_by_key(|candidate| Reverse(candidate.cpu));
    for rank in 0..=ranks {
        let mut groups: HashMap<(usize, usize), Vec<Candidate>> = HashMap::new();
        for &candidate in line.iter().filter(|candidate| candidate.rank == rank) {
            let Cpu { node, llc, .. } = topology.cpus()[candidate.cpu];
            groups.entry((node, llc)).or_default().push(candidate);
        }
        // (workers on the node, node, workers on the cache, cache): the first is where the next worker goes.
        while let Some((node, llc)) = groups
            .keys()
            .copied()
            .min_by_key(|&(node, llc)| (on_node[node], node, on_llc[llc], llc))
        {
            let Some(group) = groups.get_mut(&(node, llc)) else {
                break;
            };
            order.extend(group.pop());
            if group.is_empty() {
                groups.remove(&(node, llc));
            }
            on_node[node] += 1;
            on_llc[llc] += 1;
        }
    }
    order
}

/// Node by node, the first one being the lowest with an eligible CPU and the others following by distance from it; within a
/// node cores before siblings, cache by cache.
pub(crate) fn pack(topology: &Topology, cpus: &CpuSet) -> Vec<Candidate> {
    let mut line = candidates(topology, cpus);
    let nodes: BTreeSet<usize> = line
        .iter()
        .map(|candidate| topology.cpus()[candidate.cpu].node)
        .collect();
    let Some(&first) = nodes.first() else {
        return line;
    };
    line.sort_by_key(|candidate| {
        let Cpu {
            node, llc, core, ..
        } = topology.cpus()[candidate.cpu];
        (topology.nearness(first, node), candidate.rank, llc, core)
    });
    line
}

/// The eligible CPUs with their rank among the eligible CPUs of their core.
fn candidates(topology: &Topology, cpus: &CpuSet) -> Vec<Candidate> {
    let mut taken = vec![0; topology.cores().len()];
    let eligible = topology
        .cpus()
        .iter()
        .enumerate()
        .filter(|(_, cpu)| cpus.contains(cpu.id));
    eligible
        .map(|(index, cpu)| {
            let rank = taken[cpu.core];
            taken[cpu.core] += 1;
            Candidate { cpu: index, rank }
        })
        .collect()
}
