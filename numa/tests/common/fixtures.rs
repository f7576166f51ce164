//! Trees of real hosts, from the folder in `NUMA_FIXTURES`: archives `NAME.tar.bz2`, each with `sys/` and `proc/` of a
//! host at its top or one folder below.

use super::tree::Tree;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The archives, or `None` when nobody said where they are.
pub(crate) fn archives() -> Option<Vec<PathBuf>> {
    let Some(folder) = std::env::var_os("NUMA_FIXTURES") else {
        println!("skipped: NUMA_FIXTURES not set");
        return None;
    };
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("NUMA_FIXTURES={folder:?}: {error}"));
    let mut archives: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    archives.retain(|path| path.to_string_lossy().ends_with(".tar.bz2"));
    archives.sort();
    assert!(!archives.is_empty(), "NUMA_FIXTURES={folder:?} has no archive");
    Some(archives)
}

pub(crate) fn name(archive: &Path) -> String {
    archive.file_name().unwrap().to_string_lossy().trim_end_matches(".tar.bz2").to_owned()
}

/// Unpacks into a folder of its own; `body` gets the root of the host's file system.
pub(crate) fn unpacked<T>(archive: &Path, body: impl FnOnce(&Path) -> T) -> T {
    let folder = Tree::new();
    // Devices and owners of the original host are not ours to make.
    let tar = Command::new("tar").arg("xjf").arg(archive).arg("-C").arg(folder.root()).arg("--no-same-owner").status();
    assert!(tar.unwrap().success(), "{}", archive.display());
    let is_root = |path: &PathBuf| path.join("sys").is_dir();
    let below = || std::fs::read_dir(folder.root()).unwrap().map(|entry| entry.unwrap().path()).find(is_root);
    let root = Some(folder.root().to_owned()).filter(is_root).or_else(below);
    body(&root.unwrap_or_else(|| panic!("{} has no sys", archive.display())))
}
