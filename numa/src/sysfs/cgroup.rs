//! What the control groups of the process allow: CPU time, CPUs, nodes.
//!
//! A limit set on any ancestor holds, so every group from the process's own up to the mount point is asked and the
//! least answer counts. Version 1 and version 2 hierarchies may both be mounted; both are asked.

use super::tree::Tree;
use crate::cpuset::CpuSet;
use crate::ids::NodeId;
use crate::parse::node_list;

/// `cpu.cfs_period_us` of a kernel nobody configured; also the period of a `cpu.max` that does not name one.
const DEFAULT_PERIOD_US: i64 = 100_000;

/// Longest group path followed, the kernel's `PATH_MAX`. Bounds the walk over ancestors.
const LONGEST_PATH: usize = 4096;
/// Most mounts of one kind asked. Real hosts have one, containers sometimes a few bind mounts of it.
const MOST_MOUNTS: usize = 16;

/// The limits found.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) quota_millicpus: Option<u64>,
    /// CPUs left by the cpusets.
    pub(crate) cpuset: Option<CpuSet>,
    /// CPUs left by the cpusets and the mask in `/proc/self/status`.
    pub(crate) mask: Option<CpuSet>,
    pub(crate) mems: Option<Vec<NodeId>>,
}

/// Reads the limits; `cpusets`: also those on CPUs and nodes.
pub(crate) fn limits(tree: &mut Tree, cpusets: bool) -> Limits {
    let member = tree.lines("proc/self/cgroup");
    // Trees of old hosts have no processes.
    let own = member.is_some() || tree.is_dir("proc/self");
    let groups = Groups::read(tree, &member.unwrap_or_default(), cpusets && own, own);
    let mut limits = Limits { quota_millicpus: quota(tree, &groups), ..Limits::default() };
    if cpusets {
        read_cpusets(tree, &groups, &mut limits);
    }
    status(tree, &mut limits, own);
    limits
}

/// How the files of a hierarchy are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    V1,
    V2,
    /// The `cpuset` file system from before control groups, or version 1 mounted with `noprefix` in its place: names
    /// without a prefix.
    Bare,
}

struct Mount {
    kind: Kind,
    /// Which group of the hierarchy is visible at `point`.
    root: String,
    point: String,
    controllers: String,
}

/// Where the process is in each hierarchy, and where the hierarchies are.
struct Groups {
    mounts: Vec<Mount>,
    /// `/proc/self/cgroup`: controllers and path; no controllers for version 2.
    member: Vec<(String, String)>,
    /// `/proc/self/cpuset`.
    cpuset: Option<String>,
}

impl Groups {
    /// `text`: of `/proc/self/cgroup`; `own`: there is a `/proc/self`.
    fn read(tree: &mut Tree, text: &str, cpusets: bool, own: bool) -> Groups {
        let mut member = Vec::new();
        for line in text.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            if let (Some(controllers), Some(path)) = (fields.next(), fields.next()) {
                member.push((controllers.to_owned(), path.trim_end().to_owned()));
            }
        }
        let knows_cpuset = member.iter().any(|(controllers, _)| has(controllers, "cpuset"));
        let cpuset = (cpusets && !knows_cpuset).then(|| tree.lines("proc/self/cpuset")).flatten();
        Groups { mounts: mounts(tree, own), member, cpuset: cpuset.map(|path| path.trim().to_owned()) }
    }

    /// Directories of the process's group and all its ancestors, in every hierarchy that may carry `controller`.
    fn directories(&self, controller: &str) -> Vec<(Kind, String)> {
        let mut found = Vec::new();
        for kind in [Kind::V2, Kind::V1, Kind::Bare] {
            let fits = |mount: &&Mount| match kind {
                Kind::V1 => mount.kind == kind && has(&mount.controllers, controller),
                Kind::V2 => mount.kind == kind,
                Kind::Bare => mount.kind == kind && controller == "cpuset",
            };
            let path = self.path(kind, controller);
            let seen: Vec<&Mount> = self.mounts.iter().filter(fits).take(MOST_MOUNTS).collect();
            let mut below: Vec<(&Mount, String)> =
                seen.iter().filter_map(|&mount| Some((mount, beneath(&path, &mount.root)?))).collect();
            if below.is_empty() {
                // The group is outside every mount we can see: a container that shows only the top of its own part.
                below = seen.iter().map(|&mount| (mount, String::new())).collect();
            }
            for (mount, below) in below {
                found.extend(ancestors(&mount.point, &below).into_iter().map(|directory| (kind, directory)));
            }
        }
        found
    }

    fn path(&self, kind: Kind, controller: &str) -> String {
        let wanted = |(controllers, _): &&(String, String)| match kind {
            Kind::V2 => controllers.is_empty(),
            Kind::V1 | Kind::Bare => has(controllers, controller),
        };
        let own = self.member.iter().find(wanted).map(|(_, path)| path.as_str());
        let cpuset = self.cpuset.as_deref().filter(|_| controller == "cpuset");
        own.filter(|path| *path != "/").or(cpuset).unwrap_or("/").to_owned()
    }
}

fn has(list: &str, word: &str) -> bool {
    list.split(',').any(|entry| entry == word)
}

fn mounts(tree: &mut Tree, own: bool) -> Vec<Mount> {
    let mut mine = |name| own.then(|| tree.lines(name)).flatten();
    let mut mounts: Vec<Mount> = match mine("proc/self/mountinfo") {
        Some(text) => text.lines().filter_map(mountinfo).collect(),
        None => {
            let text = mine("proc/self/mounts").or_else(|| tree.lines("proc/mounts"));
            text.unwrap_or_default().lines().filter_map(mount_entry).collect()
        }
    };
    if mounts.is_empty() && tree.is_dir("sys/fs/cgroup") {
        // Where every distribution puts them.
        let usual = |kind, point: &str, controllers: &str| Mount {
            kind,
            root: "/".to_owned(),
            point: point.to_owned(),
            controllers: controllers.to_owned(),
        };
        mounts.push(usual(Kind::V2, "/sys/fs/cgroup", ""));
        for controllers in ["cpu", "cpu,cpuacct", "cpuset"] {
            mounts.push(usual(Kind::V1, &format!("/sys/fs/cgroup/{controllers}"), controllers));
        }
    }
    mounts
}

/// One line of `/proc/self/mountinfo`: `id parent dev root point options [tags] - type source super-options`.
fn mountinfo(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ').skip(3);
    let (root, point) = (front.next()?, front.next()?);
    let mut back = back.split(' ');
    let file_system = back.next()?;
    let controllers = back.nth(1).unwrap_or_default().to_owned();
    let kind = kind(file_system, &controllers)?;
    Some(Mount { kind, root: unescape(root), point: unescape(point), controllers })
}

/// One line of `/proc/mounts`: `source point type options ...`.
fn mount_entry(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ').skip(1);
    let point = unescape(fields.next()?);
    let file_system = fields.next()?;
    let controllers = fields.next().unwrap_or_default().to_owned();
    let kind = kind(file_system, &controllers)?;
    Some(Mount { kind, root: "/".to_owned(), point, controllers })
}

fn kind(file_system: &str, options: &str) -> Option<Kind> {
    match file_system {
        "cgroup" if has(options, "noprefix") => Some(Kind::Bare),
        "cgroup" => Some(Kind::V1),
        "cgroup2" => Some(Kind::V2),
        "cpuset" => Some(Kind::Bare),
        _ => None,
    }
}

/// Space, tab, newline and backslash are written as a backslash and three octal digits.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) if byte == b'\\' => {
                bytes.push(code);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What of `path` lies below `root`. `None`: not below it. A path that climbs out of the namespace shows the top
/// only.
fn beneath(path: &str, root: &str) -> Option<String> {
    if path.split('/').any(|part| part == "..") || root.split('/').any(|part| part == "..") {
        return Some(String::new());
    }
    let rest = path.strip_prefix(root.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_matches('/').to_owned())
}

/// `point/a/b`, `point/a`, `point` for `a/b`, relative to the root of the tree.
fn ancestors(point: &str, below: &str) -> Vec<String> {
    let clean = |path: &str| {
        let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
        parts.join("/")
    };
    let top = clean(point);
    let mut below = clean(below);
    if below.len() > LONGEST_PATH {
        below.clear();
    }
    let mut directories = Vec::new();
    while !below.is_empty() {
        directories.push(format!("{top}/{below}"));
        below.truncate(below.rfind('/').unwrap_or(0));
    }
    directories.push(top);
    directories
}

fn quota(tree: &mut Tree, groups: &Groups) -> Option<u64> {
    let mut least = None;
    for (kind, directory) in groups.directories("cpu") {
        let quota = match kind {
            Kind::V2 => tree.value(&format!("{directory}/cpu.max"), cpu_max).flatten(),
            Kind::V1 => cfs_quota(tree, &directory),
            Kind::Bare => None,
        };
        least = [least, quota].into_iter().flatten().min();
    }
    least
}

/// `max 100000`, `250000 100000`.
fn cpu_max(text: &[u8]) -> Result<Option<u64>, String> {
    let text = String::from_utf8_lossy(text);
    let mut words = text.split_ascii_whitespace();
    let quota = words.next().unwrap_or_default();
    if quota == "max" {
        return Ok(None);
    }
    let number = |word: &str| word.parse().map_err(|_| format!("expected a number or \"max\", found {word:?}"));
    let period = words.next().map_or(Ok(DEFAULT_PERIOD_US), number)?;
    let quota = number(quota)?;
    millicpus(quota, period).map(Some).ok_or_else(|| format!("quota {quota} of period {period} makes no sense"))
}

fn cfs_quota(tree: &mut Tree, directory: &str) -> Option<u64> {
    let quota = tree.number(&format!("{directory}/cpu.cfs_quota_us"))?;
    if quota < 0 {
        return None;
    }
    let period = tree.number(&format!("{directory}/cpu.cfs_period_us")).unwrap_or(DEFAULT_PERIOD_US);
    millicpus(quota, period)
}

/// Rounded up, so that rounding up to whole CPUs later cannot lose one.
fn millicpus(quota: i64, period: i64) -> Option<u64> {
    let (quota, period) = (u128::try_from(quota).ok()?, u128::try_from(period).ok()?);
    if quota == 0 || period == 0 {
        return None;
    }
    u64::try_from((quota * 1000).div_ceil(period)).ok()
}

/// Intersects what every group on the way says; an empty file says nothing.
fn read_cpusets(tree: &mut Tree, groups: &Groups, limits: &mut Limits) {
    for (kind, directory) in groups.directories("cpuset") {
        let (cpus, mems): (&[&str], &[&str]) = match kind {
            Kind::V2 => (&["cpuset.cpus.effective", "cpuset.cpus"], &["cpuset.mems.effective", "cpuset.mems"]),
            Kind::V1 => (&["cpuset.effective_cpus", "cpuset.cpus"], &["cpuset.effective_mems", "cpuset.mems"]),
            Kind::Bare => (&["effective_cpus", "cpus"], &["effective_mems", "mems"]),
        };
        let said =
            |tree: &mut Tree, name| tree.cpu_list(&format!("{directory}/{name}")).filter(|cpus| !cpus.is_empty());
        let effective = said(tree, cpus[0]);
        if effective.is_none() && !tree.is_dir(&directory) {
            continue;
        }
        if let Some(cpus) = effective.or_else(|| said(tree, cpus[1])) {
            limit_cpus(&mut limits.cpuset, &cpus);
        }
        let said = |name: &&str| tree.nodes(&format!("{directory}/{name}")).filter(|nodes| !nodes.is_empty());
        if let Some(mems) = mems.iter().find_map(said) {
            limit_mems(limits, mems);
        }
    }
}

/// `/proc/self/status`: the masks of the process, cpuset already in them.
fn status(tree: &mut Tree, limits: &mut Limits, own: bool) {
    let text = own.then(|| tree.lines("proc/self/status")).flatten().unwrap_or_default();
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if let Some(mems) = field("Mems_allowed_list:").and_then(|list| node_list(list.as_bytes()).ok()) {
        limit_mems(limits, mems);
    }
    limits.mask = limits.cpuset.clone();
    let cpus = field("Cpus_allowed_list:").and_then(|list| list.parse::<CpuSet>().ok());
    if let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) {
        limit_cpus(&mut limits.mask, &cpus);
    }
}

fn limit_cpus(limit: &mut Option<CpuSet>, cpus: &CpuSet) {
    *limit = Some(limit.as_ref().map_or_else(|| cpus.clone(), |before| before.intersection(cpus)));
}

fn limit_mems(limits: &mut Limits, mems: Vec<NodeId>) {
    match &mut limits.mems {
        Some(before) => before.retain(|node| mems.contains(node)),
        unset => *unset = Some(mems),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::noise::survives;

    #[test]
    fn a_million_mounts() {
        survives(6, |text| {
            let text = String::from_utf8_lossy(text);
            let line = format!("30 1 0:26 / /a{text} - cgroup2 x {text}");
            let mounts = [mountinfo(&text), mountinfo(&line), mount_entry(&text)].into_iter().flatten();
            mounts.filter(|mount| !ancestors(&mount.point, &mount.root).is_empty()).count() > 0
        });
    }

    #[test]
    fn a_million_paths_stay_below_their_mount() {
        survives(7, |text| {
            let path = String::from_utf8_lossy(text);
            let Some(below) = beneath(&path, "/") else { return false };
            for directory in ancestors("/sys/fs/cgroup", &below) {
                assert!(directory.starts_with("sys/fs/cgroup") && !directory.split('/').any(|part| part == ".."));
            }
            true
        });
    }

    #[test]
    fn a_million_quotas() {
        survives(8, |text| {
            let quota = cpu_max(text);
            assert!(!matches!(quota, Ok(Some(0))));
            quota.is_ok()
        });
    }
}
