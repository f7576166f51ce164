//! The host's side: get what is needed, build, boot, print the table.

mod archive;
mod boot;
mod compile;
mod fetch;
mod table;
mod transfers;

use crate::machine::{self, MACHINES, Machine};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

const USAGE: &str = "usage: guest [BOOT..] | guest --list | guest --shell BOOT";
/// Exit code that says: this could not be tried here.
const NOT_RUN: u8 = 77;
/// Exit code for bad arguments.
const BAD_INPUT: u8 = 2;
/// Each guest keeps one CPU of the host busy; more than this at once have not been tried.
const BOOTS_AT_ONCE: usize = 2;

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Something is missing that is not ours to provide.
    Missing(String),
    /// Something that must work did not.
    Broken(String),
    /// Something was asked for that is not there.
    BadInput(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Trouble::Missing(why) | Trouble::Broken(why) | Trouble::BadInput(why)) = self;
        f.write_str(why)
    }
}

/// Names the thing that an error is about.
pub(crate) fn broken(what: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Trouble {
    move |error| Trouble::Broken(format!("{what}: {error}"))
}

enum Wish {
    Run(Vec<&'static Machine>),
    List,
    Shell(&'static Machine),
}

fn wish(arguments: &[String]) -> Result<Wish, String> {
    let find = |name: &String| machine::named(name).ok_or_else(|| format!("no boot is called {name:?}"));
    match arguments {
        [] => Ok(Wish::Run(MACHINES.iter().collect())),
        [list] if list == "--list" => Ok(Wish::List),
        [shell, name] if shell == "--shell" => find(name).map(Wish::Shell),
        [flag, ..] if flag.starts_with('-') => Err(format!("{flag}: not understood")),
        names => names.iter().map(find).collect::<Result<_, _>>().map(Wish::Run),
    }
}

/// The command.
#[must_use]
pub fn main(arguments: Vec<String>) -> ExitCode {
    let done = match wish(&arguments) {
        Ok(Wish::List) => {
            MACHINES.iter().for_each(|machine| println!("{:10} {}", machine.name, machine.what));
            return ExitCode::SUCCESS;
        }
        Ok(Wish::Run(machines)) => run(&machines),
        Ok(Wish::Shell(machine)) => shell(machine),
        Err(error) => {
            eprintln!("guest: {error}\n{USAGE}");
            return ExitCode::from(BAD_INPUT);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Trouble::Missing(why)) => {
            println!("NOT RUN: {why}");
            ExitCode::from(NOT_RUN)
        }
        Err(Trouble::Broken(why)) => {
            println!("FAILED: {why}");
            ExitCode::FAILURE
        }
        Err(Trouble::BadInput(why)) => {
            eprintln!("guest: {why}");
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// What a boot needs.
pub(crate) struct Kit {
    /// `target/guest`.
    pub(crate) folder: PathBuf,
    pub(crate) qemu: PathBuf,
    pub(crate) kernel: PathBuf,
    pub(crate) image: PathBuf,
}

fn prepare() -> Result<Kit, Trouble> {
    let folder = stress::tree::target().join("guest");
    std::fs::create_dir_all(&folder).map_err(broken(folder.display()))?;
    let qemu = fetch::qemu()?;
    let packages = fetch::packages(&folder.join("cache"))?;
    let began = Instant::now();
    let programs = compile::programs()?;
    let image = folder.join("image.cpio");
    pack(&image, &packages.busybox, &programs)?;
    println!("programs and image ready after {:.0} s", began.elapsed().as_secs_f64());
    Ok(Kit { folder, qemu, kernel: packages.kernel, image })
}

/// Writes the guest's file system.
fn pack(image: &Path, busybox: &Path, programs: &[compile::Program]) -> Result<(), Trouble> {
    let mut archive = archive::Archive::new();
    for folder in ["bin", "dev", "proc", "sys", "tmp", "tests"] {
        archive.folder(folder);
    }
    archive.program("init", include_bytes!("../init.sh"));
    archive.program("bin/busybox", &std::fs::read(busybox).map_err(broken(busybox.display()))?);
    for program in programs {
        let content = std::fs::read(&program.path).map_err(broken(program.path.display()))?;
        archive.program(&program.place, &content);
    }
    std::fs::write(image, archive.finish()).map_err(broken(image.display()))
}

fn run(machines: &[&'static Machine]) -> Result<bool, Trouble> {
    let began = Instant::now();
    let kit = prepare()?;
    println!("{}, {}", fetch::version(&kit.qemu), kit.kernel.file_name().unwrap_or_default().to_string_lossy());
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(BOOTS_AT_ONCE);
    let waiting = Mutex::new(machines.iter());
    let finished = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(|e| e.into_inner()).next();
                    let Some(machine) = next else { return };
                    let boot = boot::boot(&kit, machine);
                    println!("{} came back after {:.0} s", machine.name, boot.seconds);
                    finished.lock().unwrap_or_else(|e| e.into_inner()).push(boot);
                }
            });
        }
    });
    let mut boots = finished.into_inner().unwrap_or_else(|e| e.into_inner());
    boots.sort_by_key(|boot| MACHINES.iter().position(|machine| machine.name == boot.name));
    let sum = table::print(&boots);
    println!("{sum}, {:.0} s", began.elapsed().as_secs_f64());
    Ok(sum.good())
}

fn shell(machine: &'static Machine) -> Result<bool, Trouble> {
    let kit = prepare()?;
    let status = boot::command(&kit, machine, " guest.shell").status().map_err(broken(kit.qemu.display()))?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> Result<Wish, String> {
        wish(&arguments.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments() {
        assert!(matches!(of(&[]), Ok(Wish::Run(all)) if all.len() == MACHINES.len()));
        assert!(matches!(of(&["wide", "five"]), Ok(Wish::Run(two)) if two.len() == 2 && two[0].name == "wide"));
        assert!(matches!(of(&["--list"]), Ok(Wish::List)));
        assert!(matches!(of(&["--shell", "five"]), Ok(Wish::Shell(one)) if one.name == "five"));
        for (bad, named) in [(&["six"][..], "six"), (&["--shell"], "--shell"), (&["--all"], "--all")] {
            assert!(of(bad).err().is_some_and(|error| error.contains(named)), "{bad:?}");
        }
    }
}
