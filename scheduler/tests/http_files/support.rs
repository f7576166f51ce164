//! A tree to serve, a server in this process or as a program, and a client that speaks HTTP by hand.
use crate::server::{Server, Settings, Stop, Summary};
use scheduler::{JoinHandle, Scheduler};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A folder that goes with the test.
pub(crate) struct Temp(pub(crate) PathBuf);

impl Temp {
    pub(crate) fn new() -> Temp {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("http_files-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder for the test");
        Temp(path)
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        fs::write(&path, content).expect("a file");
        path
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // What is left in /tmp harms no other test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `len` bytes in which every place looks different.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect()
}

/// A server on a scheduler of its own in this process.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: Stop,
    running: Option<JoinHandle<Summary>>,
    _scheduler: Scheduler,
}

impl Served {
    pub(crate) fn start(root: &Path) -> Served {
        Served::with(root, LONG, LONG)
    }

    pub(crate) fn with(root: &Path, header_timeout: Duration, grace: Duration) -> Served {
        let scheduler = Scheduler::builder().workers(2).build().expect("a scheduler");
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let settings = Settings { root: root.into(), listen, header_timeout, grace };
        let (handle, stop) = (scheduler.handle(), Stop::default());
        let (told, heard) = channel();
        let wish = stop.clone();
        let serving = async move {
            let server = Server::bind(&settings).expect("a server");
            told.send(server.local_addr().expect("an address")).expect("somebody waits");
            server.run(handle, wish).await
        };
        let running = Some(scheduler.spawn_future(serving).expect("open"));
        Served { address: heard.recv_timeout(LONG).expect("it listens"), stop, running, _scheduler: scheduler }
    }

    /// Stops it and says what it has done.
    pub(crate) fn end(mut self) -> Summary {
        self.stop.stop();
        self.running.take().expect("once").join().expect("no panic")
    }
}

/// The example as a program.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

/// The example of the profile under test. `cargo test --test http_files` does not build examples, so cargo is asked.
pub(crate) fn example() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().expect("a path");
        let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/NAME");
        let name = match profile.file_name().and_then(OsStr::to_str).expect("a name") {
            "debug" => "dev",
            other => other,
        };
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--example", "http_files", "--features", "hyper", "--profile", name]);
        build.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        build.arg("--target-dir").arg(profile.parent().expect("the target folder"));
        assert!(build.status().expect("cargo").success(), "cannot build the example");
        profile.join("examples/http_files")
    })
}

impl Program {
    /// Starts it on a free port, with at most `descriptors` open files if that is not 0.
    pub(crate) fn start(root: &Path, args: &[&str], descriptors: u32) -> Program {
        let mut command = if descriptors == 0 {
            Command::new(example())
        } else {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")]).arg(example());
            shell
        };
        command.arg(root).args(["--listen", "127.0.0.1:0", "--workers", "2"]).args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the example starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on http://").and_then(|a| a.strip_suffix('/'));
        let address = address.unwrap_or_else(|| panic!("{line:?}")).parse().expect("an address");
        Program { child, address }
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let signal = rustix::process::Signal::from_named_raw(signal).expect("a signal");
        rustix::process::kill_process(pid, signal).expect("it lives");
    }

    /// Those of files and sockets: a worker opens its ring when it first needs it, and keeps it.
    pub(crate) fn descriptors(&self) -> usize {
        let all = fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it lives").flatten();
        let targets = all.filter_map(|entry| entry.path().read_link().ok());
        targets.filter(|to| !to.to_string_lossy().starts_with("anon_inode:")).count()
    }

    /// Waits for its end: exit code and stderr.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        (self.child.wait().expect("it ends").code(), said)
    }
}

/// What a server answered.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|l| l.split(':').next().is_some_and(|n| n.eq_ignore_ascii_case(name)))?;
        Some(line.split_once(':')?.1.trim())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    stream
}

/// Reads the head of an answer, byte by byte, so that nothing of the body is taken.
pub(crate) fn head(stream: &mut TcpStream) -> String {
    let mut head = vec![];
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).expect("open"), 1, "cut off: {}", String::from_utf8_lossy(&head));
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("ASCII")
}

/// Reads one answer of a connection that stays open; `has_body`: not to HEAD.
pub(crate) fn reply(stream: &mut TcpStream, has_body: bool) -> Reply {
    let head = head(stream);
    let status = head[9..12].parse().expect("a status");
    let mut reply = Reply { status, head, body: vec![] };
    let len: usize = reply.header("content-length").map_or(0, |len| len.parse().expect("a number"));
    if has_body && status != 304 {
        reply.body = vec![0; len];
        stream.read_exact(&mut reply.body).expect("a body");
    }
    reply
}

/// Everything up to the end of the connection.
pub(crate) fn ask_raw(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    stream.write_all(request).expect("sent");
    let mut all = vec![];
    // A reset is an end too; what came before counts.
    let _ = stream.read_to_end(&mut all);
    all
}

/// One request on a connection of its own.
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{lines}\r\n");
    let all = ask_raw(address, request.as_bytes());
    let end = all.windows(4).position(|w| w == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer to {method} {path}: {}", String::from_utf8_lossy(&all))) + 4;
    let head = String::from_utf8(all[..end].to_vec()).expect("ASCII");
    Reply { status: head[9..12].parse().expect("a status"), head, body: all[end..].to_vec() }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Reply {
    ask(address, "GET", path, &[])
}

/// Waits until it is so; that it never is, is a failure.
pub(crate) fn until(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
