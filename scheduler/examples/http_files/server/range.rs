//! `Range`, one part of it.

/// What is to be sent of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// All of it: no range was asked for, or none that we understand. Several parts are not sent, which is allowed.
    Whole,
    /// From the first to the last byte, both included.
    Part { first: u64, last: u64 },
    /// It begins behind the end: 416.
    Unsatisfiable,
}

/// The part that the header asks for, of a file of `len` bytes.
pub(crate) fn range(header: Option<&str>, len: u64) -> Range {
    let Some((unit, spec)) = header.and_then(|text| text.trim().split_once('=')) else { return Range::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Range::Whole;
    }
    let Some((first, last)) = spec.trim().split_once('-') else { return Range::Whole };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => part(first, last, len),
        (Some(first), None) if last.trim().is_empty() => part(first, u64::MAX, len),
        // The last so many bytes.
        (None, Some(count)) if first.trim().is_empty() => {
            if count == 0 {
                Range::Unsatisfiable
            } else {
                part(len.saturating_sub(count), u64::MAX, len)
            }
        }
        _ => Range::Whole,
    }
}

fn part(first: u64, last: u64, len: u64) -> Range {
    if first >= len { Range::Unsatisfiable } else { Range::Part { first, last: last.min(len - 1) } }
}

/// Digits only. What is too large for a file is as large as can be.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

#[test]
fn one_part_is_understood() {
    let of = |text| range(Some(text), 100);
    let part = |first, last| Range::Part { first, last };
    assert_eq!(of("bytes=0-0"), part(0, 0));
    assert_eq!(of("Bytes = 10-19 "), part(10, 19));
    assert_eq!(of("bytes=10-"), part(10, 99));
    assert_eq!(of("bytes=-1"), part(99, 99));
    assert_eq!(of("bytes=-1000"), part(0, 99));
    assert_eq!(of("bytes=99-100000000000000000000000"), part(99, 99));
    assert_eq!(of("bytes=100-"), Range::Unsatisfiable);
    assert_eq!(of("bytes=100000000000000000000000-"), Range::Unsatisfiable);
    assert_eq!(of("bytes=-0"), Range::Unsatisfiable);
    assert_eq!(range(Some("bytes=0-"), 0), Range::Unsatisfiable);
    assert_eq!(range(Some("bytes=-5"), 0), Range::Unsatisfiable);
}

#[test]
fn everything_else_is_the_whole() {
    let others =
        ["", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-2", "bytes=+1-2", "bytes=1-2,4-5", "lines=1-2"];
    for text in others {
        assert_eq!(range(Some(text), 100), Range::Whole, "{text}");
    }
    assert_eq!(range(None, 100), Range::Whole);
}
