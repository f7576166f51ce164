//! Reading small text files below a root, and keeping a log of it.
//!
//! The files are untrusted: they may be missing, damaged, endless or not files at all. Reads are bounded in length
//! and never block, and numbers become sets only through bounded parsers.
//!
//! Files that have been read stay open until there are [`MOST_OPEN`] of them. Their numbers then mostly follow one
//! another, and one system call closes all that do.

use crate::cpuset::CpuSet;
use crate::facts::{FileRead, ReadOutcome};
use crate::ids::NodeId;
use crate::parse::node_list;
use crate::sys;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Longest file that is read: a mount table of a busy host has tens of kilobytes, a mask of 16,384 CPUs less than
/// four.
const LONGEST: usize = 1 << 20;
/// First buffer: sysfs attributes end at one page.
const FIRST_READ: usize = 4096;
/// Most files held open for closing them together. Few, as a process may open a thousand.
const MOST_OPEN: usize = 16;

/// Files below a root directory, and what came of reading them.
pub(crate) struct Tree {
    root: PathBuf,
    reads: Vec<FileRead>,
    /// Read and not closed yet.
    done: Vec<OwnedFd>,
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.close();
    }
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Tree {
        Tree { root: root.to_owned(), reads: Vec::new(), done: Vec::new() }
    }

    pub(crate) fn into_reads(mut self) -> Vec<FileRead> {
        std::mem::take(&mut self.reads)
    }

    /// Once more with nothing held open, where the process may open no more.
    fn opened<T>(&mut self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        open().or_else(|error| match error.raw_os_error() {
            Some(libc::EMFILE) => {
                self.close();
                open()
            }
            _ => Err(error),
        })
    }

    /// Closes what has been read, numbers that follow one another at once.
    fn close(&mut self) {
        self.done.sort_unstable_by_key(AsRawFd::as_raw_fd);
        while let Some(last) = self.done.last().map(AsRawFd::as_raw_fd) {
            let follow = |back: &usize| self.done[self.done.len() - 1 - back].as_raw_fd() == last - *back as i32;
            let run = (0..self.done.len()).take_while(follow).count();
            sys::close_together(self.done.split_off(self.done.len() - run));
        }
    }

    fn log(&mut self, path: &str, outcome: ReadOutcome) {
        self.reads.push(FileRead { path: PathBuf::from(path), outcome });
    }

    /// A file of several lines, NUL bytes dropped.
    pub(crate) fn lines(&mut self, path: &str) -> Option<String> {
        let mut bytes = self.bytes(path)?;
        bytes.retain(|&byte| byte != 0);
        self.log(path, ReadOutcome::Used);
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// One value: the text up to the first NUL byte, trimmed, as `parse` understands it.
    pub(crate) fn value<T>(&mut self, path: &str, parse: impl FnOnce(&[u8]) -> Result<T, String>) -> Option<T> {
        let bytes = self.bytes(path)?;
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default().trim_ascii();
        match parse(text) {
            Ok(value) => {
                self.log(path, ReadOutcome::Used);
                Some(value)
            }
            Err(why) => {
                self.log(path, ReadOutcome::Ignored(why));
                None
            }
        }
    }

    pub(crate) fn cpu_list(&mut self, path: &str) -> Option<CpuSet> {
        self.value(path, |text| CpuSet::from_list(text).map_err(|error| error.to_string()))
    }

    pub(crate) fn cpu_map(&mut self, path: &str) -> Option<CpuSet> {
        self.value(path, |text| CpuSet::from_hex_map(text).map_err(|error| error.to_string()))
    }

    pub(crate) fn nodes(&mut self, path: &str) -> Option<Vec<NodeId>> {
        self.value(path, |text| node_list(text).map_err(|error| error.to_string()))
    }

    pub(crate) fn number(&mut self, path: &str) -> Option<i64> {
        self.value(path, |text| {
            let text = String::from_utf8_lossy(text);
            text.parse().map_err(|_| format!("expected a number, found {text:?}"))
        })
    }

    /// Numbers `N` of the entries `<prefix>N` in a directory, ascending, those of `limit` or more left out.
    pub(crate) fn numbered(&mut self, path: &str, prefix: &str, limit: u32) -> Vec<u32> {
        let whole = self.root.join(path);
        let Ok(entries) = self.opened(|| fs::read_dir(&whole)) else {
            self.log(path, ReadOutcome::Missing);
            return Vec::new();
        };
        self.log(path, ReadOutcome::Used);
        let number = |name: &str| name.strip_prefix(prefix)?.parse::<u32>().ok().filter(|&number| number < limit);
        let mut numbers: Vec<u32> = entries.filter_map(|entry| number(entry.ok()?.file_name().to_str()?)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    pub(crate) fn is_dir(&mut self, path: &str) -> bool {
        let there = self.root.join(path).is_dir();
        if !there {
            self.log(path, ReadOutcome::Missing);
        }
        there
    }

    /// The raw bytes. Logs failures only; the caller logs success, for it knows whether the text made sense.
    fn bytes(&mut self, path: &str) -> Option<Vec<u8>> {
        let whole = self.root.join(path);
        let file = self.opened(|| open(&whole));
        let bytes = file.and_then(|mut file| {
            let bytes = read(&mut file, path.starts_with("sys/"));
            self.done.push(file.into());
            bytes
        });
        if self.done.len() >= MOST_OPEN {
            self.close();
        }
        match bytes {
            Ok(bytes) => Some(bytes),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                self.log(path, ReadOutcome::Missing);
                None
            }
            Err(error) => {
                self.log(path, ReadOutcome::Unreadable(error.to_string()));
                None
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    // O_NONBLOCK: a pipe in place of a file must not stop us.
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// `one_shot`: the file answers completely in one read (sysfs, cgroup files), so a short read is the end of it.
/// Files in `/proc` come in pieces.
fn read(file: &mut File, one_shot: bool) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; FIRST_READ];
    let mut filled = 0;
    while filled < LONGEST {
        if filled == bytes.len() {
            bytes.resize(filled * 2, 0);
        }
        let space = bytes.len() - filled;
        let got = match file.read(&mut bytes[filled..]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            result => result?,
        };
        filled += got;
        if got == 0 || (one_shot && got < space) {
            bytes.truncate(filled);
            return Ok(bytes);
        }
    }
    Err(io::Error::new(ErrorKind::FileTooLarge, format!("longer than {LONGEST} bytes")))
}
