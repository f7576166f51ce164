//! File trees that look like `/sys` and `/proc`.

use numa::Topology;
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
        self.cpu("online", format!("{}\n", host.online()));
        self.cpu("present", format!("{}\n", host.online().union(host.offline())));
        self.cpu("isolated", format!("{}\n", host.isolated()));
        for cpu in host.cpus() {
            let siblings = &host.cores()[cpu.core].cpus;
            self.cpu(&format!("cpu{}/topology/thread_siblings_list", cpu.id), format!("{siblings}\n"));
            let llc = &host.llcs()[cpu.llc];
            if let Some(level) = llc.level {
                let index = format!("cpu{}/cache/index{level}", cpu.id);
                self.cpu(&format!("{index}/level"), format!("{level}\n"));
                self.cpu(&format!("{index}/type"), "Unified\n");
                self.cpu(&format!("{index}/shared_cpu_list"), format!("{}\n", llc.cpus));
            }
        }
        self.nodes_of(host).masks_of(host)
    }

    fn nodes_of(&self, host: &Topology) -> &Tree {
        let ids: Vec<String> = host.nodes().iter().map(|node| node.id.to_string()).collect();
        self.node("online", format!("{}\n", ids.join(",")));
        for (from, node) in host.nodes().iter().enumerate() {
            let path = format!("node{}", node.id);
            self.node(&format!("{path}/cpulist"), format!("{}\n", node.cpus));
            // Zero is how firmware says that it does not know.
            let distance = |to| host.distance(from, to).unwrap_or(0).to_string();
            let row: Vec<String> = (0..ids.len()).map(distance).collect();
            self.node(&format!("{path}/distance"), format!("{}\n", row.join(" ")));
            if let Some(kb) = node.memory_kb {
                self.node(&format!("{path}/meminfo"), format!("Node {} MemTotal:  {kb} kB\n", node.id));
            }
        }
        self
    }

    fn masks_of(&self, host: &Topology) -> &Tree {
        let mut status = format!("Name:\ttest\nCpus_allowed_list:\t{}\n", host.allowed());
        if let Some(mems) = host.mems_allowed() {
            let mems: Vec<String> = mems.iter().map(ToString::to_string).collect();
            status += &format!("Mems_allowed_list:\t{}\n", mems.join(","));
        }
        self.file("proc/self/status", status);
        self.file("proc/self/cgroup", "0::/work\n");
        self.file("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let quota = host.quota_millicpus().map_or("max 100000\n".to_owned(), |milli| format!("{milli} 1000\n"));
        self.file("sys/fs/cgroup/work/cpu.max", quota)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A folder left behind in the temporary directory is no reason to fail a test.
        let _ = fs::remove_dir_all(&self.root);
    }
}
