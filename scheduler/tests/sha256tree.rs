//! The `sha256tree` example against a tree made to break it, and against `sha256sum` where that is installed.
#![cfg(not(loom))]

#[path = "sha256tree/support.rs"]
mod support;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use support::{Temp, assert_code, example, finish, hex, pattern, run, sha256tree, stderr};

/// Names below the root with the form they have in the manifest, when they are escaped, and their content.
fn nasty_files() -> Vec<(Vec<u8>, Option<&'static str>, Vec<u8>)> {
    let mut deep = vec![b'd'];
    deep.extend(b"/d".repeat(150));
    let mut files = vec![
        (b"empty".to_vec(), None, vec![]),
        (b"two words".to_vec(), None, b"x".to_vec()),
        (b"-n".to_vec(), None, b"looks like an option".to_vec()),
        (b"*".to_vec(), None, b"star".to_vec()),
        (b"new\nline".to_vec(), Some("new\\nline"), b"1".to_vec()),
        (b"back\\slash".to_vec(), Some("back\\\\slash"), b"2".to_vec()),
        (b"carriage\rreturn".to_vec(), Some("carriage\\rreturn"), b"3".to_vec()),
        (b"dir\n/file\\".to_vec(), Some("dir\\n/file\\\\"), b"4".to_vec()),
        (b"not utf-8 \xff\xfe".to_vec(), None, b"5".to_vec()),
        (b"\xc3\x28/\x80".to_vec(), None, b"6".to_vec()),
        (b"\x01\x1b[31m".to_vec(), None, b"control".to_vec()),
        ([&deep[..], b"/file"].concat(), None, b"deep".to_vec()),
        // These five are in order: `-` and `.` sort before `/`, and `0` after it.
        (b"a-b".to_vec(), None, b"7".to_vec()),
        (b"a.b".to_vec(), None, b"8".to_vec()),
        (b"a/b".to_vec(), None, b"9".to_vec()),
        (b"a0b".to_vec(), None, b"10".to_vec()),
        (b"a\xf0".to_vec(), None, b"11".to_vec()),
    ];
    for len in [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, (1 << 20) + (256 << 10), (4 << 20) + 7, 5_000_000] {
        files.push((format!("big/{len}").into_bytes(), None, pattern(len)));
    }
    // More of them than are in flight at once, and more small ones than fit a batch.
    files.extend((0..12).map(|i| (format!("many/big{i}").into_bytes(), None, pattern((1 << 20) + i))));
    files.extend((0..300).map(|i| (format!("many/small{i}").into_bytes(), None, pattern(i))));
    files
}

/// Everything that must not appear in a manifest.
fn nasty_others(root: &Path) {
    assert!(Command::new("mkfifo").arg(root.join("fifo")).status().unwrap().success());
    // The name stays behind when the socket is closed.
    let _ = UnixListener::bind(root.join("socket")).unwrap();
    symlink("empty", root.join("link to file")).unwrap();
    symlink(".", root.join("loop")).unwrap();
    symlink("../a", root.join("a/up")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink("link1", root.join("link2")).unwrap();
    symlink("link2", root.join("link1")).unwrap();
    fs::create_dir(root.join("empty dir")).unwrap();
}

/// The manifest of [`nasty_files`], from the list and not from the disk.
fn nasty_manifest(root: &Path) -> Vec<u8> {
    let mut files = nasty_files();
    files.sort();
    let mut manifest = Vec::new();
    for (name, escaped, content) in files {
        let mark = if escaped.is_some() { "\\" } else { "" };
        write!(manifest, "{mark}{}  {}/", hex(&content), root.display()).unwrap();
        manifest.extend(escaped.map_or(name, |text| text.as_bytes().to_vec()));
        manifest.push(b'\n');
    }
    manifest
}

fn nasty_tree() -> Temp {
    let temp = Temp::new();
    for (name, _, content) in nasty_files() {
        temp.file(&name, &content);
    }
    nasty_others(&temp.0);
    temp
}

fn installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

#[track_caller]
fn assert_same(left: &[u8], right: &[u8]) {
    let differs = left.split(|b| *b == b'\n').zip(right.split(|b| *b == b'\n')).find(|(l, r)| l != r);
    let shown = differs.map(|(l, r)| (String::from_utf8_lossy(l), String::from_utf8_lossy(r)));
    assert!(left == right, "{} and {} bytes; first difference: {shown:?}", left.len(), right.len());
}

#[test]
fn nasty_tree_is_listed_exactly() {
    let temp = nasty_tree();
    let expected = nasty_manifest(&temp.0);
    for workers in ["1", "2", "5"] {
        let output = sha256tree(&["--workers".as_ref(), workers.as_ref(), temp.0.as_os_str()]);
        assert_same(&output.stdout, &expected);
        assert_code(&output, 0);
        let files = nasty_files().len();
        let bytes: usize = nasty_files().iter().map(|(_, _, content)| content.len()).sum();
        let text = stderr(&output);
        assert!(text.starts_with(&format!("sha256tree: {files} files, {bytes} bytes in ")), "{text}");
        assert!(text.contains(&format!(" tasks on {workers} worker")), "{text}");
        assert_eq!(text.lines().count(), 1, "no progress bar without a terminal: {text}");
    }
}

#[test]
fn nasty_tree_matches_sha256sum() {
    if !installed("sha256sum") {
        eprintln!("SKIPPED: sha256sum is not installed");
        return;
    }
    let temp = nasty_tree();
    let names = nasty_files().into_iter().map(|(name, ..)| name);
    let mut paths: Vec<_> = names.map(|name| temp.0.join(OsString::from_vec(name))).collect();
    paths.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    let theirs = Command::new("sha256sum").arg("--").args(&paths).output().unwrap();
    let ours = run(&temp.0);
    assert_same(&ours.stdout, &theirs.stdout);

    let manifest = temp.0.with_extension("manifest");
    fs::write(&manifest, &ours.stdout).unwrap();
    let check = Command::new("sha256sum").args(["--check", "--strict", "--quiet"]).arg(&manifest).output().unwrap();
    fs::remove_file(&manifest).unwrap();
    assert!(check.status.success(), "{}", stderr(&check));
}

#[test]
fn the_root_may_be_a_symlink_a_file_or_end_in_a_slash() {
    let temp = Temp::new();
    let file = temp.file(b"dir/file", b"content");
    let big = temp.file(b"big", &pattern(3 << 20));
    symlink(temp.0.join("dir"), temp.0.join("to dir")).unwrap();
    symlink(&big, temp.0.join("to big")).unwrap();
    symlink(&file, temp.0.join("to file")).unwrap();
    let line = |content: &[u8], name: &str| format!("{}  {}/{name}\n", hex(content), temp.0.display());
    let small = b"content".as_slice();
    for (root, expected) in [
        ("to dir", line(small, "to dir/file")),
        ("to file", line(small, "to file")),
        ("to big", line(&pattern(3 << 20), "to big")),
        ("dir/file", line(small, "dir/file")),
        ("dir/", line(small, "dir/file")),
    ] {
        let output = run(&temp.0.join(root));
        assert_same(&output.stdout, expected.as_bytes());
        assert_code(&output, 0);
    }
    let relative = finish(Command::new(example()).arg(".").current_dir(temp.0.join("dir")).stdout(Stdio::piped()));
    assert_same(&relative.stdout, format!("{}  ./file\n", hex(small)).as_bytes());
}

#[test]
fn what_cannot_be_started_is_told_with_exit_code_2() {
    let temp = Temp::new();
    assert!(Command::new("mkfifo").arg(temp.0.join("fifo")).status().unwrap().success());
    symlink("loop", temp.0.join("loop")).unwrap();
    let path = |name: &str| temp.0.join(name).into_os_string();
    let cases: [(&[&OsStr], &str); 6] = [
        (&[&path("missing")], "missing: No such file or directory"),
        (&[&path("fifo")], "fifo: neither a directory nor a regular file"),
        (&[&path("loop")], "loop: Too many levels of symbolic links"),
        (&[], "Usage: sha256tree"),
        (&["--workers".as_ref(), "0".as_ref(), temp.0.as_os_str()], "workers"),
        (&["--workers".as_ref(), "few".as_ref(), temp.0.as_os_str()], "few"),
    ];
    for (arguments, message) in cases {
        let output = sha256tree(arguments);
        assert_code(&output, 2);
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

/// Nothing is unreadable to root, so there the example runs as somebody else.
#[test]
fn unreadable_files_and_directories_are_reported() {
    let temp = Temp::new();
    let program = temp.0.join("program");
    fs::copy(example(), &program).unwrap();
    temp.file(b"tree/open", b"content");
    for name in [b"tree/closed file".as_slice(), b"tree/closed\n\xff", b"tree/closed dir/file", b"tree/closed big"] {
        temp.file(name, &pattern(2 << 20));
    }
    let closed = [b"closed file".as_slice(), b"closed\n\xff", b"closed dir", b"closed big"];
    let mode = |name: &[u8], mode| {
        let path = temp.0.join("tree").join(OsStr::from_bytes(name));
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    closed.iter().for_each(|name| mode(name, 0));
    let mut command = Command::new(&program);
    command.arg(temp.0.join("tree")).current_dir(&temp.0).stdout(Stdio::piped()).stderr(Stdio::piped());
    if File::open(temp.0.join("tree/closed file")).is_ok() {
        command.uid(65534).gid(65534);
    }
    let output = finish(&mut command);
    closed.iter().for_each(|name| mode(name, 0o755));

    assert_code(&output, 1);
    assert_same(&output.stdout, format!("{}  {}/tree/open\n", hex(b"content"), temp.0.display()).as_bytes());
    let text = stderr(&output);
    for name in ["closed file", "closed\\n\\xFF", "closed dir", "closed big"] {
        let refused = |line: &str| line.contains(name) && line.contains(": Permission denied");
        assert_eq!(text.lines().filter(|line| refused(line)).count(), 1, "{name}: {text}");
    }
    assert!(text.lines().last().unwrap().contains(" 1 files, 4 NOT HASHED, 7 bytes "), "{text}");
}

#[test]
fn a_read_error_is_reported() {
    // Reading the unmapped first page of a process fails for everybody.
    let output = run(Path::new("/proc/self/mem"));
    assert_code(&output, 1);
    assert!(output.stdout.is_empty());
    assert!(stderr(&output).contains("/proc/self/mem: Input/output error"), "{}", stderr(&output));
}

#[test]
fn a_path_too_long_for_the_kernel_is_reported() {
    let temp = Temp::new();
    temp.file(b"short", b"content");
    let part = "p".repeat(200);
    let script =
        format!("i=0; while [ $i -lt 25 ]; do mkdir {part} && cd -P {part} || exit 1; i=$((i+1)); done; : > file");
    let made = Command::new("sh").args(["-c", &script]).current_dir(&temp.0).stderr(Stdio::null()).status().unwrap();
    if !made.success() {
        eprintln!("SKIPPED: this shell cannot go that deep");
        return;
    }
    let output = run(&temp.0);
    assert_code(&output, 1);
    assert!(stderr(&output).contains("File name too long"), "{}", stderr(&output));
    assert_same(&output.stdout, format!("{}  {}/short\n", hex(b"content"), temp.0.display()).as_bytes());
}

/// Runs `change` over and over while the example runs.
fn run_while(root: &Path, mut change: impl FnMut(usize) + Send) -> Output {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..).take_while(|_| !stop.load(Relaxed)).for_each(&mut change));
        let output = run(root);
        stop.store(true, Relaxed);
        output
    })
}

#[test]
fn files_that_shrink_and_grow_are_reported_and_not_listed() {
    let temp = Temp::new();
    temp.file(b"steady", b"content");
    let (big, small) = (temp.file(b"big", b""), temp.file(b"small", b""));
    let files = [&big, &small].map(|path| File::options().write(true).open(path).unwrap());
    let set = |big: u64, small: u64| {
        files[0].set_len(big).unwrap();
        files[1].set_len(small).unwrap();
    };
    // Sparse, and slow enough to hash (30 ms and more) that the time stamp moves on in between.
    set(96 << 20, 1000);
    let output = run_while(&temp.0, |i| {
        set((96 << 20) - (i as u64 % 2) * (64 << 20), 1000);
        std::thread::sleep(Duration::from_micros(300));
    });
    assert_code(&output, 1);
    let text = stderr(&output);
    assert!(text.contains("big: changed while it was read ("), "{text}");
    let manifest = String::from_utf8(output.stdout).unwrap();
    assert!(!manifest.contains("/big\n"), "{manifest}");
    assert!(manifest.ends_with(&format!("{}  {}/steady\n", hex(b"content"), temp.0.display())), "{manifest}");
}

#[test]
fn files_that_vanish_are_listed_whole_or_reported() {
    let temp = Temp::new();
    let content = pattern(5000);
    for i in 0..200 {
        temp.file(format!("tree/steady{i}").as_bytes(), &content);
        temp.file(format!("tree/coming{i}").as_bytes(), &content);
        temp.file(format!("staged{i}").as_bytes(), &content);
    }
    let output = run_while(&temp.0.join("tree"), |i| {
        let (there, away) = (format!("tree/coming{}", i % 200), format!("staged{}", i % 200));
        fs::rename(temp.0.join(&there), temp.0.join("aside")).unwrap();
        fs::rename(temp.0.join(&away), temp.0.join(&there)).unwrap();
        fs::remove_file(temp.0.join(&there)).unwrap();
        fs::rename(temp.0.join("aside"), temp.0.join(&there)).unwrap();
        fs::write(temp.0.join(&away), &content).unwrap();
    });
    let text = stderr(&output);
    let (closing, complaints) = text.trim_end().rsplit_once('\n').map_or((text.as_str(), ""), |(a, b)| (b, a));
    for line in complaints.lines() {
        assert!(line.contains("/coming") && line.contains("No such file or directory"), "{line}");
    }
    assert_code(&output, i32::from(!complaints.is_empty()));
    assert_eq!(closing.contains("NOT HASHED"), !complaints.is_empty(), "{closing}");
    let manifest = String::from_utf8(output.stdout).unwrap();
    assert!(manifest.lines().all(|line| line.starts_with(&hex(&content))), "a file was read in part");
    assert_eq!(manifest.lines().filter(|line| line.contains("/steady")).count(), 200);
}

#[test]
fn json_is_the_last_line_of_stderr() {
    let temp = nasty_tree();
    let output = sha256tree(&["--json".as_ref(), "--workers".as_ref(), "2".as_ref(), temp.0.as_os_str()]);
    assert_same(&output.stdout, &nasty_manifest(&temp.0));
    let text = stderr(&output);
    let summary: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(summary["files"], nasty_files().len());
    assert_eq!(summary["bytes"], nasty_files().iter().map(|(_, _, content)| content.len()).sum::<usize>());
    assert_eq!(summary["failed"], 0);
    assert_eq!(summary["errors"], serde_json::json!([]));
    assert_eq!(summary["workers"].as_array().unwrap().len(), 2);
    let by_worker = summary["workers"].as_array().unwrap().iter().map(|w| w["tasks"].as_u64().unwrap());
    assert_eq!(by_worker.sum::<u64>(), summary["tasks"].as_u64().unwrap());
    // A task per directory, per big file and chunk, per batch: the chunks alone are more than this.
    assert!(summary["tasks"].as_u64().unwrap() > 100, "{summary}");
    for counter in ["steals", "wakes", "parks", "panics"] {
        assert!(summary[counter].is_u64(), "{counter}: {summary}");
    }
    assert!(summary["seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let temp = Temp::new();
    temp.file(b"file", b"content");
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let output = finish(Command::new(example()).arg(&temp.0).stdout(writer).stderr(Stdio::piped()));
    assert_code(&output, 141);
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
}

#[test]
fn a_full_disk_is_an_error() {
    let temp = Temp::new();
    temp.file(b"file", b"content");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = finish(Command::new(example()).arg(&temp.0).stdout(full).stderr(Stdio::piped()));
    assert_code(&output, 1);
    assert!(stderr(&output).contains("write error: No space left on device"), "{}", stderr(&output));
}

#[test]
fn closed_streams_do_no_harm() {
    let temp = Temp::new();
    temp.file(b"file", b"content");
    let script = "\"$0\" \"$1\" >&- 2>&-";
    let output = finish(Command::new("sh").args(["-c", script]).arg(example()).arg(&temp.0).stdout(Stdio::piped()));
    assert_code(&output, 0);
}

#[test]
fn the_progress_bar_is_drawn_on_a_terminal_only() {
    if !installed("script") {
        eprintln!("SKIPPED: script(1) is not installed");
        return;
    }
    let temp = Temp::new();
    temp.file(b"file", &pattern(2 << 20));
    // Manifest into the void: what the terminal shows is stderr.
    let command = format!("'{}' '{}' >/dev/null", example().display(), temp.0.display());
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).env("TERM", "xterm").stdout(Stdio::piped());
    let output = finish(&mut script);
    assert_code(&output, 0);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("of 1 files"), "no bar: {shown:?}");
    assert!(shown.contains("sha256tree: 1 files, "), "{shown:?}");
    assert!(!stderr(&run(&temp.0)).contains("of 1 files"), "a bar without a terminal");
}

#[test]
fn json_names_paths_as_they_are_and_says_what_could_not_be_written() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(example());
    command.args(["--json", "/proc/self/mem"]).stdout(full).stderr(Stdio::piped());
    let output = finish(&mut command);
    let text = stderr(&output);
    let summary: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(summary["errors"][0]["path"], "/proc/self/mem");
    // Nothing was written: there was no sum. With one there is.
    assert_eq!(summary["write_error"], serde_json::Value::Null);
    let temp = Temp::new();
    temp.file(b"file", b"content");
    let mut command = Command::new(example());
    let full = File::options().write(true).open("/dev/full").unwrap();
    command.arg("--json").arg(&temp.0).stdout(full).stderr(Stdio::piped());
    let output = finish(&mut command);
    assert_code(&output, 1);
    let text = stderr(&output);
    let summary: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(summary["write_error"].as_str().unwrap().contains("No space left"), "{summary}");
}

#[test]
fn a_placement_that_this_host_has_not_is_blamed_on_its_variable() {
    let temp = Temp::new();
    let said = |placement: &str| {
        let mut command = Command::new(example());
        command.arg(&temp.0).env("SCHEDULER_PLACEMENT", placement).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(&mut command);
        assert_code(&output, 2);
        let said = stderr(&output);
        assert!(said.contains("SCHEDULER_PLACEMENT"), "{said}");
        said
    };
    let missing = said("cpus:4999");
    assert!(missing.contains("not on this host"), "{missing}");
    // A list with a typo: where it is.
    let typo = said("cpus:0-3,x");
    assert!(typo.contains("position 9"), "{typo}");
    let unknown = said("spred");
    assert!(unknown.contains("expected spread"), "{unknown}");
}
