//! Two programs from two worktrees.
//!
//! Both worktrees lie at the same place, one after the other: paths are part of a program, so two places would make two
//! different programs of the same source, and the check that they differ could never fail.
use crate::gate::Gate;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository and the folder for what is built from it.
pub(super) struct Workshop {
    repo: PathBuf,
    folder: PathBuf,
    /// Held as long as this lives: two runs would build in each other's worktree.
    _lock: File,
}

/// Runs a program to its end; the error is what it said.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.stdin(Stdio::null()).output().map_err(|e| format!("{name}: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let lines: Vec<&str> = said.lines().collect();
    Err(format!("{name} failed ({}):\n{}", out.status, lines[lines.len().saturating_sub(20)..].join("\n")))
}

impl Workshop {
    pub(super) fn open(repo: &Path, folder: &Path) -> Result<Workshop, String> {
        let said = |e: std::io::Error| format!("{}: {e}", folder.display());
        fs::create_dir_all(folder).map_err(said)?;
        let folder = folder.canonicalize().map_err(said)?;
        let lock = File::create(folder.join("lock")).map_err(said)?;
        lock.try_lock().map_err(|_| format!("{}: another A/B run builds here", folder.display()))?;
        let mut shop = Workshop { repo: repo.to_owned(), folder, _lock: lock };
        shop.repo = PathBuf::from(shop.git(&["rev-parse", "--show-toplevel"])?);
        Ok(shop)
    }

    pub(super) fn repo(&self) -> &Path {
        &self.repo
    }

    fn git(&self, args: &[&str]) -> Result<String, String> {
        run(Command::new("git").arg("-C").arg(&self.repo).args(args))
    }

    /// What is not committed, apart from the folder that the run itself writes.
    pub(super) fn changes(&self, own: &Path) -> Result<Vec<String>, String> {
        let own = own.strip_prefix(&self.repo).ok().map(|p| format!("{}/", p.display()));
        let status = self.git(&["status", "--porcelain", "--untracked-files=all"])?;
        let path = |line: &&str| line.get(2..).unwrap_or_default().trim().trim_matches('"').to_owned();
        let others = status.lines().filter(|l| own.as_ref().is_none_or(|own| !path(l).starts_with(own)));
        Ok(others.map(str::to_owned).collect())
    }

    pub(super) fn commit(&self, rev: &str) -> Result<String, String> {
        let wanted = format!("{rev}^{{commit}}");
        self.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted])
            .map_err(|_| format!("{rev:?} is no revision of {}", self.repo.display()))
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// Where the program of a leg is kept. The plan is in the name, so that a resumed run finds it.
    pub(super) fn program(&self, plan: &str, leg: &str) -> PathBuf {
        self.folder.join(plan).join(leg)
    }

    /// Puts the sources of a commit into the worktree and says whether they are gated.
    pub(super) fn check_out(&self, commit: &str) -> Result<Gate, String> {
        self.clear();
        let tree = self.tree();
        self.git(&["worktree", "add", "--force", "--detach", "--quiet", &tree.to_string_lossy(), commit])?;
        Ok(Gate::of(&tree))
    }

    /// Removes the worktree. What is left of one that was interrupted is only in the way.
    pub(super) fn clear(&self) {
        let tree = self.tree();
        let _ = self.git(&["worktree", "remove", "--force", &tree.to_string_lossy()]);
        let _ = fs::remove_dir_all(&tree);
        let _ = self.git(&["worktree", "prune"]);
    }

    /// Builds what is checked out and keeps the program; returns its SHA-256.
    pub(super) fn build(&self, target: &Path, plan: &str, leg: &str, marker: Option<&str>) -> Result<String, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(self.tree()).env("CARGO_TARGET_DIR", target);
        command.args(["build", "--quiet", "--release", "--locked", "-p", "bench", "--bin", "bench"]);
        // Otherwise a change of a comment or of a test would make another program of the same code.
        command.env("BENCH_WITHOUT_TREE", "1");
        match marker {
            Some(marker) => command.env("BENCH_MARKER", marker),
            None => command.env_remove("BENCH_MARKER"),
        };
        run(&mut command)?;
        let (built, kept) = (target.join("release/bench"), self.program(plan, leg));
        let said = |e: std::io::Error| format!("{}: {e}", kept.display());
        fs::create_dir_all(kept.parent().unwrap_or(&self.folder)).map_err(said)?;
        fs::copy(&built, &kept).map_err(|e| format!("{}: {e}", built.display()))?;
        stress::tree::of_file(&kept).map_err(said)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        self.clear();
    }
}
