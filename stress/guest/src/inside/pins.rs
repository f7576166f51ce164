//! Workers are where they belong, and what becomes of them when CPUs are taken away and given back.

use super::crew::{Crew, Load, SOON, bind_thread, list};
use super::group::{Group, write};
use super::look::{mask_of, set};
use super::{Check, Finding};
use numa::{CpuId, CpuSet, Pin, Placement, Topology};
use scheduler::{Scheduler, ShutdownMode};
use std::sync::mpsc::channel;
use std::time::Duration;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "workers at home",
        boots: &["five", "threads", "flat", "wide"],
        holds: |_| at_home(),
        control: |_| nobody_cares(),
        missed: false,
    },
    Check {
        name: "cpuset shrinks and grows: tasks",
        boots: &["five"],
        holds: |_| tasks_survive(shrink_and_grow, ShutdownMode::Drain),
        control: |_| tasks_survive(shrink_and_grow, ShutdownMode::Abort),
        missed: false,
    },
    Check {
        name: "cpuset shrinks and grows: pins",
        boots: &["five"],
        holds: |_| pins_return(shrink_and_grow, 4),
        control: |_| pins_of_plain_threads(shrink_and_grow),
        missed: false,
    },
    Check {
        name: "CPU off and on: tasks",
        boots: &["five"],
        holds: |_| tasks_survive(off_and_on, ShutdownMode::Drain),
        control: |_| tasks_survive(off_and_on, ShutdownMode::Abort),
        missed: false,
    },
    Check {
        name: "CPU off and on: pins",
        boots: &["five"],
        holds: |_| pins_return(off_and_on, 2),
        control: |_| pins_of_plain_threads(off_and_on),
        missed: false,
    },
];

/// M12 after start, bound to caches and to single CPUs: `getcpu` says home, the kernel's masks are the seats.
fn at_home() -> Finding {
    let mut evidence = String::new();
    for pin in [Pin::Auto, Pin::Cpu] {
        let crew = Crew::start(Scheduler::builder().pin(pin))?;
        evidence += &crew.all_at_home()?;
        evidence += &seated(&crew, pin)?;
    }
    Ok(evidence)
}

/// Each thread's mask is the one planned for it.
fn seated(crew: &Crew, pin: Pin) -> Finding {
    let seats = numa::plan(crew.scheduler.topology(), &Placement::Spread, pin, crew.len());
    let seats = seats.map_err(|error| error.to_string())?;
    let planned: Vec<CpuSet> = seats.into_iter().filter_map(|seat| seat.bind).collect();
    let masks = crew.masks()?;
    let text = format!(", masks {} ", list(&masks));
    if masks == planned { Ok(text) } else { Err(format!("{text}, planned {}", list(&planned))) }
}

/// Workers that are not bound, put onto the last CPU by somebody else.
fn nobody_cares() -> Finding {
    let crew = Crew::start(Scheduler::builder().placement(Placement::Unpinned))?;
    let last = crew.scheduler.topology().online().last().unwrap_or(CpuId::new(0));
    for &thread in &crew.threads {
        bind_thread(thread, last)?;
    }
    let home = crew.all_at_home();
    let masks = seated(&crew, Pin::Cpu);
    home.and_then(|home| masks.map(|masks| home + &masks))
}

/// A disturbance: what is done, with a pause in the middle.
type Disturbance = fn(pause: &mut dyn FnMut() -> Result<(), String>) -> Result<(), String>;

/// The CPUs of nodes 2 and 3 go and come back.
fn shrink_and_grow(pause: &mut dyn FnMut() -> Result<(), String>) -> Result<(), String> {
    let group = Group::make("shrinking")?;
    group.set("cpuset.cpus", "0-3")?;
    pause()?;
    group.set("cpuset.cpus", "0-7")
}

/// Both CPUs of node 1 are switched off and on.
fn off_and_on(pause: &mut dyn FnMut() -> Result<(), String>) -> Result<(), String> {
    let switch = |cpu: u32, value: &str| write(format!("/sys/devices/system/cpu/cpu{cpu}/online").into(), value);
    let group = Group::make("shrinking")?;
    switch(2, "0")?;
    let off = switch(3, "0").and_then(|()| group.wait_for(EFFECTIVE, "0-1,4-7")).and_then(|()| pause());
    let on = switch(2, "1").and(switch(3, "1"));
    off.and(on)?;
    // Before the group has them back nobody can be bound to them.
    group.wait_for(EFFECTIVE, "0-7")
}

/// The CPUs that a group has in fact.
const EFFECTIVE: &str = "cpuset.cpus.effective";

/// Everybody is in the group that will shrink, with all CPUs to begin with.
fn join_group() -> Result<(), String> {
    let group = Group::make("shrinking")?;
    group.set("cpuset.cpus", "0-7")?;
    group.join()
}

/// A load runs meanwhile; every accepted task runs.
fn tasks_survive(disturbance: Disturbance, end: ShutdownMode) -> Finding {
    join_group()?;
    let crew = Crew::start(Scheduler::builder())?;
    let load = Load::begin(crew.scheduler.handle());
    let mut meanwhile = String::new();
    for _ in 0..3 {
        disturbance(&mut || {
            // Long enough for the load to run into it.
            std::thread::sleep(Duration::from_millis(100));
            meanwhile = list(&crew.masks()?);
            Ok(())
        })?;
        std::thread::sleep(Duration::from_millis(100));
    }
    if end == ShutdownMode::Abort {
        // Something to lose: tasks that nobody has begun when the axe falls.
        for _ in 0..64 * crew.len() {
            let _ = crew.scheduler.submit(|| std::thread::sleep(Duration::from_millis(2)));
        }
    }
    let handle = crew.scheduler.handle();
    let mut completed = false;
    if end == ShutdownMode::Abort {
        completed = crew.scheduler.shutdown(end, SOON).completed;
    }
    let (accepted, run) = load.end(|| {
        if end == ShutdownMode::Drain {
            completed = crew.scheduler.shutdown(end, SOON).completed;
        }
    });
    let (dropped, left) = (handle.metrics().dropped, handle.metrics().queued);
    let text = format!("{accepted} accepted, {run} run, {dropped} dropped, {left} left; masks meanwhile {meanwhile}");
    if completed && accepted == run && dropped == 0 && accepted > 0 { Ok(text) } else { Err(text) }
}

/// Looks at the kernel's mask are rare: a worker that has not left its place notices a mask that has grown after so
/// many sleeps at the latest.
const SLEEPS: usize = 130;

/// M12 after a disturbance of `workers` workers. While it lasts: the loss is noticed within one park cycle. When it is
/// over: who is off home in one park cycle is back in the next; in the end all are at home, bound as planned.
fn pins_return(disturbance: Disturbance, workers: u64) -> Finding {
    join_group()?;
    let crew = Crew::start(Scheduler::builder())?;
    crew.all_at_home()?;
    let mut evidence = String::new();
    disturbance(&mut || {
        crew.park_cycle(|| ())?;
        let (allowed, metrics) = (Topology::discover().allowed().clone(), crew.scheduler.metrics());
        let masks = crew.masks()?;
        evidence = format!("{} losses noticed meanwhile, masks {}", metrics.pin_losses, list(&masks));
        let strays = masks.iter().filter(|mask| !mask.is_subset(&allowed)).count();
        let noticed = metrics.pin_losses >= workers && metrics.unbound as u64 == workers;
        if strays == 0 && noticed { Ok(()) } else { Err(format!("{evidence}; {} unbound", metrics.unbound)) }
    })?;
    crew.park_cycle(|| ())?;
    let mut off = vec![false; crew.len()];
    let mut drifts = 0;
    for _ in 0..SLEEPS {
        for (worker, (node, home)) in crew.whereabouts()?.into_iter().enumerate() {
            if node != home && off[worker] {
                return Err(format!("{evidence}; worker {worker} is on node {node} twice in a row, home is {home}"));
            }
            off[worker] = node != home;
            drifts += usize::from(node != home);
        }
    }
    let (home, metrics) = (crew.all_at_home(), crew.scheduler.metrics());
    let (losses, repairs) = (metrics.pin_losses, metrics.pin_repairs);
    let evidence = format!("{evidence}; then {losses} losses, {repairs} repairs, {drifts} looks off home");
    let home = home.map_err(|home| format!("{evidence}; {home}"))?;
    let masks = seated(&crew, Pin::Auto).map_err(|masks| format!("{evidence}{masks}"))?;
    Ok(format!("{evidence}; {home}{masks}"))
}

/// The same with threads that bind themselves once: what the kernel makes of them.
fn pins_of_plain_threads(disturbance: Disturbance) -> Finding {
    join_group()?;
    let host = Topology::discover();
    let (say, told) = channel();
    for cpu in host.allowed().iter() {
        let say = say.clone();
        std::thread::spawn(move || {
            let bound = numa::bind_current_thread(&CpuSet::single(cpu));
            let _ = say.send(bound.map(|()| (cpu, stress::os::thread_id())));
            std::thread::park_timeout(Duration::from_secs(1000));
        });
    }
    let mut threads = Vec::new();
    for told in told.iter().take(host.allowed().len()) {
        threads.push(told.map_err(|error| error.to_string())?);
    }
    threads.sort();
    let masks = |threads: &[(CpuId, i32)]| threads.iter().map(|&(_, id)| mask_of(id)).collect::<Result<Vec<_>, _>>();
    let mut meanwhile = String::new();
    disturbance(&mut || {
        std::thread::sleep(Duration::from_millis(100));
        meanwhile = list(&masks(&threads)?);
        Ok(())
    })?;
    std::thread::sleep(Duration::from_millis(100));
    let then = masks(&threads)?;
    let kept = threads.iter().zip(&then).filter(|((cpu, _), mask)| **mask == set(&[cpu.get()])).count();
    let text = format!("{kept} of {} keep their pin; meanwhile {meanwhile}; then {}", then.len(), list(&then));
    if kept == then.len() { Ok(text) } else { Err(text) }
}
