//! Trees as machines show them, and trees as no machine should.
#![cfg(not(loom))]

mod common;

use common::hosts::{self, holds_together};
use common::set;
use common::tree::{Style, Tree};
use numa::{CpuId, DiscoverError, NodeId, ReadOutcome, Source, Topology};
use proptest::prelude::*;

/// Two nodes, two SMT cores each.
fn two_nodes() -> Tree {
    let tree = Tree::new();
    tree.cpu("online", "0-7\n").cpu("present", "0-7\n").node("online", "0-1\n");
    for cpu in 0..8 {
        let (core, node) = (cpu / 2 * 2, cpu / 4 * 4);
        tree.cpu(&format!("cpu{cpu}/topology/thread_siblings_list"), format!("{core}-{}\n", core + 1));
        tree.cpu(&format!("cpu{cpu}/cache/index3/level"), "3\n");
        tree.cpu(&format!("cpu{cpu}/cache/index3/shared_cpu_list"), format!("{node}-{}\n", node + 3));
    }
    tree.node("node0/cpulist", "0-3\n").node("node0/distance", "10 21\n");
    tree.node("node0/meminfo", "Node 0 MemTotal:       1024 kB\nNode 0 MemFree:         512 kB\n");
    tree.node("node1/cpulist", "4-7\n").node("node1/distance", "31 10\n");
    tree
}

fn notes(host: &Topology) -> String {
    host.notes().iter().map(|note| format!("{note}\n")).collect()
}

#[test]
fn an_ordinary_host() {
    let tree = two_nodes();
    let host = tree.read();
    holds_together(&host);
    assert_eq!((host.source(), host.root(), host.is_live()), (Source::Sysfs, Some(tree.root()), false));
    assert_eq!((host.nodes().len(), host.llcs().len(), host.cores().len()), (2, 2, 4));
    assert_eq!((host.distance(0, 1), host.distance(1, 0)), (Some(21), Some(31)));
    assert_eq!((host.nodes()[0].memory_kb, host.nodes()[1].memory_kb), (Some(1024), None));
    assert_eq!(host.allowed(), &set("0-7"));
    assert_eq!(host.notes(), []);
}

#[test]
fn nothing_there_is_an_error_that_names_the_place() {
    let tree = Tree::new();
    let error = Topology::from_root(tree.root()).unwrap_err();
    assert!(matches!(error, DiscoverError::NoCpu { .. }));
    assert!(error.to_string().starts_with(&tree.root().display().to_string()), "{error}");
    tree.file("file", "");
    let error = Topology::from_root(&tree.root().join("file")).unwrap_err();
    assert!(matches!(error, DiscoverError::Root { .. }), "{error}");
}

#[test]
fn only_a_list_of_cpus() {
    let host = Tree::of(&[("sys/devices/system/cpu/online", "0,2-3")]).read();
    holds_together(&host);
    assert_eq!(host.nodes()[0].cpus, set("0,2-3"));
    assert_eq!((host.cores().len(), host.llcs().len()), (3, 1));
    assert!(notes(&host).contains("nodes: none described"), "{}", notes(&host));
}

#[test]
fn nul_bytes_after_numbers() {
    let tree = two_nodes();
    tree.cpu("online", b"0-7\n\0").node("node0/cpulist", b"0-3\n\0\0\0").node("node0/distance", b"10 21\n\0");
    tree.cpu("cpu0/cache/index3/level", b"3\0\n").node("node0/meminfo", b"Node 0 MemTotal: 7 kB\n\0\0");
    let host = tree.read();
    assert_eq!((host.nodes()[0].cpus.clone(), host.nodes()[0].memory_kb), (set("0-3"), Some(7)));
    assert_eq!((host.llcs()[0].level, host.distance(0, 1)), (Some(3), Some(21)));
    assert_eq!(host.notes(), []);
}

#[test]
fn hexadecimal_maps_only_and_no_lists() {
    let tree = Tree::new();
    for cpu in 0..4 {
        tree.cpu(&format!("cpu{cpu}/topology/thread_siblings"), format!("00000000,0000000{}\n", ["3", "c"][cpu / 2]));
        tree.cpu(&format!("cpu{cpu}/cache/index2/level"), "2\n")
            .cpu(&format!("cpu{cpu}/cache/index2/type"), "Unified\n");
        tree.cpu(&format!("cpu{cpu}/cache/index2/shared_cpu_map"), "f\n");
    }
    tree.node("node0/cpumap", "00000000,00000003\n").node("node5/cpumap", "0000000c\n");
    tree.node("node0/distance", "10 20").node("node5/distance", "20 10");
    let host = tree.read();
    holds_together(&host);
    assert_eq!(host.online(), &set("0-3"));
    assert_eq!(host.nodes().iter().map(|node| node.id.get()).collect::<Vec<_>>(), [0, 5]);
    assert_eq!((host.cores().len(), host.llcs().len(), host.llcs()[0].level), (2, 1, Some(2)));
    assert!(notes(&host).contains("online: not listed; found 4 CPU directories, 4 of them online"));
}

#[test]
fn offline_cpus_without_a_list_of_online_ones() {
    let tree = Tree::new();
    for cpu in [0, 1, 2] {
        tree.cpu(&format!("cpu{cpu}/topology/core_id"), "0\n");
    }
    tree.cpu("cpu1/online", "0\n").cpu("cpu2/online", "1\n").dir("sys/devices/system/cpu/cpu3").cpu("cpufreq/x", "");
    let host = tree.read();
    assert_eq!((host.online(), host.offline()), (&set("0,2"), &set("1,3")));
}

#[test]
fn offline_and_absent_cpus_with_lists() {
    let tree = two_nodes();
    tree.cpu("online", "1-2,4-7").cpu("present", "0-11").cpu("possible", "0-191");
    let host = tree.read();
    holds_together(&host);
    assert_eq!((host.online(), host.offline()), (&set("1-2,4-7"), &set("0,3,8-11")));
    assert_eq!(host.nodes()[0].cpus, set("1-2"));
    assert_eq!(host.home(CpuId::new(0)), None);
}

#[test]
fn a_range_without_end_costs_nothing() {
    let tree = two_nodes();
    tree.cpu("online", "0-18446744073709551615\n").node("node1/cpulist", "4-4294967295");
    tree.node("online", "0-99999999").cpu("cpu0/cache/index3/shared_cpu_list", "0-999999999999");
    let host = tree.read();
    holds_together(&host);
    assert_eq!(host.online(), &set("0-7"));
    assert_eq!(host.nodes().len(), 2);
    assert_eq!(host.nodes()[1].dealt.union(&host.nodes()[0].dealt), set("4-7"));
    let notes = notes(&host);
    for file in ["cpu/online", "node/online", "node1/cpulist", "cpu0/cache/index3/shared_cpu_list"] {
        assert!(notes.contains(&format!("{file}: ignored: position")), "{notes}");
    }
}

#[test]
fn the_longest_lists_that_are_accepted() {
    let tree = Tree::new();
    tree.cpu("online", "0-16383").node("online", "0-4095");
    let host = tree.read();
    assert_eq!((host.cpus().len(), host.nodes().len()), (16_384, 1));
    assert_eq!(host.llcs().len(), 1);
}

#[test]
fn files_that_are_not_files() {
    let tree = two_nodes();
    tree.dir("sys/devices/system/cpu/isolated");
    std::fs::remove_file(tree.root().join("sys/devices/system/node/node0/cpulist")).unwrap();
    let pipe = tree.root().join("sys/devices/system/node/node0/cpulist");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let host = tree.read();
    holds_together(&host);
    // An empty answer is an answer: the node has no CPU. Its CPUs are dealt out.
    assert_eq!(host.unassigned(), &set("0-3"));
    let unreadable = |read: &&numa::FileRead| matches!(read.outcome, ReadOutcome::Unreadable(_));
    let files: Vec<_> = host.reads().iter().filter(unreadable).map(|read| read.path.clone()).collect();
    assert_eq!(files, [std::path::Path::new("sys/devices/system/cpu/isolated")]);
}

#[test]
fn a_file_longer_than_any_is_not_read() {
    let tree = two_nodes();
    tree.cpu("isolated", vec![b'0'; 2 << 20]);
    assert!(notes(&tree.read()).contains("isolated: unreadable: longer than"));
}

#[test]
fn sparse_nodes_and_rows_over_online_nodes_only() {
    let tree = two_nodes();
    tree.node("online", "2,33\n").node("possible", "0-99\n");
    for (node, list, row) in [(2, "0-3", "10 22"), (33, "4-7", "22 10")] {
        tree.node(&format!("node{node}/cpulist"), list).node(&format!("node{node}/distance"), row);
    }
    let host = tree.read();
    assert_eq!(host.nodes().iter().map(|node| node.id.get()).collect::<Vec<_>>(), [2, 33]);
    assert_eq!((host.distance(0, 1), host.home(CpuId::new(5))), (Some(22), Some(1)));
    assert_eq!(host.node_index(NodeId::new(33)), Some(1));
}

#[test]
fn rows_that_list_possible_nodes_lose_the_absent_columns() {
    let tree = two_nodes();
    tree.node("online", "1\n").node("possible", "0-1\n").node("node1/distance", "21 10\n").node("node1/cpulist", "0-7");
    let host = tree.read();
    assert_eq!((host.nodes().len(), host.distance(0, 0)), (1, Some(10)));
}

#[test]
fn distances_that_mean_nothing_are_unknown() {
    let distance = |first: &str, second: &str| {
        let tree = two_nodes();
        tree.node("node0/distance", first).node("node1/distance", second);
        let host = tree.read();
        [host.distance(0, 0), host.distance(0, 1), host.distance(1, 0), host.distance(1, 1)]
    };
    assert_eq!(distance("10 10", "10 10"), [None; 4]);
    assert_eq!(distance("0 0", "0 0"), [None; 4]);
    assert_eq!(distance("10 21 30", "21 10 30"), [None; 4]);
    assert_eq!(distance("10", "10"), [None; 4]);
    assert_eq!(distance("far", ""), [None; 4]);
    assert_eq!(distance("10 0", "22 10"), [Some(10), None, Some(22), Some(10)]);
    assert_eq!(distance("10 99999999999", "22 10"), [None, None, Some(22), Some(10)]);
}

#[test]
fn a_node_listed_without_directory_is_dropped_and_its_column_too() {
    let tree = two_nodes();
    tree.node("online", "0-2\n").node("node0/distance", "10 21 99").node("node1/distance", "21 10 99");
    let host = tree.read();
    assert_eq!((host.nodes().len(), host.distance(0, 1)), (2, Some(21)));
    assert!(notes(&host).contains("node 2: listed as online but has no directory"));
}

#[test]
fn a_cpu_in_two_nodes_stays_in_the_first() {
    let tree = two_nodes();
    tree.node("node1/cpulist", "2-7");
    let host = tree.read();
    holds_together(&host);
    assert_eq!((host.nodes()[0].cpus.clone(), host.nodes()[1].cpus.clone()), (set("0-3"), set("4-7")));
    assert!(notes(&host).contains("node 1: CPUs 2-3 are in an earlier node"));
}

#[test]
fn memory_only_nodes_get_nobody() {
    let tree = two_nodes();
    tree.node("online", "0-2").node("node2/cpulist", "\n").node("node2/meminfo", "Node 2 MemTotal: 9 kB");
    tree.node("node1/cpulist", "4-5");
    let host = tree.read();
    holds_together(&host);
    assert_eq!(host.unassigned(), &set("6-7"));
    assert_eq!((host.nodes()[1].dealt.clone(), host.nodes()[2].residents().is_empty()), (set("6-7"), true));
}

#[test]
fn cpus_in_no_node_go_round_when_no_cache_tells() {
    let tree = two_nodes();
    tree.cpu("online", "0-11");
    let host = tree.read();
    holds_together(&host);
    assert_eq!((host.nodes()[0].dealt.clone(), host.nodes()[1].dealt.clone()), (set("8,10"), set("9,11")));
}

#[test]
fn one_cache_over_two_nodes_and_two_in_one() {
    let tree = two_nodes();
    for cpu in 0..8 {
        tree.cpu(&format!("cpu{cpu}/cache/index3/shared_cpu_list"), if cpu < 6 { "0-5" } else { "6-7" });
        tree.cpu(&format!("cpu{cpu}/cache/index3/id"), "0");
    }
    let host = tree.read();
    holds_together(&host);
    assert_eq!(host.llcs().iter().map(|llc| llc.cpus.to_string()).collect::<Vec<_>>(), ["0-5", "6-7"]);
}

#[test]
fn second_level_caches_where_there_is_no_third() {
    let tree = two_nodes();
    for cpu in 0..8 {
        let path = tree.root().join(format!("sys/devices/system/cpu/cpu{cpu}/cache/index3"));
        std::fs::remove_dir_all(path).unwrap();
        for (index, level, kind, list) in [
            (0, "1", "Data", "0-7"),
            (1, "2", "Instruction", "0-7"),
            (2, "2", "Data", ["0-1", "2-5", "2-5", "6-7"][cpu / 2]),
        ] {
            let path = format!("cpu{cpu}/cache/index{index}");
            tree.cpu(&format!("{path}/level"), level).cpu(&format!("{path}/type"), kind);
            tree.cpu(&format!("{path}/shared_cpu_list"), list);
        }
    }
    let host = tree.read();
    holds_together(&host);
    assert_eq!(host.llcs().iter().map(|llc| llc.cpus.to_string()).collect::<Vec<_>>(), ["0-1", "2-5", "6-7"]);
    assert_eq!(host.llcs()[0].level, Some(2));
}

#[test]
fn instruction_caches_and_caches_without_their_owner_do_not_count() {
    let tree = two_nodes();
    for cpu in 0..8 {
        let core = cpu / 2 * 2;
        for (index, level, kind, list) in [
            (2, "2", "Data", format!("{core}-{}", core + 1)),
            (3, "2", "Instruction", "0-7".to_owned()),
            (4, "3", "Unified", String::new()),
        ] {
            let path = format!("cpu{cpu}/cache/index{index}");
            tree.cpu(&format!("{path}/level"), level).cpu(&format!("{path}/type"), kind);
            tree.cpu(&format!("{path}/shared_cpu_list"), list);
        }
    }
    let host = tree.read();
    holds_together(&host);
    assert_eq!(host.llcs().iter().map(|llc| llc.cpus.to_string()).collect::<Vec<_>>(), ["0-1", "2-3", "4-5", "6-7"]);
}

#[test]
fn a_third_level_at_an_unusual_index() {
    let tree = two_nodes();
    for cpu in 0..8 {
        let path = format!("cpu{cpu}/cache");
        tree.cpu(&format!("{path}/index3/level"), "2").cpu(&format!("{path}/index3/type"), "Unified");
        tree.cpu(&format!("{path}/index4/level"), "3").cpu(&format!("{path}/index4/type"), "Unified");
        tree.cpu(&format!("{path}/index4/shared_cpu_list"), "0-7");
    }
    let host = tree.read();
    assert_eq!((host.llcs().len(), host.llcs()[0].level), (1, Some(3)));
}

#[test]
fn siblings_that_disagree_or_leave_their_owner_out() {
    let tree = two_nodes();
    tree.cpu("cpu0/topology/thread_siblings_list", "1-2").cpu("cpu2/topology/thread_siblings_list", "0-3");
    let host = tree.read();
    holds_together(&host);
    let cores: Vec<String> = host.cores().iter().map(|core| core.cpus.to_string()).collect();
    assert_eq!(cores, ["0", "1", "2-3", "4-5", "6-7"]);
}

#[test]
fn no_topology_directory_means_every_cpu_is_a_core() {
    let tree = two_nodes();
    for cpu in 0..8 {
        std::fs::remove_dir_all(tree.root().join(format!("sys/devices/system/cpu/cpu{cpu}/topology"))).unwrap();
    }
    assert_eq!(tree.read().cores().len(), 8);
}

#[test]
fn newer_names_of_the_sibling_lists() {
    let tree = Tree::new();
    tree.cpu("online", "0-3").cpu("cpu0/topology/core_cpus_list", "0,2").cpu("cpu1/topology/core_cpus", "a");
    assert_eq!(tree.read().cores().len(), 2);
}

#[test]
fn where_lists_are_not_about_their_owner_the_maps_count() {
    let tree = Tree::new();
    tree.cpu("online", "0-3");
    for cpu in 0..4 {
        let map = ["3", "3", "c", "c"][cpu];
        tree.cpu(&format!("cpu{cpu}/topology/thread_siblings_list"), "0-1");
        tree.cpu(&format!("cpu{cpu}/topology/thread_siblings"), map);
        tree.cpu(&format!("cpu{cpu}/cache/index3/level"), "3");
        tree.cpu(&format!("cpu{cpu}/cache/index3/shared_cpu_list"), "0-1");
        tree.cpu(&format!("cpu{cpu}/cache/index3/shared_cpu_map"), map);
    }
    let host = tree.read();
    assert_eq!((host.cores().len(), host.cores()[1].cpus.clone()), (2, set("2-3")));
    assert_eq!((host.llcs().len(), host.llcs()[1].cpus.clone(), host.llcs()[1].level), (2, set("2-3"), Some(3)));
}

#[test]
fn a_host_with_more_than_1024_cpus() {
    let made_up = Topology::from_spec("2*node llcs=4 cores=70 threads=2; offline 1100").unwrap();
    let tree = Tree::new();
    let host = tree.host(&made_up).read();
    holds_together(&host);
    assert_eq!((host.cpus().len(), host.cores().len(), host.llcs().len()), (1119, 560, 8));
    assert_eq!(host.offline(), &set("1100"));
}

#[test]
fn a_host_with_numa_balancing_says_so() {
    let tree = two_nodes();
    tree.file("proc/sys/kernel/numa_balancing", "1\n");
    assert!(notes(&tree.read()).contains("numa_balancing: on"));
}

/// A read costs three system calls (open, read, close). With eight per CPU and fifty once allowed, on hosts whose
/// caches are shared, that is less than two files per CPU; files of a core or cache group are opened once.
#[test]
fn discovery_opens_few_files() {
    for spec in ["node cores=64", "2*node llcs=8 cores=8 threads=2", "8*node cores=8 threads=2"] {
        let made_up = Topology::from_spec(spec).unwrap();
        let tree = Tree::new();
        let host = tree.host(&made_up).read();
        let (files, cpus) = (host.reads().len(), host.cpus().len());
        assert!(3 * files <= 8 * cpus + 50, "{spec}: {files} files for {cpus} CPUs");
    }
}

/// Lists, maps or both; with or without the files that sum up; clean or with what some kernels and copying tools leave
/// behind.
fn style() -> impl Strategy<Value = Style> {
    let forms = prop_oneof![Just((true, true)), Just((true, false)), Just((false, true))];
    let dirt: [&[u8]; 6] = [b"\n", b"", b"\n\0", b"\0\n", b" \n\0\0\0", b"\n\0 17,x"];
    let dirt = prop::sample::select(dirt.to_vec());
    (forms, any::<bool>(), dirt).prop_map(|((lists, maps), summaries, dirt)| Style { lists, maps, summaries, dirt })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_linux_would_show_of_a_host_is_that_host(made_up in hosts::host(), style in style()) {
        let tree = Tree::new();
        let host = tree.host_in_style(&made_up, style).read();
        holds_together(&host);
        prop_assert_eq!(host.nodes(), made_up.nodes());
        prop_assert_eq!(host.llcs(), made_up.llcs());
        prop_assert_eq!(host.cores(), made_up.cores());
        prop_assert_eq!(host.cpus(), made_up.cpus());
        prop_assert_eq!(host.online(), made_up.online());
        prop_assert_eq!(host.offline(), made_up.offline());
        prop_assert_eq!(host.unassigned(), made_up.unassigned());
        prop_assert_eq!(host.isolated(), made_up.isolated());
        prop_assert_eq!(host.allowed(), made_up.allowed());
        prop_assert_eq!(host.quota_millicpus(), made_up.quota_millicpus());
        prop_assert_eq!(host.mems_allowed(), made_up.mems_allowed());
        for from in 0..host.nodes().len() {
            for to in 0..host.nodes().len() {
                prop_assert_eq!(host.distance(from, to), made_up.distance(from, to));
            }
        }
    }
}
