//! What the library sees of a host, against what was built, and what the kernel does there.

use super::crew::{Crew, list};
use super::look::{PAGES, bind_memory, fresh, nodes_of, set, touch, words};
use super::{Check, Finding};
use crate::machine::{self, Machine, Shape};
use numa::{CpuId, CpuSet, NodeId, Pin, Placement, Topology};
use scheduler::Scheduler;
use std::fmt::Write;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "shape as built",
        boots: &["five", "threads", "flat", "wide"],
        holds: |machine| same_shape(machine.seen),
        control: |machine| same_shape(another(machine).seen),
        missed: false,
    },
    Check {
        name: "first touch and mbind",
        boots: &["five"],
        holds: |machine| placement_of_pages(machine.seen, 0),
        control: |machine| placement_of_pages(machine.seen, 1),
        missed: false,
    },
    Check {
        name: "node without memory",
        boots: &["five"],
        holds: |_| without_memory(3, 2),
        control: |_| without_memory(3, 3),
        missed: false,
    },
    Check {
        name: "node without CPUs",
        boots: &["five"],
        holds: |_| without_cpus(4),
        control: |_| without_cpus(3),
        missed: false,
    },
    Check {
        name: "cores before siblings",
        boots: &["threads"],
        holds: |_| a_core_each(Placement::Spread),
        control: |_| a_core_each(Placement::Pack),
        missed: false,
    },
    Check {
        name: "bound to their cache",
        boots: &["threads"],
        holds: |machine| within_a_cache(machine.seen, Pin::Auto),
        control: |machine| within_a_cache(machine.seen, Pin::Node),
        missed: false,
    },
    Check {
        name: "masks of any width",
        boots: &["wide"],
        holds: |_| wide_mask(),
        control: |_| narrow_mask(),
        missed: false,
    },
];

/// A machine of another shape.
fn another(machine: &Machine) -> &'static Machine {
    let name = if machine.name == "five" { "flat" } else { "five" };
    machine::named(name).expect("one of the constants")
}

fn same_shape(shape: &Shape) -> Finding {
    let (seen, built) = (of_topology(&Topology::discover()), of_shape(shape));
    if seen == built { Ok(seen) } else { Err(format!("expected {built}; seen {seen}")) }
}

/// Memory differs a little from what was given, so it is there or not.
fn node_words(id: usize, cpus: &CpuSet, memory: bool) -> String {
    let cpus = if cpus.is_empty() { "none".to_owned() } else { cpus.to_string() };
    format!("{id}:{cpus}{} ", if memory { "" } else { " (no memory)" })
}

fn of_shape(shape: &Shape) -> String {
    let mut text = "nodes ".to_owned();
    for (id, node) in shape.nodes.iter().enumerate() {
        text += &node_words(id, &set(node.cpus), node.memory_mb > 0);
    }
    let sets = |sets: &[&[u32]]| list(&sets.iter().map(|cpus| set(cpus)).collect::<Vec<_>>());
    let _ = write!(text, "caches {} cores {} distances ", sets(shape.caches), sets(shape.cores));
    for row in shape.distances {
        text += &row.iter().map(|value| format!("{value} ")).collect::<String>();
    }
    text.trim_end().to_owned()
}

fn of_topology(host: &Topology) -> String {
    let mut text = "nodes ".to_owned();
    for node in host.nodes() {
        text += &node_words(node.id.get() as usize, &node.cpus, node.has_memory());
    }
    let caches: Vec<CpuSet> = host.llcs().iter().map(|cache| cache.cpus.clone()).collect();
    let cores: Vec<CpuSet> = host.cores().iter().map(|core| core.cpus.clone()).collect();
    let _ = write!(text, "caches {} cores {} distances ", list(&caches), list(&cores));
    let count = host.nodes().len();
    for (from, to) in (0..count * count).map(|at| (at / count, at % count)) {
        text += &host.distance(from, to).map_or("- ".into(), |value| format!("{value} "));
    }
    text.trim_end().to_owned()
}

/// The node of memory that a thread bound to `cpu` touches first.
fn touched_from(cpu: CpuId) -> Result<String, String> {
    let touching = std::thread::spawn(move || {
        numa::bind_current_thread(&CpuSet::single(cpu)).map_err(|error| format!("CPU {cpu}: {error}"))?;
        let memory = fresh(PAGES).map_err(|error| error.to_string())?;
        touch(memory);
        nodes_of(memory.as_ptr() as usize, memory.len()).map_err(|error| format!("move_pages: {error}"))
    });
    touching.join().map_err(|_| "panicked".to_owned())?.map(|spread| words(&spread))
}

/// Every CPU's first touch goes to the memory that the library calls nearest, and `mbind` goes where it says. With an
/// `error` the nodes expected are off by so many.
fn placement_of_pages(shape: &Shape, error: usize) -> Finding {
    let host = Topology::discover();
    let mut pages = 0;
    for cpu in host.cpus() {
        let nearest = (host.nearest_memory(cpu.node) + error) % shape.nodes.len();
        let (found, expected) = (touched_from(cpu.id)?, format!("{PAGES} on node {}", host.nodes()[nearest].id));
        if found != expected {
            return Err(format!("CPU {}: {found}; expected {expected}", cpu.id));
        }
        pages += PAGES;
    }
    for (id, node) in (0..).zip(shape.nodes) {
        let memory = fresh(PAGES).map_err(|error| error.to_string())?;
        let bound = bind_memory(memory, id);
        if node.memory_mb == 0 {
            let errno = bound.err().and_then(|error| error.raw_os_error());
            if errno != Some(libc::EINVAL) {
                return Err(format!("mbind to node {id} without memory: {errno:?}, expected EINVAL"));
            }
            continue;
        }
        bound.map_err(|error| format!("mbind to node {id}: {error}"))?;
        touch(memory);
        let spread = nodes_of(memory.as_ptr() as usize, memory.len()).map_err(|error| error.to_string())?;
        if words(&spread) != format!("{PAGES} on node {id}") {
            return Err(format!("mbind to node {id}: {}", words(&spread)));
        }
        pages += PAGES;
    }
    Ok(format!("{pages} of {pages} pages where they belong, mbind to a node without memory EINVAL"))
}

/// Threads of node `node` get their memory from `expected`, as the library says; workers run there.
fn without_memory(node: u32, expected: u32) -> Finding {
    let host = Topology::discover();
    let at = host.node_index(NodeId::new(node)).ok_or_else(|| format!("no node {node}"))?;
    let said = host.nodes()[host.nearest_memory(at)].id;
    let cpu = host.nodes()[at].cpus.first().ok_or_else(|| format!("no CPU on node {node}"))?;
    let found = touched_from(cpu)?;
    let crew = Crew::start(Scheduler::builder())?;
    let there = crew.whereabouts()?.iter().filter(|&&(runs, home)| runs == node && home == node).count();
    let text = format!("nearest memory of node {node} is {said}; {PAGES} pages from there: {found}; {there} workers");
    let good = said.get() == expected && found == format!("{PAGES} on node {expected}") && there > 0;
    if good { Ok(text) } else { Err(format!("{text}; expected node {expected}")) }
}

/// Nobody is seated on `node`, and asking for it is an error that names it.
fn without_cpus(node: u32) -> Finding {
    let host = Topology::discover();
    let at = host.node_index(NodeId::new(node)).ok_or_else(|| format!("no node {node}"))?;
    for placement in [Placement::Spread, Placement::Pack, Placement::Unpinned] {
        let seats = numa::plan(&host, &placement, Pin::Auto, 16).map_err(|error| error.to_string())?;
        let there = seats.iter().filter(|seat| seat.node == at).count();
        if there > 0 {
            return Err(format!("{there} of 16 workers seated on node {node} by {placement:?}"));
        }
    }
    let asked = Scheduler::builder().placement(Placement::Nodes(vec![NodeId::new(node)])).build();
    match asked {
        Ok(_) => Err(format!("a scheduler on node {node}")),
        Err(error) if error.to_string().contains(&node.to_string()) => Ok(format!("no seat there; asked for: {error}")),
        Err(error) => Err(format!("asked for node {node}: {error}")),
    }
}

/// As many workers as cores: no two of them on siblings.
fn a_core_each(placement: Placement) -> Finding {
    let host = Topology::discover();
    let workers = host.cores().len();
    let crew = Crew::start(Scheduler::builder().placement(placement).pin(Pin::Cpu).workers(workers))?;
    let masks = crew.masks()?;
    let busy = host.cores().iter().filter(|core| masks.iter().any(|mask| mask.intersects(&core.cpus))).count();
    let text = format!("{workers} workers on {busy} of {workers} cores: CPUs {}", list(&masks));
    if busy == workers { Ok(text) } else { Err(text) }
}

/// The kernel's mask of every worker is one cache, and all caches are used.
fn within_a_cache(shape: &Shape, pin: Pin) -> Finding {
    let crew = Crew::start(Scheduler::builder().pin(pin))?;
    let (masks, caches) = (crew.masks()?, shape.caches.iter().map(|cpus| set(cpus)).collect::<Vec<_>>());
    let all_used = caches.iter().all(|cache| masks.contains(cache));
    let good = all_used && masks.iter().all(|mask| caches.contains(mask));
    let text = format!("masks {}", list(&masks));
    if good { Ok(text) } else { Err(text) }
}

/// More possible CPUs than fit into 128 bytes: the mask is read, and workers are bound.
fn wide_mask() -> Finding {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let mask = numa::current_affinity().map_err(|error| format!("affinity: {error}"))?;
    let crew = Crew::start(Scheduler::builder().pin(Pin::Cpu))?;
    let masks = list(&crew.masks()?);
    let text = format!("possible {}, allowed {mask}, workers on {masks}", possible.trim());
    let good = possible.trim() == "0-1099" && mask == set(&[0, 1]) && masks == "0 1";
    if good { Ok(text) } else { Err(text) }
}

/// The C library's mask of 128 bytes, which this kernel does not fill.
fn narrow_mask() -> Finding {
    let mut words = [0_u64; 16];
    let bytes = size_of_val(&words);
    // SAFETY: the kernel writes at most as many bytes as the array has.
    let wrote = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, words.as_mut_ptr()) };
    if wrote > 0 {
        Ok(format!("{wrote} bytes"))
    } else {
        Err(format!("128 bytes: {}", std::io::Error::last_os_error()))
    }
}
