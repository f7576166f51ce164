//! The two ways Linux writes sets of ids: lists (`0-3,8`) and hexadecimal maps (`00000001,0000000f`).
//!
//! Both parsers are strict and bounded: a range is kept as a range until its end is known to be small enough, so
//! `0-18446744073709551615` is an error at position 2 and not four exabytes of mask.

use std::error::Error;
use std::fmt;

/// Why a list of ids could not be read, and at which byte.
///
/// ```
/// let error = "0-3,x".parse::<numa::CpuSet>().unwrap_err();
/// assert_eq!(error.position(), 4);
/// assert_eq!(error.to_string(), "position 4: expected a number, found 'x'");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListError {
    at: usize,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    ExpectedNumber(Option<u8>),
    ExpectedSeparator(u8),
    ExpectedHex(Option<u8>),
    TooLarge { limit: u32 },
    Backwards { low: u32, high: u32 },
    ChunkTooLong,
}

impl ListError {
    /// Byte offset of the first character that does not fit.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// The same error for a text that starts `offset` bytes further left.
    pub(crate) fn shifted(mut self, offset: usize) -> ListError {
        self.at += offset;
        self
    }

    /// What is wrong, without the position.
    pub(crate) fn reason(&self) -> String {
        let found = |byte: &Option<u8>| match byte {
            Some(byte) => format!("'{}'", byte.escape_ascii()),
            None => "the end".to_owned(),
        };
        match &self.problem {
            Problem::ExpectedNumber(byte) => format!("expected a number, found {}", found(byte)),
            Problem::ExpectedSeparator(byte) => {
                format!("expected ',' or '-', found '{}'", byte.escape_ascii())
            }
            Problem::ExpectedHex(byte) => {
                format!("expected a hexadecimal digit, found {}", found(byte))
            }
            Problem::TooLarge { limit } => format!("number too large, ids end at {}", limit - 1),
            Problem::Backwards { low, high } => {
                format!("range runs backwards, {low} is more than {high}")
            }
            Problem::ChunkTooLong => "more than eight hexadecimal digits between commas".to_owned(),
        }
    }
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "position {}: {}", self.at, self.reason())
    }
}

impl Error for ListError {}

/// Reads a list as inclusive ranges of numbers below `limit`. Nothing at all is the empty list.
fn ranges(text: &[u8], limit: u32) -> Result<Vec<(u32, u32)>, ListError> {
    let mut ranges = Vec::new();
    if text.is_empty() {
        return Ok(ranges);
    }
    let mut at = 0;
    loop {
        let start = at;
        let low = number(text, &mut at, limit)?;
        let mut high = low;
        if text.get(at) == Some(&b'-') {
            at += 1;
            high = number(text, &mut at, limit)?;
            if high < low {
                return Err(ListError { at: start, problem: Problem::Backwards { low, high } });
            }
        }
        ranges.push((low, high));
        match text.get(at) {
            None => return Ok(ranges),
            Some(b',') => at += 1,
            Some(&byte) => {
                return Err(ListError { at, problem: Problem::ExpectedSeparator(byte) });
            }
        }
    }
}

/// Reads a list into 64-bit words, least significant first. Work is bounded by the text's length times `limit / 64`.
pub(crate) fn list_words(text: &[u8], limit: u32) -> Result<Vec<u64>, ListError> {
    let mut words: Vec<u64> = Vec::new();
    for (low, high) in ranges(text, limit)? {
        let (first, last) = ((low / 64) as usize, (high / 64) as usize);
        if words.len() <= last {
            words.resize(last + 1, 0);
        }
        let (from, to) = (u64::MAX << (low % 64), u64::MAX >> (63 - high % 64));
        if first == last {
            words[first] |= from & to;
        } else {
            words[first] |= from;
            words[first + 1..last].fill(u64::MAX);
            words[last] |= to;
        }
    }
    Ok(words)
}

/// The numbers whose bits are set, ascending.
pub(crate) fn members(words: &[u64]) -> impl Iterator<Item = u32> + '_ {
    words.iter().enumerate().flat_map(|(index, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(index as u32 * 64 + bit)
        })
    })
}

fn number(text: &[u8], at: &mut usize, limit: u32) -> Result<u32, ListError> {
    let start = *at;
    let mut value: u32 = 0;
    while let Some(digit) = text.get(*at).filter(|byte| byte.is_ascii_digit()) {
        // `value` stays below `limit`, so this cannot overflow for any limit up to 2^28.
        value = value * 10 + u32::from(digit - b'0');
        if value >= limit {
            return Err(ListError { at: start, problem: Problem::TooLarge { limit } });
        }
        *at += 1;
    }
    if *at == start {
        return Err(ListError { at: start, problem: Problem::ExpectedNumber(text.get(start).copied()) });
    }
    Ok(value)
}

/// Reads a hexadecimal map (32-bit chunks, most significant first) into 64-bit words, least significant first.
pub(crate) fn hex_words(text: &[u8], limit: u32) -> Result<Vec<u64>, ListError> {
    let mut words = Vec::new();
    let mut end = text.len();
    let mut shift: u32 = 0;
    // Chunks are numbered from the right, so the walk goes from the right too.
    for chunk in text.rsplit(|&byte| byte == b',') {
        let start = end - chunk.len();
        let value = hex_chunk(chunk, start)?;
        if value != 0 {
            if u32::saturating_add(shift, 31 - value.leading_zeros()) >= limit {
                return Err(ListError { at: start, problem: Problem::TooLarge { limit } });
            }
            let word = (shift / 64) as usize;
            if words.len() <= word {
                words.resize(word + 1, 0);
            }
            words[word] |= u64::from(value) << (shift % 64);
        }
        shift = shift.saturating_add(32);
        end = start.saturating_sub(1);
    }
    Ok(words)
}

fn hex_chunk(chunk: &[u8], start: usize) -> Result<u32, ListError> {
    if chunk.is_empty() {
        return Err(ListError { at: start, problem: Problem::ExpectedHex(None) });
    }
    if chunk.len() > 8 {
        return Err(ListError { at: start, problem: Problem::ChunkTooLong });
    }
    let mut value = 0;
    for (offset, &byte) in chunk.iter().enumerate() {
        let digit = char::from(byte)
            .to_digit(16)
            .ok_or(ListError { at: start + offset, problem: Problem::ExpectedHex(Some(byte)) })?;
        value = value << 4 | digit;
    }
    Ok(value)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cpuset::CpuSet;
    use crate::ids::CpuId;
    use crate::noise::survives;

    /// What came out is a set within the limits that reads back as itself; what did not is pointed at.
    fn sound(text: &[u8], result: Result<CpuSet, ListError>) -> bool {
        match result {
            Ok(set) => {
                assert!(set.last().is_none_or(|last| last.get() < CpuId::LIMIT));
                assert_eq!(set.to_string().parse(), Ok(set));
                true
            }
            Err(error) => {
                assert!(error.position() <= text.len() && !error.to_string().is_empty());
                false
            }
        }
    }

    #[test]
    fn a_million_lists() {
        survives(1, |text| sound(text, CpuSet::from_list(text)));
    }

    #[test]
    fn a_million_maps() {
        survives(2, |text| sound(text, CpuSet::from_hex_map(text)));
    }

    #[test]
    fn a_million_lists_of_nodes() {
        survives(3, |text| crate::parse::node_list(text).is_ok());
    }
}
