//! The stand-in for the kernel under loom: see the port.
#![expect(unsafe_code, reason = "the signature of the real twin")]

use crate::sys::uring::{Completion, Features, Refused, Setup, Stay, Woken};
use io_uring::squeue::Entry;
use loom::sync::{Arc, Condvar, Mutex};
use std::collections::VecDeque;

const MORE: u32 = 2;

#[derive(Default)]
struct Inner {
    /// Operations that have been handed over.
    pending: Vec<u64>,
    /// What the model has completed before it was handed over.
    early: Vec<(u64, i32)>,
    /// The poll of the bell, and whether it was rung while there was none.
    poll: Option<u64>,
    rung: bool,
    queue: VecDeque<Completion>,
}

#[derive(Default)]
struct Kernel {
    inner: Mutex<Inner>,
    posted: Condvar,
}

impl Kernel {
    fn with(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock().unwrap();
        let before = inner.queue.len();
        change(&mut inner);
        if inner.queue.len() > before {
            self.posted.notify_all();
        }
    }
}

impl Inner {
    fn end(&mut self, tag: u64, result: i32) -> bool {
        let Some(at) = self.pending.iter().position(|&pending| pending == tag) else { return false };
        self.pending.swap_remove(at);
        self.queue.push_back(Completion { tag, result, flags: 0 });
        true
    }

    fn take(&mut self, sent: Sent) {
        match sent {
            Sent::Operation(tag) => {
                self.pending.push(tag);
                if let Some(at) = self.early.iter().position(|&(early, _)| early == tag) {
                    let (_, result) = self.early.swap_remove(at);
                    self.end(tag, result);
                }
            }
            Sent::Poll(tag) => {
                self.poll = Some(tag);
                if std::mem::take(&mut self.rung) {
                    self.queue.push_back(Completion { tag, result: 1, flags: MORE });
                }
            }
            Sent::Cancel(target, tag) => {
                let found = self.end(target, -libc::ECANCELED);
                let result = if found { 0 } else { -libc::ENOENT };
                self.queue.push_back(Completion { tag, result, flags: 0 });
            }
            Sent::CancelAll(tag) => {
                while let Some(&pending) = self.pending.first() {
                    self.end(pending, -libc::ECANCELED);
                }
                self.queue.push_back(Completion { tag, result: 0, flags: 0 });
            }
        }
    }
}

enum Sent {
    Operation(u64),
    Poll(u64),
    Cancel(u64, u64),
    CancelAll(u64),
}

/// See the real twin.
pub struct Bell(Arc<Kernel>);

impl Bell {
    /// See the real twin.
    pub fn new() -> Result<Bell, Refused> {
        Ok(Bell(Arc::new(Kernel::default())))
    }

    /// See the real twin.
    pub fn ring(&self) {
        self.0.with(|inner| match inner.poll {
            Some(tag) => inner.queue.push_back(Completion { tag, result: 1, flags: MORE }),
            None => inner.rung = true,
        });
    }

    /// See the real twin.
    pub fn hush(&self) -> bool {
        let mut was = false;
        self.0.with(|inner| was = std::mem::take(&mut inner.rung));
        was
    }

    /// The same ring's, for a thread of the model.
    pub fn twin(&self) -> Bell {
        Bell(self.0.clone())
    }

    /// A thread of the model: the operation ends now, or as soon as it is handed over.
    pub fn complete(&self, tag: u64, result: i32) {
        self.0.with(|inner| {
            if !inner.end(tag, result) {
                inner.early.push((tag, result));
            }
        });
    }
}

/// See the real twin. The first entry must be the poll of the bell.
pub struct Port {
    kernel: Option<Arc<Kernel>>,
    queue: Vec<Sent>,
    completions: usize,
}

impl Port {
    /// See the real twin.
    pub fn open(setup: &Setup) -> Result<Port, Refused> {
        Ok(Port { kernel: None, queue: Vec::new(), completions: setup.completions as usize })
    }
    /// See the real twin.
    pub fn features(&self) -> Features {
        Features { basics: true, multishot: true, no_iowait: true }
    }
    /// See the real twin.
    pub fn forgo_iowait(&mut self) {}
    /// See the real twin.
    pub fn operations(&self) -> Result<[u64; 4], Refused> {
        Ok([u64::MAX; 4])
    }
    /// See the real twin.
    pub fn limit_threads(&self, _files: u32, _others: u32) {}
    /// See the real twin.
    pub fn register(&mut self) -> bool {
        true
    }
    /// See the real twin.
    pub fn completions(&self) -> usize {
        self.completions
    }
    /// See the real twin.
    pub fn room(&mut self) -> usize {
        usize::MAX
    }
    /// See the real twin.
    pub fn unsent(&mut self) -> usize {
        self.queue.len()
    }

    fn put(&mut self, sent: Sent) -> bool {
        self.queue.push(sent);
        true
    }

    /// # Safety
    /// As for the real twin.
    pub unsafe fn push(&mut self, entry: &Entry) -> bool {
        self.put(Sent::Operation(entry.get_user_data()))
    }
    /// See the real twin.
    pub fn push_poll(&mut self, bell: &Bell, tag: u64) -> bool {
        self.kernel = Some(bell.0.clone());
        self.put(Sent::Poll(tag))
    }
    /// See the real twin.
    pub fn push_cancel(&mut self, target: u64, tag: u64) -> bool {
        self.put(Sent::Cancel(target, tag))
    }
    /// See the real twin.
    pub fn push_cancel_all(&mut self, tag: u64) -> bool {
        self.put(Sent::CancelAll(tag))
    }

    fn kernel(&self) -> &Kernel {
        self.kernel.as_ref().expect("the poll of the bell comes first")
    }

    /// See the real twin. A limit is modelled by its hardest case: over at once.
    pub fn enter(&mut self, stay: Stay) -> Result<Woken, i32> {
        let sent = std::mem::take(&mut self.queue);
        if sent.is_empty() && stay == Stay::No {
            return Ok(Woken::Early);
        }
        let kernel = self.kernel();
        let mut inner = kernel.inner.lock().unwrap();
        sent.into_iter().for_each(|sent| inner.take(sent));
        match stay {
            Stay::No => {}
            Stay::AtMost(_) => {
                drop(inner);
                loom::thread::yield_now();
                return Ok(Woken::Over);
            }
            Stay::Until => {
                while inner.queue.is_empty() {
                    inner = kernel.posted.wait(inner).unwrap();
                }
            }
        }
        Ok(Woken::Early)
    }

    /// See the real twin.
    pub fn pop(&mut self) -> Option<Completion> {
        self.kernel.as_ref()?.inner.lock().unwrap().queue.pop_front()
    }

    /// See the real twin.
    pub fn has_news(&mut self) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| !kernel.inner.lock().unwrap().queue.is_empty())
    }

    /// See the real twin.
    pub fn withholds(&mut self) -> bool {
        false
    }
}
