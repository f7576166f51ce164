//! What control groups allow: the least of all ancestors, in both versions, wherever they are mounted.
#![cfg(not(loom))]

mod common;

use common::set;
use common::tree::Tree;
use numa::{CpuId, NodeId, Pin, Placement, PlacementError, Topology, plan};

const V2: &str = "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const V1_CPU: &str = "31 1 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n";
const V1_CPUSET: &str = "32 1 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";

/// Eight CPUs, these control groups and these mounts.
fn host(cgroup: &str, mountinfo: &str, files: &[(&str, &str)]) -> Topology {
    let tree = Tree::of(files);
    tree.cpu("online", "0-7\n").file("proc/self/cgroup", cgroup).file("proc/self/mountinfo", mountinfo);
    tree.read()
}

fn quota(cgroup: &str, mountinfo: &str, files: &[(&str, &str)]) -> Option<u64> {
    host(cgroup, mountinfo, files).quota_millicpus()
}

#[test]
fn version_2_own_group_and_every_ancestor() {
    let at = |own, middle, top| {
        quota(
            "0::/a/b\n",
            V2,
            &[
                ("sys/fs/cgroup/a/b/cpu.max", own),
                ("sys/fs/cgroup/a/cpu.max", middle),
                ("sys/fs/cgroup/cpu.max", top),
                ("sys/fs/cgroup/a/b/c/cpu.max", "1000 100000"),
                ("sys/fs/cgroup/other/cpu.max", "1000 100000"),
            ],
        )
    };
    assert_eq!(at("max 100000\n", "max 100000\n", "max"), None);
    assert_eq!(at("250000 100000\n", "max 100000\n", "max"), Some(2500));
    assert_eq!(at("250000 100000\n", "150000 100000\n", "max"), Some(1500));
    assert_eq!(at("max 100000\n", "400000 100000\n", "90000 100000\n"), Some(900));
    assert_eq!(at("50000\n", "max", "max"), Some(500));
    assert_eq!(at("1000 3000\n", "max", "max"), Some(334));
    assert_eq!(at("1000 1000000\n", "max", "max"), Some(1));
}

#[test]
fn version_1_own_group_and_every_ancestor() {
    let at = |own: &str, middle: &str| {
        quota(
            "4:cpu,cpuacct:/docker/x\n0::/ignored\n",
            V1_CPU,
            &[
                ("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", own),
                ("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", middle),
                ("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "50000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ],
        )
    };
    assert_eq!(at("-1\n", "-1\n"), None);
    assert_eq!(at("300000\n", "-1\n"), Some(3000));
    assert_eq!(at("300000\n", "50000\n"), Some(1000));
    assert_eq!(at("-1", "25000"), Some(500));
}

#[test]
fn both_versions_mounted_the_least_counts() {
    let mounts = format!("{V1_CPU}33 1 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    let at = |v1: &str, v2: &str| {
        let files = [("sys/fs/cgroup/cpu,cpuacct/s/cpu.cfs_quota_us", v1), ("sys/fs/cgroup/unified/s/cpu.max", v2)];
        quota("2:cpuacct,cpu:/s\n0::/s\n", &mounts, &files)
    };
    assert_eq!(at("200000", "300000 100000"), Some(2000));
    assert_eq!(at("200000", "100000 100000"), Some(1000));
}

#[test]
fn containers_that_see_a_part_of_the_tree() {
    // The mount shows the container's own group at its top, the path is the host's.
    let bound = "40 1 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    let files = [("sys/fs/cgroup/cpu.max", "150000 100000"), ("sys/fs/cgroup/y/cpu.max", "50000 100000")];
    assert_eq!(quota("0::/docker/x\n", bound, &files), Some(1500));
    assert_eq!(quota("0::/docker/x/y\n", bound, &files), Some(500));
    // A group outside what is mounted: the top is all that can be asked.
    assert_eq!(quota("0::/system/z\n", bound, &files), Some(1500));
    assert_eq!(quota("0::/docker/xy\n", bound, &files), Some(1500));
    // A cgroup namespace entered from outside.
    assert_eq!(quota("0::/../y\n", V2, &files), Some(1500));
    let climbing = "40 1 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    assert_eq!(quota("0::/y\n", climbing, &files), Some(1500));
}

#[test]
fn the_group_may_have_vanished() {
    assert_eq!(quota("0::/gone/too\n", V2, &[("sys/fs/cgroup/gone/cpu.max", "100000 100000")]), Some(1000));
}

#[test]
fn mount_points_anywhere_with_any_name() {
    let odd = "30 1 0:26 / /mnt/my\\040groups\\134 rw - cgroup2 none rw\n";
    assert_eq!(quota("0::/a\n", odd, &[("mnt/my groups\\/a/cpu.max", "100000 100000")]), Some(1000));
}

#[test]
fn mount_tables_of_old_kernels_and_none_at_all() {
    let files = [("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "120000"), ("proc/self/cgroup", "3:cpu:/a\n")];
    let tree = Tree::of(&files);
    tree.cpu("online", "0-1");
    assert_eq!(tree.read().quota_millicpus(), Some(1200));
    tree.file("proc/mounts", "none /elsewhere cgroup rw,cpu 0 0\n").file("elsewhere/a/cpu.cfs_quota_us", "110000");
    assert_eq!(tree.read().quota_millicpus(), Some(1100));
    tree.file("proc/self/mounts", "none /here cgroup rw,relatime,cpuacct,cpu 0 0\n");
    tree.file("here/a/cpu.cfs_quota_us", "100000").file("here/a/cpu.cfs_period_us", "1000000");
    assert_eq!(tree.read().quota_millicpus(), Some(100));
}

#[test]
fn nonsense_is_ignored_and_said() {
    for text in ["", "lots", "100000 often", "-5 100000", "100000 0", "0 100000"] {
        let host = host("0::/\n", V2, &[("sys/fs/cgroup/cpu.max", text)]);
        assert_eq!(host.quota_millicpus(), None, "{text:?}");
        assert!(host.notes().iter().any(|note| note.about == "sys/fs/cgroup/cpu.max"), "{text:?}");
    }
}

#[test]
fn a_hostile_path_is_not_walked() {
    let deep = format!("0::{}\n", "/a".repeat(100_000));
    let host = host(&deep, V2, &[("sys/fs/cgroup/cpu.max", "100000 100000")]);
    assert_eq!(host.quota_millicpus(), Some(1000));
    let groups = host.reads().iter().filter(|read| read.path.starts_with("sys/fs/cgroup"));
    assert!(groups.count() < 10);
    let outside = "0::/../../../../../../etc\n";
    assert_eq!(quota(outside, V2, &[("sys/fs/cgroup/cpu.max", "100000 100000")]), Some(1000));
}

#[test]
fn quota_and_mask_are_kept_apart() {
    let files = [("sys/fs/cgroup/cpu.max", "1500 1000"), ("proc/self/status", "Cpus_allowed_list:\t1,3-4\n")];
    let limited = host("0::/\n", V2, &files);
    assert_eq!((limited.allowed(), limited.quota_millicpus()), (&set("1,3-4"), Some(1500)));
    assert_eq!((limited.online(), limited.default_workers()), (&set("0-7"), 2));
    let files = [("sys/fs/cgroup/cpu.max", "99000 1000"), ("proc/self/status", "Cpus_allowed_list:\t1,3-4\n")];
    assert_eq!(host("0::/\n", V2, &files).default_workers(), 3);
}

#[test]
fn cpusets_of_version_2() {
    let host = host(
        "0::/a/b\n",
        V2,
        &[
            ("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n"),
            ("sys/fs/cgroup/a/cpuset.cpus.effective", "2-5\n"),
            ("sys/fs/cgroup/a/cpuset.mems.effective", "0\n"),
            ("sys/fs/cgroup/a/b/cpuset.cpus", "\n"),
        ],
    );
    assert_eq!((host.allowed(), host.mems_allowed()), (&set("2-5"), Some(&[NodeId::new(0)][..])));
}

#[test]
fn cpusets_of_version_1_and_of_the_file_system_before() {
    let files =
        [("sys/fs/cgroup/cpuset/s/cpuset.cpus", "1-3\n"), ("sys/fs/cgroup/cpuset/s/cpuset.effective_cpus", "1-2\n")];
    assert_eq!(host("7:cpuset:/s\n", V1_CPUSET, &files).allowed(), &set("1-2"));
    let tree = Tree::of(&[("proc/self/cpuset", "/s\n"), ("proc/mounts", "none /dev/cpuset cpuset rw 0 0\n")]);
    tree.cpu("online", "0-7").file("dev/cpuset/s/cpus", "3,9").file("dev/cpuset/s/mems", "0-1");
    let host = tree.read();
    assert_eq!(host.allowed(), &set("3"));
    assert_eq!(host.mems_allowed(), Some(&[NodeId::new(0), NodeId::new(1)][..]));
}

/// Version 1 in the place of the old file system, as `cpuset` scripts still mount it.
#[test]
fn cpusets_without_a_prefix() {
    let in_mounts = ("proc/mounts", "none /dev/cpuset cgroup rw,relatime,cpuset,noprefix,release_agent=/x 0 0\n");
    let in_mountinfo = ("proc/self/mountinfo", "30 1 0:26 / /dev/cpuset rw - cgroup none rw,cpuset,noprefix\n");
    for mount in [in_mounts, in_mountinfo] {
        let tree = Tree::of(&[("proc/self/cpuset", "/s\n"), mount]);
        tree.cpu("online", "0-7").file("dev/cpuset/s/cpus", "2-5").file("dev/cpuset/s/mems", "0");
        assert_eq!((tree.read().allowed(), tree.read().mems_allowed().unwrap().len()), (&set("2-5"), 1));
        tree.file("dev/cpuset/s/effective_cpus", "2-3");
        assert_eq!(tree.read().allowed(), &set("2-3"));
    }
}

#[test]
fn a_mask_of_absent_cpus_is_not_believed() {
    let host = host("0::/\n", V2, &[("proc/self/status", "Cpus_allowed_list:\t64-65\n")]);
    assert_eq!(host.allowed(), &set("0-7"));
    assert!(host.notes().iter().any(|note| note.about == "allowed"));
}

#[test]
fn isolated_cpus_may_be_asked_for_within_the_cpuset() {
    let host = host(
        "0::/\n",
        V2,
        &[
            ("sys/devices/system/cpu/isolated", "2-5\n"),
            ("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n"),
            ("proc/self/status", "Cpus_allowed_list:\t0-1\n"),
        ],
    );
    assert_eq!((host.isolated(), host.allowed()), (&set("2-5"), &set("0-1")));
    let ask = |list: &str| plan(&host, &Placement::Cpus(set(list)), Pin::Auto, 1);
    assert!(ask("1-3").is_ok());
    let error = ask("3-4").unwrap_err();
    assert_eq!(error, PlacementError::ForbiddenCpu { cpu: CpuId::new(4), allowed: set("0-1") });
}

#[test]
fn limits_that_change_while_the_process_runs() {
    let tree = Tree::of(&[
        ("sys/devices/system/cpu/online", "0-7\n"),
        ("proc/self/cgroup", "0::/a\n"),
        ("proc/self/mountinfo", V2),
        ("proc/self/status", "Cpus_allowed_list:\t0-7\nMems_allowed_list:\t0-1\n"),
        ("sys/fs/cgroup/a/cpu.max", "max 100000\n"),
    ]);
    let host = tree.read();
    let before = host.limits_now().unwrap();
    assert_eq!((&before.online, &before.allowed, before.quota_millicpus), (&set("0-7"), &set("0-7"), None));
    assert_eq!(host.limits_now().unwrap().changes_since(&before), []);
    tree.cpu("online", "0-5\n").file("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    tree.file("sys/fs/cgroup/a/cpuset.cpus.effective", "2-7\n");
    tree.file("proc/self/status", "Cpus_allowed_list:\t0-7\nMems_allowed_list:\t1\n");
    let now = host.limits_now().unwrap();
    let changes: Vec<String> = now.changes_since(&before).iter().map(ToString::to_string).collect();
    let expected = [
        "online: was 0-7, is 0-5",
        "allowed: was 0-7, is 2-5",
        "quota: was unlimited, is 2500 thousandths of a CPU",
        "memory: was 0,1, is 1",
    ];
    assert_eq!(changes, expected);
    // What the topology said at its discovery stays.
    assert_eq!((host.allowed(), host.quota_millicpus()), (&set("0-7"), None));
}
