//! The stamp of the gate: that it has passed, how many runs it had, and for which sources.
//!
//! There is one file per source tree, so that a comparison of two revisions finds the stamps of both, and
//! `stress-gate.json` beside them for the last one.

use std::io;
use std::path::{Path, PathBuf};

/// How many runs a full gate has.
pub const RUNS: u64 = crate::profile::ROUNDS as u64;

const LAST: &str = "stress-gate.json";

/// Where stamps are kept: `STRESS_GATE_DIR`, or the target folder.
pub fn folder() -> PathBuf {
    std::env::var_os("STRESS_GATE_DIR").map_or_else(crate::tree::target, PathBuf::from)
}

/// The file of one tree, by its hash.
fn of_tree(folder: &Path, tree: &str) -> PathBuf {
    folder.join("stress-gate").join(format!("{tree}.json"))
}

/// Removes the stamps that a run of the gate for `tree` is about to replace.
///
/// # Errors
/// When one is there and cannot be removed.
pub fn remove(folder: &Path, tree: &str) -> io::Result<()> {
    for path in [folder.join(LAST), of_tree(folder, tree)] {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Says that all runs have passed for `tree`. Returns where that is written.
///
/// # Errors
/// When it cannot be written.
pub fn write(folder: &Path, tree: &str) -> io::Result<PathBuf> {
    let path = of_tree(folder, tree);
    std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
    let text = format!("{{\"tree\": \"{tree}\", \"passed\": true, \"runs\": {RUNS}}}\n");
    std::fs::write(&path, &text)?;
    std::fs::write(folder.join(LAST), text)?;
    Ok(path)
}

/// The stamp that is kept for `tree`, or else the last one, whatever it is for: its reader has to look.
pub fn read(folder: &Path, tree: &str) -> Option<String> {
    let places = [of_tree(folder, tree), folder.join(LAST)];
    places.iter().find_map(|path| std::fs::read_to_string(path).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;
    use std::fs;

    struct Made(PathBuf);

    impl Drop for Made {
        fn drop(&mut self) {
            // A folder that stays in the temporary one harms nobody.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn sources(name: &str) -> Made {
        let root = std::env::temp_dir().join(format!("stress-stamp-{}-{name}", std::process::id()));
        for folder in ["numa/src", "scheduler/src", "stress/src", "bench/src"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("lib.rs"), "fn f() {}\n").unwrap();
        }
        for file in ["Cargo.lock", "Cargo.toml", "scheduler/src/README.md"] {
            fs::write(root.join(file), file).unwrap();
        }
        Made(root)
    }

    /// The files whose change makes another tree, and those whose change does not.
    #[test]
    fn the_hash_follows_what_runs() {
        let made = sources("hash");
        let first = tree::hash(&made.0).unwrap();
        assert_eq!(first.len(), 64);
        assert_eq!(tree::hash(&made.0).unwrap(), first);
        for same in ["scheduler/src/README.md", "bench/src/lib.rs"] {
            fs::write(made.0.join(same), "other").unwrap();
            assert_eq!(tree::hash(&made.0).unwrap(), first, "{same}");
        }
        let mut seen = vec![first];
        let others = ["numa/src/lib.rs", "scheduler/src/lib.rs", "stress/src/lib.rs", "Cargo.lock", "Cargo.toml"];
        for other in others.into_iter().chain([".cargo/config.toml", "scheduler/Cargo.toml"]) {
            fs::create_dir_all(made.0.join(".cargo")).unwrap();
            fs::write(made.0.join(other), "fn f() { }\n").unwrap();
            let now = tree::hash(&made.0).unwrap();
            assert!(!seen.contains(&now), "{other}");
            seen.push(now);
        }
        fs::rename(made.0.join("numa/src/lib.rs"), made.0.join("numa/src/main.rs")).unwrap();
        assert!(!seen.contains(&tree::hash(&made.0).unwrap()));
    }

    #[test]
    fn a_stamp_is_found_by_its_tree() {
        let made = sources("find");
        assert_eq!(read(&made.0, "a"), None);
        write(&made.0, "a").unwrap();
        write(&made.0, "b").unwrap();
        assert!(read(&made.0, "a").unwrap().contains("\"tree\": \"a\""));
        assert!(read(&made.0, "b").unwrap().contains("\"tree\": \"b\""));
        assert!(read(&made.0, "c").unwrap().contains("\"tree\": \"b\""), "the last one, for its reader to refuse");
        remove(&made.0, "a").unwrap();
        assert_eq!(read(&made.0, "a"), None);
        assert!(read(&made.0, "b").is_some());
    }
}
