//! What is needed of the library's XML: masks, nodes, distances. Tags and attributes only, no general parser: the
//! text comes from the library itself, never from a file.

use crate::cpuset::CpuSet;
use crate::ids::{CpuId, NodeId};
use std::collections::BTreeMap;

/// What the XML says that the objects of the `hwloc2` crate do not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extract {
    pub(super) complete: CpuSet,
    pub(super) allowed: CpuSet,
    pub(super) allowed_nodes: Vec<NodeId>,
    /// CPUs and kilobytes by node.
    pub(super) nodes: BTreeMap<NodeId, (CpuSet, u64)>,
    /// Row by row over `columns`.
    pub(super) distances: Vec<u32>,
    pub(super) columns: Vec<NodeId>,
}

/// `HWLOC_DISTANCES_KIND_MEANS_LATENCY`, in the decimal `kind` of a matrix.
const MEANS_LATENCY: u64 = 4;

pub(super) fn extract(xml: &str) -> Extract {
    let mut found = Extract::default();
    let mut in_latencies = false;
    for piece in xml.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or((piece, ""));
        let name = tag.split_ascii_whitespace().next().unwrap_or_default();
        let kind = attribute(tag, "type").unwrap_or_default();
        match name {
            "object" if kind == "Machine" => {
                let set = |name| attribute(tag, name).map(mask).unwrap_or_default();
                found.complete = set("complete_cpuset");
                found.allowed = set("allowed_cpuset");
                // A mask of nodes has the form of a mask of CPUs.
                let nodes = set("allowed_nodeset");
                found.allowed_nodes = nodes.iter().filter_map(|node| NodeId::try_new(node.get())).collect();
            }
            "object" if kind == "NUMANode" => {
                let id = attribute(tag, "os_index").and_then(|id| NodeId::try_new(id.parse().ok()?));
                let cpus = attribute(tag, "cpuset").map(mask).unwrap_or_default();
                let bytes: u64 = attribute(tag, "local_memory").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
                found.nodes.extend(id.map(|id| (id, (cpus, bytes >> 10))));
            }
            "distances2" => {
                let means = attribute(tag, "kind").and_then(|kind| kind.parse().ok()).unwrap_or(0);
                in_latencies = kind == "NUMANode" && means & MEANS_LATENCY != 0 && found.columns.is_empty();
            }
            "/distances2" => in_latencies = false,
            "indexes" if in_latencies => found.columns.extend(numbers(text).filter_map(NodeId::try_new)),
            "u64values" if in_latencies => found.distances.extend(numbers(text)),
            _ => {}
        }
    }
    found
}

/// The value of ` name="value"` in a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

fn numbers(text: &str) -> impl Iterator<Item = u32> + '_ {
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok())
}

/// `0x00000200,,0x0`: 32 bits per chunk, most significant first, an empty chunk is 0. A first chunk of `0xf...f` means
/// all higher bits.
fn mask(text: &str) -> CpuSet {
    let chunks: Vec<&str> = text.split(',').collect();
    let (rest, mut set) = match chunks.split_first() {
        Some((&"0xf...f", rest)) => (rest, CpuSet::first_n(CpuId::LIMIT as usize)),
        _ => (&chunks[..], CpuSet::new()),
    };
    for (place, chunk) in rest.iter().rev().enumerate() {
        let bits = u32::from_str_radix(chunk.trim_start_matches("0x"), 16).unwrap_or(0);
        for bit in 0..32 {
            let Some(cpu) = u32::try_from(place * 32).ok().and_then(|base| CpuId::try_new(base + bit)) else {
                continue;
            };
            if bits >> bit & 1 == 1 {
                set.insert(cpu);
            } else {
                set.remove(cpu);
            }
        }
    }
    set
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn masks_as_the_library_writes_them() {
        let list = |text| mask(text).to_string();
        assert_eq!(list("0x0000ffff,0xffffffff"), "0-47");
        assert_eq!(list("0x00000200,,0x0"), "73");
        assert_eq!(list("0x0"), "");
        assert_eq!(list("0xf...f"), format!("0-{}", CpuId::LIMIT - 1));
        assert_eq!(list("0xf...f,0xfffffff0"), format!("4-{}", CpuId::LIMIT - 1));
    }

    #[test]
    fn nodes_and_the_first_table_of_latencies() {
        let found = extract(
            r#"<?xml version="1.0"?><topology version="2.0">
            <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x7" allowed_cpuset="0x1"
              allowed_nodeset="0x9">
              <object type="NUMANode" os_index="3" cpuset="0x2" local_memory="2048"/>
              <object type="NUMANode" os_index="0" cpuset="0x1" local_memory="1024"><info name="x" value="y"/></object>
              <object type="PU" os_index="5" cpuset="0x20"/>
            </object>
            <distances2 type="NUMANode" nbobjs="2" kind="9"><indexes>0 3</indexes><u64values>1</u64values></distances2>
            <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
              <indexes length="4">0 3 </indexes><u64values length="6">10 21 </u64values>
              <u64values length="6">31 10 </u64values></distances2>
            <distances2 type="NUMANode" kind="5"><indexes>7</indexes><u64values>1</u64values></distances2>
            "#,
        );
        let node = NodeId::new;
        let cpu = |cpu| CpuSet::single(CpuId::new(cpu));
        assert_eq!(found.nodes, BTreeMap::from([(node(0), (cpu(0), 1)), (node(3), (cpu(1), 2))]));
        assert_eq!((found.complete.len(), found.allowed, found.allowed_nodes), (3, cpu(0), vec![node(0), node(3)]));
        assert_eq!((found.columns, found.distances), (vec![node(0), node(3)], vec![10, 21, 31, 10]));
    }

    #[test]
    fn a_million_texts() {
        crate::noise::survives(10, |text| {
            let text = String::from_utf8_lossy(text);
            let table = format!("{text}<distances2 type=\"NUMANode\" kind=\"5\"><indexes>{text}</indexes>{text}");
            !extract(&table).columns.is_empty()
        });
    }

    #[test]
    fn anything_else_is_nothing() {
        for text in ["", "<", "<object", "<object type=\"NUMANode\" os_index=\"-1\">", "<object type=\"Machine"] {
            assert_eq!(extract(text), Extract::default(), "{text}");
        }
    }
}
