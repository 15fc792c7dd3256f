//! Why a file is not loaded.

use core::fmt;

/// Why a file cannot be loaded. Segments are counted from 0, as `readelf -l` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The file does not begin like one.
    NotElf,
    /// The file ends within its headers.
    CutOff,
    /// Not for 64-bit x86 processors.
    WrongMachine,
    /// For an operating system that is neither Musubi nor Linux.
    WrongSystem,
    /// An object file, a core dump or the like.
    NotAProgram,
    /// The table of segments has a form that nothing produces.
    BadHeaders,
    /// More segments than any program needs.
    TooManySegments,
    /// No segment is to be loaded.
    NothingToLoad,
    /// The segment's bytes are not all in the file.
    BeyondFile(usize),
    /// The segment is longer in the file than in memory.
    ShorterInMemory(usize),
    /// The segment's addresses wrap round, or are not for programs.
    BadAddress(usize),
    /// The segment is longer than a section can be.
    TooLong(usize),
    /// The segment's address fits neither its alignment nor its place in the file.
    BadAlignment(usize),
    /// The segment would be writable and executable.
    WriteAndExecute(usize),
    /// The segment shares pages with another one.
    Overlap(usize),
    /// The program starts where nothing is executable.
    BadEntry,
    /// A native program that names an interpreter: it is linked dynamically.
    Interpreter,
    /// The path of the interpreter is not in the file, or not a path.
    BadInterpreter,
    /// Of the two marks of a native program only one is there.
    BrokenMark,
    /// A native program for another version of the contract.
    AbiVersion(u32),
    /// A native program at a fixed address.
    FixedAddress,
    /// The segment is neither the text nor the data of a native program.
    Unexpected(usize),
    /// The native program's text leaves no page for gates before its data.
    NoRoomForGates,
    /// The native program has thread-local storage, which there is not (a thread's area lies at its stack).
    ThreadLocal,
    /// The native program's table of what is to be done at loading is broken.
    BadDynamic,
    /// The native program needs shared libraries.
    SharedLibraries,
    /// The native program needs a relocation of another kind than "relative" (its number, or 0 for another table).
    RelocationKind(u32),
    /// The native program's relocation of this number lies outside its data.
    RelocationOutside(usize),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotElf => f.write_str("not an ELF file"),
            Refusal::CutOff => f.write_str("the file ends within its headers"),
            Refusal::WrongMachine => f.write_str("made for another machine"),
            Refusal::WrongSystem => f.write_str("made for another operating system"),
            Refusal::NotAProgram => f.write_str("not a program but an object file or the like"),
            Refusal::BadHeaders => f.write_str("broken table of segments"),
            Refusal::TooManySegments => f.write_str("too many segments"),
            Refusal::NothingToLoad => f.write_str("nothing in it is to be loaded"),
            Refusal::BeyondFile(n) => write!(f, "segment {n} lies beyond the end of the file"),
            Refusal::ShorterInMemory(n) => write!(f, "segment {n} is longer in the file than in memory"),
            Refusal::BadAddress(n) => write!(f, "segment {n} lies where no program may be"),
            Refusal::TooLong(n) => write!(f, "segment {n} is too long"),
            Refusal::BadAlignment(n) => write!(f, "segment {n} does not fit its alignment"),
            Refusal::WriteAndExecute(n) => write!(f, "segment {n} is writable and executable"),
            Refusal::Overlap(n) => write!(f, "segment {n} overlaps another one"),
            Refusal::BadEntry => f.write_str("it starts where nothing is executable"),
            Refusal::Interpreter => f.write_str("needs an interpreter (dynamic linking)"),
            Refusal::BadInterpreter => f.write_str("broken path of an interpreter"),
            Refusal::BrokenMark => f.write_str("its mark as a Musubi program is broken"),
            Refusal::AbiVersion(n) => write!(f, "made for version {n} of Musubi's calls"),
            Refusal::FixedAddress => f.write_str("a Musubi program must be position independent"),
            Refusal::Unexpected(n) => write!(f, "segment {n} is neither the text nor the data of a Musubi program"),
            Refusal::NoRoomForGates => f.write_str("no free page for gates between text and data"),
            Refusal::ThreadLocal => f.write_str("thread-local storage, which Musubi programs do not have"),
            Refusal::BadDynamic => f.write_str("broken table of relocations"),
            Refusal::SharedLibraries => f.write_str("needs shared libraries"),
            Refusal::RelocationKind(0) => f.write_str("relocations in a form that Musubi programs do not have"),
            Refusal::RelocationKind(n) => write!(f, "a relocation of kind {n}, which Musubi programs do not have"),
            Refusal::RelocationOutside(n) => write!(f, "relocation {n} lies outside the data"),
        }
    }
}

impl core::error::Error for Refusal {}

impl From<Refusal> for abi::Error {
    fn from(_: Refusal) -> abi::Error {
        abi::Error::BadProgram
    }
}
