//! M8: the memory that belongs to a worker is on its home node.

use super::crew::Crew;
use super::look::{Spread, nodes_of, words};
use super::{Check, Finding};
use numa::{CpuSet, Placement, Topology};
use scheduler::internals::{task::cells, worker_memory};
use scheduler::{Builder, Handle, Scheduler};
use std::collections::BTreeMap;

pub(super) const CHECKS: &[Check] = &[Check {
    name: "pages at home",
    boots: &["five", "threads"],
    holds: |_| pages_at_home(Scheduler::builder()),
    control: |_| pages_at_home(made_elsewhere()?),
    missed: false,
}];

/// Workers that are bound nowhere, and start on the last CPU, whatever their home is.
fn made_elsewhere() -> Result<Builder, String> {
    let host = Topology::discover();
    let last = host.online().last().ok_or("no CPU")?;
    numa::bind_current_thread(&CpuSet::single(last)).map_err(|error| error.to_string())?;
    Ok(Scheduler::builder().workers(host.allowed().len()).placement(Placement::Unpinned).topology(host))
}

/// Tasks that every worker submits to itself, so that its cells are in use.
const TASKS: usize = 500;
/// Cells looked at: those that the worker will use next.
const CELLS: usize = 64;

/// Where the cells of the calling worker are. Those of others, which it has ended and may use again, go home before.
fn own_cells() -> std::io::Result<Spread> {
    let mut spread = Spread::new();
    let cells: Vec<usize> = cells::with_cells(|cells| {
        cells.settle();
        cells.reserve(CELLS);
        cells.peek(CELLS).iter().map(|cell| cell.get().addr()).collect()
    });
    for cell in cells {
        for (node, count) in nodes_of(cell, 1)? {
            *spread.entry(node).or_insert(0) += count;
        }
    }
    Ok(spread)
}

fn pages_at_home(builder: Builder) -> Finding {
    let crew = Crew::start(builder)?;
    crew.on_each(|| {
        let here = Handle::current();
        (0..TASKS).for_each(|_| here.submit(|| ()).expect("open"));
    })?;
    let (host, metrics) = (crew.scheduler.topology(), crew.scheduler.metrics());
    let mut pieces: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut strays = Vec::new();
    let mut account = |worker: usize, piece: &'static str, spread: Spread| {
        let home = host.nodes()[host.nearest_memory(metrics.workers[worker].node)].id.get();
        let touched: usize = spread.iter().filter(|(node, _)| node.is_some()).map(|(_, count)| count).sum();
        let at_home = spread.get(&Some(home)).copied().unwrap_or(0);
        let sum = pieces.entry(piece).or_default();
        *sum = (sum.0 + at_home, sum.1 + touched);
        if at_home < touched || touched == 0 {
            strays.push(format!("{piece} of worker {worker} (home {home}): {}", words(&spread)));
        }
    };
    for worker in 0..crew.len() {
        for (piece, address, bytes) in worker_memory(&crew.scheduler.handle(), worker) {
            account(worker, piece, nodes_of(address, bytes).map_err(|error| format!("move_pages: {error}"))?);
        }
    }
    for (worker, spread) in crew.on_each(own_cells)?.into_iter().enumerate() {
        account(worker, "cells", spread.map_err(|error| format!("move_pages: {error}"))?);
    }
    let sums: Vec<_> = pieces.iter().map(|(piece, (home, all))| format!("{piece} {home}/{all}")).collect();
    let text = format!("pages at home of {} workers: {}", crew.len(), sums.join(", "));
    if strays.is_empty() { Ok(text) } else { Err(format!("{text}; {}", strays.join("; "))) }
}
