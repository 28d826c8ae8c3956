//! `H` and `~`: a place in a range, drawn from the schedule's id. The same id gives the same place
//! for ever, on every machine; different ids part a herd.

use super::field::Unit;

/// A number in `first..=last` for this schedule and field.
pub(super) fn place(schedule: &str, unit: Unit, first: u16, last: u16) -> u16 {
    let size = u64::from(last - first) + 1;
    first + (hash(schedule, unit) % size) as u16
}

/// FNV-1a, then a finaliser, since FNV's low bits of short texts that differ in one letter are
/// near each other, and the low bits are what the remainder takes. These constants are a promise:
/// changing one moves every spread schedule in the world.
fn hash(schedule: &str, unit: Unit) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in schedule.bytes().chain([0xff, unit as u8]) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn places_are_kept_for_ever() {
        // Moving one of these moves somebody's job.
        let rows = [("nightly-report", 54, 4), ("a", 26, 1), ("b", 0, 17), ("", 14, 13)];
        for (schedule, minute, hour) in rows {
            let drawn = (place(schedule, Unit::Minute, 0, 59), place(schedule, Unit::Hour, 0, 23));
            assert_eq!(drawn, (minute, hour), "{schedule:?}");
        }
    }

    #[test]
    fn numbered_schedules_are_spread_evenly() {
        let mut counts = [0u32; 60];
        for number in 0..60_000 {
            let id = format!("tenant-{number}");
            counts[usize::from(place(&id, Unit::Minute, 0, 59))] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
