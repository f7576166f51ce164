//! The suite again, in processes to which the system refuses something.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// This test program, with everything but this module and what starts processes of its own.
fn again() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test program"));
    command.args(["--skip", "denied", "--skip", "many"]);
    command
}

/// One test that needs a process of its own.
fn alone(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test program"));
    command.args(["--ignored", "--exact", test]);
    command
}

fn passes(mut command: Command) {
    let run = command.output().expect("the test program starts");
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(!text.contains("running 0 tests"), "nothing was run");
    assert!(run.status.success(), "{}\n{text}\n{}", run.status, String::from_utf8_lossy(&run.stderr));
}

/// The system calls `numbers` fail with `errno` in the process that the command becomes.
fn refuse(command: &mut Command, errno: i32, numbers: &[libc::c_long]) {
    let filter = |code: u32, jt: usize, k: u32| libc::sock_filter { code: code as u16, jt: jt as u8, jf: 0, k };
    let load = filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
    let mut program = vec![load];
    for (i, number) in numbers.iter().enumerate() {
        program.push(filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, numbers.len() - i, *number as u32));
    }
    program.push(filter(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW));
    program.push(filter(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | errno as u32));
    let install = move || {
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
        // SAFETY: numbers only.
        let mut rc = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        if rc == 0 {
            // SAFETY: the program outlives the call.
            rc = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
        }
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: two system calls, nothing allocated.
    unsafe { command.pre_exec(install) };
}

const RING: [libc::c_long; 3] = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// A suite that is told which driver to use has nothing to fall back to.
fn may_fall_back() -> bool {
    std::env::var("SCHEDULER_IO").as_deref() != Ok("uring")
}

#[test]
fn rings_are_forbidden() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let mut command = again();
        refuse(&mut command, errno, &RING);
        if may_fall_back() {
            passes(command);
        }
    }
}

#[test]
fn rings_cannot_be_entered() {
    let mut command = again();
    refuse(&mut command, libc::EPERM, &RING[1..2]);
    if may_fall_back() {
        passes(command);
    }
}

/// The calls that spare a detour are not there: old kernels, gVisor.
#[test]
fn no_shortcuts() {
    let mut command = again();
    refuse(&mut command, libc::ENOSYS, &[libc::SYS_preadv2, libc::SYS_openat2]);
    passes(command);
}

/// Linux 5.9 and 5.10 say that nothing was read where they should say that it would take waiting.
#[test]
fn short_looks() {
    let mut command = again();
    refuse(&mut command, 0, &[libc::SYS_preadv2]);
    passes(command);
}

#[test]
fn no_threads() {
    passes(alone("refused::directories_without_a_thread"));
}

#[test]
fn few_descriptors_elsewhere() {
    passes(alone("refused::accepting_elsewhere"));
}

/// 64 KiB of locked memory, and no privilege to exceed it.
#[test]
fn little_locked_memory() {
    // SAFETY: no memory is passed.
    if unsafe { libc::geteuid() } != 0 {
        // No privilege anyway.
        return limited(None);
    }
    // Nobody's.
    limited(Some(65_534));
}

fn limited(user: Option<u32>) {
    let mut command = again();
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let limit = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
    let lower = move || {
        // SAFETY: a limit of this process.
        let rc = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: one system call, nothing allocated.
    unsafe { command.pre_exec(lower) };
    if may_fall_back() {
        passes(command);
    }
}

#[test]
fn few_descriptors() {
    passes(alone("bad_input::few_descriptors"));
}

#[test]
fn descriptors() {
    passes(alone("counted::descriptors_are_closed"));
}
