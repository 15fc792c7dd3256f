//! The lock of this server: many Linux programs run through its text at once, on their own threads.

pub use rt::Mutex;
