//! The `http_files` example: its server in this process, and the program as a child, both asked by hand over TCP.
#![cfg(not(loom))]

#[path = "../examples/http_files/server/mod.rs"]
mod server;
#[path = "http_files/support.rs"]
mod support;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;
use support::{LONG, Program, Served, Temp, ask, ask_raw, connect, example, get, head, pattern, reply, until};

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// More than the sockets between two ends of a connection hold.
const BIG: usize = 24 << 20;

#[test]
fn files_are_sent_with_their_types() {
    let temp = Temp::new();
    temp.file("a b.txt", b"hello");
    temp.file("d/page.html", b"<p>");
    temp.file("x.png", b"png");
    temp.file("none", b"");
    temp.file("big.bin", &pattern(1_000_001));
    let served = Served::start(&temp.0);
    let to = served.address;
    for (path, kind, body) in [
        ("/a%20b.txt", "text/plain; charset=utf-8", b"hello".to_vec()),
        ("/d/page.html", "text/html; charset=utf-8", b"<p>".to_vec()),
        ("/x.png?query=1", "image/png", b"png".to_vec()),
        ("/none", "application/octet-stream", vec![]),
        ("//d/./page.html", "text/html; charset=utf-8", b"<p>".to_vec()),
        ("/big.bin", "application/octet-stream", pattern(1_000_001)),
    ] {
        let whole = get(to, path);
        assert_eq!((whole.status, whole.header("content-type")), (200, Some(kind)), "{path}");
        assert!(whole.body == body, "{path}: {} of {} bytes", whole.body.len(), body.len());
        let len = body.len().to_string();
        assert_eq!(whole.header("content-length"), Some(&*len), "{path}");
        assert_eq!(whole.header("accept-ranges"), Some("bytes"));
        assert_eq!(whole.header("x-content-type-options"), Some("nosniff"));
        assert!(whole.header("date").is_some() && whole.header("last-modified").is_some());
        let only = ask(to, "HEAD", path, &[("range", "bytes=0-0")]);
        assert_eq!((only.status, only.body.len()), (200, 0), "a range is a matter of GET: {path}");
        assert_eq!(only.header("content-length"), Some(&*len));
        assert_eq!(only.header("etag"), whole.header("etag"));
    }
    let summary = served.end();
    assert_eq!((summary.requests, summary.connections), (12, 12));
    assert_eq!((summary.broken, summary.cut_off, summary.back_offs), (0, 0, 0));
}

#[test]
fn what_is_not_there_and_what_is_not_done() {
    let temp = Temp::new();
    temp.file("file", b"x");
    assert!(Command::new("mkfifo").arg(temp.0.join("fifo")).status().expect("mkfifo").success());
    let served = Served::start(&temp.0);
    let to = served.address;
    for path in ["/nothing", "/file/", "/file/more", "/fifo", &format!("/{}", "n".repeat(300))] {
        assert_eq!(get(to, path).status, 404, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"] {
        let refused = ask(to, method, "/file", &[]);
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    assert_eq!(get(to, "/file%00").status, 400);
    for nonsense in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"GET\r\n\r\n", b"GET /file HTTP/9.9\r\n\r\n"] {
        let answer = ask_raw(to, nonsense);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
    }
    let endless = [&b"GET /"[..], &vec![b'a'; 1 << 20]].concat();
    let answer = ask_raw(to, &endless);
    let told = [&b"HTTP/1.1 414"[..], b"HTTP/1.1 431", b"HTTP/1.1 400"];
    assert!(answer.is_empty() || told.iter().any(|t| answer.starts_with(t)), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(get(to, "/file").status, 200, "none of that has hurt it");
}

#[test]
fn nothing_outside_of_the_folder_is_served() {
    let outer = Temp::new();
    outer.file("secret", b"secret");
    outer.file("site/in", b"inside");
    outer.file("site/d/deep", b"deep");
    let site = outer.0.join("site");
    symlink("../secret", site.join("out")).expect("a link");
    symlink(outer.0.join("secret"), site.join("absolute")).expect("a link");
    symlink("..", site.join("up")).expect("a link");
    symlink("/proc/self/root/etc/passwd", site.join("magic")).expect("a link");
    symlink("loop", site.join("loop")).expect("a link");
    symlink("in", site.join("near")).expect("a link");
    symlink("../in", site.join("d/over")).expect("a link");
    let served = Served::start(&site);
    let to = served.address;
    let upwards = ["/../secret", "/%2e%2e/secret", "/.%2e/secret", "/d/../../secret", "/d/..%2f..%2fsecret", "/d/.."];
    for path in upwards.into_iter().chain(["/out", "/absolute", "/up/secret", "/up/", "/magic", "/loop"]) {
        let refused = get(to, path);
        assert_eq!(refused.status, 403, "{path}");
        assert!(!refused.text().contains("secret"), "{path}");
    }
    assert_eq!(get(to, "/..%5csecret").status, 404, "no separator here");
    for (path, body) in [("/near", "inside"), ("/d/over", "inside"), ("/d/deep", "deep")] {
        assert_eq!((get(to, path).status, get(to, path).text().as_str()), (200, body), "{path}");
    }
}

#[test]
fn ranges() {
    let temp = Temp::new();
    let all = pattern(200_000);
    temp.file("f", &all);
    temp.file("empty", b"");
    let served = Served::start(&temp.0);
    let to = served.address;
    let part = |range: &str| ask(to, "GET", "/f", &[("range", range)]);
    for (range, first, last) in
        [("bytes=0-0", 0, 0), ("bytes=100-199999", 100, 199_999), ("bytes=65535-65536", 65_535, 65_536)]
            .into_iter()
            .chain([
                ("bytes=-7", 199_993, 199_999),
                ("bytes=199999-", 199_999, 199_999),
                ("bytes=5-999999999", 5, 199_999),
            ])
    {
        let got = part(range);
        assert_eq!(got.status, 206, "{range}");
        assert_eq!(got.header("content-range"), Some(&*format!("bytes {first}-{last}/200000")));
        assert!(got.body == all[first..=last], "{range}");
    }
    for range in ["bytes=200000-", "bytes=-0"] {
        let refused = part(range);
        assert_eq!((refused.status, refused.header("content-range")), (416, Some("bytes */200000")), "{range}");
    }
    assert_eq!(ask(to, "GET", "/empty", &[("range", "bytes=0-")]).status, 416);
    for range in ["bytes=9-1", "bytes=1-2,5-6", "pages=1-2", "bytes=x"] {
        assert_eq!((part(range).status, part(range).body.len()), (200, 200_000), "{range}");
    }
    let etag = get(to, "/f").header("etag").expect("a tag").to_owned();
    let with = |tag: &str| ask(to, "GET", "/f", &[("range", "bytes=0-9"), ("if-range", tag)]).status;
    assert_eq!((with(&etag), with("\"other\"")), (206, 200));
    temp.file("f", &pattern(199_999));
    assert_eq!(with(&etag), 200, "a new version is sent whole");
}

#[test]
fn a_client_that_has_the_version_gets_304() {
    let temp = Temp::new();
    temp.file("f", b"one");
    let served = Served::start(&temp.0);
    let to = served.address;
    let first = get(to, "/f");
    let (etag, date) = (first.header("etag").expect("a tag"), first.header("last-modified").expect("a date"));
    for (name, value) in [("if-none-match", etag), ("if-modified-since", date)] {
        for method in ["GET", "HEAD"] {
            let again = ask(to, method, "/f", &[(name, value)]);
            assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(etag)), "{name}");
        }
    }
    assert_eq!(ask(to, "GET", "/f", &[("if-match", "\"other\"")]).status, 412);
    temp.file("f", b"other");
    assert_eq!(ask(to, "GET", "/f", &[("if-none-match", etag)]).text(), "other");
}

#[test]
fn folders() {
    let temp = Temp::new();
    temp.file("with/index.html", b"<h1>index</h1>");
    temp.file("plain/b&<b>.txt", b"x");
    temp.file("plain/sub dir/x", b"x");
    temp.file("\u{fc}/x", b"x");
    let raw = std::ffi::OsStr::from_bytes(b"plain/n\xff");
    fs::write(temp.0.join(raw), b"raw").expect("a file");
    let served = Served::start(&temp.0);
    let to = served.address;
    assert_eq!(get(to, "/with/").text(), "<h1>index</h1>");
    let moved = get(to, "/%C3%BC");
    assert_eq!((moved.status, moved.header("location")), (301, Some("/%C3%BC/")));
    assert_eq!(get(to, "//plain").header("location"), Some("/plain/"));
    let page = get(to, "/plain/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    for link in
        ["./b%26%3Cb%3E.txt\">b&amp;&lt;b&gt;.txt", "./sub%20dir/\">sub dir/", "./n%FF\">n\u{fffd}", "href=\"../\""]
    {
        assert!(page.text().contains(link), "{link}: {}", page.text());
    }
    assert_eq!(get(to, "/plain/n%FF").text(), "raw");
    assert!(!get(to, "/").text().contains("href=\"../\""), "there is nothing above the root");
    let only = ask(to, "HEAD", "/plain/", &[]);
    assert_eq!((only.body.len(), only.header("content-length")), (0, page.header("content-length")));
}

#[test]
fn connections_are_kept_and_requests_may_come_ahead() {
    let temp = Temp::new();
    temp.file("a", b"first");
    temp.file("b", b"second");
    let served = Served::start(&temp.0);
    let mut stream = connect(served.address);
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    for _ in 0..3 {
        stream.write_all(request("/a").as_bytes()).expect("sent");
        assert_eq!(reply(&mut stream, true).text(), "first");
    }
    stream.write_all(format!("{}{}{}", request("/b"), request("/none"), request("/a")).as_bytes()).expect("sent");
    let three = [(); 3].map(|()| reply(&mut stream, true));
    assert_eq!(three.clone().map(|r| r.status), [200, 404, 200]);
    assert_eq!((three[0].text(), three[2].text()), ("second".into(), "first".into()));
    drop(stream);
    assert_eq!(served.end().connections, 1);
}

/// Sixteen clients at once, each with a file that is larger than what any buffer holds.
#[test]
fn large_files_to_many_clients() {
    let temp = Temp::new();
    let all = pattern(3 << 20);
    temp.file("big", &all);
    let served = Served::start(&temp.0);
    std::thread::scope(|scope| {
        for n in 0..16_usize {
            let (all, to) = (&all, served.address);
            scope.spawn(move || {
                let first = n * 1_000;
                let got = ask(to, "GET", "/big", &[("range", &format!("bytes={first}-"))]);
                assert!(got.body == all[first..], "client {n}: {} bytes", got.body.len());
            });
        }
    });
    assert_eq!(served.end().broken, 0);
}

/// Asks for the big file and reads its head only.
fn begin(address: std::net::SocketAddr) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(b"GET /big HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("sent");
    assert!(head(&mut stream).starts_with("HTTP/1.1 200"));
    stream
}

fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = vec![];
    // An end by reset shows in what is missing.
    let _ = stream.read_to_end(&mut all);
    all
}

#[test]
fn a_file_that_shrinks_ends_its_connection_and_one_that_grows_is_cut() {
    let temp = Temp::new();
    let all = pattern(BIG);
    let path = temp.file("big", &all);
    let served = Served::start(&temp.0);
    let mut shrinking = begin(served.address);
    fs::OpenOptions::new().write(true).open(&path).expect("open").set_len(1_000).expect("shorter");
    let got = rest(&mut shrinking);
    assert!(got.len() < BIG, "the missing bytes were made up");
    assert!(got[..] == all[..got.len()], "what came is what was there");
    temp.file("big", &all);
    let mut growing = begin(served.address);
    fs::OpenOptions::new().append(true).open(&path).expect("open").write_all(b"more").expect("longer");
    assert!(rest(&mut growing) == all, "the length that was promised");
    let summary = served.end();
    assert_eq!((summary.broken, summary.requests), (1, 2));
}

#[test]
fn clients_that_leave_are_forgotten() {
    let temp = Temp::new();
    temp.file("big", &pattern(BIG));
    let program = Program::start(&temp.0, &[], 0);
    assert_eq!(get(program.address, "/").status, 200);
    until("the first connection is closed", || program.descriptors() > 0 && !connected(&program));
    let before = program.descriptors();
    for _ in 0..40 {
        drop(begin(program.address));
        drop(connect(program.address));
    }
    until("all descriptors are back", || program.descriptors() <= before);
    assert_eq!(get(program.address, "/").status, 200);
    program.signal(SIGTERM);
    let (code, said) = program.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("42 requests on 82 connections; 40 ended early"), "{said}");
}

/// Whether a connection to the program is established: its side of it.
fn connected(program: &Program) -> bool {
    let port = format!(":{:04X} ", program.address.port());
    let table = fs::read_to_string(format!("/proc/{}/net/tcp", program.child.id())).expect("it lives");
    // State 01; the local address is the second word.
    table.lines().any(|l| l.contains(&port) && l.split_whitespace().nth(3) == Some("01"))
}

#[test]
fn a_client_that_dawdles_is_cut_off_and_others_are_served() {
    let temp = Temp::new();
    temp.file("f", b"x");
    let served = Served::with(&temp.0, Duration::from_millis(200), LONG);
    let mut slow: Vec<TcpStream> = (0..8).map(|_| connect(served.address)).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /f HTTP/1.1\r\nho").expect("sent");
    }
    let mut resting = connect(served.address);
    resting.write_all(b"GET /f HTTP/1.1\r\nhost: x\r\n\r\n").expect("sent");
    assert_eq!(reply(&mut resting, true).status, 200);
    assert_eq!(get(served.address, "/f").status, 200);
    for stream in slow.iter_mut().chain([&mut resting]) {
        let mut end = vec![];
        match stream.read_to_end(&mut end) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("left waiting"),
            // Closed or reset.
            _ => assert!(!end.starts_with(b"HTTP/1.1 200"), "served after all"),
        }
    }
    let summary = served.end();
    assert_eq!((summary.requests, summary.broken, summary.cut_off), (2, 0, 0));
}

#[test]
fn responses_under_way_are_finished_after_sigterm() {
    let temp = Temp::new();
    let all = pattern(BIG);
    temp.file("big", &all);
    for signal in [SIGTERM, SIGINT] {
        let program = Program::start(&temp.0, &[], 0);
        let mut streams = [begin(program.address), begin(program.address)];
        let mut idle = connect(program.address);
        program.signal(signal);
        assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0, "a connection without a request is closed");
        until("nobody is accepted any more", || TcpStream::connect(program.address).is_err());
        for stream in &mut streams {
            assert!(rest(stream) == all, "the whole response");
        }
        let (code, said) = program.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("0 ended early, 0 cut off"), "{said}");
    }
}

#[test]
fn the_grace_ends_and_a_second_signal_does_not_wait() {
    let temp = Temp::new();
    temp.file("big", &pattern(BIG));
    let program = Program::start(&temp.0, &["--grace", "0.1"], 0);
    let stuck = begin(program.address);
    program.signal(SIGTERM);
    let (code, said) = program.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("1 cut off"), "{said}");
    drop(stuck);
    let mut program = Program::start(&temp.0, &["--grace", "1000"], 0);
    let stuck = begin(program.address);
    program.signal(SIGTERM);
    until("it has heard the first one", || TcpStream::connect(program.address).is_err());
    program.signal(SIGTERM);
    assert_eq!(program.child.wait().expect("it ends").code(), None, "ended by the signal");
    drop(stuck);
}

/// More clients than descriptors: it waits, says so, does not spin, and goes on when there are some again.
#[test]
fn too_many_clients_are_accepted_later() {
    let temp = Temp::new();
    temp.file("f", b"x");
    let program = Program::start(&temp.0, &[], 48);
    let idle: Vec<TcpStream> = (0..60).map(|_| connect(program.address)).collect();
    let mut late = connect(program.address);
    late.write_all(b"GET /f HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("sent");
    // Each wait is longer than the one before: a few in that time, where a loop without waits has thousands.
    std::thread::sleep(Duration::from_millis(500));
    drop(idle);
    let reply = reply(&mut late, true);
    assert!(reply.status == 200 || reply.status == 503, "{}", reply.head);
    until("it serves again", || get(program.address, "/f").status == 200);
    program.signal(SIGTERM);
    let (code, said) = program.end();
    assert_eq!(code, Some(0), "{said}");
    let waits = said.matches("accept: ").count();
    assert!((1..40).contains(&waits), "{waits} waits: {said}");
    assert!(said.contains("connections are open, clients have to wait"), "{said}");
}

#[test]
fn what_cannot_be_served_ends_with_two() {
    let temp = Temp::new();
    let file = temp.file("f", b"x");
    let folder = temp.0.to_str().expect("text");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    for (args, said) in [
        (&["/no/such/folder"][..], "No such file"),
        (&[file.to_str().expect("text")], "Not a directory"),
        (&[folder, "--listen", &taken], "in use"),
        (&[folder, "--listen", "nowhere"], "invalid value"),
        (&[folder, "--grace", "0"], "0.001 to 86400"),
        (&[], "DIR"),
    ] {
        let listening = ["--listen", "127.0.0.1:0"];
        let more = if args.contains(&"--listen") { &[][..] } else { &listening };
        let out = Command::new(example()).args(args).args(more).output().expect("it starts");
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
    }
}
