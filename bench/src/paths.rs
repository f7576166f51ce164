//! Where things are: the source tree, the target folder, programs.
use std::path::{Path, PathBuf};

/// The root of the workspace this program was built from, where it was then: it need not be there any more.
pub(crate) fn root() -> &'static Path {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    bench.parent().unwrap_or(bench)
}

/// The workspace that a folder lies in; `None` if it lies in none of this kind.
pub(crate) fn workspace(folder: &Path) -> Option<PathBuf> {
    let parts = ["Cargo.lock", "scheduler", "stress", "bench"];
    folder.ancestors().find(|f| parts.iter().all(|part| f.join(part).exists())).map(Path::to_path_buf)
}

/// The target folder: the one this program lies in, two levels above it (`target/release/bench`), three in the case of
/// a test (`.../deps/`); of a program that was carried off, the one cargo would take at the root.
pub(crate) fn target() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    of_program(&exe).unwrap_or_else(|| match root().is_dir() {
        true => stress::tree::target(),
        false => PathBuf::from("target"),
    })
}

fn of_program(exe: &Path) -> Option<PathBuf> {
    let folders = exe.ancestors().skip(1).filter(|f| !f.ends_with("deps")).nth(1)?;
    // Cargo marks what it builds in.
    folders.join("CACHEDIR.TAG").exists().then(|| folders.to_path_buf())
}

/// The first of these programs that the search path has.
pub(crate) fn program(names: &[&str]) -> Option<PathBuf> {
    programs(names).next()
}

/// All programs of these names that the search path has: first all of the first name.
pub(crate) fn programs(names: &[&str]) -> impl Iterator<Item = PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let all: Vec<PathBuf> = names.iter().flat_map(|n| folders.iter().map(move |f| f.join(n))).collect();
    all.into_iter().filter(|p| p.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_marked_folder_is_a_target_folder() {
        let folder = std::env::temp_dir().join(format!("bench-paths-{}", std::process::id()));
        let built = folder.join("build/release");
        std::fs::create_dir_all(&built).unwrap();
        assert_eq!(of_program(&built.join("bench")), None);
        std::fs::write(folder.join("build/CACHEDIR.TAG"), "").unwrap();
        for exe in ["bench", "deps/bench-0"] {
            assert_eq!(of_program(&built.join(exe)), Some(folder.join("build")), "{exe}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_workspace_is_found_from_below() {
        assert_eq!(workspace(&root().join("bench/src")).as_deref(), Some(root()));
        assert_eq!(workspace(&std::env::temp_dir()), None);
    }
}
