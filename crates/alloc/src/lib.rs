//! The allocator of the `hence` binary, which has it by using this crate. A job is a dozen small
//! pieces that one thread makes and another frees: mimalloc was made for that, and takes a fifth
//! off the processor time of a job submitted in a batch.
//!
//! What it does not do by itself is to give memory back while nothing is asked of it: a start
//! would leave 15 MiB behind that nobody uses. [`give_back`] does it. Huge pages are off, since
//! one byte in use keeps two megabytes.
//!
//! A program that embeds the library has the allocator that it chose.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(unsafe_code, reason = "the allocator is written in C")]
unsafe extern "C" {
    /// `void mi_collect(bool force)` of mimalloc.h.
    fn mi_collect(force: bool);
}

/// Gives memory that is free back to the system: of this thread, of threads that have ended, and
/// of whatever no thread has to itself.
pub fn give_back() {
    // SAFETY: mi_collect takes no pointer and may be called by any thread at any time.
    #[expect(unsafe_code, reason = "the allocator is written in C")]
    unsafe {
        mi_collect(true);
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that the system has given to this process, in MiB.
    fn resident() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4 / 1024
    }

    #[test]
    fn what_is_free_is_given_back() {
        let before = resident();
        let pieces: Vec<Box<[u8]>> = (0..65_536).map(|_| vec![1_u8; 1_000].into()).collect();
        let full = resident();
        assert!(full >= before + 60, "{before} MiB, then {full} MiB");
        drop(pieces);
        give_back();
        let after = resident();
        assert!(after <= before + 10, "{before} MiB, then {full} MiB, in the end {after} MiB");
    }
}
