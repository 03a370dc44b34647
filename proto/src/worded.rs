//! Enumerations whose variants have one word each: by their number in packets, by the word in JSON, logs and reports.

/// Declares one that serde writes, with the list of its variants and their words.
#[macro_export]
macro_rules! worded {
    ($(#[$of:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$of])*
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Each of them, in their order.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// Its word in JSON, logs and reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}
