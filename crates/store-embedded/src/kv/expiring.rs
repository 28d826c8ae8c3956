//! When most of a table's passing entries will be over, from a few of them.

/// Entries looked at: enough to tell a half from three quarters.
const SAMPLE: usize = 64;

/// A sample of deadlines, taken evenly whatever their number.
#[derive(Debug, Default)]
pub(super) struct Expiring {
    count: u64,
    sample: Vec<u64>,
    /// Every how many entries one is taken; doubles whenever the sample is full.
    stride: u64,
}

impl Expiring {
    pub(super) fn add(&mut self, deadline: u64) {
        let stride = self.stride.max(1);
        if self.count.is_multiple_of(stride) {
            if self.sample.len() == SAMPLE {
                let mut number = 0;
                self.sample.retain(|_| {
                    number += 1;
                    number % 2 == 0
                });
                self.stride = stride * 2;
            }
            self.sample.push(deadline);
        }
        self.count += 1;
    }

    /// How many entries have a deadline.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// When three quarters of them are over.
    pub(super) fn mostly_over_at(&self) -> u64 {
        let mut sample = self.sample.clone();
        sample.sort_unstable();
        sample.get(sample.len() * 3 / 4).or(sample.last()).copied().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_are_over_at_about_three_quarters() {
        for count in [1, 10, 64, 65, 1_000, 100_000u64] {
            let mut expiring = Expiring::default();
            (0..count).for_each(|deadline| expiring.add(deadline));
            assert_eq!(expiring.count(), count);
            assert!(expiring.sample.len() <= SAMPLE);
            let at = expiring.mostly_over_at();
            assert!(at >= count / 2 && at < count, "{at} of {count}");
        }
        assert_eq!(Expiring::default().mostly_over_at(), u64::MAX);
    }
}
