//! Linux structures as bytes. Layouts come from `linux-raw-sys`; they are written and read field by field at the
//! offsets that the compiler knows, since its types are no plain-data types and servers hold no `unsafe`.

/// A value of fixed size with a little-endian form.
pub trait Field: Copy {
    fn store(self, to: &mut [u8]);
    fn load(from: &[u8]) -> Self;
}

macro_rules! fields {
    ($($type:ty),*) => { $(
        impl Field for $type {
            fn store(self, to: &mut [u8]) {
                to[..size_of::<$type>()].copy_from_slice(&self.to_le_bytes());
            }
            fn load(from: &[u8]) -> $type {
                let mut bytes = [0; size_of::<$type>()];
                bytes.copy_from_slice(&from[..size_of::<$type>()]);
                <$type>::from_le_bytes(bytes)
            }
        }
    )* };
}

fields!(u8, i8, u16, i16, u32, i32, u64, i64);

/// Says to the compiler that `value` has the type of the field that `_get` reads.
pub fn typed<S, F>(_get: fn(&S) -> F, value: F) -> F {
    value
}

/// The bytes of a Linux structure: `record!(timespec { tv_sec: s, tv_nsec: n })`. Fields left out are zero.
#[macro_export]
macro_rules! record {
    ($type:ty { $($($field:ident).+: $value:expr),* $(,)? }) => {{
        let mut bytes = [0u8; size_of::<$type>()];
        $(
            let value = $crate::record::typed(|s: &$type| s.$($field).+, $value);
            $crate::record::Field::store(value, &mut bytes[core::mem::offset_of!($type, $($field).+)..]);
        )*
        bytes
    }};
}

/// One field of a Linux structure in bytes: `field!(bytes, timespec, tv_sec)`.
#[macro_export]
macro_rules! field {
    ($bytes:expr, $type:ty, $($field:ident).+) => {{
        let value = $crate::record::Field::load(&$bytes[core::mem::offset_of!($type, $($field).+)..]);
        $crate::record::typed(|s: &$type| s.$($field).+, value)
    }};
}
