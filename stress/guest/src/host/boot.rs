//! One guest: started, listened to, ended.

use super::{Kit, Trouble, transfers};
use crate::line::{self, Line, Phase, Said};
use crate::machine::Machine;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The longest boot takes a third of this on the machine it was written on, beside six busy neighbours.
const LIMIT: Duration = Duration::from_secs(240);

/// What came of a boot.
pub(crate) struct Boot {
    pub(crate) name: &'static str,
    pub(crate) lines: Vec<Line>,
    /// What is wrong with the boot as a whole.
    pub(crate) trouble: Option<String>,
    /// Why it was not tried.
    pub(crate) not_run: Option<String>,
    pub(crate) seconds: f64,
}

/// What the guest has said.
#[derive(Default)]
struct Told {
    lines: Vec<Line>,
    phases: Vec<Phase>,
}

/// The emulator with its arguments, console on its standard output.
pub(crate) fn command(kit: &Kit, machine: &Machine, more: &str) -> Command {
    let mut command = Command::new(&kit.qemu);
    // One host thread for all CPUs of the guest: counts are repeatable then.
    command.args(["-accel", "tcg,thread=single", "-display", "none", "-serial", "stdio", "-monitor", "none"]);
    command.args(["-no-reboot", "-nodefaults"]).args(machine.arguments());
    command.arg("-kernel").arg(&kit.kernel).arg("-initrd").arg(&kit.image);
    command.arg("-append").arg(machine.command_line() + more);
    command
}

/// Boots a machine and collects what its checks say. A kernel that did not come as far as the first check is given a
/// second chance: on a starved host its own assumptions about time do not hold.
pub(crate) fn boot(kit: &Kit, machine: &'static Machine) -> Boot {
    let first = once(kit, machine);
    match &first.trouble {
        Some(trouble) if first.lines.is_empty() && !machine.counted => {
            println!("{}: {trouble}; once more", machine.name)
        }
        _ => return first,
    }
    once(kit, machine)
}

fn once(kit: &Kit, machine: &'static Machine) -> Boot {
    let began = Instant::now();
    let mut boot = Boot { name: machine.name, lines: Vec::new(), trouble: None, not_run: None, seconds: 0.0 };
    let mut told = Told::default();
    let mut command = command(kit, machine, "");
    let counts = kit.folder.join(format!("{}.txt", machine.name));
    if machine.counted {
        match transfers::plugin(&kit.folder) {
            Ok(library) => command.arg("-plugin").arg(transfers::argument(&library, &counts, machine)),
            Err(Trouble::Missing(why)) => {
                return Boot { not_run: Some(why), ..boot };
            }
            Err(trouble) => return Boot { trouble: Some(trouble.to_string()), ..boot },
        };
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    match command.spawn() {
        Ok(mut child) => {
            let log = kit.folder.join(format!("{}.log", machine.name));
            boot.trouble = listen(&mut child, &log, &mut told);
            // It has ended, or it never will.
            let _ = child.kill();
            let _ = child.wait();
        }
        Err(error) => boot.trouble = Some(format!("{}: {error}", kit.qemu.display())),
    }
    boot.lines = told.lines;
    if machine.counted && boot.trouble.is_none() {
        match std::fs::read_to_string(&counts) {
            Ok(text) => boot.lines = transfers::judge(&text, &told.phases),
            Err(error) => boot.trouble = Some(format!("{}: {error}", counts.display())),
        }
    }
    boot.seconds = began.elapsed().as_secs_f64();
    boot
}

/// Reads the console until the guest is gone; what is wrong, if anything.
fn listen(child: &mut Child, log: &std::path::Path, told: &mut Told) -> Option<String> {
    let mut log = match File::create(log) {
        Ok(file) => file,
        Err(error) => return Some(format!("{}: {error}", log.display())),
    };
    let (send, console) = channel();
    let streams: [Box<dyn std::io::Read + Send>; 2] = [Box::new(child.stdout.take()?), Box::new(child.stderr.take()?)];
    for stream in streams {
        let send = send.clone();
        std::thread::spawn(move || {
            for text in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                if send.send(String::from_utf8_lossy(&text).into_owned()).is_err() {
                    return;
                }
            }
        });
    }
    drop(send);
    understand(&console, &mut log, told, Instant::now() + LIMIT)
}

fn understand(console: &Receiver<String>, log: &mut dyn Write, told: &mut Told, end: Instant) -> Option<String> {
    let (mut announced, mut exit, mut last) = (None, None, String::new());
    loop {
        let text = match console.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(text) => text,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => return Some(format!("not done in time; last words: {last}")),
        };
        // The log is for people; without it the result is the same.
        let _ = writeln!(log, "{}", text.trim_end());
        match line::parse(&text) {
            Some(Said::Check(line)) => told.lines.push(line),
            Some(Said::Phase(phase)) => told.phases.push(phase),
            Some(Said::End(count)) => announced = Some(count),
            Some(Said::Exit(code)) => exit = Some(code),
            None if !text.trim().is_empty() => last = text.trim().to_owned(),
            None => {}
        }
    }
    let lines = &told.lines;
    match (announced, exit.as_deref()) {
        (Some(count), Some("0" | "1")) if count == lines.len() => None,
        (Some(count), _) if count != lines.len() => Some(format!("{} of {count} results came through", lines.len())),
        (_, exit) => Some(format!("no end; exit code {}; last words: {last}", exit.unwrap_or("unknown"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> (usize, Option<String>) {
        let (send, console) = channel();
        lines.iter().for_each(|line| send.send((*line).to_owned()).unwrap());
        drop(send);
        let mut found = Told::default();
        let trouble = understand(&console, &mut Vec::new(), &mut found, Instant::now() + LIMIT);
        (found.lines.len(), trouble)
    }

    const CHECK: &str = "guest: a | ok | b | c";

    #[test]
    fn a_complete_report() {
        assert_eq!(told(&["noise", CHECK, CHECK, "guest: end 2", "guest: exit 0"]), (2, None));
        assert_eq!(told(&["guest: a | FAIL | b | c", "guest: end 1", "guest: exit 1"]), (1, None));
    }

    #[test]
    fn a_guest_that_dies_on_the_way() {
        let (checks, trouble) = told(&[CHECK, "Kernel panic - not syncing"]);
        assert_eq!((checks, trouble.unwrap().contains("Kernel panic")), (1, true));
        assert!(told(&[CHECK, "guest: end 2", "guest: exit 0"]).1.unwrap().contains("1 of 2"));
        assert!(told(&[CHECK, "guest: end 1", "guest: exit 139"]).1.unwrap().contains("139"));
    }

    #[test]
    fn a_guest_that_never_ends() {
        let (_send, console) = channel();
        let trouble = understand(&console, &mut Vec::new(), &mut Told::default(), Instant::now());
        assert!(trouble.unwrap().contains("not done in time"));
    }
}
