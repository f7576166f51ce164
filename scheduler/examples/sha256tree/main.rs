//! `sha256tree PATH`: the SHA-256 of every regular file below PATH, in the format of `sha256sum`, computed on the
//! scheduler.
//!
//! * stdout: the manifest, sorted by the bytes of the path; `sha256sum -c` accepts it.
//! * stderr: a progress bar (on a terminal), one line per file that could not be hashed, and a closing line; with
//!   `--json` the closing line is one JSON object instead, so it is always the last line of stderr.
//! * exit code: 0 everything was hashed; 1 something was not, or stdout refused the manifest; 2 PATH is missing or the
//!   command line makes no sense; 141 the reader of stdout went away (as if killed by SIGPIPE).
//!
//! Symlinks below PATH are not followed (PATH itself is). Sockets, fifos and devices are no files and are never opened.
//! A file that changes while it is read is reported, not listed: its sum would describe a state that never existed.

#[cfg(not(loom))]
mod big;
#[cfg(not(loom))]
mod cli;
#[cfg(not(loom))]
mod job;
#[cfg(not(loom))]
mod manifest;
#[cfg(not(loom))]
mod read;
#[cfg(not(loom))]
mod report;
#[cfg(not(loom))]
mod run;
#[cfg(not(loom))]
mod walk;

#[cfg(not(loom))]
fn main() -> std::process::ExitCode {
    run::main(&cli::parse())
}

#[cfg(loom)]
fn main() {}
