//! Limits of control groups, as a container has them.

use super::crew::{Crew, list};
use super::group::Group;
use super::look::set;
use super::{Check, Finding};
use numa::Topology;
use scheduler::Scheduler;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "cpu.max of an ancestor",
        boots: &["five"],
        holds: |_| quota(true),
        control: |_| quota(false),
        missed: false,
    },
    Check {
        name: "cpuset of a container",
        boots: &["five"],
        holds: |_| container(true),
        control: |_| container(false),
        missed: false,
    },
];

/// 2.5 CPUs above, 4 below: three workers.
fn quota(inside: bool) -> Finding {
    let (outer, inner) = (Group::make("quota")?, Group::make("quota/inner")?);
    outer.set("cpu.max", "250000 100000")?;
    inner.set("cpu.max", "400000 100000")?;
    if inside {
        inner.join()?;
    }
    let host = Topology::discover();
    let crew = Crew::start(Scheduler::builder())?;
    let (workers, home) = (crew.len(), crew.all_at_home()?);
    let (quota, allowed) = (host.quota_millicpus(), host.allowed());
    let text = format!("quota {quota:?} thousandths, allowed {allowed}, {workers} workers; {home}");
    if quota == Some(2500) && *allowed == set(&[0, 1, 2, 3, 4, 5, 6, 7]) && workers == 3 { Ok(text) } else { Err(text) }
}

/// Two of the nodes, for CPUs and for memory.
fn container(inside: bool) -> Finding {
    let group = Group::make("container")?;
    group.set("cpuset.cpus", "0-1,4-5")?;
    group.set("cpuset.mems", "0,2")?;
    if inside {
        group.join()?;
    }
    let host = Topology::discover();
    let mems: Option<Vec<u32>> = host.mems_allowed().map(|nodes| nodes.iter().map(|node| node.get()).collect());
    let crew = Crew::start(Scheduler::builder())?;
    let (home, masks) = (crew.all_at_home()?, crew.masks()?);
    let allowed = host.allowed();
    let text = format!("allowed {allowed}, memory {mems:?}, masks {}; {home}", list(&masks));
    let expected = set(&[0, 1, 4, 5]);
    let within = masks.iter().all(|mask| mask.is_subset(&expected));
    let good = *allowed == expected && mems == Some(vec![0, 2]) && masks.len() == 4 && within;
    if good { Ok(text) } else { Err(text) }
}
