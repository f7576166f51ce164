//! Where the knowledge comes from: files looked at, what came of each, and what was assumed.

use numa::{ReadOutcome, Topology};
use std::collections::BTreeMap;
use std::fmt::Write;

pub(crate) fn explain(topology: &Topology) -> String {
    let mut out = format!("source: {}\n", crate::draw::source(topology));
    let reads = topology.reads();
    if reads.is_empty() {
        out += "\nno file was read\n";
    } else {
        let used = reads.iter().filter(|read| read.outcome == ReadOutcome::Used).count();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "\n{} files looked at, {used} used", reads.len());
        files(topology, &mut out);
    }
    out += "\nignored, repaired or assumed:\n";
    if topology.notes().is_empty() {
        out += "  nothing\n";
    }
    for note in topology.notes() {
        let _ = writeln!(out, "  {note}");
    }
    out
}

/// Files in the order of first use; those that differ only in the CPU or node number share a line.
fn files(topology: &Topology, out: &mut String) {
    let mut order: Vec<(String, String)> = Vec::new();
    let mut first: BTreeMap<(String, String), (String, usize)> = BTreeMap::new();
    for read in topology.reads() {
        let path = read.path.display().to_string();
        let key = (pattern(&path), read.outcome.to_string());
        let entry = first.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            (path, 0)
        });
        entry.1 += 1;
    }
    for key in order {
        let (path, count) = &first[&key];
        let more = if *count > 1 { format!(" and {} more like it", count - 1) } else { String::new() };
        let _ = writeln!(out, "  {path}{more}: {}", key.1);
    }
}

/// The path with the number of each `cpuN` and `nodeN` part taken out.
fn pattern(path: &str) -> String {
    let part = |part: &str| {
        let stem = part.trim_end_matches(|c: char| c.is_ascii_digit());
        if matches!(stem, "cpu" | "node") { format!("{stem}*") } else { part.to_owned() }
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}
