//! A program that was carried off, and is started wherever: it still knows which sources it was built from.
#![cfg(not(loom))]
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("bench-source-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        Folder(folder)
    }

    /// A copy of the program in it.
    fn program(&self) -> PathBuf {
        let copy = self.0.join("bench");
        std::fs::copy(env!("CARGO_BIN_EXE_bench"), &copy).expect("copied");
        copy
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays in the temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Nothing in the environment helps, and git is told of another repository, as in a hook of one.
fn compare(program: &Path, folder: &Path) -> (Output, Value) {
    let mut command = Command::new(program);
    command.args(["--tiny", "--no-wait", "--samples", "1", "--scenarios", "flood_1m", "--arms", "scheduler"]);
    command.args(["--out", "seen.json"]).current_dir(folder);
    command.env_remove("CARGO_TARGET_DIR").env_remove("STRESS_GATE_DIR").env("GIT_DIR", "/nonexistent");
    let out = started(&mut command);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(folder.join("seen.json")).expect("a report");
    (out, serde_json::from_str(&text).expect("JSON"))
}

/// A copy may still be open for writing in a process that another test has just forked: that passes.
fn started(command: &mut Command) -> Output {
    for _ in 0..100 {
        match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            other => return other.expect("the program starts"),
        }
    }
    panic!("the copy stays open for writing");
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let out = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

#[test]
fn the_commit_and_the_tree_are_known_from_everywhere() {
    let folder = Folder::new("elsewhere");
    let (_, seen) = compare(&folder.program(), &folder.0);
    let root = stress::tree::root();
    assert_eq!(seen["gate"]["tree"].as_str(), stress::tree::hash(&root).ok().as_deref());
    assert_eq!(seen["host"]["commit"].as_str(), git(&root, &["rev-parse", "HEAD"]).as_deref(), "{}", seen["host"]);
    assert!(seen["host"]["rustc"].as_str().is_some_and(|version| version.starts_with("rustc ")));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("readable").map(|e| e.expect("readable")) {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() && entry.file_name() != "target" {
            copy(&path, &to);
        } else if path.is_file() {
            std::fs::copy(&path, &to).expect("copied");
        }
    }
}

/// The gate has passed in a clone, and the program was built in another.
#[test]
fn the_stamp_of_a_clone_counts() {
    let (folder, carried) = (Folder::new("clone"), Folder::new("carried"));
    let root = stress::tree::root();
    for part in ["numa", "scheduler", "stress", ".cargo"] {
        copy(&root.join(part), &folder.0.join(part));
    }
    std::fs::create_dir_all(folder.0.join("bench/src")).expect("a folder");
    for file in ["Cargo.lock", "Cargo.toml"] {
        std::fs::copy(root.join(file), folder.0.join(file)).expect("copied");
    }
    let hash = stress::tree::hash(&folder.0).expect("readable");
    assert_eq!(Some(&hash), stress::tree::hash(&root).ok().as_ref());
    stress::stamp::write(&folder.0.join("target"), &hash).expect("written");
    let program = carried.program();
    let (out, seen) = compare(&program, &folder.0.join("bench/src"));
    assert!(String::from_utf8_lossy(&out.stdout).contains("stress gate: 20/20"), "{}", seen["gate"]);
}
