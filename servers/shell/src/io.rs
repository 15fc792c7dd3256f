//! What a command reads and writes.

use crate::parse::Redirect;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use musubi::Error;
use musubi::abi::start::StreamRef;
use musubi::files::File;
use musubi::interfaces::files::how;
use musubi::stream::Stream;

/// Where a built-in command's output goes.
pub enum Output {
    Stream(Stream),
    /// Into the next command, which is built in, too.
    Kept(Vec<u8>),
}

pub struct Io {
    pub input: Input,
    pub output: Output,
    pub errors: Stream,
    /// In which line of which file the command stands, as it is said before its name.
    pub place: String,
}

pub enum Input {
    Stream(Stream),
    Kept(Vec<u8>),
}

impl Io {
    /// The shell's own.
    pub fn own() -> Io {
        Io {
            input: Input::Stream(musubi::stream::input()),
            output: Output::Stream(musubi::stream::output()),
            errors: musubi::stream::errors(),
            place: String::new(),
        }
    }

    /// Puts files in the place of streams; `ends` gets what is to be closed when the command is over. The error names the file that
    /// cannot be opened.
    pub fn redirect(
        &mut self,
        redirects: &[(Redirect, Vec<u8>)],
        ends: &mut Vec<Stream>,
    ) -> Result<(), (Vec<u8>, Error)> {
        for (to, path) in redirects {
            let made = how::WRITE | how::CREATE | how::mode(0o644);
            let asked = match to {
                Redirect::Input => how::READ,
                Redirect::Output | Redirect::Errors => made | how::EMPTY,
                Redirect::Append | Redirect::ErrorsAppend => made | how::APPEND,
            };
            let opened = File::open(path, asked).and_then(|(file, _)| file.into_stream());
            let stream = Stream(opened.map_err(|error| (path.clone(), error))?);
            ends.push(stream);
            match to {
                Redirect::Input => self.input = Input::Stream(stream),
                Redirect::Output | Redirect::Append => self.output = Output::Stream(stream),
                Redirect::Errors | Redirect::ErrorsAppend => self.errors = stream,
            }
        }
        Ok(())
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.output {
            Output::Stream(stream) => stream.write_all(bytes),
            Output::Kept(kept) => {
                kept.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Prints text; nobody who reads it any more is no error of the command's.
    pub fn print(&mut self, text: fmt::Arguments<'_>) {
        let _ = self.write(alloc::fmt::format(text).as_bytes());
    }

    /// Prints a line of errors, with the name of the command.
    pub fn complain(&self, who: &str, what: fmt::Arguments<'_>) {
        let _ = self.errors.write_all(alloc::format!("{}{who}: {what}\n", self.place).as_bytes());
    }

    /// Reads all there is.
    pub fn read_all(&mut self, mut each: impl FnMut(&mut Io, &[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let stream = match &mut self.input {
            Input::Kept(kept) => {
                let all = core::mem::take(kept);
                return each(self, &all);
            }
            Input::Stream(stream) => *stream,
        };
        let mut part = alloc::vec![0; 4096];
        loop {
            match stream.read(&mut part)? {
                0 => return Ok(()),
                n => each(self, &part[..n])?,
            }
        }
    }

    /// The stream that a started program gets for its input and output.
    pub fn streams(&self) -> [StreamRef; 3] {
        let input = if let Input::Stream(s) = &self.input { s.0 } else { StreamRef::default() };
        let output = if let Output::Stream(s) = &self.output { s.0 } else { StreamRef::default() };
        [input, output, self.errors.0]
    }
}

/// `writeln!` for [`Io`].
#[macro_export]
macro_rules! say {
    ($io:expr, $($arg:tt)*) => { $io.print(::core::format_args!("{}\n", ::core::format_args!($($arg)*))) };
}
