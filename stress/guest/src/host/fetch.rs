//! Getting QEMU, a kernel and busybox. Debian packages are unpacked below the target folder, not installed; QEMU is
//! installed where that is allowed, since it needs dozens of libraries.

use super::{Trouble, broken};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const QEMU: &str = "qemu-system-x86_64";
const QEMU_PACKAGE: &str = "qemu-system-x86";
/// Depends on the kernel package of the day.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";
const BUSYBOX_PACKAGE: &str = "busybox-static";

/// Taken instead of the packages when set.
const KERNEL_VARIABLE: &str = "GUEST_KERNEL";
const BUSYBOX_VARIABLE: &str = "GUEST_BUSYBOX";

pub(crate) struct Packages {
    pub(crate) kernel: PathBuf,
    pub(crate) busybox: PathBuf,
}

/// Where a program is.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The emulator, installed if need be and possible.
pub(crate) fn qemu() -> Result<PathBuf, Trouble> {
    if let Some(found) = program(QEMU) {
        return Ok(found);
    }
    let missing = |why: &str| Trouble::Missing(format!("{QEMU} is not here, {why}"));
    program("apt-get").ok_or_else(|| missing("and there is no apt-get"))?;
    // SAFETY: no memory is passed.
    if unsafe { libc::geteuid() } != 0 {
        return Err(missing("and installing is not ours: we are not root"));
    }
    println!("installing {QEMU_PACKAGE}");
    update();
    let done = apt().args(["install", "-y", "--no-install-recommends", QEMU_PACKAGE]).status();
    match (done, program(QEMU)) {
        (_, Some(found)) => Ok(found),
        (Ok(status), None) => Err(missing(&format!("and apt-get install ended with {status}"))),
        (Err(error), None) => Err(missing(&format!("and apt-get cannot be started: {error}"))),
    }
}

/// First line of `qemu --version`.
pub(crate) fn version(qemu: &Path) -> String {
    let output = Command::new(qemu).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("QEMU of unknown version").to_owned()
}

/// Kernel and busybox: named by the environment, or cached, or fetched.
pub(crate) fn packages(cache: &Path) -> Result<Packages, Trouble> {
    let named = |variable: &str| match std::env::var_os(variable).map(PathBuf::from) {
        Some(path) if !path.is_file() => Err(Trouble::BadInput(format!("{variable}: no file {}", path.display()))),
        path => Ok(path),
    };
    let kernel = match named(KERNEL_VARIABLE)? {
        Some(path) => path,
        None => kernel(cache)?,
    };
    let busybox = match named(BUSYBOX_VARIABLE)? {
        Some(path) => path,
        None => unpacked(cache, BUSYBOX_PACKAGE)?.join("bin/busybox"),
    };
    for file in [&kernel, &busybox] {
        if !file.is_file() {
            return Err(Trouble::Missing(format!("no file {} in the package", file.display())));
        }
    }
    Ok(Packages { kernel, busybox })
}

fn kernel(cache: &Path) -> Result<PathBuf, Trouble> {
    // Once unpacked, the kernel stays the same until the cache is removed.
    let cached = fs::read_dir(cache).into_iter().flatten().flatten();
    let mut cached = cached.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let package = match cached.find(|name| name.starts_with("linux-image-") && !name.ends_with(PART)) {
        Some(name) => name,
        None => kernel_of_the_day()?,
    };
    let boot = unpacked(cache, &package)?.join("boot");
    let mut files = fs::read_dir(&boot).map_err(broken(boot.display()))?.flatten();
    let image = files.find(|entry| entry.file_name().to_string_lossy().starts_with("vmlinuz-"));
    image.map(|entry| entry.path()).ok_or_else(|| Trouble::Missing(format!("no vmlinuz in {package}")))
}

fn kernel_of_the_day() -> Result<String, Trouble> {
    let missing = |why: String| Trouble::Missing(format!("the package {KERNEL_PACKAGE}: {why}"));
    let tool = program("apt-cache").ok_or_else(|| missing("no apt-cache here".into()))?;
    let look = || {
        let output = Command::new(&tool).args(["depends", KERNEL_PACKAGE]).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let package = text.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"))?;
        Some(format!("linux-image-{package}"))
    };
    if let Some(package) = look() {
        return Ok(package);
    }
    update();
    look().ok_or_else(|| missing("apt-cache does not know what it depends on".into()))
}

/// Ending of a folder that is being filled.
const PART: &str = ".part";

/// The folder of an unpacked package.
fn unpacked(cache: &Path, package: &str) -> Result<PathBuf, Trouble> {
    let folder = cache.join(package);
    if folder.is_dir() {
        return Ok(folder);
    }
    for tool in ["apt-get", "dpkg"] {
        program(tool).ok_or_else(|| Trouble::Missing(format!("the package {package}: no {tool} here")))?;
    }
    let part = cache.join(format!("{package}{PART}"));
    if part.exists() {
        fs::remove_dir_all(&part).map_err(broken(part.display()))?;
    }
    fs::create_dir_all(&part).map_err(broken(part.display()))?;
    println!("fetching {package}");
    if !download(&part, package) {
        update();
        if !download(&part, package) {
            return Err(Trouble::Missing(format!("the package {package}: apt-get download failed")));
        }
    }
    let files = fs::read_dir(&part).map_err(broken(part.display()))?.flatten();
    let archives = files.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "deb"));
    for archive in archives.collect::<Vec<_>>() {
        let status = Command::new("dpkg").arg("-x").args([&archive, &part]).status().map_err(broken("dpkg"))?;
        if !status.success() {
            return Err(Trouble::Broken(format!("dpkg -x {}: {status}", archive.display())));
        }
    }
    fs::rename(&part, &folder).map_err(broken(folder.display()))?;
    Ok(folder)
}

fn download(folder: &Path, package: &str) -> bool {
    apt().current_dir(folder).args(["download", package]).status().is_ok_and(|status| status.success())
}

fn update() {
    // Without the right to, or without a network, the lists stay as they are.
    let _ = apt().arg("update").status();
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    // The folder is ours alone, so the user that downloads in root's name could not write there.
    command.args(["-qq", "-o", "APT::Sandbox::User=root"]).env("DEBIAN_FRONTEND", "noninteractive");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found() {
        assert!(program("sh").is_some());
        assert!(program("no-such-program").is_none());
    }
}
