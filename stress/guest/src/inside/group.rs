//! Control groups (version 2), made and joined by the looks that need them.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const ROOT: &str = "/sys/fs/cgroup";

/// A group.
pub(crate) struct Group(PathBuf);

impl Group {
    /// Makes the group `path` and its ancestors, with limits for CPUs and CPU time.
    pub(crate) fn make(path: &str) -> Result<Group, String> {
        let mut at = PathBuf::from(ROOT);
        for part in path.split('/') {
            write(at.join("cgroup.subtree_control"), "+cpuset +cpu")?;
            at.push(part);
            if !at.is_dir() {
                fs::create_dir(&at).map_err(|error| format!("{}: {error}", at.display()))?;
            }
        }
        Ok(Group(at))
    }

    /// Sets one of its limits.
    pub(crate) fn set(&self, file: &str, value: &str) -> Result<(), String> {
        write(self.0.join(file), value)
    }

    /// Waits until a file of it says `value`: what the kernel does after CPUs come and go takes its time.
    pub(crate) fn wait_for(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.0.join(file);
        let end = Instant::now() + super::crew::SOON;
        loop {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            if text.trim() == value {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("{} stays {}, not {value}", path.display(), text.trim()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// This process joins it.
    pub(crate) fn join(&self) -> Result<(), String> {
        self.set("cgroup.procs", &std::process::id().to_string())
    }
}

/// Writes to a file of the kernel.
pub(crate) fn write(path: PathBuf, value: &str) -> Result<(), String> {
    fs::write(&path, value).map_err(|error| format!("{} = {value}: {error}", path.display()))
}
