//! Where the system has no thread, no descriptor, or nobody who keeps time.

use crate::support::{HOPELESS, Scratch, in_time};
use scheduler::io::{Buf, BufMut, File, TcpListener, blocking, read_dir};
use std::future::Future;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The calling thread gets no more threads.
fn no_threads() {
    let filter = |code: u32, jt, jf, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let program = [
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        filter(equal, 1, 0, libc::SYS_clone as u32),
        filter(equal, 0, 1, libc::SYS_clone3 as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: numbers only.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the kernel copies the program.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(set, 0, "filters of system calls");
}

/// A directory that is read where threads are refused, later where there are some: nothing is lost. In a process of its
/// own, whose pool has no thread yet.
#[test]
#[ignore = "wants a pool without threads: run by `denied::no_threads`"]
fn directories_without_a_thread() {
    let scratch = Scratch::new();
    (0..300).for_each(|n| std::fs::write(scratch.path(&format!("{n}")), "").unwrap());
    let path = scratch.0.clone();
    let mut entries = scheduler::block_on(read_dir(path)).unwrap();
    scheduler::block_on(entries.next()).unwrap().expect("an entry");
    // It ends when it was idle for ten seconds.
    let began = Instant::now();
    while scheduler::internals::io::counts().1 != 0 {
        assert!(began.elapsed() < HOPELESS, "the thread stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (mut entries, mut seen, refused) = std::thread::spawn(move || {
        no_threads();
        assert!(scheduler::block_on(blocking(|| 7)).is_err(), "there is a thread after all");
        let (mut seen, mut refused) = (1, None);
        while refused.is_none() {
            match scheduler::block_on(entries.next()) {
                Ok(entry) => seen += usize::from(entry.is_some()),
                Err(error) => refused = error.raw_os_error(),
            }
        }
        (entries, seen, refused)
    })
    .join()
    .unwrap();
    assert_eq!(refused, Some(libc::EAGAIN));
    assert!(seen < 300, "{seen} entries were read at once");
    while scheduler::block_on(entries.next()).unwrap().is_some() {
        seen += 1;
    }
    assert_eq!(seen, 300);
}

/// A future that is dropped has taken nothing.
#[test]
fn directories_whose_reader_gives_up() {
    let scratch = Scratch::new();
    (0..1000).for_each(|n| std::fs::write(scratch.path(&format!("{n}")), "").unwrap());
    let path = scratch.0.clone();
    let read = async move {
        let (mut entries, mut seen, mut given_up) = (read_dir(path).await?, 0, 0);
        loop {
            if let Some(entry) = futures_lite::future::poll_once(entries.next()).await {
                match entry? {
                    Some(_) => seen += 1,
                    None => break,
                }
            } else {
                given_up += 1;
                scheduler::yield_now().await;
            }
        }
        std::io::Result::Ok((seen, given_up > 0))
    };
    assert_eq!(scheduler::block_on(in_time(read)).unwrap(), (1000, true));
}

/// An executor of somebody else's, which keeps no time.
fn elsewhere<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let began = Instant::now();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        assert!(began.elapsed() < HOPELESS, "never");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `accept` waits before it says that there is no descriptor, whoever polls it.
#[test]
#[ignore = "lowers a limit of the process: run by `denied::few_descriptors_elsewhere`"]
fn accepting_elsewhere() {
    let listener = TcpListener::bind(crate::support::here()).unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let limit = libc::rlimit { rlim_cur: client.as_raw_fd() as u64 + 1, rlim_max: client.as_raw_fd() as u64 + 1 };
    // SAFETY: a limit of this process, which is the test's own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let began = Instant::now();
    for _ in 0..3 {
        assert_eq!(elsewhere(listener.accept()).unwrap_err().raw_os_error(), Some(libc::EMFILE));
    }
    // 10, 20, 40 ms.
    assert!(began.elapsed() >= Duration::from_millis(70), "{:?}", began.elapsed());
    drop(client);
}

/// A buffer that breaks its promise, from the call with this number on.
struct Panics(u32, Vec<u8>);

impl Panics {
    fn count(&mut self) {
        assert!(self.0 != 0, "a promise is broken");
        self.0 -= 1;
    }
}

// SAFETY: the vector's; the other promise is broken on purpose.
unsafe impl BufMut for Panics {
    fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        self.count();
        self.1.room()
    }
    unsafe fn filled(&mut self, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.1.filled(bytes) };
    }
}

/// Always.
struct Never;

// SAFETY: as above.
unsafe impl Buf for Never {
    fn bytes(&self) -> &[u8] {
        panic!("a promise is broken")
    }
}

/// It hits the task that has brought it, no worker, ring or thread that blocks.
#[test]
fn buffers_that_panic() {
    let scheduler = crate::support::scheduler();
    let scratch = Scratch::new();
    std::fs::write(scratch.path("a"), vec![1; 1000]).unwrap();
    let path = scratch.path("a");
    let file = scheduler.block_on(File::options().read(true).write(true).open(&path)).unwrap();
    let file = std::sync::Arc::new(file);
    for calls in 0..2 {
        let (there, here) = (file.clone(), file.clone());
        // A pipe's content is never in memory, so that the second call comes, too.
        let (fifo, _write) = std::io::pipe().unwrap();
        let fifo = File::from(std::fs::File::from(std::os::fd::OwnedFd::from(fifo)));
        let read = async move { fifo.read_at(Panics(calls, vec![0; 10]), 0).await.0 };
        assert!(scheduler.spawn_future(read).unwrap().join().is_err());
        assert!(scheduler.spawn_future(async move { there.write_at(Never, 0).await.0 }).unwrap().join().is_err());
        let own = move || scheduler::block_on(async { here.write_at(Never, 0).await.0 });
        assert!(std::thread::spawn(own).join().is_err());
    }
    // Everybody is there still.
    for _ in 0..10 {
        let there = file.clone();
        let work = async move { there.write_at(vec![2; 10], 0).await.0 };
        assert_eq!(scheduler.spawn_future(in_time(work)).unwrap().join().unwrap().unwrap(), 10);
        assert_eq!(scheduler::block_on(in_time(blocking(|| 3))).unwrap(), 3);
    }
}
