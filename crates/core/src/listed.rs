//! Closed lists: enums of plain variants, each with the word that the API has for it. Written once,
//! so that no list of them can miss one.

macro_rules! listed {
    ($(#[$meta:meta])* pub enum $type:ident {
        $($(#[$doc:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$meta])*
        pub enum $type {
            $($(#[$doc])* $variant,)*
        }

        impl $type {
            /// Every one of them, in the order of their numbers.
            pub const ALL: [$type; [$($word),*].len()] = [$($type::$variant),*];

            /// As the API names it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($type::$variant => $word,)*
                }
            }
        }
    };
}

pub(crate) use listed;
