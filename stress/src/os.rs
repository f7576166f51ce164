//! What the tests need of Linux: threads, signals, processes, and what `/proc` says.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// Threads of this process by number, with name.
pub fn threads() -> Vec<(i32, String)> {
    let Ok(dir) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let ids = dir.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.map(|id| (id, read_thread(id, "comm").trim().to_owned())).collect()
}

/// The name of the calling thread, as the kernel has it.
pub fn thread_name() -> String {
    read_thread(thread_id(), "comm").trim().to_owned()
}

/// `/proc/self/task/<id>/<file>`; empty when the thread is gone.
pub fn read_thread(id: i32, file: &str) -> String {
    fs::read_to_string(format!("/proc/self/task/{id}/{file}")).unwrap_or_default()
}

/// State letter of a thread, and its CPU time in clock ticks.
pub fn thread_state(id: i32) -> Option<(char, u64)> {
    let stat = read_thread(id, "stat");
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((fields.first()?.chars().next()?, ticks(11)? + ticks(12)?))
}

/// Open file descriptors of this process.
pub fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Whether `count` comes down to `limit` within ten seconds. A thread that was joined may still be on its way out, and
/// another one may have a directory of `/proc` open.
pub fn settles(limit: usize, count: impl Fn() -> usize) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while count() > limit {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Resident memory in bytes.
pub fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// CPU time of this process, `getrusage`.
pub fn cpu_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: fills the structure that it is given.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    // SAFETY: all zero is a valid value, and the call filled it.
    let usage = unsafe { usage.assume_init() };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// CPU time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// This thread's number.
pub fn thread_id() -> i32 {
    // SAFETY: no memory is passed.
    unsafe { libc::gettid() }
}

/// Sends a signal to one thread of this process; false when it is gone.
pub fn signal_thread(id: i32, signal: i32) -> bool {
    let process = std::process::id();
    // SAFETY: no memory is passed; a number that is no thread of ours any more is refused.
    unsafe { libc::syscall(libc::SYS_tgkill, process, id, signal) == 0 }
}

/// Installs a handler without `SA_RESTART`.
pub fn on_signal(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: all zero is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    // SAFETY: the handler stays valid for ever and is async-signal-safe: all of them only sleep or count.
    let rc = unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    assert_eq!(rc, 0, "sigaction: {}", io::Error::last_os_error());
}

/// The CPUs that the calling thread may run on.
pub fn affinity() -> libc::cpu_set_t {
    // SAFETY: all zero is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: fills the set that it is given.
    unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    set
}

/// Binds the calling thread, and the threads it will start.
pub fn set_affinity(set: &libc::cpu_set_t) {
    // SAFETY: reads the set that it is given.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
}

/// The first CPU of a set alone.
pub fn first_cpu(set: &libc::cpu_set_t) -> libc::cpu_set_t {
    // SAFETY: all zero is a valid value.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: reads the set.
    let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| unsafe { libc::CPU_ISSET(cpu, set) });
    // SAFETY: a number below the size of the set.
    unsafe { libc::CPU_SET(first.unwrap_or(0), &mut one) };
    one
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By `exit` with this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

/// `fork`; the child runs `child` and exits with what it returns, or dies by SIGALRM after `seconds`. Returns its
/// number.
///
/// The child of a process with threads has only the one that forked; what others held stays locked. It may not
/// print or panic, and glibc keeps its allocator usable.
pub fn fork(seconds: u32, child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child uses nothing that another thread might hold, but for the allocator, which glibc resets.
    let pid = unsafe { libc::fork() };
    assert_ne!(pid, -1, "fork: {}", io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: no memory is passed.
        unsafe { libc::alarm(seconds) };
        let code = child();
        // SAFETY: ends the child at once, without what the parent registered to happen at exit.
        unsafe { libc::_exit(code) };
    }
    pid
}

/// Waits for a child.
pub fn wait(pid: i32) -> Ended {
    let mut status = 0;
    loop {
        // SAFETY: fills the number that it is given.
        let rc = unsafe { libc::waitpid(pid, &mut status, 0) };
        if rc == pid {
            break;
        }
        let error = io::Error::last_os_error();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted, "waitpid: {error}");
    }
    if libc::WIFEXITED(status) { Ended::Exit(libc::WEXITSTATUS(status)) } else { Ended::Signal(libc::WTERMSIG(status)) }
}
