//! File trees that look like `/sys` and `/proc`.

use numa::{CpuId, CpuSet, Topology};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of its own, gone when dropped.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Tree {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("numa-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Thousands of tiny files: seconds in memory, minutes on some disks.
        let in_memory = Path::new("/dev/shm").join(&name);
        let root = match fs::create_dir(&in_memory) {
            Ok(()) => in_memory,
            Err(_) => std::env::temp_dir().join(&name),
        };
        fs::create_dir_all(&root).unwrap();
        Tree { root }
    }

    /// A tree with these files.
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let tree = Tree::new();
        for (path, text) in files {
            tree.file(path, text);
        }
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn file(&self, path: &str, text: impl AsRef<[u8]>) -> &Tree {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// A file of `/sys/devices/system/cpu`.
    pub(crate) fn cpu(&self, path: &str, text: impl AsRef<[u8]>) -> &Tree {
        self.file(&format!("sys/devices/system/cpu/{path}"), text)
    }

    /// A file of `/sys/devices/system/node`.
    pub(crate) fn node(&self, path: &str, text: impl AsRef<[u8]>) -> &Tree {
        self.file(&format!("sys/devices/system/node/{path}"), text)
    }

    pub(crate) fn dir(&self, path: &str) -> &Tree {
        fs::create_dir_all(self.root.join(path)).unwrap();
        self
    }

    pub(crate) fn read(&self) -> Topology {
        Topology::from_root(&self.root).unwrap()
    }

    /// Writes what Linux would show on this host.
    pub(crate) fn host(&self, host: &Topology) -> &Tree {
        Writer { tree: self, host, style: Style::default() }.write();
        self
    }

    /// The same, as some kernel, firmware or copying tool would show it.
    pub(crate) fn host_in_style(&self, host: &Topology, style: Style) -> &Tree {
        Writer { tree: self, host, style }.write();
        self
    }
}

/// How a host is written down.
#[derive(Debug, Clone)]
pub(crate) struct Style {
    /// `shared_cpu_list`, `thread_siblings_list`, `cpulist`.
    pub(crate) lists: bool,
    /// `shared_cpu_map`, `thread_siblings`, `cpumap`.
    pub(crate) maps: bool,
    /// `cpu/online`, `cpu/present` and `node/online`; without, what is there is told by directories.
    pub(crate) summaries: bool,
    /// What follows every text.
    pub(crate) dirt: &'static [u8],
}

impl Default for Style {
    fn default() -> Style {
        Style { lists: true, maps: true, summaries: true, dirt: b"\n" }
    }
}

struct Writer<'a> {
    tree: &'a Tree,
    host: &'a Topology,
    style: Style,
}

impl Writer<'_> {
    fn write(&self) {
        let host = self.host;
        if self.style.summaries {
            self.cpu("online", host.online().to_string());
            self.cpu("present", host.online().union(host.offline()).to_string());
        }
        self.cpu("isolated", host.isolated().to_string());
        for cpu in host.cpus() {
            let topology = format!("cpu{}/topology", cpu.id);
            self.set(
                &format!("sys/devices/system/cpu/{topology}/thread_siblings"),
                "_list",
                &host.cores()[cpu.core].cpus,
            );
            self.cpu(&format!("{topology}/core_id"), cpu.core.to_string());
            self.cpu(&format!("{topology}/physical_package_id"), "0".to_owned());
            let llc = &host.llcs()[cpu.llc];
            if let Some(level) = llc.level {
                let index = format!("cpu{}/cache/index{level}", cpu.id);
                self.cpu(&format!("{index}/level"), level.to_string());
                self.cpu(&format!("{index}/type"), "Unified".to_owned());
                self.set_as(&format!("sys/devices/system/cpu/{index}/shared_cpu"), "_list", "_map", &llc.cpus);
            }
        }
        for cpu in host.offline().iter() {
            // What is left of a CPU that is switched off.
            self.cpu(&format!("cpu{cpu}/online"), "0".to_owned());
        }
        self.nodes();
        self.masks();
    }

    fn nodes(&self) {
        let ids: Vec<String> = self.host.nodes().iter().map(|node| node.id.to_string()).collect();
        if self.style.summaries {
            self.node("online", ids.join(","));
        }
        for (from, node) in self.host.nodes().iter().enumerate() {
            let path = format!("node{}", node.id);
            self.set_as(&format!("sys/devices/system/node/{path}/cpu"), "list", "map", &node.cpus);
            // Zero is how firmware says that it does not know.
            let distance = |to| self.host.distance(from, to).unwrap_or(0).to_string();
            let row: Vec<String> = (0..ids.len()).map(distance).collect();
            self.node(&format!("{path}/distance"), row.join(" "));
            if let Some(kb) = node.memory_kb {
                self.node(&format!("{path}/meminfo"), format!("Node {} MemTotal:  {kb} kB", node.id));
            }
        }
    }

    fn masks(&self) {
        let host = self.host;
        let mut status = format!("Name:\ttest\nCpus_allowed_list:\t{}\n", host.allowed());
        if let Some(mems) = host.mems_allowed() {
            let mems: Vec<String> = mems.iter().map(ToString::to_string).collect();
            status += &format!("Mems_allowed_list:\t{}\n", mems.join(","));
        }
        self.tree.file("proc/self/status", status);
        self.tree.file("proc/self/cgroup", "0::/work\n");
        let mount = "/sys/fs/cgroup cgroup2 rw 0 0";
        self.tree
            .file("proc/mounts", format!("cgroup2 {mount}\n"))
            .file("proc/self/mounts", format!("cgroup2 {mount}\n"));
        self.tree.file("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let quota = host.quota_millicpus().map_or("max 100000".to_owned(), |milli| format!("{milli} 1000"));
        self.text("sys/fs/cgroup/work/cpu.max", quota);
        self.text("sys/fs/cgroup/cgroup.controllers", "cpuset cpu".to_owned());
        self.text("sys/fs/cgroup/work/cpuset.cpus.effective", host.allowed().union(host.isolated()).to_string());
    }

    fn cpu(&self, path: &str, text: String) {
        self.text(&format!("sys/devices/system/cpu/{path}"), text);
    }

    fn node(&self, path: &str, text: String) {
        self.text(&format!("sys/devices/system/node/{path}"), text);
    }

    fn set(&self, path: &str, list: &str, cpus: &CpuSet) {
        self.set_as(path, list, "", cpus);
    }

    /// A set as a list, a map or both, in files named by these endings.
    fn set_as(&self, path: &str, list: &str, map: &str, cpus: &CpuSet) {
        if self.style.lists {
            self.text(&format!("{path}{list}"), cpus.to_string());
        }
        if self.style.maps {
            self.text(&format!("{path}{map}"), hex_map(cpus));
        }
    }

    fn text(&self, path: &str, text: String) {
        self.tree.file(path, [text.as_bytes(), self.style.dirt].concat());
    }
}

/// `00000001,0000000f`, as wide as the largest member needs.
pub(crate) fn hex_map(cpus: &CpuSet) -> String {
    let chunks = cpus.last().map_or(0, |cpu| cpu.get() / 32) + 1;
    let bit = |number| CpuId::try_new(number).is_some_and(|cpu| cpus.contains(cpu));
    let chunk =
        |chunk: u32| (0..32).filter(|place| bit(chunk * 32 + place)).fold(0_u32, |bits, place| bits | 1 << place);
    (0..chunks).rev().map(|index| format!("{:08x}", chunk(index))).collect::<Vec<_>>().join(",")
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A folder left behind in the temporary directory is no reason to fail a test.
        let _ = fs::remove_dir_all(&self.root);
    }
}
