//! The gate: the stress suite twenty times, then the stamp.

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
fn main() -> std::process::ExitCode {
    real::main()
}

#[cfg(not(loom))]
mod real {
    use std::fs::{self, File};
    use std::io::{self, Write};
    use std::process::{Command, ExitCode, Stdio};
    use std::time::{Instant, SystemTime, UNIX_EPOCH};
    use stress::profile::{ROUNDS, of_round};
    use stress::random::mix;
    use stress::{stamp, tree};

    const USAGE: &str = "usage: gate [hash] | gate [--chaos] [--seed N]";

    struct Options {
        chaos: bool,
        seed: u64,
    }

    pub(crate) fn main() -> ExitCode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        if arguments == ["hash"] {
            return finish(tree::hash(&tree::root()).map(|hash| println!("{hash}")).map(|()| true));
        }
        match options(&arguments) {
            Some(options) => finish(run(&options)),
            None => {
                eprintln!("{USAGE}");
                ExitCode::from(2)
            }
        }
    }

    fn finish(result: io::Result<bool>) -> ExitCode {
        match result {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("gate: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn options(arguments: &[String]) -> Option<Options> {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
        let mut options = Options { chaos: false, seed: mix(clock) };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--chaos" => options.chaos = true,
                "--seed" => options.seed = parse(arguments.next()?)?,
                _ => return None,
            }
        }
        Some(options)
    }

    fn parse(text: &str) -> Option<u64> {
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    fn run(options: &Options) -> io::Result<bool> {
        let before = tree::hash(&tree::root())?;
        println!("tree {before}");
        println!("seed {:#x}{}", options.seed, if options.chaos { ", with perturbation points" } else { "" });
        let folder = tree::target().join("stress-gate");
        fs::create_dir_all(&folder)?;
        if !options.chaos {
            stamp::remove(&stamp::folder(), &before)?;
        }
        let build = Instant::now();
        if !cargo(options, &["--no-run"]).status()?.success() {
            println!("the suite does not build");
            return Ok(false);
        }
        println!("built in {:.1} s", build.elapsed().as_secs_f64());
        let began = Instant::now();
        for round in 1..=ROUNDS {
            let log = folder.join(format!("round-{round}.log"));
            if !one(options, round, File::create(&log)?)? {
                println!("round {round} FAILED; the end of {}:", log.display());
                print_end(&fs::read_to_string(&log).unwrap_or_default());
                return Ok(false);
            }
        }
        println!("{ROUNDS}/{ROUNDS} in {:.0} s", began.elapsed().as_secs_f64());
        if options.chaos {
            return Ok(true);
        }
        if tree::hash(&tree::root())? != before {
            println!("the sources have changed meanwhile: no stamp");
            return Ok(false);
        }
        println!("stamp written to {}", stamp::write(&stamp::folder(), &before)?.display());
        Ok(true)
    }

    fn one(options: &Options, round: u32, log: File) -> io::Result<bool> {
        let seed = mix(options.seed ^ u64::from(round));
        let profile = of_round(round);
        print!("round {round:2}  {:15} workers {:2}  seed {seed:#018x}  ", profile.name, profile.workers);
        io::stdout().flush()?;
        let began = Instant::now();
        let mut command = cargo(options, &[]);
        command.env("STRESS_ROUND", round.to_string()).env("STRESS_SEED", seed.to_string());
        let ok = command.stdout(Stdio::from(log.try_clone()?)).stderr(Stdio::from(log)).status()?.success();
        println!("{:5.1} s  {}", began.elapsed().as_secs_f64(), if ok { "ok" } else { "FAILED" });
        Ok(ok)
    }

    fn cargo(options: &Options, more: &[&str]) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(tree::root()).args(["test", "--release", "-p", "stress"]).args(more);
        if options.chaos {
            let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
            command.env("RUSTFLAGS", format!("{flags} --cfg sched_chaos"));
            command.env("CARGO_TARGET_DIR", tree::target().join("chaos"));
        }
        command
    }

    fn print_end(log: &str) {
        let lines: Vec<_> = log.lines().collect();
        for line in &lines[lines.len().saturating_sub(80)..] {
            println!("    {line}");
        }
    }
}
