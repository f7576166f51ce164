//! Files at offsets.

use crate::support::{Scratch, both, in_time, noise, scheduler};
use scheduler::io::{self, File};
use std::io::ErrorKind;
use std::sync::Arc;

#[test]
fn what_is_written_is_read() {
    both(|| async {
        let scratch = Scratch::new();
        let file = File::options().read(true).write(true).create_new(true).open(scratch.path("a")).await?;
        let data = noise(300_000);
        let (written, data) = file.write_all_at(data, 5).await;
        written?;
        file.sync_data().await?;
        assert_eq!(file.len().await?, 300_005);
        let (mut all, mut offset) = (Vec::new(), 0);
        loop {
            let (count, buf) = file.read_at(Vec::with_capacity(70_000), offset).await;
            if count? == 0 {
                break;
            }
            offset += buf.len() as u64;
            all.extend(buf);
        }
        assert_eq!(all[..5], [0; 5]);
        assert!(all[5..] == data, "what was read differs");
        file.set_len(7).await?;
        assert_eq!(file.metadata().await?.len(), 7);
        file.sync_all().await
    });
}

#[test]
fn buffers_of_all_kinds() {
    both(|| async {
        let scratch = Scratch::new();
        let file = File::options().read(true).write(true).create(true).open(scratch.path("a")).await?;
        for (offset, text) in [(0, "one"), (3, "two")] {
            file.write_all_at(text, offset).await.0?;
        }
        file.write_all_at(String::from("three"), 6).await.0?;
        file.write_all_at(*b"four", 11).await.0?;
        file.write_all_at(b"five".to_vec().into_boxed_slice(), 15).await.0?;
        let (count, array) = file.read_at([0xff; 32], 0).await;
        assert_eq!((count?, &array[..19], array[19]), (19, &b"onetwothreefourfive"[..], 0xff));
        let (count, boxed) = file.read_at(vec![0xff; 8].into_boxed_slice(), 15).await;
        assert_eq!((count?, &boxed[..4], boxed[4]), (4, &b"five"[..], 0xff));
        // What a vector held before is gone.
        let (count, vec) = file.read_at(vec![7; 100], 11).await;
        assert_eq!((count?, vec.as_slice()), (8, &b"fourfive"[..]));
        Ok(())
    });
}

#[test]
fn opening() {
    both(|| async {
        let scratch = Scratch::new();
        let path = scratch.path("a");
        assert_eq!(File::open(&path).await.unwrap_err().kind(), ErrorKind::NotFound);
        drop(File::create(&path).await?);
        let again = File::options().write(true).create_new(true).open(&path).await;
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
        let log = File::options().append(true).open(&path).await?;
        log.write_all_at("a", 100).await.0?;
        log.write_all_at("b", 0).await.0?;
        assert_eq!(std::fs::read(&path)?, b"ab");
        File::create(&path).await?;
        assert_eq!(std::fs::read(&path)?, b"");
        let (refused, buf) = File::open(&path).await?.write_at("x", 0).await;
        assert_eq!((refused.unwrap_err().raw_os_error(), buf), (Some(libc::EBADF), "x"));
        Ok(())
    });
}

#[test]
fn what_is_known() {
    both(|| async {
        let scratch = Scratch::new();
        let (path, link) = (scratch.path("a"), scratch.path("b"));
        std::fs::write(&path, "12345")?;
        std::os::unix::fs::symlink(&path, &link)?;
        let known = std::fs::metadata(&path)?;
        for metadata in
            [io::metadata(&path).await?, io::metadata(&link).await?, File::open(&path).await?.metadata().await?]
        {
            use std::os::unix::fs::MetadataExt;
            assert!(metadata.is_file() && !metadata.is_dir());
            assert_eq!((metadata.len(), metadata.ino(), metadata.mode()), (5, known.ino(), known.mode()));
            assert_eq!(metadata.modified(), known.modified()?);
            assert_eq!((metadata.uid(), metadata.gid(), metadata.nlink()), (known.uid(), known.gid(), 1));
        }
        assert!(io::symlink_metadata(&link).await?.is_symlink());
        assert!(io::metadata(&scratch.0).await?.is_dir());
        assert_eq!(io::metadata(scratch.path("c")).await.unwrap_err().kind(), ErrorKind::NotFound);
        Ok(())
    });
}

#[test]
fn directories() {
    both(|| async {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("inner"))?;
        for n in 0..300 {
            std::fs::write(scratch.path(&format!("file-{n}")), "")?;
        }
        let mut entries = io::read_dir(&scratch.0).await?;
        let (mut files, mut directories) = (0, 0);
        while let Some(entry) = entries.next().await? {
            assert_eq!(entry.path(), scratch.0.join(entry.file_name()));
            if entry.file_type()?.is_dir() { directories += 1 } else { files += 1 }
        }
        assert_eq!((files, directories), (300, 1));
        assert!(entries.next().await?.is_none());
        assert_eq!(io::read_dir(scratch.path("none")).await.unwrap_err().kind(), ErrorKind::NotFound);
        let not_one = io::read_dir(scratch.path("file-0")).await.unwrap_err();
        assert_eq!(not_one.kind(), ErrorKind::NotADirectory);
        Ok(())
    });
}

#[test]
fn many_at_once() {
    let scratch = Scratch::new();
    let data = Arc::new(noise(1 << 20));
    std::fs::write(scratch.path("a"), &*data).unwrap();
    let scheduler = scheduler();
    let file = Arc::new(scheduler::block_on(File::open(scratch.path("a"))).unwrap());
    let readers: Vec<_> = (0..64_u64)
        .map(|reader| {
            let (file, data) = (file.clone(), data.clone());
            let reads = async move {
                for read in 0..64_u64 {
                    let offset = (reader * 7919 + read * 104_729) % (1 << 20);
                    let (count, buf) = file.read_at(Vec::with_capacity(4096), offset).await;
                    let (count, offset) = (count.expect("read"), offset as usize);
                    assert!(count > 0 && buf == data[offset..offset + count]);
                }
            };
            scheduler.spawn_future(in_time(reads)).unwrap()
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}
