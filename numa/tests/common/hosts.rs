//! Random hosts, as specs.

use numa::{Cpu, CpuSet, Topology};
use proptest::prelude::*;

/// One node of a random host.
#[derive(Debug, Clone)]
struct RandomNode {
    gap_before_id: u32,
    gap_before_cpus: u32,
    llcs: u32,
    cores: u32,
    threads: u32,
    memory_kb: u64,
}

fn node() -> impl Strategy<Value = RandomNode> {
    let memory = prop_oneof![1 => Just(0), 3 => 1_u64..1 << 30];
    (
        prop_oneof![3 => Just(0), 1 => 1_u32..40],
        prop_oneof![3 => Just(0), 1 => 1_u32..300],
        0_u32..4,
        0_u32..4,
        1_u32..4,
        memory,
    )
        .prop_map(|(gap_before_id, gap_before_cpus, llcs, cores, threads, memory_kb)| RandomNode {
            gap_before_id,
            gap_before_cpus,
            llcs,
            cores,
            threads,
            memory_kb,
        })
}

/// A host of one to six nodes: sparse ids, holes, SMT, offline, forbidden, isolated and orphaned CPUs, memory-only,
/// CPU-only and forbidden nodes, distances that are asymmetric, unknown or absent, a quota or none.
pub(crate) fn spec() -> impl Strategy<Value = String> {
    let nodes = prop::collection::vec(node(), 1..7);
    let bits = || prop::collection::vec(any::<bool>(), 256);
    let rare = || prop::collection::vec(prop::bool::weighted(0.15), 256);
    let distances =
        prop::option::of(prop::collection::vec(prop_oneof![1 => Just(None), 9 => (10_u32..60).prop_map(Some)], 36));
    let mems = prop::option::of(prop::collection::vec(any::<bool>(), 6));
    (nodes, rare(), bits(), rare(), rare(), distances, (prop::option::of(1_u32..20_000), mems)).prop_map(
        |(nodes, offline, allowed, isolated, unassigned, distances, (quota, mems))| {
            let mut text = String::new();
            let (mut id, mut next) = (0, 0);
            let (mut cpus, mut ids) = (Vec::new(), Vec::new());
            for (index, node) in nodes.iter().enumerate() {
                id += node.gap_before_id;
                next += node.gap_before_cpus;
                // The first node has a CPU, so that every host has one.
                let cores = if index == 0 { node.cores.max(1) } else { node.cores };
                text += &format!(
                    "node id={id} first={next} llcs={} cores={cores} threads={} mem={}; ",
                    node.llcs, node.threads, node.memory_kb
                );
                let count = node.llcs.max(1) * cores * node.threads;
                cpus.extend(next..next + count);
                next += count;
                ids.push(id);
                id += 1;
            }
            // The first CPU is always on and allowed.
            let chosen = |bits: &[bool]| -> Vec<u32> {
                let pairs = cpus.iter().zip(bits.iter().cycle()).skip(1);
                pairs.filter(|(_, bit)| **bit).map(|(cpu, _)| *cpu).collect()
            };
            let mut mask = chosen(&allowed);
            mask.insert(0, cpus[0]);
            statement(&mut text, "allowed", &mask);
            statement(&mut text, "offline", &chosen(&offline));
            statement(&mut text, "isolated", &chosen(&isolated));
            statement(&mut text, "unassigned", &chosen(&unassigned));
            if let Some(mems) = mems {
                let mems: Vec<u32> = ids.into_iter().zip(mems).filter(|(_, bit)| *bit).map(|(id, _)| id).collect();
                statement(&mut text, "mems", &mems);
            }
            if let Some(quota) = quota {
                text += &format!("quota {quota}; ");
            }
            if let Some(distances) = distances {
                let entry = |at: usize| distances[at % 36].map_or("-".to_owned(), |distance: u32| distance.to_string());
                let row =
                    |row: usize| (0..nodes.len()).map(|column| entry(row * 6 + column)).collect::<Vec<_>>().join(" ");
                text += &format!("dist {}", (0..nodes.len()).map(row).collect::<Vec<_>>().join(" / "));
            }
            text
        },
    )
}

fn statement(text: &mut String, word: &str, ids: &[u32]) {
    if !ids.is_empty() {
        let list: Vec<String> = ids.iter().map(u32::to_string).collect();
        *text += &format!("{word} {}; ", list.join(","));
    }
}

/// A random host.
pub(crate) fn host() -> impl Strategy<Value = Topology> {
    spec().prop_map(|text| Topology::from_spec(&text).unwrap_or_else(|error| panic!("{error}\n{text}")))
}

/// What must be true of every topology, whatever it was made from.
#[track_caller]
pub(crate) fn holds_together(host: &Topology) {
    assert!(!host.online().is_empty());
    assert!(!host.allowed().is_empty());
    assert!(host.allowed().is_subset(host.online()));
    assert!(!host.online().intersects(host.offline()));
    assert_eq!(host.cpus().iter().map(|cpu| cpu.id).collect::<Vec<_>>(), host.online().iter().collect::<Vec<_>>());
    assert!((1..=host.allowed().len()).contains(&host.default_workers()));
    partition(host, "nodes", host.nodes().iter().map(|node| node.residents()), |cpu| cpu.node);
    partition(host, "llcs", host.llcs().iter().map(|llc| llc.cpus.clone()), |cpu| cpu.llc);
    partition(host, "cores", host.cores().iter().map(|core| core.cpus.clone()), |cpu| cpu.core);
    let listed = host.nodes().iter().fold(CpuSet::new(), |all, node| all.union(&node.cpus));
    assert_eq!(listed.union(host.unassigned()), *host.online());
    assert!(!listed.intersects(host.unassigned()));
    assert!(host.nodes().windows(2).all(|pair| pair[0].id < pair[1].id));
    assert!(host.llcs().iter().all(|llc| !llc.cpus.is_empty()));
    for node in 0..host.nodes().len() {
        let nearest = host.nearest_memory(node);
        assert!(nearest == node || host.nodes()[nearest].has_memory());
        for other in 0..host.nodes().len() {
            assert_ne!(host.distance(node, other), Some(0));
        }
    }
}

/// Each online CPU is in exactly the part it says it is in.
#[track_caller]
fn partition(host: &Topology, what: &str, parts: impl Iterator<Item = CpuSet>, index: impl Fn(&Cpu) -> usize) {
    let mut seen = 0;
    for (part, cpus) in parts.enumerate() {
        for cpu in cpus.iter() {
            let cpu = host.cpu(cpu).unwrap_or_else(|| panic!("{what}: CPU {cpu} is not online"));
            assert_eq!(index(cpu), part, "{what}: CPU {}", cpu.id);
        }
        seen += cpus.len();
    }
    assert_eq!(seen, host.cpus().len(), "{what} leave CPUs out");
}
