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
        ("core_cpus_list", Tree::cpu_list),
        ("thread_siblings", Tree::cpu_map),
        ("core_cpus", Tree::cpu_map),
    ]);
    let mut left = facts.online.clone();
    for cpu in facts.online.iter() {
        if !left.contains(cpu) {
            continue;
        }
        let siblings = names.read(tree, cpu, &format!("{CPUS}/cpu{cpu}/topology"));
        let core = siblings.unwrap_or_else(|| CpuSet::single(cpu)).intersection(&left);
        left = left.difference(&core);
        facts.cores.push(core);
    }
}

pub(super) fn caches(tree: &mut Tree, facts: &mut Facts) {
    let mut search = Search {
        names: Names::new(&[("shared_cpu_list", Tree::cpu_list), ("shared_cpu_map", Tree::cpu_map)]),
        level: None,
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
    /// The last CPU had none of them.
    none: bool,
}

impl Names {
    fn new(names: &'static [(&'static str, Reader)]) -> Names {
        Names { names, last: 0, none: false }
    }

    /// The first of the files that is there and names its owner. One that does not is not about its owner, and the
    /// next may be right: there are hosts whose maps are good and whose lists are not.
    fn read(&mut self, tree: &mut Tree, cpu: CpuId, path: &str) -> Option<CpuSet> {
        if self.none && !tree.is_dir(path) {
            return None;
        }
        let others = (0..self.names.len()).filter(|&index| index != self.last);
        for index in std::iter::once(self.last).chain(others) {
            let (name, read) = self.names[index];
            if let Some(set) = read(tree, &format!("{path}/{name}")).filter(|set| set.contains(cpu)) {
                (self.last, self.none) = (index, false);
                return Some(set);
            }
        }
        self.none = true;
        None
    }
}

/// What is known of the caches of this host so far.
struct Search {
    names: Names,
    /// The last level of the CPU before, when it was where Linux puts it: level N in directory N.
    level: Option<u8>,
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
        let level = self.level?;
        if level < 3 && tree.number(&format!("{path}/index3/level")).is_some() {
            return None;
        }
        let cpus = self.names.read(tree, cpu, &format!("{path}/index{level}"))?;
        Some(CacheFacts { cpus, level })
    }

    /// Linux numbers caches from the first level up, so on nearly every host the L3 is `index3`, or else the L2 is
    /// `index2`: looking there first saves reading the directory.
    fn afresh(&mut self, tree: &mut Tree, cpu: CpuId, path: &str) -> Option<CacheFacts> {
        let third = tree.number(&format!("{path}/index3/level"));
        let usual = match third {
            Some(3) => self.names.read(tree, cpu, &format!("{path}/index3")).map(|cpus| CacheFacts { cpus, level: 3 }),
            Some(_) => None,
            None => self.cache(tree, cpu, &format!("{path}/index2")),
        };
        self.level = usual.as_ref().filter(|cache| third.is_some() || cache.level == 2).map(|cache| cache.level);
        if usual.is_some() {
            return usual;
        }
        let indices = tree.numbered(path, "index", MOST_CACHES);
        let caches = indices.into_iter().filter_map(|index| self.cache(tree, cpu, &format!("{path}/index{index}")));
        caches.max_by_key(|cache| cache.level)
    }

    /// The L2 or L3 in this directory, unless it holds instructions only.
    fn cache(&mut self, tree: &mut Tree, cpu: CpuId, path: &str) -> Option<CacheFacts> {
        let level = match tree.number(&format!("{path}/level"))? {
            2 => 2,
            3 => 3,
            _ => return None,
        };
        let kind = tree.value(&format!("{path}/type"), |text| Ok(text.to_vec()));
        if kind.as_deref() == Some(b"Instruction") {
            return None;
        }
        self.names.read(tree, cpu, path).map(|cpus| CacheFacts { cpus, level })
    }
}
