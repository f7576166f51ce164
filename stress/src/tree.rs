//! The hash of the source tree that a stamp belongs to. The gate and the benchmarks take it from here.
//!
//! SHA-256 over `Cargo.lock`, `Cargo.toml` (the build profiles), `.cargo/config.toml` where there is one, and every
//! `.rs` and `.toml` file below `numa/`, `scheduler/` and `stress/` (folders named `target` left out), sorted by
//! relative path; per file: length of the path, path, length of the content, content, the lengths as 8 bytes, little
//! endian. Documents do not count: what runs is the same without them.

use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};

const FOLDERS: [&str; 3] = ["numa", "scheduler", "stress"];
const FILES: [&str; 2] = ["Cargo.lock", "Cargo.toml"];
const CONFIG: &str = ".cargo/config.toml";

/// The root of the workspace this was built in.
///
/// # Panics
/// Never: the crate lies in a folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("stress/ has a parent").to_owned()
}

/// Where cargo builds: `CARGO_TARGET_DIR`, or `target/` at the root.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The hash, in hexadecimal.
///
/// # Errors
/// When a file cannot be read.
pub fn hash(root: &Path) -> io::Result<String> {
    let mut files: Vec<PathBuf> = FILES.iter().map(PathBuf::from).collect();
    if root.join(CONFIG).is_file() {
        files.push(CONFIG.into());
    }
    for folder in FOLDERS {
        collect(root, Path::new(folder), &mut files)?;
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        let name = file.as_os_str().as_encoded_bytes();
        let content = std::fs::read(root.join(file))?;
        // Lengths first: no two trees may hash the same bytes.
        for part in [name, &content] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    Ok(hex(&hash.finalize()))
}

/// The SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// When it cannot be read.
pub fn of_file(path: &Path) -> io::Result<String> {
    Ok(hex(&Sha256::digest(std::fs::read(path)?)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = folder.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && entry.file_name() != "target" {
            collect(root, &name, files)?;
        } else if kind.is_file() && name.extension().is_some_and(|end| end == "rs" || end == "toml") {
            files.push(name);
        }
    }
    Ok(())
}
