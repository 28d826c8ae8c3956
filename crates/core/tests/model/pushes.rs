//! How many pushes may be handed out at once: so many, and as many more as were answered in each of
//! the last two spans of time.

use hence_core::input::Report;
use hence_core::job::Target;
use hence_core::limits::AHEAD_SPAN;

#[derive(Clone, Debug)]
pub(crate) struct Pushes {
    pub(crate) max: u32,
    span: i64,
    /// In which span each ended that was answered.
    ended: Vec<i64>,
}

impl Pushes {
    pub(crate) fn new(max: u32) -> Pushes {
        Pushes { max, span: i64::MIN, ended: Vec::new() }
    }

    pub(crate) fn time_is(&mut self, now: i64) {
        let span = now.div_euclid(AHEAD_SPAN.get() as i64);
        if span < self.span {
            // The clock was set back: what was seen is of no time that there was.
            self.ended.clear();
        }
        self.span = span;
    }

    /// A job for this target was reported upon.
    pub(crate) fn note(&mut self, target: &Target, report: &Report) {
        let is_answer = matches!(report, Report::Succeeded { .. } | Report::Failed { .. });
        if is_answer && matches!(target, Target::Http(_)) {
            self.ended.push(self.span);
        }
    }

    pub(crate) fn room(&self) -> usize {
        let ended_in = |span: i64| self.ended.iter().filter(|ended| **ended == span).count();
        let ahead = ended_in(self.span - 1).min(ended_in(self.span - 2));
        self.max as usize + ahead.min(self.max as usize)
    }
}
