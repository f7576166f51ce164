//! Who does an operation.

use super::fallback::pool;
use super::node::Right;

/// Queues an operation that has to wait.
pub(super) fn send(right: Right) {
    pool::send(right);
}
