//! The `/sys` and `/proc` of a host, below any root.
//!
//! Rules, each earned by some real machine:
//! * A CPU exists for us when `cpu/online` lists it; without that file, when its directory has not been emptied by
//!   offlining.
//! * A CPU's home is the node whose `cpulist` (or `cpumap`) has it, nothing else.
//! * Caches are told apart by which CPUs share them (`shared_cpu_list`), never by `id`, which repeats. Cores by
//!   `thread_siblings_list`, never by `core_id`, which repeats per package.
//! * A distance row lists the online nodes in ascending order, so column `k` is not node `k`.
//! * Files of CPUs already placed by a sibling are not opened: discovery costs a few system calls per CPU.

mod cgroup;
mod sharing;
mod tree;

use crate::bind;
use crate::cpuset::CpuSet;
use crate::facts::{Facts, NodeFacts, Note, ReadOutcome, Source, TopologySource};
use crate::ids::{CpuId, NodeId};
use crate::limits::Limits;
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};
use tree::Tree;

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

/// Why a tree tells nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum DiscoverError {
    /// The root is not a directory that can be read.
    Root {
        /// The root.
        root: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// Nothing below the root names a CPU.
    NoCpu {
        /// The root.
        root: PathBuf,
    },
}

impl fmt::Display for DiscoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiscoverError::Root { root, error } => {
                write!(f, "cannot read {}: {error}", root.display())
            }
            DiscoverError::NoCpu { root } => {
                write!(f, "{} names no CPU", root.join(CPUS).display())
            }
        }
    }
}

impl Error for DiscoverError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            DiscoverError::Root { error, .. } => Some(error),
            DiscoverError::NoCpu { .. } => None,
        }
    }
}

/// The tree below one root.
pub(crate) struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    pub(crate) fn new(root: &Path) -> Sysfs {
        Sysfs { root: root.to_owned() }
    }
}

impl TopologySource for Sysfs {
    type Error = DiscoverError;

    fn facts(&self) -> Result<Facts, DiscoverError> {
        let root_error = |error| DiscoverError::Root { root: self.root.clone(), error };
        let canonical = fs::canonicalize(&self.root).map_err(root_error)?;
        if !canonical.is_dir() {
            return Err(root_error(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        let mut facts = Facts::new(Source::Sysfs);
        facts.root = Some(self.root.clone());
        facts.live = canonical == Path::new("/");
        let mut tree = Tree::new(&self.root);
        online(&mut tree, &mut facts);
        let mask = own_mask(&mut facts);
        if facts.online.is_empty() {
            return Err(DiscoverError::NoCpu { root: self.root.clone() });
        }
        facts.isolated = tree.cpu_list(&format!("{CPUS}/isolated")).unwrap_or_default();
        nodes(&mut tree, &mut facts);
        sharing::cores(&mut tree, &mut facts);
        sharing::caches(&mut tree, &mut facts);
        // On the live host the kernel has put the cpuset into the mask, so the files matter for isolated CPUs only.
        let limits = cgroup::limits(&mut tree, !facts.live || !facts.isolated.is_empty());
        facts.allowed = mask.or(limits.mask);
        facts.cpuset = limits.cpuset;
        facts.mems_allowed = limits.mems;
        facts.quota_millicpus = limits.quota_millicpus;
        balancing(&mut tree, &mut facts);
        facts.reads = tree.into_reads();
        complain(&mut facts);
        Ok(facts)
    }
}

/// What may be used now. The mask is that of the process's main thread: workers have bound themselves.
pub(crate) fn limits(root: &Path) -> Limits {
    let mut tree = Tree::new(root);
    let mut facts = Facts::new(Source::Sysfs);
    online(&mut tree, &mut facts);
    let limits = cgroup::limits(&mut tree, true);
    let allowed = limits.mask.map_or_else(|| facts.online.clone(), |mask| mask.intersection(&facts.online));
    let (quota_millicpus, mems_allowed) = (limits.quota_millicpus, limits.mems);
    Limits { online: facts.online, allowed, quota_millicpus, mems_allowed }
}

/// The affinity mask of the calling thread, when this is its host. The kernel keeps only online CPUs in it, so it
/// corrects a list that is missing or that a container made up.
fn own_mask(facts: &mut Facts) -> Option<CpuSet> {
    if !facts.live {
        return None;
    }
    match bind::current_affinity() {
        Ok(mask) => {
            correct_by_mask(facts, &mask);
            Some(mask)
        }
        Err(error) => {
            facts.note("affinity", format!("sched_getaffinity: {error}"));
            None
        }
    }
}

fn correct_by_mask(facts: &mut Facts, mask: &CpuSet) {
    let unlisted = mask.difference(&facts.online);
    if !unlisted.is_empty() {
        facts.note("online", format!("CPUs {unlisted} are in the affinity mask and not listed; they are online"));
        facts.online = facts.online.union(mask);
        facts.offline = facts.offline.difference(mask);
    }
}

fn online(tree: &mut Tree, facts: &mut Facts) {
    let listed = tree.cpu_list(&format!("{CPUS}/online")).filter(|cpus| !cpus.is_empty());
    let present = tree.cpu_list(&format!("{CPUS}/present"));
    facts.online = match listed {
        Some(online) => online,
        None => by_directory(tree, facts),
    };
    if facts.online.is_empty() {
        facts.online = present.clone().or_else(|| tree.cpu_list(&format!("{CPUS}/possible"))).unwrap_or_default();
        if !facts.online.is_empty() {
            facts.note("online", "not listed; the present or possible CPUs are taken instead");
        }
    }
    facts.offline.extend(present.unwrap_or_default().difference(&facts.online).iter());
}

/// CPUs with a directory that does not look offline: `online` is not 0, and `topology` is there if any CPU has it.
fn by_directory(tree: &mut Tree, facts: &mut Facts) -> CpuSet {
    let cpus: CpuSet = tree.numbered(CPUS, "cpu", CpuId::LIMIT).into_iter().map(CpuId::new).collect();
    let described: CpuSet = cpus.iter().filter(|cpu| tree.is_dir(&format!("{CPUS}/cpu{cpu}/topology"))).collect();
    let seen = if described.is_empty() { &cpus } else { &described };
    let on: CpuSet = seen.iter().filter(|cpu| tree.number(&format!("{CPUS}/cpu{cpu}/online")) != Some(0)).collect();
    if !on.is_empty() {
        facts.note("online", format!("not listed; found {} CPU directories, {} of them online", cpus.len(), on.len()));
    }
    facts.offline = cpus.difference(&on);
    on
}

fn nodes(tree: &mut Tree, facts: &mut Facts) {
    let listed = tree.nodes(&format!("{NODES}/online")).filter(|nodes| !nodes.is_empty());
    let listed =
        listed.unwrap_or_else(|| tree.numbered(NODES, "node", NodeId::LIMIT).into_iter().map(NodeId::new).collect());
    let mut found = Vec::new();
    for &id in &listed {
        let path = format!("{NODES}/node{id}");
        let row = tree.value(&format!("{path}/distance"), distances);
        // A system call less for every node that is there.
        if row.is_none() && !tree.is_dir(&path) {
            facts.note(format!("node {id}"), "listed as online but has no directory: ignored");
            continue;
        }
        let row = row.unwrap_or_default();
        let cpus = node_cpus(tree, &path);
        found.push((NodeFacts { id, cpus, memory_kb: memory(tree, &path), distances: Vec::new() }, row));
    }
    let columns = columns(tree, &listed, &found);
    let kept: Vec<NodeId> = found.iter().map(|(node, _)| node.id).collect();
    facts.nodes = found
        .into_iter()
        .map(|(mut node, row)| {
            node.distances = match &columns {
                Some(columns) if columns.len() == row.len() => {
                    let column = |id: &NodeId| columns.binary_search(id).ok().and_then(|column| row[column]);
                    kept.iter().map(column).collect()
                }
                _ => row,
            };
            node
        })
        .collect();
}

/// Which node each column of the distance rows stands for: the online ones, or where that does not fit, the
/// possible ones.
fn columns(tree: &mut Tree, listed: &[NodeId], found: &[(NodeFacts, Vec<Option<u32>>)]) -> Option<Vec<NodeId>> {
    let length = found.iter().map(|(_, row)| row.len()).max().filter(|&length| length > 0)?;
    if length == listed.len() {
        return Some(listed.to_vec());
    }
    tree.nodes(&format!("{NODES}/possible"))
}

fn node_cpus(tree: &mut Tree, path: &str) -> CpuSet {
    let said = tree.cpu_list(&format!("{path}/cpulist")).or_else(|| tree.cpu_map(&format!("{path}/cpumap")));
    said.unwrap_or_else(|| tree.numbered(path, "cpu", CpuId::LIMIT).into_iter().map(CpuId::new).collect())
}

fn distances(text: &[u8]) -> Result<Vec<Option<u32>>, String> {
    let text = String::from_utf8_lossy(text);
    let number = |word: &str| word.parse().map(Some).map_err(|_| format!("expected a distance, found {word:?}"));
    text.split_ascii_whitespace().map(number).collect()
}

fn memory(tree: &mut Tree, path: &str) -> Option<u64> {
    let text = tree.lines(&format!("{path}/meminfo"))?;
    let (_, rest) = text.split_once("MemTotal:")?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

fn balancing(tree: &mut Tree, facts: &mut Facts) {
    let path = "proc/sys/kernel/numa_balancing";
    if facts.nodes.len() > 1 && tree.number(path).is_some_and(|mode| mode != 0) {
        facts.note(path, "on: the kernel may move pages away from pinned workers");
    }
}

/// Files that were there and of no use become notes, one for all files of a name with the same complaint. Missing
/// ones are ordinary.
fn complain(facts: &mut Facts) {
    let mut groups: BTreeMap<(&OsStr, String), Vec<&Path>> = BTreeMap::new();
    for read in &facts.reads {
        if matches!(read.outcome, ReadOutcome::Ignored(_) | ReadOutcome::Unreadable(_)) {
            let name = read.path.file_name().unwrap_or_default();
            let paths = groups.entry((name, read.outcome.to_string())).or_default();
            // A file may have been tried twice in a row.
            if paths.last() != Some(&read.path.as_path()) {
                paths.push(&read.path);
            }
        }
    }
    let notes: Vec<Note> = groups
        .into_iter()
        .map(|((_, outcome), paths)| match paths[..] {
            [one] => Note::new(one.display().to_string(), outcome),
            _ => Note::new(format!("{} and {} more", paths[0].display(), paths.len() - 1), outcome),
        })
        .collect();
    facts.notes.extend(notes);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_million_rows_of_distances() {
        crate::noise::survives(9, |text| distances(text).is_ok_and(|row| !row.is_empty()));
    }

    /// Some containers show a list of CPUs counted from 0 while the process runs on others.
    #[test]
    fn cpus_of_the_mask_are_online_whatever_the_list_says() {
        let mut facts = Facts::new(Source::Sysfs);
        facts.online = CpuSet::first_n(2);
        facts.offline = CpuSet::single(CpuId::new(7));
        correct_by_mask(&mut facts, &CpuSet::from_list(b"1,7").unwrap_or_default());
        assert_eq!((facts.online.to_string(), facts.offline.to_string()), ("0-1,7".to_owned(), String::new()));
        assert_eq!(facts.notes.len(), 1);
        correct_by_mask(&mut facts, &CpuSet::first_n(1));
        assert_eq!(facts.notes.len(), 1);
    }
}
