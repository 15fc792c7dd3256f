//! Where texts are executed (docs/decisions/0018).

use super::processes::class_word;
use super::table::{Table, time};
use super::{misused, text};
use crate::io::Io;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::section::{class, kind};
use musubi::command::Command;
use musubi::rt::section;
use musubi::{Error, ended, why};

pub fn place(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let rest: Vec<&str> = words[1..].iter().map(|word| text(word)).collect();
    let outcome = match rest.as_slice() {
        [] => {
            table(io);
            Ok(0)
        }
        ["--run", class, program, ..] => {
            let (class, group) = class.split_once(':').unwrap_or((class, ""));
            match wanted(class, group) {
                Some(wanted) => run(program, &words[3..], wanted, io),
                None => return misused(words, io),
            }
        }
        [server, class, group @ ..] if group.len() < 2 => {
            let Some((class, group)) = wanted(class, group.first().unwrap_or(&"")) else { return misused(words, io) };
            let placed = musubi::servers::place(server, class, group).map(|()| 0);
            placed.map_err(|e| match e {
                Error::NotFound => format!("{server}: there is no such server"),
                e => format!("{server}: {}", why(e)),
            })
        }
        _ => return misused(words, io),
    };
    outcome.unwrap_or_else(|why| {
        io.complain("place", format_args!("{why}"));
        1
    })
}

/// A class and the name of a group, of up to eight letters; none: the text by itself.
fn wanted(class: &str, group: &str) -> Option<(u64, u64)> {
    let class = class::named(class)?;
    let mut name = [0; 8];
    name.get_mut(..group.len())?.copy_from_slice(group.as_bytes());
    let group = u64::from_le_bytes(name);
    (group == 0 || class == class::NSYS).then_some((class, group))
}

fn run(program: &str, words: &[Vec<u8>], (class, group): (u64, u64), io: &Io) -> Result<i32, String> {
    let path = crate::shell::find(program.as_bytes()).ok_or_else(|| format!("{program}: not found"))?;
    let mut command = Command::new(&path).args(words).placed(class, group);
    for (i, stream) in io.streams().into_iter().enumerate() {
        command = command.stream(i, stream);
    }
    let child = command.spawn().map_err(|refused| format!("{program}: cannot be run: {refused}"))?;
    let how = child.wait().map_err(|e| format!("{program}: {}", why(e)))?;
    let said = ended::describe(&how, ended::section_name);
    if !said.is_empty() {
        io.complain(program, format_args!("{said}"));
    }
    Ok(ended::status(&how))
}

/// Texts that are not in user mode, and how long NSys ones have kept processors.
fn table(io: &mut Io) {
    let heads = ["text", "task", "class", "group", "long runs", "longest", "name"];
    let mut table = Table::new(&heads, &[1, 4, 5]);
    for one in section::list().filter(|one| one.kind == kind::TEXT && one.placed.class != class::PUSR) {
        let placed = one.placed;
        let bytes = placed.group.to_le_bytes();
        let group = match core::str::from_utf8(&bytes).map(|name| name.trim_end_matches('\0')) {
            _ if placed.group == 0 => String::from("-"),
            _ if placed.group == one.base => String::from("itself"),
            Ok(name) => String::from(name),
            Err(_) => format!("{:#x}", placed.group),
        };
        table.row([
            format!("{:#x}", one.base),
            format!("{}", one.owner),
            format!("{}{}", class_word(placed.class), if placed.lost != 0 { " (was nsys)" } else { "" }),
            group,
            format!("{}", placed.long_runs),
            time(placed.longest_ns),
            ended::text(&one.name),
        ]);
    }
    table.print(io);
}

#[cfg(test)]
mod tests {
    use super::wanted;

    #[test]
    fn classes_and_groups() {
        assert_eq!((wanted("psys", ""), wanted("pusr", "")), (Some((1, 0)), Some((0, 0))));
        assert_eq!(wanted("nsys", "io"), Some((2, u64::from_le_bytes(*b"io\0\0\0\0\0\0"))));
        assert_eq!([wanted("psys", "io"), wanted("ksys", ""), wanted("nsys", "longerthan8")], [None; 3]);
    }
}
