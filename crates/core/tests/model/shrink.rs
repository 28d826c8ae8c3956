//! Runs a history; when it fails, leaves out steps as long as it still fails, and shows the rest.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::history::History;
use super::run;

pub(crate) fn check(history: &History) {
    if failure_of(history).is_none() {
        return;
    }
    let smaller = shrunk(history.clone());
    let message = failure_of(&smaller).unwrap_or_else(|| "it does not fail again".to_string());
    let steps: Vec<String> = smaller.steps.iter().map(|step| format!("    {step:?}")).collect();
    let History { seed, window_jobs, window_bytes, pushes_max, .. } = history;
    panic!(
        "{message}\n  seed {seed}, a window of {window_jobs} jobs and {window_bytes} bytes, \
         {pushes_max} pushes, {} of {} steps:\n{}",
        smaller.steps.len(),
        history.steps.len(),
        steps.join("\n")
    );
}

thread_local! {
    /// The panics of a history are told once, at the end.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

static HOOK: Once = Once::new();

fn failure_of(history: &History) -> Option<String> {
    HOOK.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                return loud(info);
            }
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            PLACE.set(place);
        }));
    });
    QUIET.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(|| run::check(history)));
    QUIET.set(false);
    let failure = result.err()?;
    let text = failure.downcast_ref::<String>().cloned();
    let text = text.or_else(|| failure.downcast_ref::<&str>().map(ToString::to_string));
    let text = text.unwrap_or_else(|| "it panics without a word".to_string());
    Some(format!("{} ({text})", PLACE.take()))
}

/// Leaves out ever smaller stretches of steps, until none can be left out.
fn shrunk(mut history: History) -> History {
    let mut stretch = history.steps.len() / 2;
    while stretch > 0 {
        let before = history.steps.len();
        let mut from = 0;
        while from < history.steps.len() {
            let mut fewer = history.clone();
            fewer.steps.drain(from..(from + stretch).min(history.steps.len()));
            if failure_of(&fewer).is_some() {
                history = fewer;
            } else {
                from += stretch;
            }
        }
        if stretch > 1 || history.steps.len() == before {
            stretch /= 2;
        }
    }
    history
}
