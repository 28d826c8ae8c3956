//! What can go wrong. Each seed draws its own mix: a world with all faults at once seldom gets far
//! enough to be interesting, and one with a single fault never meets two.

use super::dice::Dice;

/// Something that can go wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// The process is killed; what it wrote is still in the machine's memory.
    Kill,
    /// The power goes, at any call to the disk: what was not synced may be lost or torn.
    PowerCut,
    /// The node is replaced by another one on the same store, which never noticed.
    NewOwner,
    /// The node is told to stop, and starts again.
    Restart,
    /// Writing to the disk fails.
    WriteError,
    /// Syncing the disk fails.
    SyncError,
    /// The disk is full for a while.
    DiskFull,
    /// The store cannot be reached.
    StoreRefused,
    /// The store did it, and could not say so.
    StoreTimedOut,
    /// The store says that it could not do it, and does it later.
    StoreLate,
    /// Messages get lost.
    NetLoss,
    /// Messages arrive twice.
    NetDuplicate,
    /// Nobody can reach the node for a while.
    NetCut,
    /// The wall clock is set ahead.
    ClockAhead,
    /// The wall clock is set back.
    ClockBack,
    /// The wall clock shows nonsense for a moment.
    ClockMad,
    /// The wall clock goes too fast or too slow.
    ClockDrift,
    /// The node does nothing for a while.
    Stall,
    /// Workers die before they have done anything.
    WorkerDies,
    /// Workers die after they have done it, before they could say so.
    WorkerDiesLate,
    /// Workers sleep past their lease.
    WorkerSleeps,
    /// Targets and workers say no.
    TargetFails,
    /// Targets answer after the timeout.
    TargetSlow,
    /// Targets never answer.
    TargetSilent,
    /// A write to the disk lands in the wrong place, and nobody says so.
    MisdirectedWrite,
    /// Reading from the disk fails.
    ReadError,
}

impl Fault {
    /// Every one of them.
    pub const ALL: [Fault; 26] = [
        Fault::Kill,
        Fault::PowerCut,
        Fault::NewOwner,
        Fault::Restart,
        Fault::WriteError,
        Fault::SyncError,
        Fault::DiskFull,
        Fault::StoreRefused,
        Fault::StoreTimedOut,
        Fault::StoreLate,
        Fault::NetLoss,
        Fault::NetDuplicate,
        Fault::NetCut,
        Fault::ClockAhead,
        Fault::ClockBack,
        Fault::ClockMad,
        Fault::ClockDrift,
        Fault::Stall,
        Fault::WorkerDies,
        Fault::WorkerDiesLate,
        Fault::WorkerSleeps,
        Fault::TargetFails,
        Fault::TargetSlow,
        Fault::TargetSilent,
        Fault::MisdirectedWrite,
        Fault::ReadError,
    ];

    /// As the command line writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::PowerCut => "power-cut",
            Fault::NewOwner => "new-owner",
            Fault::Restart => "restart",
            Fault::WriteError => "write-error",
            Fault::SyncError => "sync-error",
            Fault::DiskFull => "disk-full",
            Fault::StoreRefused => "store-refused",
            Fault::StoreTimedOut => "store-timed-out",
            Fault::StoreLate => "store-late",
            Fault::NetLoss => "net-loss",
            Fault::NetDuplicate => "net-duplicate",
            Fault::NetCut => "net-cut",
            Fault::ClockAhead => "clock-ahead",
            Fault::ClockBack => "clock-back",
            Fault::ClockMad => "clock-mad",
            Fault::ClockDrift => "clock-drift",
            Fault::Stall => "stall",
            Fault::WorkerDies => "worker-dies",
            Fault::WorkerDiesLate => "worker-dies-late",
            Fault::WorkerSleeps => "worker-sleeps",
            Fault::TargetFails => "target-fails",
            Fault::TargetSlow => "target-slow",
            Fault::TargetSilent => "target-silent",
            Fault::MisdirectedWrite => "misdirected-write",
            Fault::ReadError => "read-error",
        }
    }

    /// Whether it is a receiver's own: it comes with the work, not at a time.
    pub(super) const fn is_of_receivers(self) -> bool {
        matches!(
            self,
            Fault::WorkerDies
                | Fault::WorkerDiesLate
                | Fault::WorkerSleeps
                | Fault::TargetFails
                | Fault::TargetSlow
                | Fault::TargetSilent
        )
    }
}

/// The faults that a seed's world has.
#[derive(Clone, Debug)]
pub(super) struct Mix(Vec<Fault>);

impl Mix {
    /// Each fault with even chances; or, of those, only the given ones.
    pub(super) fn draw(seed: u64, only: Option<&[Fault]>) -> Self {
        let mut dice = Dice::new(seed, "mix");
        let mut drawn: Vec<Fault> = Fault::ALL.into_iter().filter(|_| dice.chance(0.5)).collect();
        // While the wall shows nonsense the node goes by its machine's count; a drift that it has
        // not seen by then would be held against it.
        if drawn.contains(&Fault::ClockMad) {
            drawn.retain(|fault| *fault != Fault::ClockDrift);
        }
        // The mirror, from which what went astray is put right, knows nothing of what was lost or
        // torn besides.
        let tears = [Fault::PowerCut, Fault::WriteError, Fault::SyncError];
        if drawn.iter().any(|fault| tears.contains(fault)) {
            drawn.retain(|fault| *fault != Fault::MisdirectedWrite);
        }
        drawn.retain(|fault| only.is_none_or(|only| only.contains(fault)));
        Mix(drawn)
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.0.contains(&fault)
    }

    pub(super) fn all(&self) -> &[Fault] {
        &self.0
    }
}
