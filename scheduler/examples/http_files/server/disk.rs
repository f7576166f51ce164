//! How files are read.
use scheduler::io::File;
use std::io::Result;

/// Fills `buf` from `at` on; what comes back is shorter at the end of the file, and empty behind it.
pub(crate) async fn read_at(file: &File, buf: Vec<u8>, at: u64) -> Result<Vec<u8>> {
    // A regular file is read short only at its end, and a part is as good as the whole: the caller goes on behind it.
    let (count, mut buf) = file.read_at(buf, at).await;
    buf.truncate(count?);
    Ok(buf)
}
