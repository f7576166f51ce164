//! Which instructions of an object file are locked: carry a `lock` prefix, exchange with memory, or are a full fence.
use super::callgrind::Profile;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;

/// Least share of the executed addresses that must be starts of instructions for a load address to be believed.
const AGREEMENT: f64 = 0.99;
/// Addresses with which guesses are tried first.
const PROBES: usize = 64;

/// A disassembled object file, at its link addresses.
#[derive(Debug, Default)]
pub(super) struct Listing {
    starts: HashSet<u64>,
    locked: HashSet<u64>,
}

impl Listing {
    pub(super) fn of(objdump: &Path, file: &str) -> Result<Listing, String> {
        let out = Command::new(objdump).args(["-d", "--no-show-raw-insn", file]).output();
        let out = out.map_err(|e| format!("{}: {e}", objdump.display()))?;
        if !out.status.success() {
            return Err(format!("objdump cannot read {file}"));
        }
        Ok(Listing::parse(&String::from_utf8_lossy(&out.stdout)))
    }

    fn parse(text: &str) -> Listing {
        let mut out = Listing::default();
        for line in text.lines().filter(|l| l.starts_with(' ')) {
            let Some((address, code)) = line.split_once(":\t") else { continue };
            let Ok(address) = u64::from_str_radix(address.trim(), 16) else { continue };
            out.starts.insert(address);
            if is_locked(code) {
                out.locked.insert(address);
            }
        }
        out
    }

    /// What has to be subtracted from the profile's addresses to get those of this listing. The profiler knows the
    /// load address of most files and subtracts it itself (0 here); of some it does not, and then only one multiple
    /// of the page size makes sense of all addresses.
    fn bias(&self, executed: &HashMap<u64, u64>) -> Result<u64, String> {
        let share = |bias: u64, probes: &[u64]| {
            let known = |a: &&u64| a.checked_sub(bias).is_some_and(|a| self.starts.contains(&a));
            probes.iter().filter(known).count() as f64 / probes.len() as f64
        };
        let mut all: Vec<u64> = executed.keys().copied().collect();
        all.sort_unstable();
        let first = *all.first().ok_or("nothing was executed")?;
        let step = (all.len() / PROBES).max(1);
        let probes: Vec<u64> = all.iter().copied().step_by(step).collect();
        let pages = self.starts.iter().filter_map(|s| first.checked_sub(*s)).filter(|b| b % 4096 == 0);
        let best = std::iter::once(0).chain(pages).filter(|b| share(*b, &probes) >= AGREEMENT);
        let best = best.max_by(|a, b| share(*a, &all).total_cmp(&share(*b, &all)).then(b.cmp(a)));
        best.filter(|b| share(*b, &all) >= AGREEMENT).ok_or_else(|| "no load address explains the profile".into())
    }

    fn executed_locks(&self, executed: &HashMap<u64, u64>) -> Result<u64, String> {
        let bias = self.bias(executed)?;
        let hit = |(address, count): (&u64, &u64)| self.locked.contains(&address.wrapping_sub(bias)).then_some(*count);
        Ok(executed.iter().filter_map(hit).sum())
    }
}

fn is_locked(code: &str) -> bool {
    let code = code.split('#').next().unwrap_or(code).trim();
    code.starts_with("lock ") || code.starts_with("mfence") || (code.starts_with("xchg") && code.contains('('))
}

/// Disassembles every file once.
pub(super) struct Listings<'a> {
    objdump: &'a Path,
    known: HashMap<String, Listing>,
}

impl<'a> Listings<'a> {
    pub(super) fn new(objdump: &'a Path) -> Listings<'a> {
        Listings { objdump, known: HashMap::new() }
    }

    /// Executed locked instructions of a whole profile.
    pub(super) fn locks(&mut self, profile: &Profile) -> Result<u64, String> {
        let mut sum = 0;
        for (file, executed) in profile.objects.iter().filter(|(file, _)| file.starts_with('/')) {
            // The profiler's own preloaded helpers are no part of the pool.
            if file.contains("/vgpreload_") {
                continue;
            }
            if !self.known.contains_key(file) {
                self.known.insert(file.clone(), Listing::of(self.objdump, file)?);
            }
            sum += self.known[file].executed_locks(executed).map_err(|e| format!("{file}: {e}"))?;
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_instructions_are_told_from_others() {
        for code in [
            "lock incq 0x42570(%rip)        # 56418 <A>",
            "lock cmpxchg %rcx,(%rdx)",
            "xchg   %rax,(%rdi)",
            "xchg   %al,0x10(%rip)        # 20 <B>",
            "mfence",
        ] {
            assert!(is_locked(code), "{code}");
        }
        for code in
            ["xchg   %ax,%ax", "mov    %rax,(%rdi)", "lfence", "sfence", "call   10 <unlock (x)>", "xadd   %eax,%ebx"]
        {
            assert!(!is_locked(code), "{code}");
        }
    }

    /// A hundred instructions of uneven lengths from 0x1000 on; every tenth is locked.
    fn listing() -> Listing {
        let mut text = String::from("0000000000001000 <f>:\n");
        let mut address = 0x1000;
        for i in 0..100 {
            text += &format!("    {address:x}:\t{}\n", if i % 10 == 0 { "lock incl (%rax)" } else { "nop" });
            address += 1 + (i * i) % 7;
        }
        Listing::parse(&text)
    }

    #[test]
    fn the_load_address_is_found_with_and_without_an_offset() {
        let listing = listing();
        assert_eq!((listing.starts.len(), listing.locked.len()), (100, 10));
        for offset in [0, 0x10_8000, 0x5555_5555_4000] {
            let executed: HashMap<u64, u64> = listing.starts.iter().map(|a| (a + offset, 3)).collect();
            assert_eq!(listing.bias(&executed), Ok(offset));
            assert_eq!(listing.executed_locks(&executed), Ok(30));
        }
    }

    #[test]
    fn addresses_that_fit_nowhere_are_an_error() {
        let listing = listing();
        // Two bytes off, so that many of them are in the middle of an instruction wherever the file is loaded.
        let executed: HashMap<u64, u64> = listing.starts.iter().map(|a| (a + 0x2002, 1)).collect();
        assert!(listing.executed_locks(&executed).is_err());
        assert!(listing.bias(&HashMap::new()).is_err());
    }
}
