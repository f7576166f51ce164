//! The sources this program was built from: which commit they are, wherever the program is started.
use crate::paths;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The hash of the gated sources it was built from; empty if it was built without.
pub(crate) const BUILT_FROM: &str = env!("BENCH_TREE");
/// The compiler it was built with; empty if that did not say.
pub(crate) const COMPILER: &str = env!("BENCH_RUSTC");

/// A checkout of the sources.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    pub(crate) root: Option<PathBuf>,
    /// Whether its gated sources are those that were built.
    same: bool,
    /// All checkouts that were looked at.
    pub(crate) places: Vec<PathBuf>,
}

impl Source {
    /// Where the program was built, or else the checkout around the working directory: the first whose sources are
    /// those of the program, or else the first that is there.
    pub(crate) fn find() -> Source {
        let here = std::env::current_dir().ok().and_then(|folder| paths::workspace(&folder));
        Source::among(places(here), BUILT_FROM)
    }

    fn among(places: Vec<PathBuf>, built_from: &str) -> Source {
        // Without a hash nobody can tell, so the place where it was built is believed.
        let same =
            |root: &&PathBuf| built_from.is_empty() || stress::tree::hash(root).is_ok_and(|hash| hash == built_from);
        let found = places.iter().find(same);
        Source { root: found.or(places.first()).cloned(), same: found.is_some(), places }
    }

    /// The commit, whether the sources differ from it, and why one of the two is not known or not what was built.
    pub(crate) fn commit(&self) -> (Option<String>, Option<bool>, Option<String>) {
        let Some(root) = &self.root else {
            return (None, None, Some("the sources are neither where this was built nor where it was started".into()));
        };
        let Some(commit) = git(root, &["rev-parse", "HEAD"]) else {
            return (None, None, Some("the sources are no git repository that `git` can read".into()));
        };
        let dirty = git(root, &["status", "--porcelain"]).map(|changes| !changes.is_empty());
        if self.same {
            return (Some(commit), dirty, None);
        }
        (Some(commit), Some(true), Some("the sources have changed since this program was built".into()))
    }
}

/// Checkouts that are there.
fn places(here: Option<PathBuf>) -> Vec<PathBuf> {
    let built = paths::workspace(paths::root());
    built.into_iter().chain(here).collect()
}

/// What git says about the repository at `root`, and about no other: not the one that a hook runs in, and whoever owns
/// it.
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(["--no-optional-locks", "-c", "safe.directory=*"]).args(args);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"GIT_") {
            command.env_remove(name);
        }
    }
    let out = command.output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, line: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("bench-source-{}-{name}", std::process::id()));
        for folder in ["numa", "scheduler", "stress"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
            std::fs::write(root.join(folder).join("lib.rs"), line).unwrap();
        }
        for file in ["Cargo.lock", "Cargo.toml"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        root
    }

    #[test]
    fn the_sources_that_were_built_are_preferred() {
        let places = [tree("a", "fn a() {}"), tree("b", "fn b() {}")];
        let [a, b] = places.each_ref().map(|p| stress::tree::hash(p).unwrap());
        let found = |hash: &str| Source::among(places.to_vec(), hash);
        assert_eq!((found(&a).root.as_ref(), found(&a).same), (Some(&places[0]), true));
        assert_eq!((found(&b).root.as_ref(), found(&b).same), (Some(&places[1]), true));
        assert_eq!((found("c").root.as_ref(), found("c").same), (Some(&places[0]), false), "changed since");
        assert!(found("").same, "built without a hash");
        let (commit, _, why) = found(&a).commit();
        assert!(commit.is_none() && why.unwrap().contains("no git repository"));
        assert!(Source::among(vec![], &a).commit().2.unwrap().contains("neither where this was built"));
        places.iter().for_each(|place| std::fs::remove_dir_all(place).unwrap());
    }

    #[test]
    fn what_it_was_built_from_is_known() {
        assert_eq!(BUILT_FROM.len(), 64);
        assert!(COMPILER.starts_with("rustc 1."), "{COMPILER}");
    }
}
