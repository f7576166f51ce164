//! Files with a position.

use crate::support::{Scratch, both, noise};
use futures_lite::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use scheduler::io::File;
use std::io::{ErrorKind, SeekFrom};

#[test]
fn written_and_read() {
    both(|| async {
        let scratch = Scratch::new();
        let path = scratch.path("a");
        let data = noise(1_000_000);
        let mut cursor = File::create(&path).await?.cursor(0);
        for part in data.chunks(77_777) {
            cursor.write_all(part).await?;
        }
        assert_eq!(cursor.position(), 1_000_000);
        cursor.close().await?;
        assert!(std::fs::read(&path)? == data, "what was written differs");
        let mut cursor = File::open(&path).await?.cursor(10);
        let mut all = Vec::new();
        assert_eq!(cursor.read_to_end(&mut all).await?, 999_990);
        assert!(all == data[10..], "what was read differs");
        // The end stays the end, and it is no end after a seek.
        assert_eq!(cursor.read(&mut [0; 8]).await?, 0);
        assert_eq!(cursor.seek(SeekFrom::End(-5)).await?, 999_995);
        let mut last = [0; 8];
        assert_eq!(cursor.read(&mut last).await?, 5);
        assert_eq!(last[..5], data[999_995..]);
        assert_eq!(cursor.seek(SeekFrom::Current(-1_000)).await?, 999_000);
        cursor.read_exact(&mut last).await?;
        assert_eq!(last, data[999_000..999_008]);
        assert_eq!(cursor.seek(SeekFrom::Current(-1_000_000)).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        Ok(())
    });
}

#[test]
fn errors_of_writes_are_told() {
    both(|| async {
        let mut full = File::options().write(true).open("/dev/full").await?.cursor(0);
        let written = full.write_all(b"x").await;
        let flushed = full.flush().await;
        let told = [written, flushed].into_iter().filter_map(Result::err).map(|error| error.kind());
        assert_eq!(told.collect::<Vec<_>>(), [ErrorKind::StorageFull]);
        Ok(())
    });
}
