//! A Rust file taken apart by its lines: what runs, what is said about it, what is only for tests.
//! A scanner, not a parser: it knows comments, literals and braces, and that is enough for `tidy`.

/// A file with its code and its comments set apart. Both views have as many lines as the text,
/// with spaces where the other has its say; the insides of literals are blank in both.
pub(crate) struct Source {
    /// What runs.
    pub(crate) code: String,
    /// What is said about it, with the slashes.
    pub(crate) comments: String,
    /// For each line, whether it is compiled for tests only.
    in_test: Vec<bool>,
}

/// A function's name and the lines it spans, counted from 1.
#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    /// As it is written after `fn`.
    pub(crate) name: String,
    /// The line of `fn`.
    pub(crate) first: usize,
    /// The line of its closing brace.
    pub(crate) last: usize,
}

impl Source {
    /// Takes a text apart.
    pub(crate) fn new(text: &str) -> Self {
        let mut split = Split::default();
        split.run(&text.chars().collect::<Vec<_>>());
        let in_test = test_lines(&split.code);
        Source { code: split.code, comments: split.comments, in_test }
    }

    /// Whether this line (from 1) is compiled for tests only.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.in_test.get(line - 1).copied().unwrap_or(false)
    }

    /// Every function with a body, in order of their first lines.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let code: Vec<char> = self.code.chars().collect();
        let mut found = Vec::new();
        for at in words(&code, "fn") {
            let name: String = code[at + 2..]
                .iter()
                .skip_while(|c| **c == ' ')
                .take_while(|c| is_word(**c))
                .collect();
            // A function pointer type has no name, a macro's function has a `$` for one.
            if name.is_empty() {
                continue;
            }
            if let Some((open, close)) = body(&code, at) {
                debug_assert!(open < close);
                found.push(Function {
                    name,
                    first: line_of(&code, at),
                    last: line_of(&code, close),
                });
            }
        }
        found
    }
}

#[derive(Default)]
struct Split {
    code: String,
    comments: String,
}

impl Split {
    fn run(&mut self, text: &[char]) {
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let before = at.checked_sub(1).map(|i| text[i]);
            at += if rest.starts_with(&['/', '/']) {
                self.comment(rest, line_comment(rest))
            } else if rest.starts_with(&['/', '*']) {
                self.comment(rest, block_comment(rest))
            } else if let Some(len) = raw_string(rest, before) {
                self.literal(rest, len)
            } else if rest[0] == '"' {
                self.literal(rest, quoted(rest, '"'))
            } else if rest[0] == '\'' && is_char_literal(rest) {
                self.literal(rest, quoted(rest, '\''))
            } else {
                self.code.push(rest[0]);
                self.comments.push(blank(rest[0]));
                1
            };
        }
    }

    fn comment(&mut self, rest: &[char], len: usize) -> usize {
        self.comments.extend(&rest[..len]);
        self.code.extend(rest[..len].iter().map(|c| blank(*c)));
        len
    }

    /// The quotes stay in the code, so that a literal is still seen to be there.
    fn literal(&mut self, rest: &[char], len: usize) -> usize {
        for (i, c) in rest[..len].iter().enumerate() {
            let edge = i == 0 || i + 1 == len;
            self.code.push(if edge { *c } else { blank(*c) });
            self.comments.push(blank(*c));
        }
        len
    }
}

fn blank(c: char) -> char {
    if c == '\n' { '\n' } else { ' ' }
}

fn line_comment(rest: &[char]) -> usize {
    rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(&['/', '*']) {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(&['*', '/']) {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of a raw string that starts here: `r"…"`, `br#"…"#`, `cr##"…"##`.
fn raw_string(rest: &[char], before: Option<char>) -> Option<usize> {
    if before.is_some_and(is_word) {
        return None;
    }
    let prefix = usize::from(matches!(rest[0], 'b' | 'c'));
    if rest.get(prefix) != Some(&'r') {
        return None;
    }
    let hashes = rest[prefix + 1..].iter().take_while(|c| **c == '#').count();
    let open = prefix + 1 + hashes;
    if rest.get(open) != Some(&'"') {
        return None;
    }
    let mut end = vec!['"'];
    end.extend(std::iter::repeat_n('#', hashes));
    let inside = &rest[open + 1..];
    let len = inside.windows(end.len()).position(|w| w == end).map(|p| p + end.len());
    Some(open + 1 + len.unwrap_or(inside.len()))
}

/// The length of a literal that starts with this quote, both quotes included.
fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// Tells `'a'` and `'\n'` from the lifetime `'a`.
fn is_char_literal(rest: &[char]) -> bool {
    rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'')
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where this word stands by itself.
fn words(code: &[char], word: &str) -> Vec<usize> {
    let word: Vec<char> = word.chars().collect();
    let alone = |at: usize| {
        let before = at.checked_sub(1).is_none_or(|i| !is_word(code[i]));
        before && code.get(at + word.len()).is_none_or(|c| !is_word(*c))
    };
    (0..code.len()).filter(|at| code[*at..].starts_with(&word) && alone(*at)).collect()
}

/// The braces of the first block after `from`, unless a `;` ends the item before one opens.
fn body(code: &[char], from: usize) -> Option<(usize, usize)> {
    let mut nested = 0_i32;
    let mut open = None;
    for (at, c) in code.iter().enumerate().skip(from) {
        match c {
            '(' | '[' => nested += 1,
            ')' | ']' => nested -= 1,
            ';' if nested == 0 => return None,
            '{' if nested == 0 => {
                open = Some(at);
                break;
            }
            _ => {}
        }
    }
    let open = open?;
    Some((open, closing(code, open)?))
}

/// The brace that closes the one at `open`.
pub(crate) fn closing(code: &[char], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in code.iter().enumerate().skip(open) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn line_of(code: &[char], at: usize) -> usize {
    1 + code[..at].iter().filter(|c| **c == '\n').count()
}

/// For each line, whether it belongs to an item under `#[cfg(test)]` or `#[test]`.
fn test_lines(code: &str) -> Vec<bool> {
    let mut lines = vec![false; code.lines().count() + 1];
    let chars: Vec<char> = code.chars().collect();
    for mark in ["#[cfg(test)]", "#[cfg(all(test", "#[test]", "#[tokio::test"] {
        let mark_chars: Vec<char> = mark.chars().collect();
        for at in (0..chars.len()).filter(|at| chars[*at..].starts_with(&mark_chars)) {
            let after = at + mark.find(']').map_or(mark.len(), |end| end + 1);
            let first = line_of(&chars, at);
            // An item without a body, such as `mod tests;`, ends at its semicolon.
            let semicolon = || chars[after..].iter().position(|c| *c == ';').map(|p| after + p);
            let end = body(&chars, after).map(|(_, close)| close).or_else(semicolon);
            let last = end.map_or(first, |end| line_of(&chars, end));
            lines[first - 1..last].fill(true);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_set_apart() {
        let rows = [
            ("let a = \"// no\"; // yes", "let a = \"     \";       "),
            ("r#\"a \" b\"# + x", "r        # + x"),
            ("'\"' 'a 'static \"x\"", "' ' 'a 'static \" \""),
            ("b'\\'' /* /* in */ out */ c", "b'  '                    c"),
            ("\"a \\\" b\" z", "\"      \" z"),
        ];
        for (text, code) in rows {
            assert_eq!(Source::new(text).code, code, "{text}");
        }
        assert!(Source::new("x // said").comments.ends_with("// said"));
    }

    #[test]
    fn functions_span_their_lines() {
        let text = "fn a() {\n}\n\nfn b(\n    f: fn(u8),\n) -> [u8; 2]\n{\n    { }\n}\nfn c();\n";
        let found = Source::new(text).functions();
        let spans: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.first, f.last)).collect();
        assert_eq!(spans, [("a", 1, 2), ("b", 4, 9)]);
    }

    #[test]
    fn test_code_is_known_as_such() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let source = Source::new(text);
        let marks: Vec<bool> = (1..=6).map(|line| source.is_test(line)).collect();
        assert_eq!(marks, [false, true, true, true, true, false]);
    }
}
