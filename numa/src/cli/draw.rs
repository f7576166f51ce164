//! The host as text.
//!
//! A core is a pair of brackets around its CPUs; a CPU in parentheses is one this process may not use; `:w3` marks
//! the worker planned there.

use numa::{CpuId, CpuSet, Seat, Topology};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// Where cores wrap. Lists of ids are never cut, so a line of one may be longer.
const WIDTH: usize = 100;
/// Beyond this many nodes a distance table is wider than any terminal, and is left to `--json`.
const MOST_COLUMNS: usize = 24;

pub(crate) fn draw(topology: &Topology, seats: &[Seat], by_default: bool) -> String {
    let mut out = String::new();
    summary(topology, seats, by_default, &mut out);
    let (marks, places) = (marks(seats), places(topology));
    for (index, caches) in places.iter().enumerate() {
        node(topology, index, caches, &marks, &mut out);
    }
    distances(topology, &mut out);
    workers(topology, seats, &mut out);
    if !topology.notes().is_empty() {
        out += "\nnotes\n";
        for note in topology.notes() {
            line(&mut out, format_args!("  {note}"));
        }
    }
    out
}

/// Source, root and whether pinning would work.
pub(crate) fn source(topology: &Topology) -> String {
    let below = topology.root().map(|root| format!(" below {}", root.display())).unwrap_or_default();
    let whose = if topology.is_live() { "this host" } else { "not this host: nothing is pinned" };
    format!("{}{below} ({whose})", topology.source())
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(text);
    out.push('\n');
}

/// How many of what.
pub(crate) fn size(topology: &Topology) -> String {
    let counts = [
        count(topology.nodes().len(), "node"),
        count(topology.llcs().len(), "cache group"),
        count(topology.cores().len(), "core"),
        count(topology.cpus().len(), "CPU"),
    ];
    counts.join(", ")
}

fn summary(topology: &Topology, seats: &[Seat], by_default: bool, out: &mut String) {
    line(out, format_args!("source     {}", source(topology)));
    line(out, format_args!("host       {}", size(topology)));
    line(out, format_args!("online     {}", topology.online()));
    line(out, format_args!("offline    {}", or_none(topology.offline())));
    line(out, format_args!("allowed    {}", topology.allowed()));
    let forbidden = topology.online().difference(topology.allowed());
    line(out, format_args!("forbidden  {}", or_none(&forbidden)));
    if !topology.isolated().is_empty() {
        line(out, format_args!("isolated   {}", topology.isolated()));
    }
    if !topology.unassigned().is_empty() {
        line(out, format_args!("no node    {}", topology.unassigned()));
    }
    if let Some(mems) = topology.mems_allowed() {
        let mems: Vec<String> = mems.iter().map(ToString::to_string).collect();
        line(out, format_args!("memory on  nodes {}", mems.join(",")));
    }
    line(out, format_args!("quota      {}", quota(topology)));
    line(out, format_args!("workers    {} = {}", seats.len(), workers_reason(topology, by_default)));
}

pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn or_none(cpus: &CpuSet) -> String {
    if cpus.is_empty() { "none".to_owned() } else { cpus.to_string() }
}

pub(crate) fn quota(topology: &Topology) -> String {
    match topology.quota_millicpus() {
        Some(milli) => format!("{}.{:03} CPUs", milli / 1000, milli % 1000),
        None => "none".to_owned(),
    }
}

/// Why there are as many workers as there are.
pub(crate) fn workers_reason(topology: &Topology, by_default: bool) -> String {
    if !by_default {
        return "as asked".to_owned();
    }
    let allowed = count(topology.allowed().len(), "CPU");
    match topology.quota_millicpus() {
        Some(milli) => {
            format!("the lesser of {allowed} allowed and the quota rounded up, {}", milli.div_ceil(1000))
        }
        None => format!("{allowed} allowed, no quota"),
    }
}

/// First worker of each CPU and how many share it.
fn marks(seats: &[Seat]) -> HashMap<CpuId, (usize, usize)> {
    let mut marks = HashMap::new();
    for seat in seats {
        if let Some(cpu) = seat.cpu {
            marks.entry(cpu).or_insert((seat.index, 0)).1 += 1;
        }
    }
    marks
}

/// By the index of a cache group, the CPUs of each core of it.
pub(crate) type Caches = BTreeMap<usize, BTreeMap<usize, CpuSet>>;

/// For each node what of which cache and core is in it. In one pass: hosts have up to thousands of each.
pub(crate) fn places(topology: &Topology) -> Vec<Caches> {
    let mut places = vec![Caches::new(); topology.nodes().len()];
    for cpu in topology.cpus() {
        places[cpu.node].entry(cpu.llc).or_default().entry(cpu.core).or_default().insert(cpu.id);
    }
    places
}

/// All CPUs of some cores.
pub(crate) fn cpus_of(cores: &BTreeMap<usize, CpuSet>) -> CpuSet {
    cores.values().flat_map(CpuSet::iter).collect()
}

fn node(topology: &Topology, index: usize, caches: &Caches, marks: &HashMap<CpuId, (usize, usize)>, out: &mut String) {
    let node = &topology.nodes()[index];
    let residents = node.residents();
    let cpus = if residents.is_empty() { "no CPU".to_owned() } else { format!("CPUs {residents}") };
    let mut head = format!("\nnode {:<4} {:>10}  {cpus}", node.id, memory(node.memory_kb));
    if !node.dealt.is_empty() {
        head += &format!(" (of these, {} are in no node and were dealt here)", node.dealt);
    }
    let nearest = topology.nearest_memory(index);
    if nearest != index {
        head += &format!(" (memory from node {})", topology.nodes()[nearest].id);
    }
    line(out, format_args!("{head}"));
    for (&llc, cpus) in caches {
        let (llc, here) = (&topology.llcs()[llc], cpus_of(cpus));
        let elsewhere = llc.cpus.difference(&residents);
        let spans = if elsewhere.is_empty() { String::new() } else { format!(" (shared with {elsewhere})") };
        let name = llc.level.map_or("no cache described".to_owned(), |level| format!("L{level}"));
        line(out, format_args!("  {name} {here}{spans}"));
        cores(topology, cpus, marks, out);
    }
}

pub(crate) fn memory(kb: Option<u64>) -> String {
    match kb {
        None => "memory ?".to_owned(),
        Some(0) => "no memory".to_owned(),
        Some(kb) if kb < 1 << 20 => format!("{:.1} MiB", kb as f64 / f64::from(1 << 10)),
        Some(kb) => format!("{:.1} GiB", kb as f64 / f64::from(1 << 20)),
    }
}

fn cores(
    topology: &Topology,
    cores: &BTreeMap<usize, CpuSet>,
    marks: &HashMap<CpuId, (usize, usize)>,
    out: &mut String,
) {
    let mut row = String::from("   ");
    for cpus in cores.values() {
        let names: Vec<String> = cpus.iter().map(|cpu| name(topology, cpu, marks)).collect();
        let core = format!(" [{}]", names.join(" "));
        if row.len() + core.len() > WIDTH {
            line(out, format_args!("{row}"));
            row = String::from("   ");
        }
        row += &core;
    }
    line(out, format_args!("{row}"));
}

fn name(topology: &Topology, cpu: CpuId, marks: &HashMap<CpuId, (usize, usize)>) -> String {
    let id = if topology.allowed().contains(cpu) { cpu.to_string() } else { format!("({cpu})") };
    match marks.get(&cpu) {
        Some((first, 1)) => format!("{id}:w{first}"),
        Some((first, sharers)) => format!("{id}:w{first}+{}", sharers - 1),
        None => id,
    }
}

fn distances(topology: &Topology, out: &mut String) {
    let nodes = topology.nodes();
    if nodes.len() < 2 || nodes.len() > MOST_COLUMNS {
        return;
    }
    out.push_str("\ndistances\n     ");
    for node in nodes {
        let _ = write!(out, " {:>4}", node.id);
    }
    out.push('\n');
    for (from, node) in nodes.iter().enumerate() {
        let _ = write!(out, " {:>4}", node.id);
        for to in 0..nodes.len() {
            let distance = topology.distance(from, to).map_or("?".to_owned(), |distance| distance.to_string());
            let _ = write!(out, " {distance:>4}");
        }
        out.push('\n');
    }
}

fn workers(topology: &Topology, seats: &[Seat], out: &mut String) {
    out.push_str("\nworkers\n");
    for seat in seats {
        let node = topology.nodes()[seat.node].id;
        let cpu = seat.cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
        let bind = seat.bind.as_ref().map_or("-".to_owned(), CpuSet::to_string);
        line(out, format_args!("  w{:<4} node {node:<4} CPU {cpu:<5} bound to {bind:<12} {}", seat.index, seat.why));
    }
}
