//! Where things are: the source tree, the target folder, programs.
use std::path::{Path, PathBuf};

/// The root of the workspace this program was built from.
pub(crate) fn root() -> &'static Path {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    bench.parent().unwrap_or(bench)
}

/// The target folder this program lies in: two levels above it (`target/release/bench`), three in the case of a test
/// (`.../deps/`).
pub(crate) fn target() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    let folders: Vec<&Path> = exe.ancestors().skip(1).filter(|f| !f.ends_with("deps")).collect();
    folders.get(1).map_or_else(|| root().join("target"), |f| f.to_path_buf())
}

/// The first of these programs that the search path has.
pub(crate) fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().flat_map(|n| folders.iter().map(move |f| f.join(n))).find(|p| p.is_file())
}
