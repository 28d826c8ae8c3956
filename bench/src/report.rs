//! Tables for people, or one JSON document a line.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the output of the program")]

use serde_json::json;

use crate::machine::Spread;

/// Where results go.
pub(crate) struct Report {
    json: bool,
    scenario: &'static str,
}

/// A figure of ours, and what it is compared with.
pub(crate) struct Row<'a> {
    /// What was measured.
    pub(crate) what: &'a str,
    /// How much.
    pub(crate) value: f64,
    /// Of what.
    pub(crate) unit: &'static str,
    /// The peer or limit, measured in the same run.
    pub(crate) against: Option<(&'a str, f64)>,
    /// What is to be reached, in words.
    pub(crate) goal: &'a str,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Report { json, scenario: "" }
    }

    pub(crate) fn help(usage: &str, scenarios: impl Iterator<Item = (&'static str, &'static str)>) {
        println!("{usage}");
        Report::list(scenarios);
    }

    pub(crate) fn list(scenarios: impl Iterator<Item = (&'static str, &'static str)>) {
        for (name, what) in scenarios {
            println!("{name:14} {what}");
        }
    }

    pub(crate) fn begin(&mut self, scenario: &'static str, what: &str) {
        self.scenario = scenario;
        if !self.json {
            println!("\n## {scenario}: {what}");
        }
    }

    /// A figure and its ratio.
    pub(crate) fn row(&self, row: &Row<'_>) {
        let Row { what, value, unit, against, goal } = row;
        let ratio = against.map(|(_, other)| value / other);
        if self.json {
            let (peer, peer_value) = against.unzip();
            let line = json!({
                "scenario": self.scenario, "what": what, "value": value, "unit": unit,
                "against": peer, "against_value": peer_value, "ratio": ratio, "goal": goal,
            });
            println!("{line}");
            return;
        }
        let mut line = format!("  {what:44} {:>12} {unit:9}", number(*value));
        if let (Some((peer, other)), Some(ratio)) = (against, ratio) {
            line = format!("{line} {ratio:>7.2} x {peer} ({})", number(*other));
        }
        if !goal.is_empty() {
            line += "   goal: ";
            line += goal;
        }
        println!("{line}");
    }

    /// A figure that stands alone.
    pub(crate) fn figure(&self, what: &str, value: f64, unit: &'static str, goal: &str) {
        self.row(&Row { what, value, unit, against: None, goal });
    }

    /// How late things were, beside the machine's own noise.
    pub(crate) fn lateness(&self, what: &str, spread: &Spread, control: &Spread, goal: &str) {
        if self.json {
            let line = json!({
                "scenario": self.scenario, "what": what, "unit": "ms", "count": spread.count,
                "early": spread.early, "p50": spread.p50, "p99": spread.p99, "p999": spread.p999,
                "max": spread.max, "control_p50": control.p50, "control_p99": control.p99,
                "control_p999": control.p999, "control_max": control.max, "goal": goal,
            });
            println!("{line}");
            return;
        }
        println!(
            "  {what:44} late p50 {:.1} p99 {:.1} p99.9 {:.1} max {:.1} ms | control p50 {:.1} \
             p99 {:.1} p99.9 {:.1} max {:.1} ms | {} jobs, {} early   {}",
            spread.p50,
            spread.p99,
            spread.p999,
            spread.max,
            control.p50,
            control.p99,
            control.p999,
            control.max,
            spread.count,
            spread.early,
            if goal.is_empty() { String::new() } else { format!("goal: {goal}") },
        );
    }

    /// Something that could not be measured here.
    pub(crate) fn skipped(&self, what: &str, why: &str) {
        if self.json {
            println!("{}", json!({"scenario": self.scenario, "what": what, "skipped": why}));
        } else {
            println!("  {what:44} SKIPPED: {why}");
        }
    }
}

/// Three or four digits are all that a noisy machine gives.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1_000_000.0 => format!("{:.2} M", value / 1_000_000.0),
        v if v >= 10_000.0 => format!("{:.1} k", value / 1_000.0),
        v if v >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

/// Says what went wrong.
pub(crate) fn complain(what: &str) {
    eprintln!("hence-bench: {what}");
}

/// A line for the process that started this one.
pub(crate) fn say(line: &str) {
    println!("{line}");
}
