//! Which worker goes where: examples to read, errors by name, and properties over random hosts.
#![cfg(not(loom))]

mod common;

use common::{ids, set};
use numa::{CpuId, CpuSet, NodeId, Pin, Placement, PlacementError, Seat, Topology, plan};
use proptest::prelude::*;
use std::collections::HashMap;

fn host(spec: &str) -> Topology {
    Topology::from_spec(spec).unwrap()
}

fn cpus(seats: &[Seat]) -> Vec<u32> {
    seats.iter().map(|seat| seat.cpu.unwrap().get()).collect()
}

fn places(spec: &str, placement: Placement, workers: usize) -> Vec<u32> {
    cpus(&plan(&host(spec), &placement, Pin::Auto, workers).unwrap())
}

fn nodes(list: &[u32]) -> Placement {
    Placement::Nodes(list.iter().copied().map(NodeId::new).collect())
}

#[test]
fn spread_takes_cores_before_siblings_and_nodes_in_turn() {
    assert_eq!(places("2*node cores=2 threads=2", Placement::Spread, 8), [0, 4, 2, 6, 1, 5, 3, 7]);
    assert_eq!(places("node llcs=2 cores=2 threads=2", Placement::Spread, 8), [0, 4, 2, 6, 1, 5, 3, 7]);
    assert_eq!(places("node cpus=0-7 threads=2", Placement::Spread, 4), [0, 1, 2, 3]);
}

#[test]
fn siblings_go_first_where_the_cache_has_fewest_workers() {
    // Caches of three cores (CPUs 0-5) and of one (6-7).
    assert_eq!(places("node cores=4 threads=2; cache 6-7", Placement::Spread, 8), [0, 6, 2, 4, 7, 1, 3, 5]);
}

#[test]
fn spread_over_unequal_nodes_stays_as_even_as_it_can() {
    // Node 0 has one core of two threads, node 1 five cores: its cores come before the sibling.
    assert_eq!(places("node threads=2; node cores=5", Placement::Spread, 7), [0, 2, 3, 4, 5, 6, 1]);
}

#[test]
fn a_sibling_whose_core_mate_is_forbidden_counts_as_a_core() {
    assert_eq!(places("node cores=2 threads=2; allowed 1-3", Placement::Spread, 3), [1, 2, 3]);
}

#[test]
fn pack_fills_a_node_then_the_nearest() {
    let spec = "3*node cores=2 threads=2; dist 10 30 20/30 10 25/20 25 10";
    assert_eq!(places(spec, Placement::Pack, 12), [0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7]);
    assert_eq!(places("2*node llcs=2 cores=2", Placement::Pack, 5), [0, 1, 2, 3, 4]);
}

#[test]
fn more_workers_than_cpus_go_round_again() {
    let seats = plan(&host("2*node"), &Placement::Spread, Pin::Auto, 5).unwrap();
    assert_eq!(cpus(&seats), [0, 1, 0, 1, 0]);
    assert!(!seats[1].why.contains("round"), "{}", seats[1].why);
    assert!(seats[2].why.contains("round 2 over 2 CPUs"), "{}", seats[2].why);
    assert_eq!(plan(&host("node"), &Placement::Spread, Pin::Auto, 0).unwrap(), []);
}

#[test]
fn listed_nodes_and_cpus() {
    let spec = "node id=3 cores=4; node id=7 cores=4; node id=9 cores=4; allowed 0-1,4-11";
    assert_eq!(places(spec, nodes(&[9, 3]), 4), [0, 8, 1, 9]);
    assert_eq!(places(spec, Placement::Cpus(set("10,1,5")), 4), [1, 5, 10, 1]);
}

#[test]
fn granularity_is_the_shared_cache_within_the_node() {
    // One cache over both nodes: cut at the node border.
    let spec = "2*node cores=4; cache 0-7; allowed 0-2,4-7";
    let bind = |pin, placement: Placement| {
        let seats = plan(&host(spec), &placement, pin, 1).unwrap();
        seats[0].bind.as_ref().map(ToString::to_string)
    };
    assert_eq!(bind(Pin::Auto, Placement::Spread).as_deref(), Some("0-2"));
    assert_eq!(bind(Pin::Cache, Placement::Spread).as_deref(), Some("0-2"));
    assert_eq!(bind(Pin::Cpu, Placement::Spread).as_deref(), Some("0"));
    assert_eq!(bind(Pin::None, Placement::Spread), None);
    assert_eq!(bind(Pin::Cpu, Placement::Unpinned), None);
    assert_eq!(bind(Pin::Auto, Placement::Cpus(set("1-2,4"))).as_deref(), Some("1-2"));
    let seats = plan(&host("node llcs=2 cores=2"), &Placement::Spread, Pin::Node, 1).unwrap();
    assert_eq!(seats[0].bind, Some(set("0-3")));
}

#[test]
fn unpinned_workers_have_a_home_and_no_cpu() {
    let seats = plan(&host("2*node cores=2"), &Placement::Unpinned, Pin::Auto, 3).unwrap();
    assert!(seats.iter().all(|seat| seat.cpu.is_none() && seat.bind.is_none()));
    assert_eq!(seats.iter().map(|seat| seat.node).collect::<Vec<_>>(), [0, 1, 0]);
}

#[test]
fn isolated_cpus_are_used_when_named_and_singly() {
    let host = host("node cores=4; allowed 0-1; isolated 2-3");
    let seats = plan(&host, &Placement::Spread, Pin::Auto, 4).unwrap();
    assert_eq!(cpus(&seats), [0, 1, 0, 1]);
    let seats = plan(&host, &Placement::Cpus(set("1-3")), Pin::Auto, 3).unwrap();
    let binds: Vec<String> = seats.iter().map(|seat| seat.bind.as_ref().unwrap().to_string()).collect();
    assert_eq!((cpus(&seats), binds), (vec![1, 2, 3], ["1", "2", "3"].map(String::from).to_vec()));
}

#[test]
fn wishes_that_cannot_be_had() {
    let host = host("node cores=4; node cores=2; node cores=0; offline 3; allowed 0-1");
    let cpus = |list: &str| plan(&host, &Placement::Cpus(set(list)), Pin::Auto, 1).unwrap_err();
    let node = |list: &[u32]| plan(&host, &nodes(list), Pin::Auto, 1).unwrap_err();
    let (online, allowed) = (set("0-2,4-5"), set("0-1"));
    let table = [
        (cpus(""), PlacementError::EmptyList, "the list of CPUs or nodes is empty"),
        (node(&[]), PlacementError::EmptyList, "the list of CPUs or nodes is empty"),
        (
            cpus("1,3"),
            PlacementError::OfflineCpu { cpu: CpuId::new(3), online: online.clone() },
            "CPU 3 is offline (online: 0-2,4-5)",
        ),
        (
            cpus("0,77"),
            PlacementError::UnknownCpu { cpu: CpuId::new(77), online },
            "CPU 77 does not exist (online: 0-2,4-5)",
        ),
        (
            cpus("1-2"),
            PlacementError::ForbiddenCpu { cpu: CpuId::new(2), allowed: allowed.clone() },
            "CPU 2 is outside the mask of this process (allowed: 0-1)",
        ),
        (
            node(&[0, 5]),
            PlacementError::UnknownNode { node: NodeId::new(5), known: [0, 1, 2].map(NodeId::new).to_vec() },
            "node 5 does not exist (nodes: 0,1,2)",
        ),
        (
            node(&[1]),
            PlacementError::NodeWithoutCpu { node: NodeId::new(1), cpus: set("4-5"), allowed: allowed.clone() },
            "no CPU of node 1 (4-5) is inside the mask of this process (allowed: 0-1)",
        ),
        (
            node(&[2]),
            PlacementError::NodeWithoutCpu { node: NodeId::new(2), cpus: CpuSet::new(), allowed },
            "node 2 has no online CPU (allowed: 0-1)",
        ),
    ];
    for (error, expected, message) in table {
        assert_eq!((&error, error.to_string().as_str()), (&expected, message));
    }
}

#[test]
fn wishes_as_text() {
    assert_eq!("cpus:0-2,9".parse(), Ok(Placement::Cpus(set("0-2,9"))));
    assert_eq!("nodes:7,3".parse(), Ok(nodes(&[3, 7])));
    for (text, pin) in
        [("auto", Pin::Auto), ("cpu", Pin::Cpu), ("cache", Pin::Cache), ("node", Pin::Node), ("none", Pin::None)]
    {
        assert_eq!(text.parse(), Ok(pin));
    }
    let placement = |text: &str| text.parse::<Placement>().unwrap_err().to_string();
    assert_eq!(placement("Spread"), "placement \"Spread\": expected spread, pack, unpinned, cpus:LIST or nodes:LIST");
    assert_eq!(placement("nodes:1,b"), "placement \"nodes:1,b\": position 8: expected a number, found 'b'");
    assert_eq!("all".parse::<Pin>().unwrap_err().to_string(), "pin \"all\": expected auto, cpu, cache, node or none");
}

#[test]
fn a_very_large_host_is_planned_at_once() {
    let host = host("node llcs=8000 cores=2");
    let started = std::time::Instant::now();
    let seats = plan(&host, &Placement::Spread, Pin::Auto, 16_000).unwrap();
    assert_eq!(seats.iter().map(|seat| seat.llc).collect::<std::collections::BTreeSet<_>>().len(), 8000);
    // Generous: a quadratic order took minutes here.
    assert!(started.elapsed().as_secs() < 20);
}

/// Rank of each planned CPU among the eligible CPUs of its core.
fn ranks(host: &Topology, eligible: &CpuSet, seats: &[Seat]) -> Vec<usize> {
    let rank = |cpu: CpuId| {
        let core = &host.cores()[host.cpu(cpu).unwrap().core].cpus;
        core.intersection(eligible).iter().position(|mate| mate == cpu).unwrap()
    };
    seats.iter().map(|seat| rank(seat.cpu.unwrap())).collect()
}

proptest! {
    #[test]
    fn everybody_sits_where_it_is_allowed(
        host in common::hosts::host(),
        placement in prop_oneof![Just(Placement::Spread), Just(Placement::Pack)],
        pin in prop_oneof![Just(Pin::Auto), Just(Pin::Cpu), Just(Pin::Cache), Just(Pin::Node)],
        workers in 1_usize..100,
    ) {
        let seats = plan(&host, &placement, pin, workers).unwrap();
        prop_assert_eq!(seats.len(), workers);
        for (index, seat) in seats.iter().enumerate() {
            let cpu = host.cpu(seat.cpu.unwrap()).unwrap();
            let bind = seat.bind.as_ref().unwrap();
            prop_assert_eq!((seat.index, seat.node, seat.llc), (index, cpu.node, cpu.llc));
            prop_assert!(bind.contains(cpu.id) && bind.is_subset(host.allowed()));
            prop_assert!(bind.is_subset(&host.nodes()[seat.node].residents()));
            prop_assert!(pin == Pin::Node || bind.is_subset(&host.llcs()[seat.llc].cpus));
            prop_assert!(pin != Pin::Cpu || bind.len() == 1);
            prop_assert!(!seat.why.is_empty());
        }
        // A round uses every CPU once before any is used twice.
        for round in seats.chunks(host.allowed().len()) {
            let used: CpuSet = round.iter().filter_map(|seat| seat.cpu).collect();
            prop_assert_eq!(used.len(), round.len());
        }
    }

    #[test]
    fn spread_is_cores_first_and_even(host in common::hosts::host()) {
        let allowed = host.allowed();
        let seats = plan(&host, &Placement::Spread, Pin::Auto, allowed.len()).unwrap();
        let ranks = ranks(&host, allowed, &seats);
        prop_assert!(ranks.is_sorted(), "{:?}", ranks);
        // Whenever a node got a worker, no node with fewer workers had a CPU of the same rank left.
        let mut on_node: HashMap<usize, usize> = HashMap::new();
        for (index, seat) in seats.iter().enumerate() {
            let mine = on_node.get(&seat.node).copied().unwrap_or(0);
            for (later, rank) in seats[index..].iter().zip(&ranks[index..]) {
                let theirs = on_node.get(&later.node).copied().unwrap_or(0);
                prop_assert!(*rank != ranks[index] || theirs >= mine);
            }
            *on_node.entry(seat.node).or_default() += 1;
        }
    }

    #[test]
    fn pack_leaves_no_node_half_full(host in common::hosts::host()) {
        let allowed = host.allowed();
        let seats = plan(&host, &Placement::Pack, Pin::Auto, allowed.len()).unwrap();
        let order: Vec<usize> = seats.iter().map(|seat| seat.node).collect();
        let mut visited = order.clone();
        visited.dedup();
        let distinct: std::collections::BTreeSet<usize> = order.into_iter().collect();
        prop_assert_eq!(visited.len(), distinct.len());
        for node in visited {
            let here: Vec<Seat> = seats.iter().filter(|seat| seat.node == node).cloned().collect();
            prop_assert!(ranks(&host, allowed, &here).is_sorted());
        }
    }

    #[test]
    fn lists_are_obeyed_or_refused(
        host in common::hosts::host(),
        bits in prop::collection::vec(prop::bool::weighted(0.1), 400),
    ) {
        let list: CpuSet = (0..400).map(CpuId::new).zip(bits).filter(|(_, bit)| *bit).map(|(cpu, _)| cpu).collect();
        let in_reach = host.allowed().union(&host.isolated().intersection(host.online()));
        match plan(&host, &Placement::Cpus(list.clone()), Pin::Cpu, list.len()) {
            Ok(seats) => {
                prop_assert!(list.is_subset(&in_reach));
                let mut used = cpus(&seats);
                used.sort_unstable();
                prop_assert_eq!(used, ids(&list));
            }
            Err(PlacementError::EmptyList) => prop_assert!(list.is_empty()),
            Err(PlacementError::OfflineCpu { cpu, .. }) => prop_assert!(host.offline().contains(cpu)),
            Err(PlacementError::UnknownCpu { cpu, .. }) => prop_assert!(!host.online().contains(cpu)),
            Err(PlacementError::ForbiddenCpu { cpu, .. }) => prop_assert!(!in_reach.contains(cpu)),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}
