//! Our reader against libhwloc: the same hosts, read twice.
//!
//! The library takes its input from environment variables, so it is asked through the command, in a process of its
//! own. Both answers have the same shape; where they differ, [`EXCEPTIONS`] must say so and why, and what it says must
//! be true: an exception that no longer differs fails too.
#![cfg(not(loom))]

mod common;

use common::fixtures::{archives, name, unpacked};
use common::hosts;
use common::tree::Tree;
use numa::Topology;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

/// Tree, what differs, why. Two of them come with the library's source and not with our fixtures.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "64amd64-4s2n4ca2co",
        &["cores"],
        "the kernel calls the two halves of a compute unit siblings, hwloc tells them apart by core_id",
    ),
    ("64intel64-fakeKNL-A2A-cache", &["llc"], "hwloc knows a memory-side cache from another file and calls it L3"),
    ("64intel64-fakeKNL-SNC4-hybrid", &["distances"], "hwloc ignores the distances of this processor"),
    (
        "40intel64-4n10c+pci-conflicts",
        &["llc"],
        "a map that contradicts its list: hwloc reads maps, here lists come first",
    ),
    (
        "8em64t-2s2ca2c-buggynuma",
        &["nodes", "memory", "distances"],
        "firmware puts every CPU into every node: hwloc drops all but one node, here the others are memory only",
    ),
    (
        "fakeheterocpunuma",
        &["nodes", "memory", "distances", "llc"],
        "nodes whose CPUs overlap: hwloc drops two of them, here the first node keeps the CPU; without caches nodes \
         stand in for them, so these differ too",
    ),
    ("nvidiagpunumanodes", &["allowed"], "hwloc reads the configured version 1 cpuset, here the effective one counts"),
];

/// Variables of hwloc a caller might have set.
const VARIABLES: [&str; 5] =
    ["HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT", "HWLOC_CPUID_PATH", "HWLOC_THISSYSTEM"];

/// Runs the command with nothing but these variables of hwloc.
fn command(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_numa"));
    VARIABLES.iter().for_each(|variable| _ = command.env_remove(variable));
    command.args(arguments).envs(variables.iter().copied()).output().unwrap()
}

fn json(arguments: &[&str], variables: &[(&str, &str)]) -> Value {
    let output = command(arguments, variables);
    assert!(output.status.success(), "{variables:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What the library makes of a tree. Nodes of GPUs are kept: whether they are nodes is not the question.
fn theirs(root: &Path) -> Value {
    let root = root.to_str().unwrap();
    let keep = ("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1");
    json(&["--json", "--hwloc"], &[("HWLOC_FSROOT", root), ("HWLOC_COMPONENTS", "linux,stop"), keep])
}

fn ours(root: &Path) -> Value {
    json(&["--json", "--root", root.to_str().unwrap()], &[])
}

/// What two answers disagree about.
fn differences(ours: &Value, theirs: &Value) -> Vec<&'static str> {
    assert_eq!((&ours["source"], &theirs["source"]), (&json!("sysfs"), &json!("hwloc")));
    let mut different: Vec<&'static str> = Vec::new();
    for part in ["online", "allowed", "cores", "llc"] {
        if ours[part] != theirs[part] {
            different.push(part);
        }
    }
    let of_nodes = |host: &Value, part: &str| -> Vec<Value> {
        host["nodes"].as_array().unwrap().iter().map(|node| json!([node["id"], node[part]])).collect()
    };
    if of_nodes(ours, "cpus") != of_nodes(theirs, "cpus") {
        different.push("nodes");
    }
    // Where sysfs has no node, hwloc takes the memory of the machine.
    let said = |(ours, theirs): (&Value, &Value)| ours[1].is_null() || ours == theirs;
    let (mine, other) = (of_nodes(ours, "memory_kb"), of_nodes(theirs, "memory_kb"));
    if mine.len() != other.len() || !mine.iter().zip(&other).all(said) {
        different.push("memory");
    }
    // hwloc keeps no table for a single node.
    let several = mine.len() > 1 || other.len() > 1;
    if several && of_nodes(ours, "distances") != of_nodes(theirs, "distances") {
        different.push("distances");
    }
    different
}

#[test]
fn both_readers_agree_on_every_tree_but_for_named_exceptions() {
    let Some(archives) = archives() else { return };
    let mut agreed = 0;
    let mut wrong = Vec::new();
    for archive in &archives {
        let name = name(archive);
        let mut found = unpacked(archive, |root| differences(&ours(root), &theirs(root)));
        let exception = EXCEPTIONS.iter().find(|(tree, ..)| *tree == name);
        let mut expected = exception.map_or(Vec::new(), |(_, parts, _)| parts.to_vec());
        found.sort_unstable();
        expected.sort_unstable();
        match (&exception, found == expected) {
            (None, true) => agreed += 1,
            (Some((_, _, why)), true) => println!("{name} differs in {found:?}: {why}"),
            (_, false) => wrong.push(format!("{name}: expected {expected:?} to differ, found {found:?}")),
        }
    }
    println!("{agreed} of {} trees agree in everything", archives.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The comparison itself is no good if it finds nothing.
#[test]
fn a_difference_is_found() {
    let answer = json(&["--json", "--spec", "2*node cores=2 threads=2"], &[]);
    let (mut mine, mut other) = (answer.clone(), answer);
    mine["source"] = json!("sysfs");
    other["source"] = json!("hwloc");
    assert_eq!(differences(&mine, &other), Vec::<&str>::new());
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 7] = [
        ("online", |host| host["online"] = json!([0])),
        ("allowed", |host| host["allowed"] = json!([0])),
        ("cores", |host| host["cores"][0] = json!([0])),
        ("llc", |host| host["llc"][0] = json!([0])),
        ("nodes", |host| host["nodes"][1]["cpus"] = json!([])),
        ("memory", |host| host["nodes"][1]["memory_kb"] = json!(7)),
        ("distances", |host| host["nodes"][1]["distances"][0] = json!(99)),
    ];
    for (part, change) in changes {
        let mut changed = other.clone();
        change(&mut changed);
        assert_eq!(differences(&mine, &changed), [part]);
    }
}

#[test]
fn this_host_is_the_same_host_twice() {
    let (mut mine, mut other) = (json(&["--json"], &[]), json(&["--json", "--hwloc"], &[]));
    // A cpuset of this process may hide memory from one and CPUs from the other; what both see must be equal.
    for host in [&mut mine, &mut other] {
        host["nodes"].as_array_mut().unwrap().iter_mut().for_each(|node| node["memory_kb"] = Value::Null);
    }
    assert_eq!(differences(&mine, &other), Vec::<&str>::new());
}

#[test]
fn made_up_hosts_of_the_library_arrive_whole() {
    let host = json(&["--json", "--hwloc"], &[("HWLOC_SYNTHETIC", "pack:2 numa:4 l3:3 core:8 pu:2")]);
    let count = |part: &str| host[part].as_array().unwrap().len();
    assert_eq!((count("nodes"), count("llc"), count("cores"), count("online")), (8, 24, 192, 384));
    assert_eq!(host["nodes"][7]["cpus"].as_array().unwrap()[0], 336);
    // Two kinds of memory near the same CPUs: the second node of each pair is nobody's home.
    let host = json(&["--json", "--hwloc"], &[("HWLOC_SYNTHETIC", "pack:2 [numa] [numa] l3:2 core:4 pu:2")]);
    let cpus = |node: usize| host["nodes"][node]["cpus"].as_array().unwrap().len();
    assert_eq!([0, 1, 2, 3].map(cpus), [16, 0, 16, 0]);
    let host = json(&["--json", "--hwloc"], &[("HWLOC_SYNTHETIC", "numa:2 core:600 pu:2")]);
    assert_eq!(host["online"].as_array().unwrap().len(), 2400);
}

/// The library silently describes this host when it cannot read what it is told to.
#[test]
fn what_the_library_cannot_read_is_refused() {
    let bad = [
        ("HWLOC_XMLFILE", "/no/such/file"),
        ("HWLOC_XMLFILE", "/proc/self/status"),
        ("HWLOC_SYNTHETIC", "garbage"),
        ("HWLOC_SYNTHETIC", "core:0"),
        ("HWLOC_FSROOT", "/no/such/folder"),
        ("HWLOC_CPUID_PATH", "/no/such/folder"),
    ];
    for (variable, value) in bad {
        let output = command(&["--hwloc"], &[(variable, value)]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{variable}={value}: {message}");
        assert!(message.contains("--hwloc: libhwloc could not"), "{variable}={value}: {message}");
    }
    let hidden = command(&["--hwloc"], &[("HWLOC_SYNTHETIC", "garbage"), ("HWLOC_THISSYSTEM", "1")]);
    assert_eq!(hidden.status.code(), Some(2));
}

/// The library moves the thread that loads over every CPU; here that is a thread of its own.
#[test]
fn loading_moves_nobody() {
    let before = numa::current_affinity().unwrap();
    std::thread::spawn(move || {
        let one = numa::CpuSet::single(before.last().unwrap());
        numa::bind_current_thread(&one).unwrap();
        let host = Topology::from_hwloc().unwrap();
        assert_eq!((numa::current_affinity().unwrap(), host.allowed()), (one.clone(), &one));
    })
    .join()
    .unwrap();
}

proptest! {
    // Three processes per host.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn both_readers_agree_on_hosts_nobody_has_seen(spec in hosts::spec()) {
        // hwloc knows nothing of isolated CPUs, and gives CPUs in no node to whoever shares something with them.
        let expressible = |statement: &&str| !statement.starts_with("isolated") && !statement.starts_with("unassigned");
        let spec = spec.split("; ").filter(expressible).collect::<Vec<_>>().join("; ");
        let tree = Tree::new();
        let made_up = Topology::from_spec(&spec).unwrap();
        // Memory-only nodes it shows with the nearest CPUs, so that one CPU has several and which is its own is lost.
        prop_assume!(made_up.nodes().iter().all(|node| !node.cpus.is_empty()));
        tree.host(&made_up);
        let (ours, theirs) = (ours(tree.root()), theirs(tree.root()));
        let different = differences(&ours, &theirs);
        prop_assert!(different.is_empty(), "{:?}\n{}\nours   {}\ntheirs {}", different, spec, ours, theirs);
    }
}
