//! Compares 150,000 random (expression, zone, instant) triples with cronsim, which knows Debian's
//! rules and nothing of this code. Each kind of difference is a rule in
//! `testdata/time/differences.txt`; one without a rule, or a rule without a case, fails.
//!
//! cronsim and the zone database of our own release come from PyPI and are kept below `target/`.
//! Where they cannot be had the comparison is shown as ignored, never as passed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use hence_core::time::Timestamp;
use hence_core::when::{Dialect, Note, Plan, Reading, ZONES_VERSION, Zone, parse_recurrence};
use jiff::tz::TimeZone;
use libtest_mimic::{Arguments, Failed, Trial};

const TRIPLES: usize = 150_000;
const CRONSIM: &str = "2.8";
/// Processes of Python; each gets a share of the triples.
const WORKERS: usize = 2;
const SEED: u64 = 0x5eed_0003;

const ZONES: [&str; 16] = [
    "UTC",
    "UTC",
    "UTC",
    "America/New_York",
    "America/New_York",
    "Europe/Paris",
    "Europe/London",
    "Australia/Lord_Howe",
    "America/Santiago",
    "America/Havana",
    "America/Sao_Paulo",
    "Asia/Tehran",
    "Pacific/Apia",
    "Antarctica/Troll",
    "Pacific/Chatham",
    "Africa/Casablanca",
];

fn main() {
    let arguments = Arguments::from_args();
    let name = "cronsim_agrees_or_the_difference_has_a_rule";
    let trial = match obtain() {
        Ok(library) => Trial::test(name, move || compare(&library)),
        Err(reason) => {
            let name = format!("{name} (not obtainable: {reason})");
            Trial::test(name, || Ok(())).with_ignored_flag(true)
        }
    };
    libtest_mimic::run(&arguments, vec![trial]).exit();
}

/// The directory with cronsim in it, or why there is none.
fn obtain() -> Result<PathBuf, String> {
    let zones = python_version(ZONES_VERSION).ok_or("the zone database has no release")?;
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = root.join(format!("cronsim-{CRONSIM}-tzdata-{zones}"));
    if imports(&library) {
        return Ok(library);
    }
    // Unpacked aside first: a run that is cut short must not leave half a library behind.
    let fresh = tempfile::tempdir_in(root).map_err(|error| error.to_string())?;
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"])
        .args(["--timeout", "10", "--retries", "1", "--target"])
        .arg(fresh.path())
        .args([format!("cronsim=={CRONSIM}"), format!("tzdata=={zones}")])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("python3: {error}"))?;
    if !output.status.success() {
        return Err("pip failed".to_string());
    }
    // Another run may have been faster; then theirs is as good.
    let _ = std::fs::rename(fresh.keep(), &library);
    if imports(&library) { Ok(library) } else { Err("it does not import".to_string()) }
}

/// Whether Python finds both there.
fn imports(library: &Path) -> bool {
    let import = Command::new("python3")
        .args(["-c", "import cronsim, tzdata"])
        .env("PYTHONPATH", library)
        .stderr(Stdio::null())
        .status();
    import.is_ok_and(|status| status.success())
}

/// `2026e` is `2026.5` there.
fn python_version(release: &str) -> Option<String> {
    let (year, letter) = release.split_at_checked(4)?;
    let letter = letter.bytes().next().filter(u8::is_ascii_lowercase)?;
    Some(format!("{year}.{}", letter - b'a' + 1))
}

/// One question, and what we say.
struct Triple {
    expression: String,
    zone: &'static str,
    second: i64,
    ours: String,
    /// Whether ours stands for a time that a gap left out.
    made_up: bool,
}

fn compare(library: &Path) -> Result<(), Failed> {
    let mut random = Random(SEED);
    let triples: Vec<Triple> = (0..TRIPLES).map(|_| triple(&mut random)).collect();
    let theirs = ask(library, &triples)?;
    if theirs.len() != TRIPLES {
        return Err(format!("only {} of {TRIPLES} were answered", theirs.len()).into());
    }
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (triple, theirs) in triples.iter().zip(&theirs) {
        let both_refuse = theirs.starts_with("refused") && triple.ours.starts_with("refused");
        if triple.ours == *theirs || both_refuse {
            continue;
        }
        let rule = RULES.iter().find(|rule| (rule.covers)(triple, theirs));
        let name = rule.map_or(UNEXPLAINED, |rule| rule.name);
        found.entry(name).or_default().push(triple.beside(theirs));
    }
    if let Some(cases) = found.get(UNEXPLAINED) {
        let some = cases[..cases.len().min(20)].join("\n");
        return Err(format!("{} unexplained:\n{some}", cases.len()).into());
    }
    check_table(&found)
}

const UNEXPLAINED: &str = "unexplained";

/// The table names exactly the rules that are needed.
fn check_table(found: &BTreeMap<&str, Vec<String>>) -> Result<(), Failed> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/time/differences.txt");
    let table = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let named: Vec<&str> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" | ").map(|(name, _)| name))
        .collect();
    for Rule { name, .. } in &RULES {
        match (named.contains(name), found.get(name)) {
            (true, Some(_)) => {}
            (_, None) => return Err(format!("{name} explains nothing any more").into()),
            (false, Some(cases)) => {
                let example = cases.first().map_or("", String::as_str);
                return Err(format!("{name} is not in differences.txt: {example}").into());
            }
        }
    }
    match named.iter().find(|name| RULES.iter().all(|rule| rule.name != **name)) {
        Some(name) => Err(format!("differences.txt has {name}, which is no rule").into()),
        None => Ok(()),
    }
}

/// All answers, in order.
fn ask(library: &Path, triples: &[Triple]) -> Result<Vec<String>, Failed> {
    let share = triples.len().div_ceil(WORKERS);
    let mut workers = Vec::new();
    for part in triples.chunks(share) {
        let mut questions = tempfile::tempfile()?;
        for triple in part {
            writeln!(questions, "{}\t{}\t{}", triple.expression, triple.zone, triple.second)?;
        }
        std::io::Seek::rewind(&mut questions)?;
        let child = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/when_differential.py"))
            .env("PYTHONPATH", library)
            // An empty path makes Python take the zones of the library, not the machine's.
            .env("PYTHONTZPATH", "")
            .stdin(questions)
            .stdout(Stdio::piped())
            .spawn()?;
        workers.push(child);
    }
    // Read side by side: a full pipe would stop the others.
    let readers: Vec<_> = workers
        .into_iter()
        .map(|child| std::thread::Builder::new().spawn(move || child.wait_with_output()))
        .collect::<Result<_, _>>()?;
    let mut answers = Vec::new();
    for reader in readers {
        let output = reader.join().map_err(|_| "a reader panicked")??;
        answers.extend(String::from_utf8_lossy(&output.stdout).lines().map(String::from));
    }
    Ok(answers)
}

/// Why an answer may differ.
struct Rule {
    name: &'static str,
    covers: fn(&Triple, &str) -> bool,
}

/// In the order in which they are tried; the reasons are in the table.
const RULES: [Rule; 8] = [
    Rule { name: "never-answers", covers: |_, theirs| theirs == "stuck" },
    Rule {
        name: "back-in-a-fold",
        covers: |triple, theirs| seconds(theirs).is_some_and(|theirs| theirs <= triple.second),
    },
    Rule {
        name: "changes-off-the-hour",
        covers: |triple, theirs| {
            ["Australia/Lord_Howe", "Pacific/Chatham"].contains(&triple.zone)
                && triple.walks_there()
                && near_a_change(triple, theirs)
        },
    },
    Rule {
        name: "midnight-in-a-gap",
        covers: |triple, theirs| {
            triple.walks_there()
                && !triple.made_up
                && ours_is_at_a_gap(triple)
                && seconds(theirs) > seconds(&triple.ours)
        },
    },
    Rule {
        name: "six-fields",
        covers: |triple, theirs| triple.fields().len() == 6 && near_a_change(triple, theirs),
    },
    Rule {
        name: "stepped-hours",
        covers: |triple, theirs| triple.hours().starts_with("*/") && near_a_change(triple, theirs),
    },
    Rule {
        name: "hours-lost-in-a-gap",
        covers: |triple, theirs| {
            triple.minutes().starts_with('*')
                && triple.made_up
                && seconds(theirs) > seconds(&triple.ours)
        },
    },
    Rule {
        name: "every-hour-written-out",
        covers: |triple, theirs| triple.hours() == "0-23" && near_a_change(triple, theirs),
    },
];

impl Triple {
    fn fields(&self) -> Vec<&str> {
        self.expression.split(' ').collect()
    }

    /// Counted from the end, since seconds may lead.
    fn hours(&self) -> &str {
        self.fields()[self.fields().len() - 4]
    }

    /// Both answers, for people.
    fn beside(&self, theirs: &str) -> String {
        let show = |answer: &str| show(answer, self.zone);
        let asked = show(&self.second.to_string());
        let (expression, ours, theirs) = (&self.expression, show(&self.ours), show(theirs));
        format!("{expression} after {asked}: ours {ours}, theirs {theirs}")
    }

    /// Whether cronsim goes on second by second of real time, without a rule for changes.
    fn walks_there(&self) -> bool {
        let has_star = self.hours().starts_with('*') || self.minutes().starts_with('*');
        has_star || self.fields().len() == 6
    }

    fn minutes(&self) -> &str {
        self.fields()[self.fields().len() - 5]
    }
}

fn seconds(answer: &str) -> Option<i64> {
    answer.parse().ok()
}

/// Whether a change of the clock lies within two days of either answer, or between the question
/// and the first of them.
fn near_a_change(triple: &Triple, theirs: &str) -> bool {
    const NEAR: i64 = 2 * 24 * 3600;
    [seconds(&triple.ours), seconds(theirs)].into_iter().flatten().any(|second| {
        let zone = zone(triple.zone);
        let from = jiff::Timestamp::from_second(second - NEAR).expect("an instant");
        zone.following(from)
            .next()
            .is_some_and(|change| change.timestamp().as_second() < second + NEAR)
    })
}

/// Whether our answer is the very second after a gap.
fn ours_is_at_a_gap(triple: &Triple) -> bool {
    let Some(ours) = seconds(&triple.ours) else { return false };
    let before = jiff::Timestamp::from_second(ours - 1).expect("an instant");
    let next =
        zone(triple.zone).following(before).next().map(|change| change.timestamp().as_second());
    next == Some(ours)
}

/// Each zone once, for both libraries: without `std`, reading one from the database takes a while.
fn zones() -> &'static BTreeMap<&'static str, (Zone, TimeZone)> {
    static FOUND: OnceLock<BTreeMap<&'static str, (Zone, TimeZone)>> = OnceLock::new();
    let both = |name| {
        let zone = Zone::named(name).expect("a zone of ours");
        (name, (zone, jiff::tz::db().get(name).expect("a zone of jiff's")))
    };
    FOUND.get_or_init(|| ZONES.into_iter().map(both).collect())
}

fn zone(name: &str) -> &'static TimeZone {
    &zones()[name].1
}

fn show(answer: &str, name: &str) -> String {
    match seconds(answer).and_then(|second| jiff::Timestamp::from_second(second).ok()) {
        Some(instant) => instant.to_zoned(zone(name).clone()).to_string(),
        None => answer.to_string(),
    }
}

fn triple(random: &mut Random) -> Triple {
    let zone = random.one_of(&ZONES);
    let expression = expression(random);
    let second = instant(random, zone);
    let (ours, made_up) = answer(&expression, zone, second);
    Triple { expression, zone, second, ours, made_up }
}

/// Our answer, and whether it stands for a time that a gap left out.
fn answer(expression: &str, name: &str, second: i64) -> (String, bool) {
    let zone = &zones()[name].0;
    let now = Timestamp::from_millis(second * 1_000);
    let reading = Reading { dialect: Some(Dialect::Unix), ..Reading::new(now, zone) };
    match parse_recurrence(expression, &reading) {
        Ok(rhythm) => match Plan::new(rhythm).next_after(now, 0) {
            Some(tick) => {
                let made_up = matches!(tick.note, Some(Note::AfterGap(_)));
                ((tick.at.as_millis() / 1_000).to_string(), made_up)
            }
            None => ("never".to_string(), false),
        },
        Err(problem) => (format!("refused: {problem}"), false),
    }
}

/// Half of them anywhere in sixty years, half around a change of the zone's clock.
fn instant(random: &mut Random, name: &str) -> i64 {
    let anywhere = random.below(60 * 366 * 24 * 3600) as i64;
    if random.below(2) == 0 {
        return anywhere;
    }
    let from = jiff::Timestamp::from_second(anywhere).expect("an instant");
    let change = zone(name).following(from).next().map(|change| change.timestamp().as_second());
    change.map_or(anywhere, |at| at - 30 * 3600 + random.below(36 * 3600) as i64)
}

/// An expression that both dialects have, mostly of the kinds that people write.
fn expression(random: &mut Random) -> String {
    let mut fields = vec![field(random, 0, 59), field(random, 0, 23)];
    if random.below(3) == 0 {
        // Times that clock changes like.
        fields[1] = random.below(4).to_string();
    }
    let (days, weekdays) = match random.below(8) {
        0 => (field(random, 1, 28), field(random, 0, 6)),
        1 | 2 => (month_days(random), "*".to_string()),
        3 | 4 => ("*".to_string(), week_days(random)),
        _ => ("*".to_string(), "*".to_string()),
    };
    let months = if random.below(4) == 0 { field(random, 1, 12) } else { "*".to_string() };
    fields.extend([days, months, weekdays]);
    if random.below(30) == 0 {
        fields.insert(0, field(random, 0, 59));
    }
    fields.join(" ")
}

fn field(random: &mut Random, low: u64, high: u64) -> String {
    let mut value = || low + random.below(high - low + 1);
    let (a, b) = (value(), value());
    let (low_end, high_end) = (a.min(b), a.max(b));
    match random.below(10) {
        0..3 => "*".to_string(),
        3..6 => a.to_string(),
        6 => format!("*/{}", 1 + random.below(high - low)),
        7 if low_end < high_end => {
            format!("{low_end}-{high_end}/{}", 1 + random.below(high_end - low_end))
        }
        8 => format!("{low_end}-{high_end}"),
        _ => format!("{a},{b}"),
    }
}

fn month_days(random: &mut Random) -> String {
    match random.below(6) {
        0 => "L".to_string(),
        1 => "LW".to_string(),
        2 => (29 + random.below(3)).to_string(),
        _ => field(random, 1, 31),
    }
}

fn week_days(random: &mut Random) -> String {
    let day = random.below(7);
    match random.below(6) {
        0 => format!("{day}L"),
        1 => format!("{day}#{}", 1 + random.below(5)),
        2 => random.one_of(&["MON-FRI", "mon,wed,fri", "SUN", "7", "0-7", "5-7"]).to_string(),
        _ => field(random, 0, 6),
    }
}

/// xorshift: the same triples in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one_of<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.below(things.len() as u64) as usize]
    }
}
