//! Lists and hexadecimal maps of CPUs: what is read, what is refused and where.
#![cfg(not(loom))]

mod common;

use common::{ids, set};
use numa::{CpuId, CpuSet};
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn lists_as_the_kernel_writes_them() {
    assert_eq!(ids(&set("")), []);
    assert_eq!(ids(&set("0")), [0]);
    assert_eq!(ids(&set("0-3,8")), [0, 1, 2, 3, 8]);
    assert_eq!(ids(&set("5-5")), [5]);
    assert_eq!(ids(&set("8,0-1,1")), [0, 1, 8]);
    assert_eq!(set("63-64,127-129").len(), 5);
    assert_eq!(set("0-16383").len(), CpuId::LIMIT as usize);
}

#[test]
fn mistakes_are_pointed_at() {
    let table = [
        ("x", 0, "expected a number, found 'x'"),
        ("0-", 2, "expected a number, found the end"),
        ("0,", 2, "expected a number, found the end"),
        (",1", 0, "expected a number, found ','"),
        ("0-3 ,8", 3, "expected ',' or '-', found ' '"),
        ("0-3-5", 3, "expected ',' or '-', found '-'"),
        ("0-3:1/2", 3, "expected ',' or '-', found ':'"),
        ("1,7-3", 2, "range runs backwards, 7 is more than 3"),
        ("+1", 0, "expected a number, found '+'"),
        ("0-18446744073709551615", 2, "number too large, ids end at 16383"),
        ("99999999999999999999999999", 0, "number too large, ids end at 16383"),
        ("4,16384", 2, "number too large, ids end at 16383"),
        ("1\u{e9}", 1, "expected ',' or '-', found '\\xc3'"),
    ];
    for (text, position, reason) in table {
        let error = text.parse::<CpuSet>().unwrap_err();
        assert_eq!(error.position(), position, "{text:?}");
        assert_eq!(error.to_string(), format!("position {position}: {reason}"), "{text:?}");
    }
}

#[test]
fn hex_maps_as_the_kernel_writes_them() {
    let read = |text: &str| CpuSet::from_hex_map(text.as_bytes()).map(|cpus| cpus.to_string());
    assert_eq!(read("f").unwrap(), "0-3");
    assert_eq!(read("00000000,00000000").unwrap(), "");
    assert_eq!(read("1,00000000,80000001").unwrap(), "0,31,64");
    assert_eq!(read("FF").unwrap(), "0-7");
    let leading = format!("{}1", "00000000,".repeat(2000));
    assert_eq!(read(&leading).unwrap(), "0");
    for (text, position) in [("", 0), ("0,", 2), ("fg", 1), ("123456789", 0), ("0x1", 1), ("1,zz", 2)] {
        assert_eq!(read(text).unwrap_err().position(), position, "{text:?}");
    }
    let beyond = format!("1{}", ",00000000".repeat(512));
    assert_eq!(read(&beyond).unwrap_err().to_string(), "position 0: number too large, ids end at 16383");
}

#[test]
fn equal_sets_are_equal_however_they_came_about() {
    let mut grown = set("0-3,9000");
    assert!(grown.remove(CpuId::new(9000)));
    assert!(!grown.remove(CpuId::new(9000)));
    assert_eq!(grown, set("0-3"));
    assert_eq!(set("0,700").intersection(&set("0-5")), CpuSet::single(CpuId::new(0)));
    assert_eq!(set("1-3").difference(&set("1-3")), CpuSet::new());
    assert_eq!(set("1-3").difference(&set("1-3")).first(), None);
    assert_eq!(CpuSet::first_n(70), set("0-69"));
    assert_eq!(CpuSet::first_n(usize::MAX).len(), CpuId::LIMIT as usize);
}

fn members() -> impl Strategy<Value = BTreeSet<u32>> {
    prop::collection::btree_set(prop_oneof![0_u32..200, 0..CpuId::LIMIT], 0..40)
}

fn of(members: &BTreeSet<u32>) -> CpuSet {
    members.iter().copied().map(CpuId::new).collect()
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Err(error) = CpuSet::from_list(&bytes) {
            prop_assert!(error.position() <= bytes.len());
        }
        if let Err(error) = CpuSet::from_hex_map(&bytes) {
            prop_assert!(error.position() <= bytes.len());
        }
    }

    #[test]
    fn nearly_lists_are_read_or_refused(text in "[0-9,\\-]{0,24}") {
        match text.parse::<CpuSet>() {
            Ok(cpus) => prop_assert_eq!(cpus.to_string().parse::<CpuSet>(), Ok(cpus)),
            Err(error) => prop_assert!(error.position() <= text.len()),
        }
    }

    #[test]
    fn what_is_written_is_read_back(members in members()) {
        let cpus = of(&members);
        prop_assert_eq!(set(&cpus.to_string()), cpus.clone());
        prop_assert_eq!(ids(&cpus), members.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(cpus.len(), members.len());
        prop_assert_eq!(cpus.first().map(CpuId::get), members.first().copied());
        prop_assert_eq!(cpus.last().map(CpuId::get), members.last().copied());
    }

    #[test]
    fn sets_behave_like_sets(a in members(), b in members()) {
        let (left, right) = (of(&a), of(&b));
        prop_assert_eq!(left.union(&right), of(&a.union(&b).copied().collect()));
        prop_assert_eq!(left.intersection(&right), of(&a.intersection(&b).copied().collect()));
        prop_assert_eq!(left.difference(&right), of(&a.difference(&b).copied().collect()));
        prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
        prop_assert_eq!(left.intersects(&right), !a.is_disjoint(&b));
    }

    #[test]
    fn maps_and_lists_agree(members in members()) {
        let mut chunks = vec![0_u32; CpuId::LIMIT as usize / 32];
        for member in &members {
            chunks[*member as usize / 32] |= 1 << (member % 32);
        }
        let map: Vec<String> = chunks.iter().rev().map(|chunk| format!("{chunk:08x}")).collect();
        prop_assert_eq!(CpuSet::from_hex_map(map.join(",").as_bytes()), Ok(of(&members)));
    }
}
