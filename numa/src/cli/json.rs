//! The stable JSON shape. Fields are added at most; ids are OS ids throughout.

use numa::{CpuId, CpuSet, Seat, Topology};
use serde::Serialize;

#[derive(Serialize)]
struct Host<'a> {
    source: String,
    nodes: Vec<Node>,
    llc: Vec<Vec<u32>>,
    cores: Vec<Vec<u32>>,
    /// Online CPUs in no node.
    unassigned: Vec<u32>,
    online: Vec<u32>,
    allowed: Vec<u32>,
    quota_millicpus: Option<u64>,
    workers: Vec<Worker<'a>>,
}

#[derive(Serialize)]
struct Node {
    id: u32,
    cpus: Vec<u32>,
    memory_kb: Option<u64>,
    /// One per listed node, null when unknown.
    distances: Vec<Option<u32>>,
}

#[derive(Serialize)]
struct Worker<'a> {
    index: usize,
    cpu: Option<u32>,
    node: u32,
    why: &'a str,
}

pub(crate) fn json(topology: &Topology, seats: &[Seat]) -> serde_json::Result<String> {
    let nodes = topology.nodes();
    let row = |from| (0..nodes.len()).map(|to| topology.distance(from, to)).collect();
    let host = Host {
        source: topology.source().to_string(),
        nodes: nodes
            .iter()
            .enumerate()
            .map(|(index, node)| Node {
                id: node.id.get(),
                cpus: ids(&node.cpus),
                memory_kb: node.memory_kb,
                distances: row(index),
            })
            .collect(),
        llc: topology.llcs().iter().map(|llc| ids(&llc.cpus)).collect(),
        cores: topology.cores().iter().map(|core| ids(&core.cpus)).collect(),
        unassigned: ids(topology.unassigned()),
        online: ids(topology.online()),
        allowed: ids(topology.allowed()),
        quota_millicpus: topology.quota_millicpus(),
        workers: seats
            .iter()
            .map(|seat| Worker {
                index: seat.index,
                cpu: seat.cpu.map(CpuId::get),
                node: nodes[seat.node].id.get(),
                why: &seat.why,
            })
            .collect(),
    };
    let mut text = serde_json::to_string(&host)?;
    text.push('\n');
    Ok(text)
}

fn ids(cpus: &CpuSet) -> Vec<u32> {
    cpus.iter().map(CpuId::get).collect()
}
