//! `http_files DIR --listen ADDR`: serves the files below DIR over HTTP/1.1, with hyper, entirely on the scheduler.
//!
//! * GET and HEAD; anything else is answered with 405. One range per request (206, 416, `If-Range`); `ETag` and
//!   `Last-Modified`, and the conditions on them (304, 412). The type of the content is guessed from the name.
//! * A folder is answered with its `index.html`, else with a list of what is in it; without the slash at the end of
//!   its path, with 301.
//! * Nothing outside of DIR is served: a path with `..` is 403, in whatever way it is encoded. Symbolic links are
//!   followed as long as they stay below DIR; those that leave it, and absolute ones, are 403. What is neither a file
//!   nor a folder is 404.
//! * Bodies are read in chunks of 64 KiB while they are sent. A file that shrinks meanwhile ends its connection: the
//!   client sees that bytes are missing.
//! * A client that does not send the head of its request within `--header-timeout` is cut off. When descriptors run
//!   out, accepting waits, longer each time, and says so; a file that cannot be opened for that reason is 503.
//! * SIGTERM and SIGINT stop it: no new connections, responses under way are sent to their end, for at most `--grace`.
//!   A second signal ends it at once.
//! * stdout: `listening on http://ADDR/`, once it does. stderr: a closing line.
//! * exit code: 0 stopped as asked; 1 connections were cut off when the grace was over; 2 DIR or ADDR cannot be had, or
//!   the command line makes no sense.

#[cfg(not(loom))]
mod cli;
#[cfg(not(loom))]
mod server;

#[cfg(not(loom))]
fn main() -> std::process::ExitCode {
    let options = cli::parse();
    match run(&options) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("http_files: {message}");
            std::process::ExitCode::from(2)
        }
    }
}

#[cfg(not(loom))]
fn run(options: &cli::Options) -> Result<std::process::ExitCode, String> {
    use std::io::Write;
    use std::process::ExitCode;
    let mut builder = scheduler::Scheduler::builder();
    if let Some(workers) = options.workers {
        builder = builder.workers(workers);
    }
    let scheduler = builder.build().map_err(|e| e.to_string())?;
    let stop = server::Stop::default();
    stop_on_signals(stop.clone()).map_err(|e| format!("signals: {e}"))?;
    let settings = options.settings.clone();
    let (handle, wish) = (scheduler.handle(), stop.clone());
    let serving = async move {
        let server = server::Server::bind(&settings)?;
        let address = server.local_addr()?;
        // Whoever started us may have closed it.
        let _ = writeln!(std::io::stdout(), "listening on http://{address}/");
        Ok::<_, std::io::Error>(server.run(handle, wish).await)
    };
    let served = scheduler.spawn_future(serving).map_err(|e| e.to_string())?.join().map_err(|e| e.to_string())?;
    let summary = served.map_err(|e| e.to_string())?;
    let server::Summary { connections, requests, broken, cut_off, back_offs } = summary;
    eprintln!(
        "http_files: {requests} requests on {connections} connections; {broken} ended early, {cut_off} cut off, \
         accepting waited {back_offs} times"
    );
    Ok(if cut_off == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The first SIGTERM or SIGINT stops the server, the second one the process.
#[cfg(not(loom))]
fn stop_on_signals(stop: server::Stop) -> std::io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let listen = move || {
        for (n, signal) in signals.forever().enumerate() {
            if n > 0 {
                // As if we had never listened. If even that fails there is nothing better left.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            stop.stop();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map(drop)
}

#[cfg(loom)]
fn main() {}
