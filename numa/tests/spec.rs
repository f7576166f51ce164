//! The spec grammar: each statement and field, and where mistakes are pointed at.
#![cfg(not(loom))]

mod common;

use common::set;
use numa::{CpuId, NodeId, Source, Topology};
use proptest::prelude::*;

fn host(text: &str) -> Topology {
    Topology::from_spec(text).unwrap_or_else(|error| panic!("{error}"))
}

fn cores(host: &Topology) -> Vec<String> {
    host.cores().iter().map(|core| core.cpus.to_string()).collect()
}

fn llcs(host: &Topology) -> Vec<String> {
    host.llcs().iter().map(|llc| llc.cpus.to_string()).collect()
}

#[test]
fn a_node_alone_is_one_cpu() {
    let host = host("node");
    assert_eq!(host.source(), Source::Spec);
    assert!(!host.is_live());
    assert_eq!((host.nodes().len(), host.llcs().len(), host.cores().len(), host.cpus().len()), (1, 1, 1, 1));
    assert_eq!(host.nodes()[0].memory_kb, Some(1 << 20));
    assert_eq!(host.distance(0, 0), Some(10));
    assert_eq!(host.allowed(), host.online());
    assert_eq!(host.quota_millicpus(), None);
    assert_eq!(host.mems_allowed(), None);
    assert_eq!(host.notes(), []);
}

#[test]
fn caches_cores_and_threads_nest() {
    let host = host("2*node llcs=2 cores=2 threads=2");
    assert_eq!(cores(&host), ["0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"]);
    assert_eq!(llcs(&host), ["0-3", "4-7", "8-11", "12-15"]);
    assert_eq!(host.nodes()[1].cpus, set("8-15"));
    assert_eq!(host.llcs()[0].level, Some(3));
}

#[test]
fn listed_cpus_number_first_threads_first() {
    let host = host("node cpus=0-3,8-11 threads=2 llcs=2\nnode cpus=4-7,12-15 threads=2 cores=4");
    assert_eq!(cores(&host)[..3], ["0,8", "1,9", "2,10"]);
    assert_eq!(llcs(&host), ["0-1,8-9", "2-3,10-11", "4-7,12-15"]);
}

#[test]
fn ids_may_be_sparse_and_out_of_order() {
    let host = host("node id=8 first=100 cores=2; node id=3 first=10; node; dist 10 11 12/13 10 14/15 16 10");
    let ids: Vec<u32> = host.nodes().iter().map(|node| node.id.get()).collect();
    assert_eq!(ids, [3, 4, 8]);
    assert_eq!(host.nodes()[1].cpus, set("102"));
    assert_eq!(host.home(CpuId::new(101)), Some(2));
    assert_eq!(host.home(CpuId::new(11)), None);
    assert_eq!(host.node_index(NodeId::new(8)), Some(2));
    assert_eq!((host.distance(0, 2), host.distance(2, 0)), (Some(12), Some(15)));
}

#[test]
fn nodes_without_cpus_or_memory() {
    let host = host("node cores=2; node cores=2 mem=0; node cores=0 mem=64g; dist 10 20 30/20 10 14/30 14 10");
    assert!(host.nodes()[2].cpus.is_empty());
    assert_eq!(host.nodes()[2].memory_kb, Some(64 << 20));
    assert!(!host.nodes()[1].has_memory());
    assert_eq!((0..3).map(|node| host.nearest_memory(node)).collect::<Vec<_>>(), [0, 2, 2]);
}

#[test]
fn forbidden_memory_is_not_nearest() {
    let host = host("3*node; mems 1-2; dist 10 30 20/30 10 20/20 20 10");
    assert_eq!(host.nearest_memory(0), 2);
    assert_eq!(host.mems_allowed(), Some(&[NodeId::new(1), NodeId::new(2)][..]));
    assert_eq!(Topology::from_spec("2*node mem=0").unwrap().nearest_memory(1), 1);
}

#[test]
fn sizes_have_units() {
    let host = host("node mem=5; node mem=5k; node mem=5m; node mem=5g; node mem=5t");
    let sizes: Vec<_> = host.nodes().iter().map(|node| node.memory_kb.unwrap()).collect();
    assert_eq!(sizes, [5, 5, 5 << 10, 5 << 20, 5 << 30]);
}

#[test]
fn statements_about_cpus() {
    let host = host(
        "2*node cores=4; cache 2-5; core 0-1; offline 3; unassigned 7; allowed 0-6; isolated 6; quota 1500; dist none;",
    );
    assert_eq!(llcs(&host), ["0-1", "2,4-5", "6-7"]);
    assert_eq!(cores(&host), ["0-1", "2", "4", "5", "6", "7"]);
    assert_eq!((host.online(), host.offline()), (&set("0-2,4-7"), &set("3")));
    assert_eq!((host.unassigned(), host.isolated()), (&set("7"), &set("6")));
    assert_eq!(host.allowed(), &set("0-2,4-6"));
    // CPU 7 shares its cache with CPU 6, so it goes where that one is.
    assert_eq!((host.home(CpuId::new(7)), &host.nodes()[1].dealt), (Some(1), &set("7")));
    assert_eq!(host.nodes()[1].cpus, set("4-6"));
    assert_eq!(host.nodes()[1].residents(), set("4-7"));
    assert_eq!(host.quota_millicpus(), Some(1500));
    assert_eq!(host.default_workers(), 2);
    assert_eq!(host.distance(0, 1), None);
}

#[test]
fn later_statements_about_a_cpu_win() {
    let host = host("node cores=4; cache 0-2; cache 2-3; core 0-1; core 1-2");
    assert_eq!(llcs(&host), ["0-1", "2-3"]);
    assert_eq!(cores(&host), ["0", "1-2", "3"]);
}

#[test]
fn a_node_stands_in_for_caches_nobody_describes() {
    let host = host("2*node llcs=0 cores=3");
    assert_eq!(llcs(&host), ["0-2", "3-5"]);
    assert_eq!(host.llcs()[0].level, None);
}

#[test]
fn impossible_distances_are_unknown() {
    assert_eq!(host("2*node; dist 10 10/10 10").distance(0, 0), None);
    assert_eq!(host("2*node; dist 10 0/- 10").distance(0, 1), None);
    assert_eq!(host("2*node; dist 10 0/- 10").distance(1, 1), Some(10));
    assert_eq!(host("node; dist 10").distance(0, 0), Some(10));
}

#[test]
fn more_than_1024_cpus() {
    let host = host("4*node llcs=8 cores=32 threads=2");
    assert_eq!((host.cpus().len(), host.cores().len(), host.llcs().len()), (2048, 1024, 32));
    assert_eq!(host.home(CpuId::new(2047)), Some(3));
}

#[test]
fn mistakes_are_pointed_at() {
    let statements = "expected node, cache, core, offline, unassigned, allowed, isolated, mems, quota or dist";
    let fields = "expected id=, llcs=, cores=, threads=, first=, cpus= or mem=";
    let table = [
        ("", 0, "expected a node statement, found the end".to_owned()),
        (" ; \n", 4, "expected a node statement, found the end".to_owned()),
        ("nodes", 0, format!("{statements}, found \"nodes\"")),
        ("node;\n  offlin 3", 8, format!("{statements}, found \"offlin\"")),
        ("x*node", 0, "expected a count of nodes, a number up to 1024, found \"x\"".to_owned()),
        ("9999*node", 0, "expected a count of nodes, a number up to 1024, found \"9999\"".to_owned()),
        ("node cores", 5, format!("{fields}, found \"cores\"")),
        ("node core=4", 5, format!("{fields}, found \"core\"")),
        ("node cores=", 11, "expected a count of cores, a number up to 16384, found \"\"".to_owned()),
        ("node cores=-1", 11, "expected a count of cores, a number up to 16384, found \"-1\"".to_owned()),
        ("node mem=4q", 9, "expected a size such as 64g, a number up to 17179869183, found \"4q\"".to_owned()),
        ("node cpus=0-3,x", 14, "expected a number, found 'x'".to_owned()),
        ("node cpus=", 10, "expected a list of CPUs".to_owned()),
        ("node cpus=0-4 threads=2", 10, "expected 4 CPUs (caches x cores x threads), found 5".to_owned()),
        ("node cores=4 cores=5", 13, "cores= is said twice".to_owned()),
        ("node; node mem=1g cores=2 mem=1g", 26, "mem= is said twice".to_owned()),
        ("2*node; offline 0; offline 1", 19, "offline is said twice".to_owned()),
        ("node; quota 100; quota 100", 17, "quota is said twice".to_owned()),
        ("2*node; dist none; dist 10 20/20 10", 19, "dist is said twice".to_owned()),
        ("2*node id=4", 7, "a repeated node cannot name ids".to_owned()),
        ("node id=4; node id=4", 11, "node 4 is described twice".to_owned()),
        ("node id=4096", 8, "expected a node id, a number up to 4095, found \"4096\"".to_owned()),
        ("node cores=4; node first=2", 14, "CPUs 2 are in an earlier node".to_owned()),
        ("node first=16383 cores=2", 0, "2 CPUs from 16383 on, but ids end at 16383".to_owned()),
        (
            "node llcs=16384 cores=16384 threads=16384",
            0,
            "4398046511104 CPUs from 0 on, but ids end at 16383".to_owned(),
        ),
        ("node; offline", 13, "expected one word after \"offline\", found the end".to_owned()),
        ("node; offline 0 1", 16, "expected ';' or the end, found \"1\"".to_owned()),
        ("node; offline 0", 14, "expected at least one online CPU".to_owned()),
        ("node cores=0", 0, "expected at least one online CPU".to_owned()),
        ("node; allowed 3-4", 14, "CPUs 3-4 are in no node above".to_owned()),
        ("2*node; offline 1; allowed 1", 27, "expected at least one online CPU in the mask".to_owned()),
        ("node; mems 1", 11, "node 1 is not described".to_owned()),
        ("node; quota 2.5", 12, "expected thousandths of a CPU, a number up to 4294967295, found \"2.5\"".to_owned()),
        ("node; quota 0", 12, "expected thousandths of a CPU, at least 1, found \"0\"".to_owned()),
        ("node threads=0", 13, "expected a count of threads, at least 1, found \"0\"".to_owned()),
        ("2*node; dist 10 20", 13, "expected 2 rows, one per node, found 1".to_owned()),
        ("2*node; dist 10 20/20", 19, "expected 2 distances in this row, found 1".to_owned()),
        (
            "2*node; dist 10 x/20 10",
            16,
            "expected a distance or '-', a number up to 4294967295, found \"x\"".to_owned(),
        ),
    ];
    for (text, position, message) in table {
        let error = Topology::from_spec(text).expect_err(text);
        assert_eq!((error.position(), error.message()), (position, message.as_str()), "{text:?}");
        assert_eq!(error.to_string(), format!("spec, position {position}: {message}"));
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        if let Err(error) = Topology::from_spec(&text) {
            prop_assert!(error.position() <= text.len());
            prop_assert!(text.is_char_boundary(error.position()), "{error}");
        }
    }

    #[test]
    fn nearly_specs_are_read_or_refused(
        words in prop::collection::vec(
            prop_oneof![
                Just("node"), Just("2*node"), Just("cores=3"), Just("cpus=0-5"), Just("threads=2"), Just("llcs=0"),
                Just("id=9"), Just("first=70"), Just("offline"), Just("allowed"), Just("0-3"), Just("5,1"), Just(";"),
                Just("dist"), Just("10"), Just("/"), Just("-"), Just("quota"), Just("mem=0"), Just("mems"),
                Just("cache"),
            ],
            0..20,
        )
    ) {
        let text = words.join(" ");
        match Topology::from_spec(&text) {
            Ok(host) => prop_assert!(host.default_workers() >= 1),
            Err(error) => prop_assert!(error.position() <= text.len()),
        }
    }

    #[test]
    fn every_host_holds_together(host in common::hosts::host()) {
        common::hosts::holds_together(&host);
    }
}
