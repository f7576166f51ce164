//! In which order CPUs are given to workers.
//!
//! Both orders are built greedily, one CPU at a time, so what holds for a plan of `n` workers holds for each
//! shorter one.

use crate::cpuset::CpuSet;
use crate::topology::{Cpu, Topology};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// One CPU in line for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Index into [`Topology::cpus`].
    pub(crate) cpu: usize,
    /// How many CPUs of its core stand before it.
    pub(crate) rank: usize,
}

/// Cores before siblings; among equals the node with fewest workers so far, then its cache with fewest, then the
/// lowest id.
pub(crate) fn spread(topology: &Topology, cpus: &CpuSet) -> Vec<Candidate> {
    let line = candidates(topology, cpus);
    let ranks = line.iter().map(|candidate| candidate.rank).max().unwrap_or(0);
    let mut on_node: HashMap<usize, usize> = HashMap::new();
    let mut on_cache: HashMap<(usize, usize), usize> = HashMap::new();
    let mut order = Vec::with_capacity(line.len());
    for rank in 0..=ranks {
        // Ascending input: each queue hands out its lowest CPU first.
        let mut queues: HashMap<(usize, usize), VecDeque<Candidate>> = HashMap::new();
        for &candidate in line.iter().filter(|candidate| candidate.rank == rank) {
            let Cpu { node, llc, .. } = topology.cpus()[candidate.cpu];
            queues.entry((node, llc)).or_default().push_back(candidate);
        }
        // Where the next worker goes: the first (workers so far, index) of nodes, and of caches within a node.
        let mut caches: HashMap<usize, BTreeSet<(usize, usize)>> = HashMap::new();
        for &(node, llc) in queues.keys() {
            caches.entry(node).or_default().insert((*on_cache.entry((node, llc)).or_default(), llc));
        }
        let mut nodes: BTreeSet<(usize, usize)> =
            caches.keys().map(|&node| (*on_node.entry(node).or_default(), node)).collect();
        while let Some((workers, node)) = nodes.pop_first() {
            let Some(local) = caches.get_mut(&node) else {
                continue;
            };
            let Some((sharers, llc)) = local.pop_first() else {
                continue;
            };
            let Some(queue) = queues.get_mut(&(node, llc)) else {
                continue;
            };
            order.extend(queue.pop_front());
            on_node.insert(node, workers + 1);
            on_cache.insert((node, llc), sharers + 1);
            if !queue.is_empty() {
                local.insert((sharers + 1, llc));
            }
            if !local.is_empty() {
                nodes.insert((workers + 1, node));
            }
        }
    }
    order
}

/// Node by node, the first one being the lowest with an eligible CPU and the others following by distance from it;
/// within a node cores before siblings, cache by cache.
pub(crate) fn pack(topology: &Topology, cpus: &CpuSet) -> Vec<Candidate> {
    let mut line = candidates(topology, cpus);
    let Some(first) = line.iter().map(|candidate| topology.cpus()[candidate.cpu].node).min() else {
        return line;
    };
    let mut turn = vec![0; topology.nodes().len()];
    for (place, node) in topology.nodes_from(first).into_iter().enumerate() {
        turn[node] = place;
    }
    line.sort_by_key(|candidate| {
        let Cpu { node, llc, core, .. } = topology.cpus()[candidate.cpu];
        (turn[node], candidate.rank, llc, core)
    });
    line
}

/// The eligible CPUs with their rank among the eligible CPUs of their core.
fn candidates(topology: &Topology, cpus: &CpuSet) -> Vec<Candidate> {
    let mut taken = vec![0; topology.cores().len()];
    let eligible = topology.cpus().iter().enumerate().filter(|(_, cpu)| cpus.contains(cpu.id));
    eligible
        .map(|(index, cpu)| {
            let rank = taken[cpu.core];
            taken[cpu.core] += 1;
            Candidate { cpu: index, rank }
        })
        .collect()
}
