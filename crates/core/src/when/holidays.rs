//! Days on which nothing happens: a list of dates, or the whole-day events of an iCalendar text.
//!
//! Of iCalendar (RFC 5545) this reads what calendars of holidays are made of: `VEVENT` with whole
//! days, once or every year. What it does not read it refuses by name; an event that is dropped in
//! silence would be a job that runs on a holiday.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use jiff::civil::{Date, Weekday};

use super::limits::{CALENDAR_BYTES_MAX, CALENDAR_EVENTS_MAX, HOLIDAY_DAYS_MAX};
use super::problem::Problem;
use super::recurrence::days_between;

/// A calendar of days, each with a name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holidays {
    /// Those that come once, by their first day: a day is asked for with every tick.
    once: Vec<Event>,
    /// The most days that one of them lasts.
    longest: i32,
    yearly: Vec<Event>,
    /// A text that reads back as this: what is stored.
    text: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Event {
    name: String,
    first: Date,
    /// How many days it lasts.
    days: i32,
    repeat: Repeat,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Repeat {
    Once,
    Yearly { step: i16, until: Option<Date>, count: Option<i16>, on: On },
}

/// Which day of the year a yearly event falls on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum On {
    SameDate,
    /// The n-th weekday of a month; from the end when negative.
    Nth {
        month: i8,
        nth: i8,
        weekday: Weekday,
    },
}

impl Holidays {
    /// A calendar of single days.
    pub fn from_dates<'a>(dates: impl IntoIterator<Item = (Date, &'a str)>) -> Self {
        let event = |(first, name): (Date, &str)| Event {
            name: name.to_string(),
            first,
            days: 1,
            repeat: Repeat::Once,
        };
        let events: Vec<Event> = dates.into_iter().map(event).collect();
        let mut text = String::new();
        for Event { name, first, .. } in &events {
            // A name is one line here, and a comment starts with this sign.
            let name = name.replace(|c: char| c == '#' || c.is_control(), " ");
            let _ = writeln!(text, "{first} {name}");
        }
        Holidays::new(events, text)
    }

    /// Reads a list of dates (`2026-12-25 Christmas`, one a line, `#` comments) or an iCalendar
    /// text, told apart by its first line.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        if text.len() > CALENDAR_BYTES_MAX {
            let message = format!("a calendar has at most {CALENDAR_BYTES_MAX} bytes");
            return Err(Problem::new(0..0, message));
        }
        let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        if first.eq_ignore_ascii_case("BEGIN:VCALENDAR") {
            return Ok(Holidays::new(parse_calendar(text)?, text.to_string()));
        }
        parse_list(text)
    }

    fn new(events: Vec<Event>, text: String) -> Self {
        let comes_once = |event: &Event| event.repeat == Repeat::Once;
        let (mut once, yearly): (Vec<Event>, Vec<Event>) = events.into_iter().partition(comes_once);
        once.sort_by_key(|event| event.first);
        let longest = once.iter().map(|event| event.days).max().unwrap_or(0);
        Holidays { once, longest, yearly, text }
    }

    /// A text that reads back as this.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of the holiday on this day.
    pub fn covering(&self, day: Date) -> Option<&str> {
        let begun = &self.once[..self.once.partition_point(|event| event.first <= day)];
        let recent = begun.iter().rev();
        let recent = recent.take_while(|event| days_between(event.first, day) < self.longest);
        let mut near = recent.chain(&self.yearly);
        near.find(|event| event.covers(day)).map(|event| event.name.as_str())
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.once.len() + self.yearly.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Reads a date as ISO 8601 has it: a day that is excluded must not be guessed.
pub fn parse_date(text: &str) -> Result<Date, Problem> {
    let trimmed = text.trim();
    // The standard's shorter forms, and a time behind it, are more than a date says.
    let is_date = trimmed.len() == 10 && trimmed.as_bytes()[4] == b'-';
    match trimmed.parse() {
        Ok(date) if is_date => Ok(date),
        _ => {
            Err(Problem::new(0..text.len(), format!("{trimmed} is not a date")).or(["2026-12-25"]))
        }
    }
}

impl Event {
    fn covers(&self, day: Date) -> bool {
        let lasts = |first: Date| (0..self.days).contains(&days_between(first, day));
        match &self.repeat {
            Repeat::Once => lasts(self.first),
            // An event around New Year may have begun in the year before.
            Repeat::Yearly { .. } => {
                let years = [day.year() - 1, day.year()];
                years.into_iter().filter_map(|year| self.in_year(year)).any(lasts)
            }
        }
    }

    /// Its first day in this year.
    fn in_year(&self, year: i16) -> Option<Date> {
        let Repeat::Yearly { step, until, count, on } = &self.repeat else {
            return (self.first.year() == year).then_some(self.first);
        };
        let passed = year - self.first.year();
        if passed < 0 || passed % step != 0 || count.is_some_and(|count| passed / step >= count) {
            return None;
        }
        let first = match *on {
            On::SameDate => Date::new(year, self.first.month(), self.first.day()).ok()?,
            On::Nth { month, nth, weekday } => {
                Date::new(year, month, 1).ok()?.nth_weekday_of_month(nth, weekday).ok()?
            }
        };
        until.is_none_or(|until| first <= until).then_some(first)
    }
}

fn parse_list(text: &str) -> Result<Holidays, Problem> {
    let mut dates = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let body = line.split('#').next().unwrap_or_default().trim();
        if !body.is_empty() {
            let (date, name) = body.split_once(char::is_whitespace).unwrap_or((body, "holiday"));
            let parsed = parse_date(date).map_err(|problem| {
                Problem::new(at..at + line.trim_end().len(), problem.message)
                    .or(["2026-12-25 Christmas"])
            })?;
            dates.push((parsed, name.trim()));
        }
        at += line.len();
    }
    if dates.len() > CALENDAR_EVENTS_MAX {
        let message = format!("a calendar has at most {CALENDAR_EVENTS_MAX} days");
        return Err(Problem::new(0..0, message));
    }
    Ok(Holidays::from_dates(dates))
}

/// One logical line of iCalendar: `NAME;PARAM=…:value`, and where it starts.
struct Line {
    at: usize,
    length: usize,
    name: String,
    parameters: String,
    value: String,
}

impl Line {
    fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.at..self.at + self.length, message)
    }
}

/// Joins folded lines (a break and a space) and takes each apart.
fn lines(text: &str) -> Vec<Line> {
    let mut joined: Vec<(usize, String)> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches(['\n', '\r']);
        match (body.strip_prefix([' ', '\t']), joined.last_mut()) {
            (Some(rest), Some((_, last))) => last.push_str(rest),
            _ if body.is_empty() => {}
            _ => joined.push((at, body.to_string())),
        }
        at += line.len();
    }
    let apart = |(at, line): (usize, String)| {
        let (head, value) = line.split_once(':').unwrap_or((&line, ""));
        let (name, parameters) = head.split_once(';').unwrap_or((head, ""));
        let upper = |text: &str| text.to_ascii_uppercase();
        let (name, parameters) = (upper(name), upper(parameters));
        Line { at, length: line.len(), name, parameters, value: value.trim().to_string() }
    };
    joined.into_iter().map(apart).collect()
}

fn parse_calendar(text: &str) -> Result<Vec<Event>, Problem> {
    let mut events = Vec::new();
    let mut open: Option<Vec<Line>> = None;
    for line in lines(text) {
        match (line.name.as_str(), line.value.to_ascii_uppercase().as_str()) {
            ("BEGIN", "VEVENT") => open = Some(Vec::new()),
            ("END", "VEVENT") => {
                let properties = open.take().ok_or_else(|| line.problem("an end of no event"))?;
                events.extend(parse_event(&line, &properties)?);
                if events.len() > CALENDAR_EVENTS_MAX {
                    let message = format!("a calendar has at most {CALENDAR_EVENTS_MAX} events");
                    return Err(line.problem(message));
                }
            }
            _ => {
                if let Some(properties) = &mut open {
                    properties.push(line);
                }
            }
        }
    }
    match open {
        Some(_) => Err(Problem::new(text.len()..text.len(), "the last event does not end")),
        None => Ok(events),
    }
}

/// The event; none when it was cancelled.
fn parse_event(end: &Line, properties: &[Line]) -> Result<Option<Event>, Problem> {
    const REFUSED: [&str; 5] = ["RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID", "DURATION"];
    let find = |name: &str| properties.iter().find(|line| line.name == name);
    if find("STATUS").is_some_and(|line| line.value.eq_ignore_ascii_case("CANCELLED")) {
        return Ok(None);
    }
    if let Some(line) = properties.iter().find(|line| REFUSED.contains(&line.name.as_str())) {
        let message = format!("{} is not supported; list the days one by one", line.name);
        return Err(line.problem(message));
    }
    let start = find("DTSTART").ok_or_else(|| end.problem("an event without DTSTART"))?;
    let first = parse_day(start)?;
    let days = match find("DTEND") {
        Some(line) => days_between(first, parse_day(line)?).max(1),
        None => 1,
    };
    if days > HOLIDAY_DAYS_MAX {
        return Err(start.problem(format!("a holiday lasts at most {HOLIDAY_DAYS_MAX} days")));
    }
    let repeat = find("RRULE").map_or(Ok(Repeat::Once), |line| parse_rule(line, first))?;
    let name = find("SUMMARY").map_or("holiday", |line| line.value.as_str()).to_string();
    Ok(Some(Event { name, first, days, repeat }))
}

fn parse_day(line: &Line) -> Result<Date, Problem> {
    if line.value.contains(['T', 't']) {
        let message = format!("{} has a time; only whole days are supported", line.name);
        return Err(line.problem(message).or(["DTSTART;VALUE=DATE:20261225"]));
    }
    let has_other_value =
        line.parameters.contains("VALUE=") && !line.parameters.contains("VALUE=DATE");
    day(&line.value).filter(|_| !has_other_value).ok_or_else(|| {
        line.problem(format!("{} is not a day", line.value)).or(["DTSTART;VALUE=DATE:20261225"])
    })
}

/// `20261225`.
fn day(text: &str) -> Option<Date> {
    let is_plain = text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit());
    let part = |range: core::ops::Range<usize>| text.get(range).and_then(|part| part.parse().ok());
    let year: i16 = is_plain.then(|| part(0..4)).flatten()?;
    Date::new(year, part(4..6)? as i8, part(6..8)? as i8).ok()
}

fn parse_rule(line: &Line, first: Date) -> Result<Repeat, Problem> {
    let unsupported = |part: &str| {
        let message = format!(
            "{part} in a rule is not supported: only every year, on a date or on \
                               the n-th weekday of a month"
        );
        line.problem(message)
    };
    let (mut step, mut until, mut count) = (1, None, None);
    let (mut month, mut weekday, mut is_yearly) = (first.month(), None, false);
    for part in line.value.split(';').filter(|part| !part.is_empty()) {
        let upper = part.to_ascii_uppercase();
        let (key, value) = upper.split_once('=').unwrap_or((&upper, ""));
        let number = || value.parse::<i16>().ok().filter(|n| (1..=9_999).contains(n));
        match key {
            "FREQ" if value == "YEARLY" => is_yearly = true,
            "INTERVAL" => step = number().ok_or_else(|| unsupported(part))?,
            "COUNT" => count = Some(number().ok_or_else(|| unsupported(part))?),
            "UNTIL" => {
                let date = value.get(..8).and_then(day);
                until = Some(date.ok_or_else(|| unsupported(part))?);
            }
            "BYMONTH" => {
                let number = number().and_then(|n| i8::try_from(n).ok());
                month = number.filter(|n| *n <= 12).ok_or_else(|| unsupported(part))?;
            }
            "BYMONTHDAY" if value == first.day().to_string() => {}
            "BYDAY" => weekday = Some(nth_weekday(value).ok_or_else(|| unsupported(part))?),
            "WKST" => {}
            _ => return Err(unsupported(part)),
        }
    }
    let on = match weekday {
        Some((nth, weekday)) => On::Nth { month, nth, weekday },
        None if month == first.month() => On::SameDate,
        None => return Err(unsupported("BYMONTH of another month")),
    };
    if !is_yearly {
        return Err(unsupported("a rule without FREQ=YEARLY"));
    }
    Ok(Repeat::Yearly { step, until, count, on })
}

/// `4TH` is the fourth Thursday, `-1MO` the last Monday.
fn nth_weekday(text: &str) -> Option<(i8, Weekday)> {
    let split = text.len().checked_sub(2)?;
    let (nth, name) = (text.get(..split)?, text.get(split..)?);
    let names = ["SU", "MO", "TU", "WE", "TH", "FR", "SA"];
    let at = names.iter().position(|known| *known == name)?;
    let weekday = Weekday::from_sunday_zero_offset(at as i8).ok()?;
    let nth: i8 = nth.parse().ok()?;
    ((1..=5).contains(&nth.abs())).then_some((nth, weekday))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    fn calendar(lines: &str) -> String {
        format!(
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\n{lines}\r\n\
             END:VEVENT\r\nEND:VCALENDAR\r\n"
        )
    }

    #[test]
    fn whole_days_are_covered_once_or_every_year() {
        let thanksgiving = "DTSTART;VALUE=DATE:20201126\r\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH";
        let rows: [(&str, &[Date], &[Date]); 6] = [
            (
                "SUMMARY:Christ\r\n mas\r\nDTSTART;VALUE=DATE:20261225\r\nDTEND:20261227",
                &[date(2026, 12, 25), date(2026, 12, 26)],
                &[date(2026, 12, 24), date(2026, 12, 27), date(2027, 12, 25)],
            ),
            (
                "DTSTART:20200501\r\nRRULE:FREQ=YEARLY",
                &[date(2020, 5, 1), date(2399, 5, 1)],
                &[date(2019, 5, 1), date(2026, 5, 2)],
            ),
            (thanksgiving, &[date(2026, 11, 26), date(2027, 11, 25)], &[date(2027, 11, 26)]),
            (
                "DTSTART:20191230\r\nDTEND:20200103\r\nRRULE:FREQ=YEARLY;COUNT=2",
                &[date(2019, 12, 31), date(2020, 1, 2), date(2021, 1, 2)],
                &[date(2020, 1, 3), date(2021, 12, 31)],
            ),
            (
                "DTSTART:20200229\r\nRRULE:FREQ=YEARLY",
                &[date(2024, 2, 29)],
                &[date(2023, 2, 28), date(2023, 3, 1)],
            ),
            ("STATUS:CANCELLED\r\nDTSTART:20260501", &[], &[date(2026, 5, 1)]),
        ];
        for (event, holidays, others) in rows {
            let found = Holidays::parse(&calendar(event)).unwrap();
            for day in holidays {
                assert!(found.covering(*day).is_some(), "{day} in {event}");
            }
            for day in others {
                assert_eq!(found.covering(*day), None, "{day} in {event}");
            }
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        let rows = [
            ("DTSTART:20261225T090000Z", "has a time"),
            ("SUMMARY:x", "without DTSTART"),
            ("DTSTART:20261225\r\nRRULE:FREQ=WEEKLY", "FREQ=WEEKLY"),
            ("DTSTART:20261225\r\nRRULE:FREQ=YEARLY;BYEASTER=1", "BYEASTER"),
            ("DTSTART:20261225\r\nRRULE:FREQ=YEARLY;BYDAY=MO,TU", "BYDAY"),
            ("DTSTART:20261225\r\nEXDATE:20271225", "EXDATE"),
            ("DTSTART:20261325", "not a day"),
            ("DTSTART:20200101\r\nDTEND:20300101", "at most 366"),
        ];
        for (event, part) in rows {
            let problem = Holidays::parse(&calendar(event)).unwrap_err();
            assert!(problem.message.contains(part), "{event}: {}", problem.message);
        }
        assert!(Holidays::parse("BEGIN:VCALENDAR\nBEGIN:VEVENT\n").is_err());
    }

    #[test]
    fn a_plain_list_of_dates_will_do() {
        let list = "# company\n2026-12-25 Christmas Day\n\n2027-01-01\n";
        let holidays = Holidays::parse(list).unwrap();
        assert_eq!(holidays.covering(date(2026, 12, 25)), Some("Christmas Day"));
        assert_eq!(holidays.covering(date(2027, 1, 1)), Some("holiday"));
        assert_eq!(holidays.len(), 2);
        let problem = Holidays::parse("2026-12-25\n25/12/2026\n").unwrap_err();
        assert_eq!(problem.span, 11..21);
    }

    /// Days are searched from the one asked for backwards, as far as the longest event lasts.
    #[test]
    fn a_long_event_is_found_behind_short_ones() {
        let event = |name: &str, day: i8, days: i32| Event {
            name: name.to_string(),
            first: date(2026, 3, day),
            days,
            repeat: Repeat::Once,
        };
        let events = [("d", 20, 1), ("long", 2, 10), ("b", 3, 1), ("c", 5, 2), ("e", 4, 1)];
        let events = events.map(|(name, day, days)| event(name, day, days));
        let holidays = Holidays::new(events.to_vec(), String::new());
        for day in 1..=31 {
            let day = date(2026, 3, day);
            let expected = events.iter().any(|event| event.covers(day));
            assert_eq!(holidays.covering(day).is_some(), expected, "{day}");
        }
        assert_eq!(holidays.covering(date(2026, 3, 11)), Some("long"));
    }
}
