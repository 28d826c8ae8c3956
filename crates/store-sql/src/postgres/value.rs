//! What may be bound to a statement, and as what type.
//!
//! A statement that was prepared knows the types of its values. Behind a pooler nothing can be
//! prepared for later, and every statement has to name them.

use tokio_postgres::types::{ToSql, Type};

/// A value and its type.
pub(super) trait Bind: ToSql {
    fn kind(&self) -> Type;
}

/// A reference to one.
pub(super) type Value<'a> = &'a (dyn Bind + Sync);

/// One that is kept.
pub(super) type Bound<'a> = Box<dyn Bind + Sync + Send + 'a>;

impl<T: ToSql + Kind> Bind for T {
    fn kind(&self) -> Type {
        T::KIND
    }
}

/// The type that a Rust type is bound as.
pub(super) trait Kind {
    const KIND: Type;
}

/// The same for many of them.
pub(super) trait Element {
    const ARRAY: Type;
}

macro_rules! kinds {
    ($($rust:ty => $one:ident, $many:ident;)*) => {
        $(
            impl Kind for $rust {
                const KIND: Type = Type::$one;
            }

            impl Element for $rust {
                const ARRAY: Type = Type::$many;
            }
        )*
    };
}

kinds! {
    bool => BOOL, BOOL_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i64 => INT8, INT8_ARRAY;
    f64 => FLOAT8, FLOAT8_ARRAY;
    &str => TEXT, TEXT_ARRAY;
    String => TEXT, TEXT_ARRAY;
    std::borrow::Cow<'static, str> => TEXT, TEXT_ARRAY;
    &[u8] => BYTEA, BYTEA_ARRAY;
    Vec<u8> => BYTEA, BYTEA_ARRAY;
}

impl<T: Kind> Kind for Option<T> {
    const KIND: Type = T::KIND;
}

impl<T: Element> Element for Option<T> {
    const ARRAY: Type = T::ARRAY;
}

impl<T: Element> Kind for Vec<T> {
    const KIND: Type = T::ARRAY;
}

impl<T: Element> Kind for &[T] {
    const KIND: Type = T::ARRAY;
}
