//! Statements as text. Values are written as literals: a commit is then one packet, whatever it
//! holds, where prepared statements would need one for every number of rows. One statement over a
//! list in JSON (`JSON_TABLE`) was measured to take a tenth longer, a thousand rows at a time.
//!
//! A literal is safe because the session was told so: backslashes escape, the statement is UTF-8.

use std::fmt::Write as _;

use hence_core::time::Timestamp;

/// Statements are parted into packets of about this size: a quarter of what a server takes by
/// default, so that a row that comes on top still fits.
const PACKET_BYTES: usize = 4 * 1024 * 1024;

/// A list of rows is parted into statements of about this size: the server reads a statement as a
/// whole before it begins.
const STATEMENT_BYTES: usize = 1024 * 1024;

/// One statement, or several.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    sql: Vec<u8>,
}

impl Text {
    /// Begins with this.
    pub(super) fn new(sql: &str) -> Self {
        Text { sql: sql.as_bytes().to_vec() }
    }

    /// Adds a piece that was written by us.
    pub(super) fn raw(&mut self, sql: &str) -> &mut Self {
        self.sql.extend_from_slice(sql.as_bytes());
        self
    }

    /// Adds a number.
    pub(super) fn number(&mut self, value: i64) -> &mut Self {
        let mut digits = String::new();
        // Writing to a string cannot fail.
        let _ = write!(digits, "{value}");
        self.raw(&digits)
    }

    /// Adds an instant.
    pub(super) fn time(&mut self, at: Timestamp) -> &mut Self {
        self.number(at.as_millis())
    }

    /// Adds bytes.
    pub(super) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.raw("_binary'").escaped(value).raw("'")
    }

    /// Adds text.
    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        self.raw("_utf8mb4'").escaped(value.as_bytes()).raw("'")
    }

    /// Adds a value, or NULL.
    pub(super) fn or_null<T>(
        &mut self,
        value: Option<T>,
        add: impl FnOnce(&mut Self, T) -> &mut Self,
    ) -> &mut Self {
        match value {
            Some(value) => add(self, value),
            None => self.raw("NULL"),
        }
    }

    /// Adds values with commas between.
    pub(super) fn list<T>(
        &mut self,
        values: impl IntoIterator<Item = T>,
        mut add: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        for (index, value) in values.into_iter().enumerate() {
            if index > 0 {
                self.raw(", ");
            }
            add(self, value);
        }
        self
    }

    /// Adds another one, as it is.
    pub(super) fn append(&mut self, other: &Text) -> &mut Self {
        self.sql.extend_from_slice(&other.sql);
        self
    }

    /// The bytes to send.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.sql
    }

    fn escaped(&mut self, value: &[u8]) -> &mut Self {
        self.sql.reserve(value.len());
        let mut rest = value;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\'' | b'\\' | 0)) {
            self.sql.extend_from_slice(&rest[..at]);
            self.sql.push(b'\\');
            self.sql.push(if rest[at] == 0 { b'0' } else { rest[at] });
            rest = &rest[at + 1..];
        }
        self.sql.extend_from_slice(rest);
        self
    }
}

/// Statements in order, parted into packets.
#[derive(Debug, Default)]
pub(super) struct Packets {
    done: Vec<Text>,
    open: Text,
}

impl Packets {
    /// Adds a statement.
    pub(super) fn add(&mut self, statement: &Text) {
        if !self.open.sql.is_empty() {
            self.open.raw(";\n");
        }
        self.open.sql.extend_from_slice(&statement.sql);
        if self.open.sql.len() >= PACKET_BYTES {
            self.done.push(std::mem::take(&mut self.open));
        }
    }

    /// Adds `INSERT … VALUES` statements for these rows; none for none.
    pub(super) fn insert<T>(
        &mut self,
        head: &str,
        rows: impl IntoIterator<Item = T>,
        tail: &str,
        mut add: impl FnMut(&mut Text, T),
    ) {
        let mut statement = Text::default();
        for row in rows {
            statement.raw(if statement.sql.is_empty() { head } else { ", " }).raw("(");
            add(&mut statement, row);
            statement.raw(")");
            if statement.sql.len() >= STATEMENT_BYTES {
                self.add(statement.raw(tail));
                statement = Text::default();
            }
        }
        if !statement.sql.is_empty() {
            self.add(statement.raw(tail));
        }
    }

    /// The packets, in order.
    pub(super) fn into_packets(mut self) -> Vec<Text> {
        if !self.open.sql.is_empty() {
            self.done.push(self.open);
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &Text) -> String {
        String::from_utf8_lossy(text.as_bytes()).into_owned()
    }

    #[test]
    fn no_value_ends_its_literal() {
        let rows: [(&[u8], &str); 5] = [
            (b"plain", "_binary'plain'"),
            (b"it's", r"_binary'it\'s'"),
            (br"a\", r"_binary'a\\'"),
            (b"\0", r"_binary'\0'"),
            (br"\'; DROP TABLE x; -- ", r"_binary'\\\'; DROP TABLE x; -- '"),
        ];
        for (value, expected) in rows {
            assert_eq!(shown(Text::default().bytes(value)), expected);
        }
        assert_eq!(shown(Text::default().text("Zoë's")), r"_utf8mb4'Zoë\'s'");
        let mut text = Text::new("x = ");
        text.or_null(None, Text::number).raw(", ").or_null(Some(i64::MIN), Text::number);
        assert_eq!(shown(&text), "x = NULL, -9223372036854775808");
    }

    #[test]
    fn rows_are_parted_into_statements_and_packets() {
        let mut packets = Packets::default();
        packets.insert("INSERT INTO t VALUES ", Vec::<i64>::new(), "", |_, _| {});
        packets.insert("INSERT INTO t VALUES ", [1, 2], " END", |text, row| {
            text.number(row);
        });
        packets.add(&Text::new("COMMIT"));
        let small: Vec<String> = packets.into_packets().iter().map(shown).collect();
        assert_eq!(small, ["INSERT INTO t VALUES (1), (2) END;\nCOMMIT"]);
        let mut packets = Packets::default();
        let large = vec![b'x'; STATEMENT_BYTES / 2];
        packets.insert("INSERT INTO t VALUES ", 0..20, "", |text, _| {
            text.bytes(&large);
        });
        let packets = packets.into_packets();
        assert_eq!(packets.len(), 3, "ten megabytes, four at a time");
        let whole: usize =
            packets.iter().map(|packet| shown(packet).matches("INSERT").count()).sum();
        assert_eq!(whole, 10, "two rows a statement");
    }
}
