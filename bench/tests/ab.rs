//! What `ab` refuses. A whole run builds this workspace twice, which `.ci/run` does.
#![cfg(not(loom))]
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&[&out.stdout[..], &out.stderr[..]].concat()).into_owned()
}

/// A repository with what the gate looks at, and nothing that could be built.
struct Repo(PathBuf);

impl Repo {
    /// `None` where there is no git.
    fn new(name: &str) -> Option<Repo> {
        let repo = Repo(std::env::temp_dir().join(format!("bench-ab-{}-{name}", std::process::id())));
        for folder in ["numa/src", "scheduler/src", "stress/src"] {
            repo.write(&format!("{folder}/lib.rs"), "fn f() {}\n");
        }
        repo.write("Cargo.lock", "");
        repo.write("Cargo.toml", "[workspace]\n");
        Command::new("git").arg("--version").output().ok()?;
        repo.git(&["init", "-q", "."]);
        repo.commit("one");
        Some(repo)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a temporary folder");
        std::fs::write(path, text).expect("written");
    }

    fn git(&self, args: &[&str]) {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
        let out = Command::new("git").current_dir(&self.0).args(identity).args(args).output().expect("git");
        assert!(out.status.success(), "{}", said(&out));
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    /// Everything that is built or stamped lies beside the repository, or it would be dirty.
    fn beside(&self, name: &str) -> PathBuf {
        self.0.with_extension(name)
    }

    fn ab(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
        command.arg("ab").arg("--repo").arg(&self.0).arg("--build-dir").arg(self.beside("build")).args(args);
        let out = command.env("STRESS_GATE_DIR", self.beside("stamps")).output().expect("the program starts");
        (out.status.code(), said(&out))
    }

    fn refused(&self, args: &[&str], why: &str) {
        let (code, text) = self.ab(args);
        assert_eq!(code, Some(2), "{args:?}: {text}");
        assert!(text.contains(why), "{args:?}: {text}");
        assert!(!self.path("docs").exists(), "{args:?} leaves nothing behind");
    }
}

impl Drop for Repo {
    fn drop(&mut self) {
        for folder in [self.0.clone(), self.beside("build"), self.beside("stamps")] {
            // What stays in the temporary folder harms nobody.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

#[test]
fn bad_plans_are_refused() {
    let Some(repo) = Repo::new("plans") else { return };
    let target = ["--candidate", "HEAD", "--target", "flood_1m"];
    repo.refused(&["--candidate", "nowhere", "--target", "flood_1m"], "\"nowhere\" is no revision");
    repo.refused(&["--candidate", "--help", "--target", "flood_1m"], "");
    repo.refused(&["--candidate", "HEAD", "--target", "flod"], "known: flood_1m");
    repo.refused(&["--candidate", "HEAD", "--target", "flood_1m=-1"], "greater than 0");
    repo.refused(&["--candidate", "HEAD", "--target", "deep_tree", "--scenarios", "flood_1m"], "known: flood_1m");
    repo.refused(&[&target[..], &["--plan", "a/b"]].concat(), "a name has");
    repo.refused(&["--candidate", "HEAD"], "--target");
    repo.refused(&["--target", "flood_1m"], "--candidate");
    repo.refused(&["--aa", "--candidate", "HEAD"], "cannot be used with");
    repo.refused(&["--resume", "/no/such/run"], "/no/such/run/plan.json");
    repo.refused(&[&target[..], &["--out", "/proc/nowhere"]].concat(), "/proc/nowhere");
    repo.write("scheduler/src/new.rs", "");
    repo.refused(&target, "scheduler/src/new.rs");
}

/// Without the stamp of the candidate's sources nothing begins; with it, the next step is to build.
#[test]
fn the_candidate_must_be_gated() {
    let Some(repo) = Repo::new("gate") else { return };
    let args = ["--candidate", "HEAD", "--target", "flood_1m"];
    repo.refused(&args, "NOT GATED (no stamp)");
    let hash = hash(&repo.0);
    std::fs::create_dir_all(repo.beside("stamps")).expect("a temporary folder");
    let stamp = format!("{{\"tree\": \"{hash}\", \"passed\": true, \"runs\": 20}}");
    std::fs::write(repo.beside("stamps").join("stress-gate.json"), stamp).expect("written");
    repo.refused(&args, "cargo failed");
    repo.write("README.md", "a document\n");
    repo.commit("a document");
    repo.refused(&args, "cargo failed");
    repo.write("scheduler/src/lib.rs", "fn f() { }\n");
    repo.commit("a changed line");
    repo.refused(&args, "NOT GATED (the stamp is for another source tree)");
    repo.refused(&[&args[..], &["--ungated"]].concat(), "cargo failed");
}

fn hash(root: &Path) -> String {
    stress::tree::hash(root).expect("readable")
}
