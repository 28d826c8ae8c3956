//! Numbers, text and lists as bytes: what records are made of.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;

/// Why bytes are refused. Small, so that the good path carries no message around.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Written by a version that is not known here.
    Version(u8),
    /// Fewer bytes than were announced.
    Short,
    /// More bytes than there should be.
    Trailing,
    /// A number too large for its field, or written longer than it needs.
    Number,
    /// No variant has this tag.
    Tag,
    /// Not UTF-8.
    Text,
    /// Refused by the name's own check.
    Name,
}

/// Something with a form in bytes.
pub(super) trait Wire: Sized {
    /// Appends the form.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads it back, no matter what the bytes are.
    fn take(input: &mut Reader<'_>) -> Result<Self, Fault>;
}

/// A struct whose form is its fields, in this order. A field that is not listed does not compile.
macro_rules! fields {
    ($type:ident { $($field:ident),+ $(,)? }) => {
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let $type { $($field),+ } = self;
                $($field.put(out);)+
            }

            fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
                // In the order in which they are written here, which is the order of the bytes.
                Ok($type { $($field: Wire::take(input)?),+ })
            }
        }
    };
}

/// An enum without data whose form is a tag byte.
macro_rules! tags {
    ($type:ident { $($variant:ident = $tag:literal),+ $(,)? }) => {
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.push(match self { $($type::$variant => $tag),+ });
            }

            fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
                match input.byte()? {
                    $($tag => Ok($type::$variant),)+
                    _ => Err(Fault::Tag),
                }
            }
        }
    };
}

/// A checked name, in its text form.
macro_rules! names {
    ($($type:ident),+ $(,)?) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                put_bytes(self.as_str().as_bytes(), out);
            }

            fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
                $type::new(input.text()?).map_err(|_| Fault::Name)
            }
        }
    )+};
}

pub(super) use {fields, names, tags};

/// Takes fields off the front of some bytes.
pub(super) struct Reader<'a> {
    whole: &'a Bytes,
    rest: &'a [u8],
    version: u8,
}

impl<'a> Reader<'a> {
    pub(super) fn new(whole: &'a Bytes) -> Self {
        Reader { whole, rest: whole, version: 0 }
    }

    /// Takes the version byte and refuses what is not `known`.
    pub(super) fn begin(&mut self, known: RangeInclusive<u8>) -> Result<(), Fault> {
        self.version = self.byte()?;
        if known.contains(&self.version) { Ok(()) } else { Err(Fault::Version(self.version)) }
    }

    /// The version of the record under way: what a `take` asks when a layout has changed.
    pub(super) fn version(&self) -> u8 {
        self.version
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Fault> {
        let (first, rest) = self.rest.split_first().ok_or(Fault::Short)?;
        self.rest = rest;
        Ok(*first)
    }

    /// One value has one form: a number written longer than it needs is refused.
    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if byte == 0 || (shift == 63 && byte > 1) {
                return Err(Fault::Number);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Fault::Number)
    }

    /// A signed difference; small ones are short.
    pub(super) fn zigzag(&mut self) -> Result<i64, Fault> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    pub(super) fn fixed_u64(&mut self) -> Result<u64, Fault> {
        let (bytes, rest) = self.rest.split_first_chunk::<8>().ok_or(Fault::Short)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn slice(&mut self) -> Result<&'a [u8], Fault> {
        let length = usize::try_from(self.varint()?).map_err(|_| Fault::Short)?;
        let (slice, rest) = self.rest.split_at_checked(length).ok_or(Fault::Short)?;
        self.rest = rest;
        Ok(slice)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.slice()?).map_err(|_| Fault::Text)
    }

    /// Bytes that share their memory with the whole.
    pub(super) fn shared(&mut self) -> Result<Bytes, Fault> {
        let slice = self.slice()?;
        Ok(self.whole.slice_ref(slice))
    }

    /// How many elements follow. Each takes a byte at least, so no more can be meant than are left.
    pub(super) fn count(&mut self) -> Result<usize, Fault> {
        let count = usize::try_from(self.varint()?).map_err(|_| Fault::Short)?;
        if count <= self.rest.len() { Ok(count) } else { Err(Fault::Short) }
    }
}

pub(super) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_zigzag(value: i64, out: &mut Vec<u8>) {
    put_varint(((value << 1) ^ (value >> 63)) as u64, out);
}

pub(super) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Room that is taken before the elements of a list were seen. The count alone is no reason to take
/// more: an element in memory can be a hundred times its form.
const LIST_ROOM_MAX: usize = 1_024;

/// An empty list with room for what is believable of `count`.
pub(super) fn list_of<T>(count: usize) -> Vec<T> {
    Vec::with_capacity(count.min(LIST_ROOM_MAX))
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.len() as u64, out);
        for item in self {
            item.put(out);
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        let count = input.count()?;
        let mut list = list_of(count);
        for _ in 0..count {
            list.push(T::take(input)?);
        }
        Ok(list)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(if bool::take(input)? { Some(T::take(input)?) } else { None })
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok((A::take(input)?, B::take(input)?))
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        T::take(input).map(Box::new)
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        T::take(input).map(Arc::new)
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Fault::Tag),
        }
    }
}

impl Wire for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        input.byte()
    }
}

macro_rules! varints {
    ($($type:ty),+) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                put_varint(u64::from(*self), out);
            }

            fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
                <$type>::try_from(input.varint()?).map_err(|_| Fault::Number)
            }
        }
    )+};
}
varints!(u16, u32, u64);

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        input.text().map(String::from)
    }
}

impl Wire for Arc<str> {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        input.text().map(Arc::from)
    }
}

impl Wire for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        input.shared()
    }
}
