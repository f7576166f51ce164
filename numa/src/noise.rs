//! Random text for the tests of parsers: pieces that mean something to them, put together without sense.

use std::ops::Range;

/// Inputs per parser: a million where the compiler helps.
pub(crate) const INPUTS: u64 = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };

/// What parsers of lists, maps, specs and mount tables look for, and what breaks them.
const PIECES: &[&[u8]] = &[
    b"0",
    b"1",
    b"7",
    b"31",
    b"32",
    b"63",
    b"64",
    b"1023",
    b"1024",
    b"4095",
    b"16383",
    b"16384",
    b"4294967295",
    b"4294967296",
    b"18446744073709551615",
    b"99999999999999999999999",
    b"-",
    b"-",
    b"-",
    b",",
    b",",
    b",",
    b"-1",
    b"0x",
    b"f",
    b"ffffffff",
    b"00000000",
    b"fffffffff",
    b"\0",
    b"\n",
    b" ",
    b"\t",
    b"\r",
    b"\xff",
    b"\xc3\xa9",
    b";",
    b"=",
    b"*",
    b"/",
    b"node ",
    b"2*node ",
    b"id=",
    b"cores=",
    b"threads=",
    b"llcs=",
    b"first=",
    b"cpus=",
    b"mem=",
    b"g",
    b"offline ",
    b"unassigned ",
    b"allowed ",
    b"isolated ",
    b"mems ",
    b"quota ",
    b"dist ",
    b"none",
    b"cache ",
    b"core ",
    b"max",
    b" 100000",
    b"-5",
    b" - ",
    b" cgroup ",
    b" cgroup2 ",
    b" cpuset ",
    b"rw,cpu",
    b"noprefix",
    b"..",
    b"/..",
    b"\\040",
    b"\\777",
    b"\\",
    b"/sys/fs/cgroup",
    b"spread",
    b"pack",
    b"cpus:",
    b"nodes:",
    b"<object ",
    b"<distances2 ",
    b"<indexes>",
    b"<u64values>",
    b"type=\"NUMANode\"",
    b" os_index=\"",
    b"\"",
    b">",
    b"cpuset=\"0xf...f,0x1\"",
    b"kind=\"5\"",
];

/// A source of numbers that are the same on every run (splitmix64 of Steele, Lea and Flood, OOPSLA 2014).
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Noise {
        Noise(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below the length of `range`, from its start.
    pub(crate) fn in_range(&mut self, range: Range<usize>) -> usize {
        range.start + (self.next() % (range.len() as u64)) as usize
    }

    /// Up to a dozen pieces, sometimes with a byte of it changed or its end cut off.
    pub(crate) fn text(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        for _ in 0..self.in_range(0..13) {
            text.extend_from_slice(PIECES[self.in_range(0..PIECES.len())]);
        }
        if !text.is_empty() && self.in_range(0..4) == 0 {
            let at = self.in_range(0..text.len());
            text[at] = self.next() as u8;
        }
        if !text.is_empty() && self.in_range(0..8) == 0 {
            text.truncate(self.in_range(0..text.len()));
        }
        text
    }
}

/// Gives `INPUTS` texts to `parser`, which must survive them, and says how many it accepted. A parser that accepts
/// none was never tried beyond its first byte.
pub(crate) fn survives(seed: u64, parser: impl Fn(&[u8]) -> bool) {
    let mut noise = Noise::new(seed);
    let accepted = (0..INPUTS).filter(|_| parser(&noise.text())).count() as u64;
    assert!(accepted * 1000 > INPUTS, "only {accepted} of {INPUTS} texts made sense");
    assert!(accepted < INPUTS, "every text made sense");
}
