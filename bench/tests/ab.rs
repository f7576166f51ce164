//! What `ab` refuses, and whole runs with programs that only say what they are told to. A run that builds this
//! workspace twice is done by `.ci/run`.
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

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
        command.arg("ab").arg("--repo").arg(&self.0).arg("--build-dir").arg(self.beside("build")).args(args);
        command.env("STRESS_GATE_DIR", self.beside("stamps"));
        command
    }

    fn ab(&self, args: &[&str]) -> (Option<i32>, String) {
        let out = self.command(args).output().expect("the program starts");
        (out.status.code(), said(&out))
    }

    /// From now on a revision holds a program that reports this rate, and takes that long for it.
    fn program(&self, rate: u32, seconds: &str) {
        let row = format!(
            r#"{{"scenario":"flood_1m","arm":"scheduler","status":"ok","tasks_per_sec":{{"samples":[1,{rate},{rate}]}},
            "cpu_ns_per_task":{{"samples":[1,2,3]}}}}"#
        );
        let loops = "while [ \"$1\" != --out ]; do shift; done";
        let script = format!(
            "#!/bin/sh\n{loops}\nsleep {seconds}\ncat >\"$2\" <<'END'\n{{\"host\":{{}},\"results\":[{row}]}}\nEND\n"
        );
        self.write("program.sh", &script);
        self.commit(&format!("a rate of {rate}"));
    }

    /// A run of tiny programs under a cargo that takes what the revision holds for what was built from it.
    fn run(&self, args: &[&str]) -> Command {
        let cargo = self.beside("stamps").join("cargo");
        std::fs::create_dir_all(self.beside("stamps")).expect("a temporary folder");
        let script = "#!/bin/sh\nmkdir -p \"$CARGO_TARGET_DIR/release\"\nout=$CARGO_TARGET_DIR/release/bench\n\
                      { cat program.sh; echo \"# $BENCH_MARKER\"; } >\"$out\"\nchmod +x \"$out\"\n";
        std::fs::write(&cargo, script).expect("written");
        std::fs::set_permissions(&cargo, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
        let all = ["--ungated", "--force-rates", "--scenarios", "flood_1m", "--tiny"];
        let mut command = self.command(&[&all[..], args].concat());
        command.env("CARGO", cargo);
        command
    }

    fn ended(&self, args: &[&str]) -> (Option<i32>, String) {
        let out = self.run(args).output().expect("the program starts");
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

fn rounds(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("rounds")).map_or(0, |files| files.count())
}

/// The gate at its edges, and what is left of a run.
#[test]
fn a_plan_passes_or_fails() {
    let Some(repo) = Repo::new("verdict") else { return };
    for rate in [100, 105, 104] {
        repo.program(rate, "0");
    }
    let target = ["--target", "flood_1m"];
    let folder = repo.beside("runs");
    let run = |name: &str, legs: &[&str]| {
        let out = folder.join(name);
        let args = [&["--out", out.to_str().expect("text")], legs].concat();
        (out.clone(), repo.ended(&args))
    };
    let (out, (code, text)) = run("gain", &[&["--baseline", "HEAD~2", "--candidate", "HEAD~1"], &target[..]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("PASS") && text.contains("--ungated was said") && text.contains("+5.00 %"), "{text}");
    assert_eq!(rounds(&out), 20);
    let sheet = std::fs::read_to_string(out.join("README.md")).expect("a run sheet");
    for part in ["## Method", "## Host", "## Table", "## Interpretation", "## Decision", "**PASS**", "NOT GATED"] {
        assert!(sheet.contains(part), "{part}: {sheet}");
    }
    for name in ["plan.json", "aggregate.json"] {
        let checked = Command::new(env!("CARGO_BIN_EXE_bench")).arg("check").arg(out.join(name)).output();
        let checked = checked.expect("the program starts");
        assert!(checked.status.success(), "{}", said(&checked));
    }
    let (_, (code, text)) = run("little", &[&["--baseline", "HEAD~2", "--candidate", "HEAD"], &target[..]].concat());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("FAIL") && text.contains("the targets gained +4.00 %"), "{text}");
    let (_, (code, text)) = run("gain", &[&["--candidate", "HEAD"], &target[..]].concat());
    assert_eq!(code, Some(2), "a plan is not begun twice: {text}");
    assert!(text.contains("--resume"), "{text}");
    let (_, (code, text)) = run("noise", &["--aa"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("the noise floor of this run is 0.00 %"), "{text}");
    repo.write("README.md", "a document\n");
    repo.commit("a document");
    let (out, (code, text)) = run("equal", &[&["--baseline", "HEAD~1", "--candidate", "HEAD"], &target[..]].concat());
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("both legs are the same program") && !out.exists(), "{text}");
    std::fs::remove_dir_all(folder).expect("it was there");
}

/// What was taken before the interruption stays, also if the programs are gone meanwhile.
#[test]
fn an_interrupted_run_goes_on() {
    let Some(repo) = Repo::new("resume") else { return };
    repo.program(100, "0.1");
    repo.program(120, "0.1");
    let folder = repo.beside("run");
    let out = folder.to_str().expect("text");
    let mut begun = repo
        .run(&["--baseline", "HEAD~1", "--candidate", "HEAD", "--target", "flood_1m", "--out", out])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let first = folder.join("rounds/round-01-a.json");
    while !first.exists() && begun.try_wait().expect("ours").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let told = Command::new("kill").args(["-INT", &begun.id().to_string()]).status().expect("kill");
    assert!(told.success());
    let ended = begun.wait_with_output().expect("ours");
    assert_eq!(ended.status.code(), Some(2), "{}", said(&ended));
    assert!(said(&ended).contains("--resume"), "{}", said(&ended));
    assert!(first.exists() && rounds(&folder) < 20 && !folder.join("aggregate.json").exists());
    let taken = std::fs::read(&first).expect("a round");
    let resume = |repo: &Repo| {
        let mut command = repo.command(&["--resume", out, "--force-rates"]);
        let output = command.env("CARGO", repo.beside("stamps").join("cargo")).output().expect("the program starts");
        (output.status.code(), said(&output))
    };
    std::fs::remove_dir_all(repo.beside("build")).expect("the programs were there");
    let (code, text) = resume(&repo);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("PASS") && rounds(&folder) == 20, "{text}");
    assert_eq!(std::fs::read(&first).expect("a round"), taken);
    std::fs::remove_dir_all(folder).expect("it was there");
}

/// A program that fails ends the run, and what there is stays.
#[test]
fn a_leg_that_fails_is_told() {
    let Some(repo) = Repo::new("crash") else { return };
    repo.program(100, "0");
    repo.write("program.sh", "#!/bin/sh\necho 3 tasks are lost >&2\nexit 1\n");
    repo.commit("a crash");
    let folder = repo.beside("run");
    let legs = ["--baseline", "HEAD~1", "--candidate", "HEAD", "--target", "flood_1m"];
    let (code, text) = repo.ended(&[&legs[..], &["--out", folder.to_str().expect("text")]].concat());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("3 tasks are lost") && text.contains("are kept in"), "{text}");
    assert!(rounds(&folder) == 1 && !folder.join("aggregate.json").exists() && !folder.join("README.md").exists());
    std::fs::remove_dir_all(folder).expect("it was there");
}
