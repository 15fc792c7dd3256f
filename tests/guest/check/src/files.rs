//! The file server as programs use it: what they are told, what is kept, and what many of them at once may do to each other.

mod copied;

use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use musubi::abi::layout::PAGE;
use musubi::command::Command;
use musubi::files::{self, File, NAME_MAX, PATH_MAX};
use musubi::interfaces::files::{ENTRY, FilesClient, LEN_MAX, OPEN_MAX, RECORD, how};
use musubi::rt::{Answers, Mutex, section, task, thread, time};
use musubi::{Error, names};

pub const CHECKS: &[Check] = &[
    ("each_refusal_has_its_error", || fresh(refusals)),
    ("what_was_written_is_read", || fresh(written)),
    ("what_is_open_outlives_its_name", || fresh(outlives)),
    ("threads_write_different_files", || fresh(different)),
    ("threads_append_to_one_file", || fresh(append)),
    ("of_many_one_makes_a_file_and_one_moves_it", || fresh(one_of_many)),
    ("readers_see_whole_lengths_while_it_grows", || fresh(readers)),
    ("what_is_full_is_said_and_nothing_is_lost", || fresh(full)),
    ("so_many_files_and_no_more", || fresh(many)),
    ("what_a_program_has_open_ends_with_it", || fresh(ends)),
    ("writers_are_killed_and_the_server_goes_on", || fresh(killed)),
    ("killed_while_a_file_is_copied", || fresh(copied::killed_while_it_is_copied)),
    ("nothing_that_is_passed_breaks_the_server", || fresh(hostile)),
    ("asked_by_messages_and_by_a_line", || fresh(asked)),
];

/// With nothing in `/tmp`, whatever others have left there.
fn fresh(body: fn() -> Outcome) -> Outcome {
    let mut left = files::tree(b"/tmp");
    left.sort_unstable_by_key(|path| core::cmp::Reverse(path.len()));
    for path in left {
        let path = [b"/tmp/", &path[..]].concat();
        match files::remove(&path) {
            Err(Error::IsADirectory) => files::remove_directory(&path),
            other => other,
        }
        .map_err(doing("remove"))?;
    }
    body()
}

const NEW: u64 = how::WRITE | how::CREATE | how::NEW | how::mode(0o644);

fn make(path: &[u8], bytes: &[u8]) -> Result<File, String> {
    let file = File::create(path).map_err(doing("create"))?;
    file.write_all(0, bytes).map_err(doing("write"))?;
    Ok(file)
}

/// All that is in a file, by calls.
fn content(path: &[u8]) -> Result<Vec<u8>, String> {
    let (file, info) = File::open(path, how::READ).map_err(doing("open"))?;
    let mut bytes = alloc::vec![0; info.len as usize + 1];
    let mut at = 0;
    loop {
        match file.read(at as u64, &mut bytes[at..]).map_err(doing("read"))? {
            0 => break,
            n => at += n,
        }
    }
    bytes.truncate(at);
    Ok(bytes)
}

/// Does something on several threads, more than there are processors.
fn together(what: impl Fn(u64) -> Outcome + Send + Sync + 'static) -> Outcome {
    let what = Arc::new(what);
    let found: Arc<Mutex<Vec<Outcome>>> = Arc::new(Mutex::new(Vec::new()));
    let count = threads();
    let spawned: Result<Vec<_>, _> = (0..count)
        .map(|n| {
            let (what, found) = (what.clone(), found.clone());
            let body = move || {
                let outcome = what(n);
                found.lock().push(outcome);
            };
            thread::spawn(body, 0)
        })
        .collect();
    for one in spawned.map_err(doing("thread"))? {
        one.join().map_err(doing("join"))?;
    }
    let found = core::mem::take(&mut *found.lock());
    same!(found.len() as u64, count, "threads that came to their end");
    found.into_iter().collect()
}

fn threads() -> u64 {
    task::processors().count() as u64 + 2
}

fn refusals() -> Outcome {
    make(b"/tmp/file", b"x")?;
    files::make_directory(b"/tmp/dir", 0o755).map_err(doing("mkdir"))?;
    make(b"/tmp/dir/inner", b"")?;
    let open = |path: &[u8], asked| File::open(path, asked).map(|_| ());
    let long_name = [b"/tmp/", &[b'n'; NAME_MAX + 1][..]].concat();
    let long_path = b"/tmp".repeat(PATH_MAX / 4 + 1);
    for (what, got, wanted) in [
        ("a file that is not there", open(b"/tmp/none", how::READ), Error::NotFound),
        ("one in no directory", open(b"/tmp/none/file", NEW), Error::NotFound),
        ("no path", open(b"", NEW), Error::NotFound),
        ("one that is there", open(b"/tmp/file", NEW), Error::Exists),
        ("a directory that is there", files::make_directory(b"/tmp/dir", 0o755), Error::Exists),
        ("a directory as a file", open(b"/tmp/dir", how::READ), Error::IsADirectory),
        ("a directory taken away as a file", files::remove(b"/tmp/dir"), Error::IsADirectory),
        ("a file taken away as a directory", files::remove_directory(b"/tmp/file"), Error::NotADirectory),
        ("what is below a file", open(b"/tmp/file/x", NEW), Error::NotADirectory),
        ("a list of a file", files::list(b"/tmp/file").map(drop), Error::NotADirectory),
        ("a directory with something in it", files::remove_directory(b"/tmp/dir"), Error::NotEmpty),
        ("a directory into itself", files::rename(b"/tmp/dir", b"/tmp/dir/x"), Error::BadArgument),
        ("the root", files::remove_directory(b"/"), Error::BadArgument),
        ("a byte that no name has", open(b"/tmp/a\0b", NEW), Error::BadArgument),
        ("a long name", open(&long_name, NEW), Error::TooBig),
        ("a long path", open(&long_path, NEW), Error::TooBig),
        ("the system's directory", open(b"/bin/mine", NEW), Error::Denied),
        ("the system's file", open(b"/bin/check", how::WRITE), Error::Denied),
        ("the system's file taken away", files::remove(b"/bin/check"), Error::Denied),
        ("the system's modes", files::set_mode(b"/bin/check", 0o777), Error::Denied),
    ] {
        same!(got, Err(wanted), "{what}");
    }
    let (read, _) = File::open(b"/tmp/file", how::READ).map_err(doing("open"))?;
    same!(read.write(0, b"y"), Err(Error::Denied), "writing what is open for reading");
    same!(read.resize(0), Err(Error::Denied), "cutting what is open for reading");
    let (write, _) = File::open(b"/tmp/file", how::WRITE).map_err(doing("open"))?;
    same!(write.read(0, &mut [0]), Err(Error::Denied), "reading what is open for writing");
    same!(write.write(LEN_MAX, b"y"), Err(Error::TooBig), "writing behind the longest file");
    same!(write.write(u64::MAX - 1, b"yyy"), Err(Error::TooBig), "writing behind all numbers");
    same!(write.resize(LEN_MAX + 1), Err(Error::TooBig), "a file that is too long");
    same!(content(b"/tmp/file")?, b"x", "the file after all that");
    Ok(())
}

fn written() -> Outcome {
    const SPARSE: usize = 3 << 20;
    let file = make(b"/tmp/file", b"begin")?;
    // Behind a gap, so far that the file has to move.
    file.write_all(SPARSE as u64, b"end").map_err(doing("write"))?;
    let info = file.status().map_err(doing("status"))?;
    same!(info.len, SPARSE as u64 + 3, "the length");
    let bytes = content(b"/tmp/file")?;
    holds!(bytes.starts_with(b"begin") && bytes.ends_with(b"end"), "both ends");
    holds!(bytes[5..SPARSE].iter().all(|byte| *byte == 0), "the gap is not zero");
    // The same without a call, where it lies.
    let there = section::view(info.section, info.len).ok_or("it cannot be read where it lies")?;
    holds!(there == bytes, "what lies there differs");
    // What is cut off is gone for good.
    file.resize(3).map_err(doing("cut"))?;
    file.resize(10_000).map_err(doing("grow"))?;
    let bytes = content(b"/tmp/file")?;
    holds!(bytes.len() == 10_000 && bytes.starts_with(b"beg\0") && bytes[3..].iter().all(|b| *b == 0), "after a cut");
    // Emptied when it is opened, and only then.
    let (again, info) = File::open(b"/tmp/file", how::WRITE | how::EMPTY).map_err(doing("open"))?;
    same!(info.len, 0, "the length when it is emptied");
    again.append(b"ab").map_err(doing("append"))?;
    file.append(b"cd").map_err(doing("append"))?;
    same!(content(b"/tmp/file")?, b"abcd", "what two have appended");
    files::rename(b"/tmp/file", b"/tmp/other").map_err(doing("rename"))?;
    same!(content(b"/tmp/other")?, b"abcd", "under its new name");
    same!(files::find(b"/tmp/file").err(), Some(Error::NotFound), "its old name");
    Ok(())
}

fn outlives() -> Outcome {
    let before = files::used().map_err(doing("used"))?;
    let file = make(b"/tmp/file", &[7; 100_000])?;
    files::remove(b"/tmp/file").map_err(doing("remove"))?;
    let mut bytes = [0; 4096];
    same!(file.read(90_000, &mut bytes), Ok(4096), "read without a name");
    holds!(bytes == [7; 4096], "what was read");
    same!(file.write(100_000, b"more"), Ok(4), "written without a name");
    holds!(files::used().map_err(doing("used"))? > before, "it takes memory while it is open");
    drop(file);
    same!(files::used(), Ok(before), "frames afterwards");
    Ok(())
}

fn different() -> Outcome {
    const ROUNDS: u64 = 30;
    let outcome = together(|me| {
        let dir = format!("/tmp/{me}");
        files::make_directory(dir.as_bytes(), 0o755).map_err(doing("mkdir"))?;
        for round in 0..ROUNDS {
            let (path, moved) = (format!("{dir}/a{round}"), format!("{dir}/b{round}"));
            let bytes = format!("{me} {round} ").repeat(1000).into_bytes();
            make(path.as_bytes(), &bytes)?;
            files::rename(path.as_bytes(), moved.as_bytes()).map_err(doing("rename"))?;
            holds!(content(moved.as_bytes())? == bytes, "{moved} differs");
            if round % 2 == 0 {
                files::remove(moved.as_bytes()).map_err(doing("remove"))?;
            }
        }
        let left = files::list(dir.as_bytes()).map_err(doing("list"))?;
        same!(left.len() as u64, ROUNDS / 2, "names left in {dir}");
        Ok(())
    });
    same!(files::list(b"/tmp").map(|names| names.len() as u64), Ok(threads()), "directories");
    outcome
}

fn append() -> Outcome {
    const ROUNDS: u64 = 200;
    make(b"/tmp/log", b"")?;
    together(|me| {
        let (file, _) = File::open(b"/tmp/log", how::WRITE).map_err(doing("open"))?;
        (0..ROUNDS).try_for_each(|round| file.append(format!("{me}:{round}\n").as_bytes()).map_err(doing("append")))
    })?;
    let text = String::from_utf8(content(b"/tmp/log")?).map_err(doing("text"))?;
    let mut next = alloc::vec![0; threads() as usize];
    for line in text.lines() {
        let (me, round) = line.split_once(':').ok_or_else(|| format!("a torn line: {line}"))?;
        let me = next.get_mut(me.parse::<usize>().map_err(doing(line))?).ok_or_else(|| format!("whose is {line}?"))?;
        same!(round.parse::<u64>(), Ok(*me), "the line after {me}");
        *me += 1;
    }
    holds!(next.iter().all(|lines| *lines == ROUNDS), "lines: {next:?}");
    Ok(())
}

fn one_of_many() -> Outcome {
    const ROUNDS: u64 = 50;
    let (made, moved) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let (makers, movers) = (made.clone(), moved.clone());
    together(move |me| {
        for round in 0..ROUNDS {
            let (path, mine) = (format!("/tmp/f{round}"), format!("/tmp/m{round}-{me}"));
            match File::open(path.as_bytes(), NEW) {
                Ok(_) => *makers.lock() += 1,
                Err(Error::Exists) => {}
                Err(error) => return Err(format!("create: {error}")),
            }
            match files::rename(path.as_bytes(), mine.as_bytes()) {
                Ok(()) => *movers.lock() += 1,
                Err(Error::NotFound) => {}
                Err(error) => return Err(format!("rename: {error}")),
            }
        }
        Ok(())
    })?;
    // Who makes a file moves it, unless another has done so before; nothing else takes its name away.
    let (made, moved) = (*made.lock(), *moved.lock());
    holds!(made >= ROUNDS, "{made} were made");
    same!(moved, made, "moved");
    same!(files::list(b"/tmp").map(|names| names.len() as u64), Ok(made), "names");
    Ok(())
}

fn readers() -> Outcome {
    const PART: usize = 5000;
    const PARTS: usize = 600;
    make(b"/tmp/file", b"")?;
    together(|me| {
        let (file, _) = File::open(b"/tmp/file", how::READ | how::WRITE).map_err(doing("open"))?;
        if me == 0 {
            return (0..PARTS).try_for_each(|part| {
                file.write_all((part * PART) as u64, &[part as u8; PART]).map_err(doing("write"))
            });
        }
        // On the way it moves to another place, whoever reads.
        let mut bytes = [0; PART];
        while file.status().map_err(doing("status"))?.len < (PART * PARTS) as u64 {
            let len = file.status().map_err(doing("status"))?.len as usize;
            let part = (len / PART).saturating_sub(1);
            let n = file.read((part * PART) as u64, &mut bytes).map_err(doing("read"))?;
            holds!(len < PART || (n == PART && bytes.iter().all(|byte| *byte == part as u8)), "part {part}: {n} bytes");
        }
        Ok(())
    })
}

fn full() -> Outcome {
    const PART: usize = 64 << 10;
    let before = files::used().map_err(doing("used"))?;
    make(b"/tmp/kept", &[1; 3 * PART])?;
    let big = make(b"/tmp/big", b"")?;
    // To the last page.
    let fill = |mut at: u64| {
        let mut part = PART;
        loop {
            match big.write(at, &[2; PART][..part]) {
                Ok(n) => at += n as u64,
                Err(_) if part == PART => part = PAGE as usize,
                Err(error) => return (at, error),
            }
        }
    };
    let (len, why) = fill(0);
    same!(why, Error::Quota, "the refusal after {len} bytes");
    same!(big.status().map(|info| info.len), Ok(len), "the length is that of what was written");
    // A frame or two may be left, which were too few for a page and a table.
    let small = File::create(b"/tmp/small").map_err(doing("create"))?;
    let mut pages = 0;
    let why = loop {
        match small.write(pages * PAGE, b"x") {
            Ok(_) => pages += 1,
            Err(error) => break error,
        }
    };
    same!(why, Error::Quota, "another file");
    holds!(pages < 4, "another file of {pages} pages");
    let end = pages.checked_sub(1).map_or(0, |page| page * PAGE + 1);
    same!(small.status().map(|info| info.len), Ok(end), "its length");
    holds!(content(b"/tmp/kept")?.iter().all(|byte| *byte == 1), "another file has changed");
    let mut last = [0; PART];
    same!(big.read(len - PART as u64, &mut last), Ok(PART), "the end of what was written");
    holds!(last == [2; PART], "the end differs");
    // Pages that were never written are nobody's, and he could not pay for one; so long a file there may be, and it is cut if that is possible.
    let sparse = File::create(b"/tmp/sparse").map_err(doing("create"))?;
    same!(sparse.resize(PAGE + 100), Ok(()), "a file of nothing");
    holds!(matches!(sparse.resize(100), Ok(()) | Err(Error::Quota)), "cutting it in the middle of a page");
    sparse.status().map_err(doing("its status"))?;
    files::remove(b"/tmp/sparse").map_err(doing("remove"))?;
    // Names need nothing of that.
    files::rename(b"/tmp/small", b"/tmp/little").map_err(doing("rename"))?;
    // With room it goes on where it stopped.
    files::remove(b"/tmp/kept").map_err(doing("remove"))?;
    same!(small.write(pages * PAGE, b"x"), Ok(1), "with room");
    let (more, why) = fill(len);
    same!(why, Error::Quota, "the refusal after {more} bytes");
    holds!(more > len, "there was no more room than before");
    big.resize(0).map_err(doing("cut"))?;
    drop((big, small));
    for path in [&b"/tmp/big"[..], b"/tmp/little"] {
        files::remove(path).map_err(doing("remove"))?;
    }
    same!(files::used(), Ok(before), "frames afterwards");
    Ok(())
}

fn many() -> Outcome {
    let name = |n: usize| format!("/tmp/{n:0>200}");
    let mut made = 0;
    let why = loop {
        match File::open(name(made).as_bytes(), NEW) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    same!(why, Error::Quota, "the refusal after {made} files");
    same!(files::make_directory(b"/tmp/dir", 0o755), Err(Error::Quota), "a directory");
    same!(files::list(b"/tmp").map(|names| names.len()), Ok(made), "names");
    files::remove(name(made / 2).as_bytes()).map_err(doing("remove"))?;
    files::make_directory(b"/tmp/dir", 0o755).map_err(doing("mkdir"))?;
    for n in (0..made).filter(|n| *n != made / 2) {
        files::remove(name(n).as_bytes()).map_err(doing("remove"))?;
    }
    same!(files::list(b"/tmp").map(|names| names.len()), Ok(1), "names afterwards");
    Ok(())
}

/// What a check has another program do.
pub fn role(what: &str) -> i32 {
    match what {
        "opens" => opens(),
        _ => writes(what),
    }
}

/// Opens as often as it may, and ends without closing.
fn opens() -> i32 {
    for n in 0..=OPEN_MAX {
        match File::open(b"/tmp/file", how::READ) {
            Ok((file, _)) if n < OPEN_MAX => drop(file.into_number()),
            Err(Error::Quota) if n == OPEN_MAX => return 0,
            _ => return 1,
        }
    }
    1
}

fn ends() -> Outcome {
    let before = files::used().map_err(doing("used"))?;
    make(b"/tmp/file", &[7; 50_000])?;
    for _ in 0..2 {
        let child =
            Command::new(b"bin/check").args(["check", "as", "files", "opens"]).spawn().map_err(doing("start"))?;
        same!(child.wait().map(|exit| exit.code), Ok(0), "how the other program ended");
    }
    files::remove(b"/tmp/file").map_err(doing("remove"))?;
    let until = time::now_ns() + 60_000_000_000;
    while files::used() != Ok(before) && time::now_ns() < until {
        time::sleep_ns(10_000_000);
    }
    same!(files::used(), Ok(before), "frames afterwards");
    Ok(())
}

/// Writes, cuts, moves and removes for ever, on two threads.
fn writes(name: &str) -> i32 {
    let path = format!("/tmp/{name}");
    let moved = format!("{path}-moved");
    let work = move || {
        loop {
            if let Ok(file) = File::create(path.as_bytes()) {
                let _ = file.write_all(0, &[3; 200_000]);
                let _ = file.resize(1000);
            }
            let _ = files::rename(path.as_bytes(), moved.as_bytes());
            let _ = files::list(b"/tmp");
            let _ = files::remove(moved.as_bytes());
        }
    };
    if thread::spawn(work.clone(), 0).is_err() {
        return 1;
    }
    work();
    1
}

fn killed() -> Outcome {
    let before = files::used().map_err(doing("used"))?;
    make(b"/tmp/kept", b"kept")?;
    for round in 0..20u64 {
        let children: Result<Vec<_>, _> = ["a", "b"]
            .into_iter()
            .map(|name| Command::new(b"bin/check").args(["check", "as", "files", name]).spawn())
            .collect();
        let children = children.map_err(doing("start"))?;
        time::sleep_ns(1_000_000 * (round * 7 % 40));
        for child in children {
            child.kill().map_err(doing("kill"))?;
            child.wait().map_err(doing("wait"))?;
        }
        same!(content(b"/tmp/kept")?, b"kept", "another file, in round {round}");
    }
    for name in files::list(b"/tmp").map_err(doing("list"))? {
        files::remove(&[b"/tmp/", &name.name[..]].concat()).map_err(doing("remove"))?;
    }
    let until = time::now_ns() + 60_000_000_000;
    while files::used() != Ok(before) && time::now_ns() < until {
        time::sleep_ns(10_000_000);
    }
    same!(files::used(), Ok(before), "frames afterwards");
    Ok(())
}

fn hostile() -> Outcome {
    let gate = names::lookup("files").map_err(doing("lookup"))?;
    let client = FilesClient::bind_with_args(gate, 64 << 10).map_err(doing("bind"))?;
    let mut record = [0; RECORD];
    for asked in [0, how::CREATE, how::EMPTY | how::READ, how::READ | 1 << 20, how::READ | 1 << 63, u64::MAX] {
        same!(client.open(b"/tmp/x", asked, &mut record), Err(Error::BadArgument), "how {asked:#x}");
    }
    make(b"/tmp/x", b"x")?;
    let mine = client.open(b"/tmp/x", how::READ, &mut record).map_err(doing("open"))?;
    for open in [0, mine + 1, 1 << 40, u64::MAX] {
        same!(client.read(open, 0, &mut [0; 8]), Err(Error::NotFound), "reading {open:#x}");
        same!(client.write(open, 0, b"y"), Err(Error::NotFound), "writing {open:#x}");
        same!(client.resize(open, 1), Err(Error::NotFound), "cutting {open:#x}");
        same!(client.status(open, &mut record), Err(Error::NotFound), "status of {open:#x}");
        same!(client.close(open), Err(Error::NotFound), "closing {open:#x}");
    }
    same!(client.read(mine, u64::MAX, &mut [0; 8]), Ok(0), "behind the end");
    same!(client.read(mine, 0, &mut []), Ok(0), "nothing");
    same!(client.list(b"/tmp", b"", &mut [0; ENTRY]), Err(Error::TooBig), "a list without room");
    same!(client.list(b"/tmp", &[b'x'; NAME_MAX + 1], &mut [0; 64]), Err(Error::TooBig), "a list behind a long name");
    same!(client.close(mine), Ok(()), "closing");
    same!(client.close(mine), Err(Error::NotFound), "closing twice");
    same!(content(b"/tmp/x")?, b"x", "the file after all that");
    Ok(())
}

/// Not only by the gate.
fn asked() -> Outcome {
    let gate = names::lookup("files").map_err(doing("lookup"))?;
    let client = FilesClient::bind_with_args(gate, 64 << 10).map_err(doing("bind"))?;
    let answers = Answers::new().map_err(doing("answers"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    // Several at once, on threads of the server's.
    let mut made = Vec::new();
    for path in [&b"/tmp/a"[..], b"/tmp/b", b"/tmp/none/c"] {
        made.push(posts.make_directory(path, 0o755).map_err(doing("sending"))?);
    }
    let made: Vec<_> = made.into_iter().map(|later| later.wait()).collect();
    same!(made, [Ok(()), Ok(()), Err(Error::NotFound)], "by messages");
    let mut entries = client.alloc(64).map_err(doing("a loan"))?;
    let listed = posts.list(b"/tmp", b"", &mut entries).map_err(doing("sending"))?.wait();
    same!(listed, Ok(2 * (ENTRY as u64 + 1)), "a list by a message");
    let line = FilesClient::bind_itc(gate, 64 << 10).map_err(doing("bind_itc"))?;
    same!(line.remove_directory(b"/tmp/a"), Ok(()), "by a line");
    same!(files::list(b"/tmp").map(|names| names.len()), Ok(1), "names afterwards");
    Ok(())
}
