//! Running the example, and a place for its trees.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

/// Far beyond what any run here takes, also in a debug build on a busy machine: a run that gets here hangs.
const HANGS: Duration = Duration::from_secs(120);

/// A directory that goes away with the test.
pub(crate) struct Temp(pub(crate) PathBuf);

impl Temp {
    pub(crate) fn new() -> Temp {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("sha256tree-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Temp(path)
    }

    pub(crate) fn file(&self, name: &[u8], content: &[u8]) -> PathBuf {
        let path = self.0.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The example of the profile under test. `cargo test --test sha256tree` does not build examples, so cargo is asked
/// here: it knows what is out of date.
pub(crate) fn example() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().and_then(Path::parent).unwrap();
        let name = match profile.file_name().and_then(OsStr::to_str).unwrap() {
            "debug" => "dev",
            other => other,
        };
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--example", "sha256tree", "--profile", name]);
        build.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        build.arg("--target-dir").arg(profile.parent().unwrap());
        assert!(build.status().unwrap().success(), "cannot build the example");
        profile.join("examples/sha256tree")
    })
}

/// Runs to the end, or kills what hangs.
pub(crate) fn finish(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).spawn().unwrap();
    let pid = child.id().to_string();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            while !done.load(Relaxed) {
                if began.elapsed() > HANGS {
                    eprintln!("{pid} hangs");
                    let _ = Command::new("kill").args(["-9", &pid]).status();
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let output = child.wait_with_output().unwrap();
        done.store(true, Relaxed);
        output
    })
}

pub(crate) fn sha256tree(arguments: &[&OsStr]) -> Output {
    finish(Command::new(example()).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()))
}

pub(crate) fn run(root: &Path) -> Output {
    sha256tree(&[root.as_os_str()])
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
pub(crate) fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{:?}: {}", output.status, stderr(output));
}

pub(crate) fn hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}
