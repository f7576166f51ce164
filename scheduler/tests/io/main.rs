//! Files and sockets, under whatever driver `SCHEDULER_IO` names; `denied` runs the rest again where the system refuses
//! things.
#![cfg(not(loom))]

mod bad_input;
mod blocking;
mod counted;
mod cursor;
mod denied;
mod drivers;
mod files;
mod forked;
mod many;
mod refused;
mod support;
mod tcp;
mod udp;
mod unix;
