#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod first;
pub mod functions;
pub mod strip;
pub mod symbols;
mod writer;

pub use writer::{Builder, Member};

/// Eight bytes that name this kernel with these programs: a hash over all of them, in the order given.
pub fn build_id<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        // The length goes in, so that moving bytes from one part to the next changes the id.
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::build_id;

    #[test]
    fn build_id_depends_on_content_and_its_division() {
        let id = build_id([&b"kernel"[..], b"shell"]);
        assert_eq!(id, build_id([&b"kernel"[..], b"shell"]));
        assert_ne!(id, build_id([&b"kernels"[..], b"hell"]));
        assert_ne!(id, build_id([&b"kernel"[..]]));
    }
}
