//! Holding a thread where its seat wants it.
//!
//! The kernel undoes a binding without a word: when the cpuset loses the CPU, or the CPU is switched off, the thread's
//! mask becomes whatever is left, and on kernels before 6.2 it stays so when the CPU comes back. So a worker looks,
//! about once per sleep. The look is cheap (the C library knows the CPU, no system call) and finds a thread that
//! *is* elsewhere; [`Binding::check_mask`] costs a system call and finds one that *may go* elsewhere.

use crate::bind;
use crate::cpuset::CpuSet;
use crate::placement::Seat;
use crate::topology::Topology;
use std::io;
use std::marker::PhantomData;

/// The calling thread's binding to its seat.
///
/// Belongs to the thread that made it and cannot leave it, so no other thread is ever moved.
///
/// ```
/// use numa::{Binding, Pin, PinCheck, Placement, Topology};
///
/// let host = Topology::discover();
/// let seat = numa::plan(&host, &Placement::Spread, Pin::Cpu, 1)?.remove(0);
/// std::thread::spawn(move || {
///     let mut binding = Binding::take(&host, &seat);
///     if let Some(error) = binding.error() {
///         eprintln!("worker {} runs unbound: {error}", seat.index);
///     }
///     // ... once per sleep:
///     match binding.check() {
///         PinCheck::Held | PinCheck::Unbound => {}
///         lost => eprintln!("worker {}: {lost:?}, {} so far", seat.index, binding.losses()),
///     }
/// });
/// # Ok::<(), numa::PlacementError>(())
/// ```
#[derive(Debug)]
pub struct Binding {
    /// The CPUs to hold; `None`: nothing to hold.
    wanted: Option<CpuSet>,
    /// Whether the last attempt to bind succeeded.
    held: bool,
    error: Option<io::Error>,
    losses: u64,
    repairs: u64,
    of_this_thread: PhantomData<*const ()>,
}

/// What a look at a binding found, and what was done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PinCheck {
    /// There is nothing to hold: the seat binds nothing, or the topology is not this host.
    Unbound,
    /// As it should be.
    Held,
    /// The binding was lost, and made again at once. Counts as a loss and a repair.
    Repaired,
    /// The binding was lost, and the kernel refuses to make it again; [`Binding::error`] says why. Counts as a loss.
    /// The thread goes on wherever the kernel put it.
    Lost,
    /// Lost before, and the kernel still refuses.
    StillLost,
    /// Lost before, and made again now: the CPU or the cpuset is back. Counts as a repair.
    Returned,
}

impl Binding {
    /// Binds the calling thread to the CPUs of `seat`, if `topology` is this host and the seat has any.
    ///
    /// A refusal is not fatal: see [`error`](Binding::error). The next looks try again.
    #[must_use]
    pub fn take(topology: &Topology, seat: &Seat) -> Binding {
        let wanted = seat.bind.clone().filter(|_| topology.is_live());
        let mut binding =
            Binding { wanted, held: false, error: None, losses: 0, repairs: 0, of_this_thread: PhantomData };
        binding.held = binding.bind();
        binding
    }

    /// A look at where the thread is now. Costs a few nanoseconds while all is well; afterwards a system call or two.
    ///
    /// Finds a thread that runs outside of its CPUs. One that has lost its mask and still happens to run inside is
    /// found once it has drifted off, or by [`check_mask`](Binding::check_mask).
    pub fn check(&mut self) -> PinCheck {
        self.look(|wanted| match bind::current_cpu() {
            Ok(cpu) => wanted.contains(cpu),
            // Where the C library cannot tell, the mask can.
            Err(_) => mask_is_within(wanted),
        })
    }

    /// A look at what the thread's mask allows. Costs a system call.
    pub fn check_mask(&mut self) -> PinCheck {
        self.look(mask_is_within)
    }

    /// Why the thread is not bound where it should be: the last refusal, `None` while all is well.
    #[must_use]
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// How often the kernel was found to have undone the binding.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// How often the binding was made again.
    #[must_use]
    pub fn repairs(&self) -> u64 {
        self.repairs
    }

    fn look(&mut self, in_place: impl FnOnce(&CpuSet) -> bool) -> PinCheck {
        let Some(wanted) = &self.wanted else {
            return PinCheck::Unbound;
        };
        if self.held { if in_place(wanted) { PinCheck::Held } else { self.lost() } } else { self.still_lost() }
    }

    #[cold]
    fn lost(&mut self) -> PinCheck {
        self.losses += 1;
        self.held = self.bind();
        if self.held {
            self.repairs += 1;
            return PinCheck::Repaired;
        }
        PinCheck::Lost
    }

    #[cold]
    fn still_lost(&mut self) -> PinCheck {
        self.held = self.bind();
        if self.held {
            self.repairs += 1;
            return PinCheck::Returned;
        }
        PinCheck::StillLost
    }

    fn bind(&mut self) -> bool {
        self.error = self.wanted.as_ref().and_then(|cpus| bind::bind_current_thread(cpus).err());
        self.error.is_none()
    }
}

/// Whether the calling thread can run nowhere but on `wanted`. A kernel that does not tell is believed to hold.
fn mask_is_within(wanted: &CpuSet) -> bool {
    bind::allowed_within(wanted).unwrap_or(true)
}
