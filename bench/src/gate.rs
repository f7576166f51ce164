//! The stamp of the stress gate: whether it passed for exactly this source tree.
use crate::paths;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// How many runs the gate consists of.
const RUNS: u64 = 20;

/// What the stress gate proves something about: these folders and files of the workspace. `Cargo.toml` holds the
/// build profile.
const FOLDERS: [&str; 3] = ["numa", "scheduler", "stress"];
const FILES: [&str; 2] = ["Cargo.lock", "Cargo.toml"];

/// SHA-256 over the sorted relative paths and contents of what the stress gate covers.
pub(crate) fn tree_hash(root: &Path) -> std::io::Result<String> {
    let mut files: Vec<PathBuf> = FILES.iter().map(PathBuf::from).collect();
    for folder in FOLDERS {
        collect(root, Path::new(folder), &mut files)?;
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        let name = file.as_os_str().as_encoded_bytes();
        let content = std::fs::read(root.join(file))?;
        // Lengths first: no two trees may hash the same bytes.
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = folder.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && entry.file_name() != "target" {
            collect(root, &name, files)?;
        } else if kind.is_file() {
            files.push(name);
        }
    }
    Ok(())
}

/// What the stamp says about the tree as it is now.
pub(crate) struct Gate {
    pub(crate) passed: bool,
    pub(crate) runs: u64,
    pub(crate) tree: String,
    /// Why it is not passed.
    pub(crate) why: Option<String>,
}

impl Gate {
    /// Reads `stress-gate.json` from the target folder.
    pub(crate) fn read() -> Gate {
        let tree = tree_hash(paths::root()).unwrap_or_else(|e| format!("unknown: {e}"));
        let places = [paths::root().join("target"), paths::target()].map(|p| p.join("stress-gate.json"));
        let stamp = places.iter().find_map(|p| std::fs::read_to_string(p).ok());
        Gate::judge(tree, stamp.as_deref())
    }

    fn judge(tree: String, stamp: Option<&str>) -> Gate {
        let stamp: Value = stamp.and_then(|s| serde_json::from_str(s).ok()).unwrap_or(Value::Null);
        let runs = stamp["runs"].as_u64().unwrap_or(0);
        let why = if stamp.is_null() {
            Some("no stamp".to_owned())
        } else if stamp["tree"] != tree.as_str() {
            Some("the stamp is for another source tree".to_owned())
        } else if stamp["passed"] != true || runs < RUNS {
            Some(format!("the stamp says passed: {}, runs: {runs}", stamp["passed"]))
        } else {
            None
        };
        Gate { passed: why.is_none(), runs, tree, why }
    }

    pub(crate) fn line(&self) -> String {
        match &self.why {
            None => format!("stress gate: {RUNS}/{RUNS}"),
            Some(why) => format!("stress gate: NOT GATED ({why})"),
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "passed": self.passed, "runs": self.runs, "tree": self.tree, "why": self.why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_stamp_for_this_tree_counts() {
        let line = |stamp: Option<&str>| Gate::judge("abc".into(), stamp).line();
        assert_eq!(line(Some(r#"{"tree":"abc","passed":true,"runs":20}"#)), "stress gate: 20/20");
        assert!(line(None).contains("NOT GATED (no stamp)"));
        assert!(line(Some("{")).contains("NOT GATED"));
        assert!(line(Some(r#"{"tree":"abd","passed":true,"runs":20}"#)).contains("another source tree"));
        assert!(line(Some(r#"{"tree":"abc","passed":false,"runs":20}"#)).contains("passed: false"));
        assert!(line(Some(r#"{"tree":"abc","passed":true,"runs":19}"#)).contains("runs: 19"));
    }

    #[test]
    fn the_hash_follows_names_and_contents() {
        let root = std::env::temp_dir().join(format!("bench-gate-{}", std::process::id()));
        for folder in FOLDERS {
            std::fs::create_dir_all(root.join(folder).join("src")).unwrap();
            std::fs::write(root.join(folder).join("src/lib.rs"), folder).unwrap();
        }
        for file in FILES {
            std::fs::write(root.join(file), file).unwrap();
        }
        let first = tree_hash(&root).unwrap();
        assert_eq!(first.len(), 64);
        assert_eq!(tree_hash(&root).unwrap(), first);
        std::fs::write(root.join("numa/src/lib.rs"), "numa!").unwrap();
        let second = tree_hash(&root).unwrap();
        assert_ne!(first, second);
        std::fs::rename(root.join("numa/src/lib.rs"), root.join("numa/src/other.rs")).unwrap();
        assert_ne!(tree_hash(&root).unwrap(), second);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
