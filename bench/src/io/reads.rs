//! Reads of 4 KiB, at places that nobody can foresee, of a file that was written just before and lies in memory: what
//! a read costs that need not wait for a disk.
use super::arms::Runtime;
use super::scenario::Taken;
use super::tasks::{Tally, measured};
use crate::check::token;
use crate::paths;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

/// Bytes per read, and of the file.
const BLOCK: u64 = 4 << 10;
const FILE: u64 = 64 << 20;

/// The file, in which every word is its own number. It has no name any more when this returns.
fn file() -> Result<File, String> {
    let path = paths::target().join(format!("bench-reads-{}", std::process::id()));
    let said = |e: std::io::Error| format!("{}: {e}", path.display());
    let written = File::options().read(true).write(true).create(true).truncate(true).open(&path).map_err(said)?;
    std::fs::remove_file(&path).map_err(said)?;
    let mut out = BufWriter::with_capacity(1 << 20, written);
    (0..FILE / 8).try_for_each(|word| out.write_all(&word.to_le_bytes())).map_err(said)?;
    out.into_inner().map_err(|e| said(e.into_error()))
}

/// `reads` in all, by `depth` tasks of which each has one under way.
pub(super) fn take<R: Runtime>(runtime: R, depth: u64, reads: u64, count_allocations: bool) -> Result<Taken, String> {
    let (file, tally) = (Arc::new(R::file(file()?)), Tally::of(depth));
    let each = reads / depth;
    measured(runtime, each * depth, tally, count_allocations, || {
        for task in 0..depth {
            let file = file.clone();
            runtime.spawn(async move {
                let mut buf = vec![0; BLOCK as usize];
                let mut state = token(task) | 1;
                for _ in 0..each {
                    // Xorshift: another block every time.
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let at = state % (FILE / BLOCK) * BLOCK;
                    let (count, filled) = R::read(&file, buf, at).await;
                    buf = filled;
                    let first = u64::from_le_bytes(std::array::from_fn(|i| buf[i]));
                    if !matches!(count, Ok(count) if count as u64 == BLOCK) || first != at / 8 {
                        // It is missed at the end.
                        return;
                    }
                }
                tally.hit(token(task));
            });
        }
    })
}
