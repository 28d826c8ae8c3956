//! The forms in which metrics are scraped: OpenMetrics, and the text format that was before it.

use std::collections::HashSet;

use http::HeaderMap;
use http::header::ACCEPT;

/// A form of the metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exposition {
    /// OpenMetrics 1.0, unless another one is asked for.
    OpenMetrics,
    /// The text format 0.0.4.
    Text,
}

impl Exposition {
    /// The form that a scraper asks for.
    pub(crate) fn asked(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges = values.flat_map(|value| value.split(','));
        let media = ranges.map(|range| range.split(';').next().unwrap_or_default().trim());
        let media: Vec<String> = media.map(str::to_ascii_lowercase).collect();
        let accepts = |name: &str| media.iter().any(|other| other == name);
        if accepts("text/plain") && !accepts("application/openmetrics-text") {
            Exposition::Text
        } else {
            Exposition::OpenMetrics
        }
    }

    /// The media type of this form.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Exposition::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Metrics that are in OpenMetrics, in this form.
    pub(crate) fn of(self, metrics: String) -> String {
        match self {
            Exposition::OpenMetrics => metrics,
            Exposition::Text => as_text(&metrics),
        }
    }
}

/// The older format calls a counter by the name of its sample, knows no units, and has no end mark.
fn as_text(metrics: &str) -> String {
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: HashSet<&str> = types.filter_map(|line| line.strip_suffix(" counter")).collect();
    let mut text = String::with_capacity(metrics.len() + 16 * counters.len());
    for line in metrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(name) => {
                text.extend(["# ", what, " ", name, "_total ", rest]);
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_what_it_asks_for() {
        let both =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
        let rows = [
            (None, Exposition::OpenMetrics),
            (Some("*/*"), Exposition::OpenMetrics),
            (Some(both), Exposition::OpenMetrics),
            (Some("text/plain;version=0.0.4"), Exposition::Text),
            (Some("Text/Plain"), Exposition::Text),
            (Some("text/plain;version=0.0.4;q=0.5, */*;q=0.1"), Exposition::Text),
            (Some("text/html"), Exposition::OpenMetrics),
        ];
        for (accept, expected) in rows {
            let headers = accept.map(|text| (ACCEPT, text.parse().unwrap())).into_iter().collect();
            assert_eq!(Exposition::asked(&headers), expected, "{accept:?}");
        }
    }

    #[test]
    fn the_older_format_has_its_own_names() {
        let metrics = "# HELP jobs Jobs.\n# TYPE jobs counter\njobs_total{queue=\"a b\"} 2\n\
                       # HELP wait_seconds Wait.\n# TYPE wait_seconds gauge\n\
                       # UNIT wait_seconds seconds\nwait_seconds 1.5\n# EOF\n";
        let text = "# HELP jobs_total Jobs.\n# TYPE jobs_total counter\n\
                    jobs_total{queue=\"a b\"} 2\n\
                    # HELP wait_seconds Wait.\n# TYPE wait_seconds gauge\nwait_seconds 1.5\n";
        assert_eq!(Exposition::Text.of(metrics.to_owned()), text);
        assert_eq!(Exposition::OpenMetrics.of(metrics.to_owned()), metrics);
    }
}
