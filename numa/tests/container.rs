//! In a control group of our own, with a cpuset and a quota, on the kernel at hand: needs a superuser and a kernel that
//! lets one make such groups, and is skipped otherwise (the guest has both).
#![cfg(not(loom))]

use numa::{Binding, CpuId, CpuSet, Pin, Placement, Topology, plan};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// An outer group with the limits and an inner one with the process, in every hierarchy that is needed.
struct Group {
    outer: Vec<PathBuf>,
    cpuset: PathBuf,
    cpu: PathBuf,
}

impl Group {
    /// `None` where it cannot be made; says why.
    fn new() -> Option<Group> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("numa-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mount = |kind: &str, controller: &str| -> Option<PathBuf> {
            let fits = |line: &&str| {
                let back = line.split(" - ").nth(1).unwrap_or_default();
                back.starts_with(kind) && back.split([' ', ',']).any(|word| word == controller)
            };
            mounts.lines().find(fits)?.split(' ').nth(4).map(|point| Path::new(point).join(&name))
        };
        let v2 = || mount("cgroup2 ", "cgroup2").map(|path| (path.clone(), path));
        let v1 = mount("cgroup ", "cpuset").zip(mount("cgroup ", "cpu"));
        let Some((cpuset, cpu)) = v1.or_else(v2) else {
            println!("skipped: no control groups");
            return None;
        };
        let mut outer = vec![cpuset.clone(), cpu.clone()];
        outer.dedup();
        let group = Group { outer, cpuset, cpu };
        for path in &group.outer {
            if let Err(error) = fs::create_dir(path) {
                println!("skipped: {}: {error}", path.display());
                return None;
            }
            // Version 2 hands controllers down when told to; version 1 has no such file.
            let _ = fs::write(path.join("cgroup.subtree_control"), "+cpu +cpuset");
            fs::create_dir(path.join("inner")).unwrap();
        }
        let mems = fs::read_to_string("/sys/devices/system/node/online").unwrap_or("0".to_owned());
        let all = Topology::discover().allowed().clone();
        for folder in [group.cpuset.clone(), group.cpuset.join("inner")] {
            let set = fs::write(folder.join("cpuset.cpus"), all.to_string())
                .and_then(|()| fs::write(folder.join("cpuset.mems"), mems.trim()));
            if let Err(error) = set {
                println!("skipped: {}: {error}", folder.display());
                return None;
            }
        }
        Some(group)
    }

    fn cpus(&self, cpus: &CpuSet) {
        let (outer, inner) = (self.cpuset.join("cpuset.cpus"), self.cpuset.join("inner/cpuset.cpus"));
        // Version 1 wants the inner set within the outer one at every moment.
        let write = |path: &Path| fs::write(path, cpus.to_string());
        if write(&inner).is_err() {
            write(&outer).unwrap();
            write(&inner).unwrap();
        }
        write(&outer).unwrap();
    }

    /// A limit on the outer group only.
    fn quota(&self, microseconds: u32) {
        if fs::write(self.cpu.join("cpu.cfs_quota_us"), microseconds.to_string()).is_err() {
            fs::write(self.cpu.join("cpu.max"), format!("{microseconds} 100000")).unwrap();
        }
    }

    /// Starts a program inside.
    fn start(&self, program: &str, arguments: &[&str]) -> Child {
        let joins = self.outer.iter().map(|path| format!("echo $$ > {}/inner/cgroup.procs && ", path.display()));
        let script = format!("{}exec \"$@\"", joins.collect::<String>());
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", program]).args(arguments).env("NUMA_TEST_CHILD", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for path in &self.outer {
            // What could not be made cannot be removed.
            let _ = fs::remove_dir(path.join("inner"));
            let _ = fs::remove_dir(path);
        }
    }
}

#[test]
fn a_cpuset_and_a_quota_of_an_ancestor_are_seen() {
    let Some(group) = Group::new() else { return };
    let last = Topology::discover().allowed().last().unwrap();
    let command = env!("CARGO_BIN_EXE_numa");
    let seen = || -> Value {
        let output = group.start(command, &["--json"]).wait_with_output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let free = seen();
    group.cpus(&CpuSet::single(last));
    group.quota(150_000);
    let bound = seen();
    assert_ne!(free["quota_millicpus"], 1500);
    assert_eq!((&bound["quota_millicpus"], &bound["allowed"]), (&Value::from(1500), &serde_json::json!([last.get()])));
    assert_eq!(bound["workers"].as_array().unwrap().len(), 1);
    assert_eq!(bound["workers"][0]["cpu"], last.get());
}

/// What the kernel does to a bound thread, and what becomes of it.
#[test]
fn a_binding_lost_to_a_cpuset_is_found_and_made_again() {
    let all = Topology::discover().allowed().clone();
    let (first, last) = (CpuSet::single(all.first().unwrap()), CpuSet::single(all.last().unwrap()));
    if first == last {
        println!("skipped: one CPU only");
        return;
    }
    let Some(group) = Group::new() else { return };
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", "a_bound_thread_that_tells", "--nocapture", "--test-threads", "1"];
    let mut child = group.start(program.to_str().unwrap(), &arguments);
    let mut orders = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |order: &str| {
        writeln!(orders, "{order}").unwrap();
        // Between the lines of the test runner.
        let answer = answers.by_ref().map(Result::unwrap).find_map(|line| line.strip_prefix("> ").map(str::to_owned));
        answer.expect("an answer")
    };
    assert_eq!(ask("place"), format!("Held {last}"));
    // The CPU goes: the kernel moves the thread, and it cannot go back.
    group.cpus(&first);
    assert_eq!(ask("place"), format!("Lost {first}"));
    assert_eq!(ask("mask"), format!("StillLost {first}"));
    // It comes back.
    group.cpus(&all);
    assert_eq!(ask("place"), format!("Returned {last}"));
    // It goes and comes back between two looks. Kernels from 6.2 on give the thread its own mask back.
    group.cpus(&first);
    group.cpus(&all);
    let answer = ask("mask");
    println!("after a change back and forth: {answer}");
    assert!([format!("Held {last}"), format!("Repaired {last}")].contains(&answer), "{answer}");
    drop(orders);
    assert!(child.wait().unwrap().success());
}

/// Not a test of its own: the process inside of the group.
#[test]
fn a_bound_thread_that_tells() {
    if std::env::var_os("NUMA_TEST_CHILD").is_none() {
        return;
    }
    let host = Topology::discover();
    let last: CpuId = host.allowed().last().unwrap();
    let seat = plan(&host, &Placement::Cpus(CpuSet::single(last)), Pin::Cpu, 1).unwrap().remove(0);
    let mut binding = Binding::take(&host, &seat);
    for order in std::io::stdin().lines() {
        let found = if order.unwrap() == "mask" { binding.check_mask() } else { binding.check() };
        println!("\n> {found:?} {}", numa::current_affinity().unwrap());
    }
}
