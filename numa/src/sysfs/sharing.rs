//! Which CPUs share a core, and which a cache.
//!
//! Both are asked of one CPU per group, and what was learned from the last CPU is tried first for the next: kernels
//! name their files the same for all CPUs, so a host with hundreds of caches costs a few system calls for each.

use super::CPUS;
use super::tree::Tree;
use crate::cpuset::CpuSet;
use crate::facts::{CacheFacts, Facts};
use crate::ids::CpuId;

/// Cache directories looked at per CPU; real ones have up to six.
const MOST_CACHES: u32 = 16;

pub(super) fn cores(tree: &mut Tree, facts: &mut Facts) {
    let mut names = Names::new(&[
        ("thread_siblings_list", Tree::cpu_list),
        ("thread_siblings", Tree::cpu_map),
        ("core_cpus_list", Tree::cpu_list),
        ("core_cpus", Tree::cpu_map),
    ]);
    let mut left = facts.online.clone();
    // The CPU before had none of them.
    let mut none = false;
    for cpu in facts.online.iter() {
        if !left.contains(cpu) {
            continue;
        }
        let path = format!("{CPUS}/cpu{cpu}/topology");
        let siblings = if none && !tree.is_dir(&path) { None } else { names.read(tree, cpu, &path) };
        none = siblings.is_none();
        let core = siblings.unwrap_or_else(|| CpuSet::single(cpu)).intersection(&left);
        left = left.difference(&core);
        facts.cores.push(core);
    }
}

pub(super) fn caches(tree: &mut Tree, facts: &mut Facts) {
    let mut search = Search {
        names: Names::new(&[("shared_cpu_list", Tree::cpu_list), ("shared_cpu_map", Tree::cpu_map)]),
        places: Vec::new(),
        none: false,
    };
    let mut left = facts.online.clone();
    for cpu in facts.online.iter() {
        if !left.contains(cpu) {
            continue;
        }
        let Some(mut cache) = search.last_level(tree, cpu) else {
            continue;
        };
        cache.cpus = cache.cpus.intersection(&left);
        left = left.difference(&cache.cpus);
        facts.caches.push(cache);
    }
}

type Reader = fn(&mut Tree, &str) -> Option<CpuSet>;

/// Files that say the same in several ways.
struct Names {
    names: &'static [(&'static str, Reader)],
    /// The one that was of use last.
    last: usize,
}

impl Names {
    fn new(names: &'static [(&'static str, Reader)]) -> Names {
        Names { names, last: 0 }
    }

    /// The first of the files that is there and names its owner. One that does not is not about its owner, and the
    /// next may be right: there are hosts whose maps are good and whose lists are not.
    fn read(&mut self, tree: &mut Tree, cpu: CpuId, path: &str) -> Option<CpuSet> {
        let others = (0..self.names.len()).filter(|&index| index != self.last);
        for index in std::iter::once(self.last).chain(others) {
            let (name, read) = self.names[index];
            if let Some(set) = read(tree, &format!("{path}/{name}")).filter(|set| set.contains(cpu)) {
                self.last = index;
                return Some(set);
            }
        }
        None
    }
}

/// What is known of the caches of this host so far.
struct Search {
    names: Names,
    /// Where the CPU before had caches of the second and third level, the last level first: directory and level.
    places: Vec<(u32, u8)>,
    /// The CPU before had no cache.
    none: bool,
}

impl Search {
    /// L3 of a CPU, or its L2 where there is no L3.
    fn last_level(&mut self, tree: &mut Tree, cpu: CpuId) -> Option<CacheFacts> {
        let path = format!("{CPUS}/cpu{cpu}/cache");
        if self.none && !tree.is_dir(&path) {
            return None;
        }
        let cache = self.as_before(tree, cpu, &path).or_else(|| self.afresh(tree, cpu, &path));
        self.none = cache.is_none();
        cache
    }

    /// Where the CPU before had it. Only a missing third level makes the second the last.
    fn as_before(&mut self, tree: &mut Tree, cpu: CpuId, path: &str) -> Option<CacheFacts> {
        let &(_, level) = self.places.first()?;
        if level < 3 && tree.number(&format!("{path}/index3/level")).is_some() {
            return None;
        }
        self.first_of_places(tree, cpu, path)
    }

    /// Linux numbers caches from the first level up, so on nearly every host the L3 is `index3`, or else the L2 is
    /// `index2`: looking there first saves reading the directory.
    fn afresh(&mut self, tree: &mut Tree, cpu: CpuId, path: &str) -> Option<CacheFacts> {
        let third = tree.number(&format!("{path}/index3/level"));
        self.places = match third {
            Some(3) => vec![(3, 3)],
            Some(_) => Vec::new(),
            None => place(tree, path, 2, None).into_iter().collect(),
        };
        if let Some(usual) = self.first_of_places(tree, cpu, path) {
            return Some(usual);
        }
        let indices = tree.numbered(path, "index", MOST_CACHES).into_iter();
        self.places = indices.filter_map(|index| place(tree, path, index, third.filter(|_| index == 3))).collect();
        self.places.sort_unstable_by_key(|&(index, level)| std::cmp::Reverse((level, index)));
        self.first_of_places(tree, cpu, path)
    }

    /// The first that says which CPUs share it: there are hosts whose third level says nobody.
    fn first_of_places(&mut self, tree: &mut Tree, cpu: CpuId, path: &str) -> Option<CacheFacts> {
        self.places.iter().find_map(|&(index, level)| {
            let cpus = self.names.read(tree, cpu, &format!("{path}/index{index}"))?;
            Some(CacheFacts { cpus, level })
        })
    }
}

/// The directory and its level, if that is the second or third and holds not instructions only. `level`: what its file
/// said, if that was read already.
fn place(tree: &mut Tree, path: &str, index: u32, level: Option<i64>) -> Option<(u32, u8)> {
    let path = format!("{path}/index{index}");
    let level = match level.or_else(|| tree.number(&format!("{path}/level")))? {
        2 => 2,
        3 => 3,
        _ => return None,
    };
    let kind = tree.value(&format!("{path}/type"), |text| Ok(text.to_vec()));
    (kind.as_deref() != Some(b"Instruction")).then_some((index, level))
}
