//! M15: what discovery asks of the kernel, counted by tracing the command, on a large written tree and on those of real
//! hosts in `NUMA_FIXTURES`.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "ptrace")]

mod common;

use common::fixtures::{archives, name, unpacked};
use common::tree::Tree;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Calls by number, and with which exit code it ended.
type Calls = BTreeMap<i64, u64>;

/// Runs `command` and counts the system calls of all its threads. `None`: tracing is forbidden here.
fn traced(command: &mut Command) -> Option<Calls> {
    // SAFETY: touches no memory.
    let trace = || answer(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) });
    // SAFETY: one system call between fork and exec.
    unsafe { command.pre_exec(trace) };
    let child = match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("NOT RUN: ptrace: {error}");
            return None;
        }
    };
    let (first, mut calls) = (child.id() as i32, Calls::new());
    let mut entered: BTreeMap<i32, bool> = BTreeMap::new();
    loop {
        let mut status = 0;
        // SAFETY: the status is ours.
        let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
        if thread < 0 {
            return Some(calls);
        }
        if !libc::WIFSTOPPED(status) {
            if thread == first {
                assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
                return Some(calls);
            }
            continue;
        }
        let mut deliver = 0;
        match libc::WSTOPSIG(status) {
            stop if stop == libc::SIGTRAP | 0x80 => {
                let inside = entered.entry(thread).or_default();
                *inside = !*inside;
                if *inside {
                    *calls.entry(number(thread)).or_default() += 1;
                }
            }
            libc::SIGTRAP => {
                let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
                // SAFETY: the thread is stopped, and ours. That this fails for a second time is no matter.
                unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, thread, 0, options) };
            }
            libc::SIGSTOP => {}
            signal => deliver = signal,
        }
        // SAFETY: as above.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, thread, 0, deliver) };
    }
}

fn answer(result: libc::c_long) -> std::io::Result<()> {
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The number of the call that the stopped thread is in.
fn number(thread: i32) -> i64 {
    let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::uninit();
    // SAFETY: room for what is written.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETREGS, thread, 0, registers.as_mut_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: written by the call above.
    unsafe { registers.assume_init() }.orig_rax as i64
}

fn binds(calls: &Calls) -> u64 {
    calls.get(&libc::SYS_sched_setaffinity).copied().unwrap_or(0)
}

fn budget(cpus: u64) -> i64 {
    8 * cpus as i64 + 50
}

fn numa(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_numa"));
    command.args(arguments);
    command
}

/// Eight nodes of four caches of four cores with two threads: 256 CPUs, and all of the files that Linux has for them.
fn large() -> Tree {
    let tree = Tree::new();
    tree.cpu("online", "0-255\n").cpu("present", "0-255\n").node("online", "0-7\n");
    for cpu in 0..256 {
        let (core, cache) = (cpu / 2 * 2, cpu / 8 * 8);
        tree.cpu(&format!("cpu{cpu}/topology/thread_siblings_list"), format!("{core}-{}\n", core + 1));
        tree.cpu(&format!("cpu{cpu}/cache/index3/level"), "3\n");
        tree.cpu(&format!("cpu{cpu}/cache/index3/shared_cpu_list"), format!("{cache}-{}\n", cache + 7));
    }
    for node in 0..8 {
        let row: Vec<&str> = (0..8).map(|to| if to == node { "10" } else { "21" }).collect();
        tree.node(&format!("node{node}/cpulist"), format!("{}-{}\n", node * 32, node * 32 + 31));
        tree.node(&format!("node{node}/distance"), row.join(" "));
        tree.node(&format!("node{node}/meminfo"), format!("Node {node} MemTotal: 1000000 kB\n"));
    }
    tree
}

/// The trees that take 3 to 16 calls more than the bound: they have 6 to 15 CPUs, and their nodes and cpusets have more
/// files than so few CPUs are allowed for.
const OVER: [&str; 4] = ["16amd64-8n2c-cpusets", "8amd64-4n2c", "8ia64-4s2c", "fakeheteromemtiers"];

/// One test: waiting for any child would take another test's.
#[test]
fn discovery_is_cheap_and_binds_nobody() {
    let tree = large();
    let Some(idle) = traced(&mut numa(&["--json", "--spec", "node cores=1"])) else { return };
    // What the program costs without any discovery is left out.
    let cost = |root: &Path| {
        let all = traced(&mut numa(&["--json", "--root", root.to_str().unwrap()])).unwrap();
        assert_eq!(binds(&all), 0);
        all.values().sum::<u64>() - idle.values().sum::<u64>()
    };
    let mut over = Vec::new();
    for archive in archives().unwrap_or_default() {
        unpacked(&archive, |root| {
            let (cost, cpus) = (cost(root), numa::Topology::from_root(root).unwrap().cpus().len() as u64);
            println!("M15: {:36} {cost:5} calls, {cpus:3} CPUs: {:4} left", name(&archive), budget(cpus) - cost as i64);
            if cost as i64 > budget(cpus) {
                over.push(name(&archive));
            }
        });
    }
    let unknown: Vec<_> = over.iter().filter(|tree| !OVER.contains(&tree.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let cost = cost(tree.root());
    println!("M15: {cost} system calls for 256 CPUs");
    assert!(cost as i64 <= budget(256));
    let own = traced(&mut numa(&["--json"])).unwrap();
    assert_eq!(binds(&own), 0, "{own:?}");
    assert!(own.contains_key(&libc::SYS_sched_getaffinity), "{own:?}");
    // Controls: a program that binds itself is caught; and so is one that looks twice, were the bound that of one look
    // at these files.
    let mut binder = Command::new(std::env::current_exe().unwrap());
    let caught = traced(binder.args(["--exact", "binds_itself", "--ignored"])).unwrap();
    assert!(binds(&caught) >= 1, "{caught:?}");
    let reads = numa::Topology::from_root(tree.root()).unwrap().reads().len() as u64;
    assert!(2 * cost > 3 * reads && cost <= 3 * reads, "{cost} calls for {reads} files");
    // Files are closed many at a time, and sooner where only a few may be open.
    let mut few = numa(&["--json", "--root", tree.root().to_str().unwrap()]);
    // SAFETY: touches no memory but its argument.
    let limit =
        || answer(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur: 6, rlim_max: 6 }) }.into());
    // SAFETY: one system call between fork and exec.
    unsafe { few.pre_exec(limit) };
    let (few, many) =
        (few.output().unwrap(), numa(&["--json", "--root", tree.root().to_str().unwrap()]).output().unwrap());
    assert!(few.status.success() && few.stdout == many.stdout, "{few:?}");
}

#[test]
#[ignore = "run by the test above, traced"]
fn binds_itself() {
    numa::bind_current_thread(&numa::current_affinity().unwrap()).unwrap();
}
