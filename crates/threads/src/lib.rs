//! How the system treats the threads of the `hence` binary.
//!
//! A server under load is a handful of threads that wake each other all the time, on few cores. By
//! default whoever is woken may interrupt whoever runs, which then has to be fetched back: the two
//! do the same work with more changes between them. Linux knows threads that wait until it is
//! their turn, and no right is needed to become one.
//!
//! It is for threads of which there are many alike, not for the one that all others wait for: on a
//! machine that is busy with something else, a turn comes late.
//!
//! A program that embeds the library decides about its own threads.

/// From now on this thread does not interrupt others when it is woken, and still has its full
/// share. Nothing happens where the system knows no such thing, or where somebody has already
/// chosen how the process is treated (`chrt`).
pub fn take_turns() {
    #[cfg(target_os = "linux")]
    linux::take_turns();
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe library has these two calls")]
mod linux {
    use libc::{SCHED_BATCH, SCHED_OTHER, SYS_sched_getscheduler, SYS_sched_setscheduler, c_int};

    /// This thread, to the two calls.
    const MYSELF: c_int = 0;

    pub(super) fn take_turns() {
        if policy() == Ok(SCHED_OTHER) {
            set_policy(SCHED_BATCH);
        }
    }

    /// How this thread is treated.
    pub(super) fn policy() -> Result<c_int, std::num::TryFromIntError> {
        // SAFETY: it takes no pointer.
        unsafe { libc::syscall(SYS_sched_getscheduler, MYSELF) }.try_into()
    }

    /// A refusal leaves everything as it was.
    pub(super) fn set_policy(policy: c_int) {
        // All that the kernel's `sched_param` holds.
        let priority: c_int = 0;
        // SAFETY: the pointer is to an int, which is only read, and outlives the call.
        unsafe { libc::syscall(SYS_sched_setscheduler, MYSELF, policy, &raw const priority) };
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use libc::{SCHED_BATCH, SCHED_IDLE, SCHED_OTHER};

    use super::*;

    #[test]
    fn the_thread_that_asks_takes_turns_unless_somebody_chose() {
        // A process that was started otherwise cannot tell.
        if linux::policy() != Ok(SCHED_OTHER) {
            return;
        }
        for (chosen, expected) in [(SCHED_OTHER, SCHED_BATCH), (SCHED_IDLE, SCHED_IDLE)] {
            let thread = std::thread::spawn(move || {
                linux::set_policy(chosen);
                take_turns();
                linux::policy()
            });
            assert_eq!(thread.join().unwrap(), Ok(expected), "{chosen}");
            assert_eq!(linux::policy(), Ok(SCHED_OTHER), "and no other thread");
        }
    }
}
