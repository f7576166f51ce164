//! Reads what `valgrind --tool=callgrind --dump-instr=yes --compress-strings=no --compress-pos=no` writes.
use std::collections::HashMap;

/// Executed instructions by object file and address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) objects: HashMap<String, HashMap<u64, u64>>,
    /// All executed instructions, those without a file included.
    pub(super) total: u64,
}

impl Profile {
    /// Leaves out the functions of whose names `excluded` is a part: they are the harness, not the pool.
    pub(super) fn parse(text: &str, excluded: &str) -> Result<Profile, String> {
        let mut out = Profile::default();
        let mut object = String::new();
        let (mut skipping, mut inclusive) = (false, false);
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("ob=") {
                object = name.to_owned();
            } else if let Some(name) = line.strip_prefix("fn=") {
                skipping = name.contains(excluded);
            } else if line.starts_with("calls=") {
                // The next line holds the inclusive cost of the call, which is counted where it arises.
                inclusive = true;
            } else if line.starts_with("0x") {
                if std::mem::take(&mut inclusive) || skipping {
                    continue;
                }
                let (address, count) = cost(line).ok_or_else(|| format!("not a cost line: {line:?}"))?;
                out.total += count;
                *out.objects.entry(object.clone()).or_default().entry(address).or_default() += count;
            } else if line.starts_with(['+', '-', '*']) {
                return Err("the profile has compressed positions".into());
            }
        }
        if out.total == 0 {
            return Err("the profile has no costs".into());
        }
        Ok(out)
    }
}

/// `ADDRESS LINE COUNT`.
fn cost(line: &str) -> Option<(u64, u64)> {
    let mut parts = line.split(' ');
    let address = u64::from_str_radix(parts.next()?.strip_prefix("0x")?, 16).ok()?;
    parts.next()?;
    Some((address, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
version: 1
positions: instr line
events: Ir

ob=/bin/a
fl=a.rs
fn=work
0x10 1 5
fi=b.rs
0x12 2 7
cob=/lib/c.so
cfn=helper
calls=3 0x900 0
0x14 3 999
0x14 3 3
fn=bench::counts::child::uncounted_settle
0x40 9 1000
calls=1 0x10 0
0x44 9 5000

ob=/lib/c.so
fl=c.c
fn=helper
0x900 1 3
0x900 1 4
ob=???
fn=0x5000
0x5000 0 2
";

    #[test]
    fn self_costs_are_summed_by_object_and_address() {
        let profile = Profile::parse(TEXT, "uncounted").unwrap();
        assert_eq!(profile.total, 5 + 7 + 3 + 7 + 2);
        assert_eq!(profile.objects["/bin/a"], HashMap::from([(0x10, 5), (0x12, 7), (0x14, 3)]));
        assert_eq!(profile.objects["/lib/c.so"], HashMap::from([(0x900, 7)]));
    }

    #[test]
    fn broken_profiles_are_refused() {
        assert!(Profile::parse("version: 1\n", "x").is_err());
        assert!(Profile::parse("fn=a\n0xzz 1 2\n", "x").is_err());
        assert!(Profile::parse("fn=a\n0x10 1\n", "x").is_err());
        assert!(Profile::parse("fn=a\n0x10 1 2\n+3 1 2\n", "x").is_err());
    }
}
