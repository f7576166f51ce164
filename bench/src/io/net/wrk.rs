//! HTTP load by `wrk`.
use crate::paths;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// What it says of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Said {
    pub(super) requests: u64,
    pub(super) seconds: f64,
    /// p50, p99 and the greatest, in nanoseconds.
    pub(super) latency: [u64; 3],
}

/// Whether it is there.
pub(super) fn present() -> Result<(), String> {
    paths::program(&["wrk"]).map(drop).ok_or_else(|| "no `wrk` in PATH (Debian: `apt-get install wrk`)".into())
}

/// Asks for `/` on `connections` connections for about `seconds`.
pub(super) fn run(address: SocketAddr, connections: u64, seconds: f64) -> Result<Said, String> {
    let wrk = paths::program(&["wrk"]).ok_or("no `wrk` in PATH")?;
    let mut command = Command::new(wrk);
    // It takes whole seconds only.
    command.args(["-t1", &format!("-c{connections}"), &format!("-d{}s", seconds.ceil().max(1.0)), "--latency"]);
    let out =
        command.arg(format!("http://{address}/")).stdin(Stdio::null()).output().map_err(|e| format!("wrk: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    if !out.status.success() {
        return Err(format!("wrk ended with {}: {}", out.status, text.lines().last().unwrap_or_default()));
    }
    parse(&text)
}

fn parse(text: &str) -> Result<Said, String> {
    let errors = text.lines().find(|l| l.contains("Socket errors") || l.contains("Non-2xx"));
    if let Some(line) = errors {
        return Err(format!("wrk: {}", line.trim()));
    }
    let said = || {
        let line = text.lines().find(|l| l.contains(" requests in "))?;
        let (requests, rest) = line.trim().split_once(" requests in ")?;
        let seconds = nanoseconds(rest.split(',').next()?)? as f64 / 1e9;
        let percentile = |name: &str| {
            let line = text.lines().map(str::trim).find(|l| l.starts_with(name))?;
            nanoseconds(line.split_whitespace().nth(1)?)
        };
        let max = text.lines().map(str::trim).find(|l| l.starts_with("Latency "))?.split_whitespace().nth(3)?;
        let latency = [percentile("50%")?, percentile("99%")?, nanoseconds(max)?];
        Some(Said { requests: requests.trim().parse().ok()?, seconds, latency })
    };
    said().ok_or_else(|| format!("wrk said something unexpected: {text}"))
}

/// `1.05ms` and its like.
fn nanoseconds(text: &str) -> Option<u64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..split].parse().ok()?;
    let unit = match &text[split..] {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        _ => return None,
    };
    Some((number * unit) as u64)
}

#[test]
fn what_wrk_says_is_understood() {
    let text = "Running 3s test @ http://127.0.0.1:8080/\n  1 threads and 64 connections\n  Thread Stats   Avg      \
                Stdev     Max   +/- Stdev\n    Latency   635.91us    0.89ms  12.92ms   93.69%\n    Req/Sec 56.20k\n  \
                Latency Distribution\n     50%  250.00us\n     75%  491.00us\n     90%  700.00us\n    99%    5.80ms\n  \
                167752 requests in 3.01s, 14.40MB read\nRequests/sec:  55731.23\nTransfer/sec:      4.78MB\n";
    let said = parse(text).unwrap();
    assert_eq!((said.requests, said.latency), (167_752, [250_000, 5_800_000, 12_920_000]));
    assert!((said.seconds - 3.01).abs() < 1e-9);
    assert!(
        parse(&text.replace("Requests/sec", "Non-2xx or 3xx responses: 5\nRequests/sec")).unwrap_err().contains("5")
    );
    assert!(parse("nothing").is_err());
}
