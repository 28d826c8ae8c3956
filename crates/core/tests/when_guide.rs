//! The guide for people who write times shows what the code says.

use hence_core::time::Timestamp;
use hence_core::when::{Zone, parse_instant};

/// Wednesday 2026-03-04 15:30 in Paris, as the guide says.
const NOW: Timestamp = Timestamp::from_millis(1_772_634_600_000);

#[test]
fn what_the_guide_says_is_understood_so() {
    let paris = Zone::named("Europe/Paris").unwrap();
    let rows = table("| said | understood as |");
    for (said, understood) in &rows {
        let found = parse_instant(said, NOW, &paris).map(|found| found.words);
        assert_eq!(found.as_ref(), Ok(understood), "{said}");
    }
    assert!(rows.len() >= 10);
}

#[test]
fn what_the_guide_says_is_offered_so() {
    let paris = Zone::named("Europe/Paris").unwrap();
    let rows = table("| said | offered |");
    for (said, offered) in &rows {
        let problem = parse_instant(said, NOW, &paris).unwrap_err();
        let shown: Vec<String> =
            problem.candidates.iter().map(|candidate| format!("`{candidate}`")).collect();
        assert_eq!(&shown.join(", "), offered, "{said}");
    }
    assert!(rows.len() >= 8);
}

/// The rows below a heading: what is said, and the other column as it stands.
fn table(heading: &str) -> Vec<(String, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/times.md");
    let page = std::fs::read_to_string(path).expect("the guide is there");
    let (_, rows) = page.split_once(&format!("{heading}\n|---|---|\n")).expect("the table");
    let rows = rows.lines().take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut columns = row.trim_matches('|').split(" | ").map(str::trim);
        let said = columns.next().unwrap_or_default().trim_matches('`').to_owned();
        (said, columns.next().unwrap_or_default().to_owned())
    })
    .collect()
}
