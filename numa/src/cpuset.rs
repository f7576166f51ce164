//! A growable set of CPU ids.

use crate::ids::CpuId;
use crate::list::{self, ListError};
use std::fmt;
use std::str::FromStr;

/// A set of CPUs, as large as its largest member needs: hosts with more than 1024 CPUs are ordinary here.
///
/// Reads and writes the kernel's list format.
///
/// ```
/// use numa::{CpuId, CpuSet};
/// let set: CpuSet = "0-3,8,1500".parse()?;
/// assert_eq!(set.len(), 6);
/// assert!(set.contains(CpuId::new(1500)));
/// assert_eq!(set.to_string(), "0-3,8,1500");
/// # Ok::<(), numa::ListError>(())
/// ```
// The last word is never zero: equal sets are equal vectors.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> CpuSet {
        CpuSet { words: Vec::new() }
    }

    /// The set with one member.
    #[must_use]
    pub fn single(cpu: CpuId) -> CpuSet {
        let mut set = CpuSet::new();
        set.insert(cpu);
        set
    }

    /// The CPUs `0..count`; at most [`CpuId::LIMIT`] of them.
    #[must_use]
    pub fn first_n(count: usize) -> CpuSet {
        let count = count.min(CpuId::LIMIT as usize);
        let mut words = vec![u64::MAX; count / 64];
        if !count.is_multiple_of(64) {
            words.push((1 << (count % 64)) - 1);
        }
        CpuSet { words }
    }

    /// Takes words as the kernel writes masks: bit 0 of word 0 is CPU 0. Bits beyond [`CpuId::LIMIT`] are dropped.
    pub(crate) fn from_words(mut words: Vec<u64>) -> CpuSet {
        words.truncate(CpuId::LIMIT as usize / 64);
        let mut set = CpuSet { words };
        set.trim();
        set
    }

    /// The members as the kernel reads masks.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The set has every CPU of `mask`, which is as the kernel writes it.
    pub(crate) fn covers(&self, mask: &[u64]) -> bool {
        mask.iter().enumerate().all(|(at, bits)| bits & !self.words.get(at).copied().unwrap_or(0) == 0)
    }

    /// Reads a list such as `0-3,8` from bytes that need not be UTF-8.
    ///
    /// # Errors
    /// Text that is not a list, a range that runs backwards, a number of [`CpuId::LIMIT`] or more.
    pub fn from_list(text: &[u8]) -> Result<CpuSet, ListError> {
        Ok(CpuSet::from_words(list::list_words(text, CpuId::LIMIT)?))
    }

    /// Reads a hexadecimal map such as `00000001,0000000f`.
    ///
    /// ```
    /// let set = numa::CpuSet::from_hex_map(b"1,0000000f")?;
    /// assert_eq!(set.to_string(), "0-3,32");
    /// # Ok::<(), numa::ListError>(())
    /// ```
    ///
    /// # Errors
    /// Text that is not such a map, a bit at [`CpuId::LIMIT`] or beyond.
    pub fn from_hex_map(text: &[u8]) -> Result<CpuSet, ListError> {
        Ok(CpuSet::from_words(list::hex_words(text, CpuId::LIMIT)?))
    }

    /// Adds a CPU; says whether it was new.
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Takes a CPU out; says whether it was there.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        let was = self.contains(cpu);
        if was {
            self.words[word] &= !bit;
            self.trim();
        }
        was
    }

    /// Whether the CPU is a member.
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The smallest member.
    #[must_use]
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The largest member.
    #[must_use]
    pub fn last(&self) -> Option<CpuId> {
        let word = self.words.last()?;
        Some(CpuId::new((self.words.len() as u32) * 64 - 1 - word.leading_zeros()))
    }

    /// Members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        list::members(&self.words).map(CpuId::new)
    }

    /// Members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        CpuSet::from_words(self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect())
    }

    /// Members of either set.
    #[must_use]
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        let (long, short) = if self.words.len() < other.words.len() { (other, self) } else { (self, other) };
        let mut words = long.words.clone();
        for (word, more) in words.iter_mut().zip(&short.words) {
            *word |= more;
        }
        CpuSet { words }
    }

    /// Members of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        let mut words = self.words.clone();
        for (word, less) in words.iter_mut().zip(&other.words) {
            *word &= !less;
        }
        CpuSet::from_words(words)
    }

    /// Whether every member is in `other` too.
    #[must_use]
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.difference(other).is_empty()
    }

    /// Whether the sets share a member.
    #[must_use]
    pub fn intersects(&self, other: &CpuSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn place(cpu: CpuId) -> (usize, u64) {
    (cpu.get() as usize / 64, 1 << (cpu.get() % 64))
}

impl FromStr for CpuSet {
    type Err = ListError;

    fn from_str(text: &str) -> Result<CpuSet, ListError> {
        CpuSet::from_list(text.as_bytes())
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::new();
        set.extend(cpus);
        set
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut members = self.iter().map(CpuId::get).peekable();
        let mut comma = "";
        while let Some(low) = members.next() {
            let mut high = low;
            while let Some(next) = members.next_if_eq(&(high + 1)) {
                high = next;
            }
            write!(f, "{comma}{low}")?;
            if high > low {
                write!(f, "-{high}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}
