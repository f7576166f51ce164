//! The data that the join trees walk over.
use crate::calib::spin_alone;
use crate::check::token;
use std::collections::HashMap;
use std::sync::Mutex;

/// A node of a full binary tree. Its value is the token of its number, so that the sum tells whether every node was
/// visited once.
pub(crate) struct Node {
    pub(crate) value: u64,
    pub(crate) kids: Option<(Box<Node>, Box<Node>)>,
}

impl Node {
    /// What is done at a node beside walking: `steps` links of the busy chain.
    #[inline(always)]
    pub(crate) fn visit(&self, steps: u64) -> u64 {
        if steps != 0 {
            spin_alone(steps);
        }
        self.value
    }
}

/// Allocates level by level. Depth first, the order of allocation would be the order of the walk for those who go
/// left first or for those who go right first, and several times faster for one of them as soon as the tree is larger
/// than the cache.
fn build(levels: u32) -> Box<Node> {
    let nodes = (1_usize << (levels + 1)) - 1;
    let mut row: Vec<Option<Box<Node>>> =
        (0..nodes as u64).map(|i| Some(Box::new(Node { value: token(i), kids: None }))).collect();
    for i in (0..nodes / 2).rev() {
        let kids = row[2 * i + 1].take().zip(row[2 * i + 2].take());
        row[i].as_mut().expect("a node is taken only after its kids").kids = kids;
    }
    row[0].take().expect("the root is nobody's kid")
}

/// The tree with so many levels below its root; built once, shared by all arms, never freed.
pub(crate) fn tree(levels: u32) -> &'static Node {
    static BUILT: Mutex<Option<HashMap<u32, &'static Node>>> = Mutex::new(None);
    let mut built = BUILT.lock().expect("no user of the table panics while holding it");
    built.get_or_insert_default().entry(levels).or_insert_with(|| Box::leak(build(levels)))
}

/// The walk without any pool: the yardstick of the join trees.
pub(crate) fn serial(node: &Node, steps: u64) -> u64 {
    let (a, b) = node.kids.as_ref().map_or((0, 0), |(l, r)| (serial(l, steps), serial(r, steps)));
    a.wrapping_add(b).wrapping_add(node.visit(steps))
}

/// Sums `walks` walks; a compiler that saw through `walk` could otherwise do it once.
pub(crate) fn repeat(walks: u64, mut walk: impl FnMut() -> u64) -> u64 {
    (0..walks).fold(0, |sum: u64, _| sum.wrapping_add(std::hint::black_box(walk())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::expected;

    #[test]
    fn the_sum_is_that_of_all_tokens() {
        assert_eq!(serial(tree(4), 0), expected(31));
        assert_eq!(serial(tree(4), 3), expected(31));
        assert_eq!(repeat(3, || serial(tree(4), 0)), expected(31).wrapping_mul(3));
    }
}
