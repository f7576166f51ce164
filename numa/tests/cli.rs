//! The command: what it prints and how it refuses.
#![cfg(not(loom))]

mod common;

use common::tree::Tree;
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};

fn numa(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_numa")).args(arguments).output().unwrap()
}

fn text(arguments: &[&str]) -> String {
    let output = numa(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a run that must be refused with code 2 and print nothing else.
fn refused(arguments: &[&str]) -> String {
    let output = numa(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert_eq!(output.stdout, b"", "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn json_has_exactly_the_promised_shape() {
    let spec = "node id=1 cores=2 threads=2 mem=5; node id=4 cores=2 mem=7; unassigned 5; allowed 0-2,4-5; quota 2500; \
                offline 3; dist 10 -/21 10";
    let printed: Value = serde_json::from_str(&text(&["--json", "--spec", spec])).unwrap();
    let why = |node: u32| format!("spread: node {node}, own core; bound to the CPUs that share its cache");
    let expected = json!({
        "source": "spec",
        "nodes": [
            {"id": 1, "cpus": [0, 1, 2], "memory_kb": 5, "distances": [10, null]},
            {"id": 4, "cpus": [4], "memory_kb": 7, "distances": [21, 10]},
        ],
        "llc": [[0, 1, 2], [4, 5]],
        "cores": [[0, 1], [2], [4], [5]],
        "unassigned": [5],
        "online": [0, 1, 2, 4, 5],
        "allowed": [0, 1, 2, 4, 5],
        "quota_millicpus": 2500,
        "workers": [
            {"index": 0, "cpu": 0, "node": 1, "why": why(1)},
            {"index": 1, "cpu": 4, "node": 4, "why": why(4)},
            {"index": 2, "cpu": 2, "node": 1, "why": why(1)},
        ],
    });
    assert_eq!(printed, expected);
}

#[test]
fn json_of_this_host() {
    let host: Value = serde_json::from_str(&text(&["--json", "--placement", "unpinned"])).unwrap();
    assert_eq!(host["source"], "sysfs");
    assert_eq!(host["workers"][0]["cpu"], Value::Null);
    assert!(!host["online"].as_array().unwrap().is_empty());
}

#[test]
fn a_tree_elsewhere_has_its_own_mask() {
    let tree = Tree::of(&[("proc/self/status", "Cpus_allowed_list:\t1\n")]);
    tree.cpu("online", "0-3");
    let root = tree.root().to_str().unwrap();
    let host: Value = serde_json::from_str(&text(&["--json", "--root", root])).unwrap();
    assert_eq!((&host["allowed"], &host["online"]), (&json!([1]), &json!([0, 1, 2, 3])));
    assert_eq!(host["nodes"][0]["memory_kb"], Value::Null);
    assert_eq!(host["quota_millicpus"], Value::Null);
}

#[test]
fn the_drawing_shows_every_part() {
    let spec = "node cpus=0-3,8-11 threads=2 llcs=2; node cpus=4-7,12-15 threads=2 mem=0; node id=8 cores=0 mem=256g; \
                cache 3-4,11-12; offline 2; unassigned 7; allowed 0-9; quota 2500; mems 0; isolated 9; \
                dist 10 21 31/21 10 17/31 17 10";
    let drawing = text(&["--spec", spec]);
    for part in [
        "source     spec (not this host: nothing is pinned)",
        "host       3 nodes, 4 cache groups, 8 cores, 15 CPUs",
        "online     0-1,3-15",
        "offline    2",
        "allowed    0-1,3-9",
        "forbidden  10-15",
        "isolated   9",
        "no node    7",
        "memory on  nodes 0",
        "quota      2.500 CPUs",
        "workers    3 = the lesser of 9 CPUs allowed and the quota rounded up, 3",
        "node 0       1.0 GiB  CPUs 0-1,3,8-11",
        "  L3 3,11 (shared with 4,12)",
        "[0:w0 8] [1 9]",
        "[3:w2 (11)]",
        "node 1     no memory  CPUs 4-7,12-15 (of these, 7 are in no node and were dealt here) (memory from node 0)",
        "node 8     256.0 GiB  no CPU (memory from node 0)",
        "distances\n         0    1    8\n    0   10   21   31\n    1   21   10   17\n    8   31   17   10\n",
        "w0    node 0    CPU 0     bound to 0-1,8 ",
        "notes\n  CPUs 7: in no node; dealt out by shared cache",
    ] {
        assert!(drawing.contains(part), "{part}\n---\n{drawing}");
    }
}

#[test]
fn workers_and_placement_are_obeyed() {
    let spec = "2*node cores=2";
    let cpus = |arguments: &[&str]| {
        let arguments = [&["--json", "--spec", spec][..], arguments].concat();
        let host: Value = serde_json::from_str(&text(&arguments)).unwrap();
        host["workers"].as_array().unwrap().iter().map(|worker| worker["cpu"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(cpus(&["--workers", "3"]), [Some(0), Some(2), Some(1)]);
    assert_eq!(cpus(&["--placement", "pack", "--workers", "3"]), [Some(0), Some(1), Some(2)]);
    assert_eq!(cpus(&["--placement", "cpus:3,1", "--workers", "2"]), [Some(1), Some(3)]);
    assert_eq!(cpus(&["--placement", "nodes:1", "--workers", "3"]), [Some(2), Some(3), Some(2)]);
    assert_eq!(cpus(&["--placement=unpinned", "--workers", "1"]), [None]);
    assert!(text(&["--spec", spec, "--pin", "cpu"]).contains("bound to its CPU"));
}

#[test]
fn explain_lists_files_and_what_was_ignored() {
    let tree = Tree::of(&[("sys/devices/system/node/node0/cpulist", "0-x")]);
    tree.cpu("online", "0-3");
    let root = tree.root().to_str().unwrap();
    for arguments in [["explain", "--root", root], ["--root", root, "explain"]] {
        let explained = text(&arguments);
        for part in [
            "sys/devices/system/cpu/online: used",
            "sys/devices/system/node/node0/cpulist: ignored: position 2: expected a number, found 'x'",
            "sys/devices/system/cpu/cpu0/topology/thread_siblings_list: missing",
            "sys/devices/system/cpu/cpu1/topology and 2 more like it: missing",
            "nodes: no node lists an online CPU",
        ] {
            assert!(explained.contains(part), "{part}\n---\n{explained}");
        }
    }
    assert!(text(&["explain", "--spec", "node"]).contains("no file was read"));
}

#[test]
fn refusals_name_the_thing() {
    let table: [(&[&str], &str); 13] = [
        (&["--spec", "node cores=x"], "--spec: spec, position 11: expected a count of cores"),
        (&["--spec", "node\nnode id=z"], "  node id=z\n          ^"),
        (&["--root", "/no/such/place"], "--root: cannot read /no/such/place: No such file"),
        (&["--root", "/dev/null"], "--root: cannot read /dev/null: not a directory"),
        (&["--root", "/", "--spec", "node"], "--root"),
        (&["--spec", "node", "--placement", "cpus:5"], "--placement: CPU 5 does not exist (online: 0)"),
        (&["--spec", "node", "--placement", "nodes:"], "--placement: the list of CPUs or nodes is empty"),
        (&["--placement", "everywhere"], "placement \"everywhere\": expected spread, pack"),
        (&["--pin", "hard"], "pin \"hard\": expected auto, cpu"),
        (&["--workers", "0"], "'--workers <N>': 0 is not in 1..=16384"),
        (&["--workers", "16385"], "'--workers <N>': 16385 is not in 1..=16384"),
        (&["--workers", "many"], "'--workers <N>'"),
        (&["explain", "--json"], "--json"),
    ];
    for (arguments, message) in table {
        let printed = refused(arguments);
        assert!(printed.contains(message), "{arguments:?}: {message}\n---\n{printed}");
    }
    assert!(refused(&["--json", "explain"]).contains("--json"));
    assert!(refused(&["--frobnicate"]).contains("--frobnicate"));
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let spec = "8*node cores=500";
    let mut child =
        Command::new(env!("CARGO_BIN_EXE_numa")).args(["--spec", spec]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
