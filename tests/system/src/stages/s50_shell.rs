//! The shell: its language by command lines, its conversation by a person's keys.

use crate::case::{Case, File, function, sh, words};
use crate::lab::{Failure, Lab};
use crate::screen::Screen;
use crate::session::{PROMPT, Session};
use abi::layout::FIRST_TEXT;
use machine::Options;

pub fn cases() -> Vec<Case> {
    vec![
        sh("pipe_of_three", "echo one two | cat | cat").out("one two\n"),
        sh("pipe_of_programs", "check as bytes out 300000 | cat | cat").out(counted(300_000)),
        sh("pipe_carries_status", "true | false; echo $?; false | true; echo $?").out("1\n0\n"),
        sh("pipe_whose_reader_ends", "check as bytes out 3000000 | true; echo on").out("on\n").err_any(),
        sh("and_or", "true && echo a; false && echo b; false || echo c; true || echo d").out("a\nc\n"),
        sh("status_of_the_last", "false; echo $?; true; echo $?; crash divide; echo $?").out("1\n0\n139\n").err_any(),
        sh("variables", "A=x; echo $A${A}y $B.; env").out_has(&["xxy .\n", "A=x\n"]),
        sh("quotes", "echo 'a  $B' \"c  d\" e\\ f").out("a  $B c  d e f\n"),
        sh("background_and_kill", "spin & sleep 0.2; jobs; kill %1; sleep 0.2; jobs; echo on")
            .out_has(&["[1] spin ended with 137", "on\n"])
            .err_has(&["spin: killed"]),
        sh("killed_is_gone", "spin & sleep 0.2; kill %1; jobs; ps")
            .out_check(|text| {
                text.contains("[1] spin ended with 137\n")
                    && text.matches("[1] spin").count() == 1
                    && text.contains(" shell\n")
                    && !text.contains(" spin\n")
            })
            .err_has(&["spin: killed"]),
        sh("what_is_built_in_runs_beside", "sleep 1000 & A=1 env | cat & sleep 0.5; echo on; kill %1; jobs")
            .out_check(|text| {
                text.contains("A=1\n") && text.contains("on\n") && text.contains("sleep 1000 ended with 137")
            })
            .err("sleep: killed\n"),
        sh("killed_in_a_pipe_is_gone", "spin | cat & sleep 0.2; kill %1; jobs; ps")
            .out_check(|text| {
                text.contains("[1] spin | cat ended with 137\n")
                    && !text.contains(" spin\n")
                    && !text.contains(" cat\n")
            })
            .err_has(&["spin: killed"]),
        sh("time_in_a_pipe", "time check as bytes out 100000 | true; time echo a | true; echo on")
            .out("on\n")
            .err_check(timed),
        sh("limit_in_a_pipe", "echo a | limit threads=64 cat; echo b | time limit threads=64 bin/shell -c cat")
            .out("a\nb\n")
            .err_any(),
        sh("limits_that_are_none", "limit threads=0 hello; echo $?; limit reserve=0 true; echo $?")
            .out("2\n2\n")
            .err_has(&[
                "limit: threads=0: a program needs at least 1\n",
                "limit: reserve=0: a program needs at least 1\n",
            ]),
        sh(
            "killed_behind_limit_and_time",
            "limit frames=3000 spin & time spin & sleep 0.3; kill %1; kill %2; jobs; ps",
        )
        .out_check(|text| {
            text.contains("[1] limit frames=3000 spin ended with 137\n")
                && text.contains("[2] time spin ended with 137\n")
                && text.contains(" shell\n")
                && !text.contains(" spin\n")
        })
        .err_has(&["spin: killed"]),
        sh("killed_with_what_it_started", "bin/shell -c 'spin | spin' & sleep 0.5; ps; kill %1; echo then; ps")
            .out_check(|text| {
                let (before, after) = text.split_once("then\n").unwrap_or_default();
                before.matches(" spin\n").count() == 2 && after.contains(" shell\n") && !after.contains(" spin\n")
            })
            .err_has(&["bin/shell: killed"]),
        sh("sections_of_no_task", "sections 9999").status(1).err("sections: 9999: no such task\n"),
        sh("words_too_many", "mem foo; echo $?; cpus foo; echo $?; tour x; echo $?; ls a b; echo $?")
            .out("2\n2\n2\n2\n")
            .err("mem: usage: mem [-k | -s]\ncpus: usage: cpus\ntour: usage: tour\nls: usage: ls [PATH]\n"),
        sh("variables_of_one_command", "A=1; A=2 B='x y' env | cat; A=3 check as variable A; echo $A$B.")
            .out_check(|text| text.contains("A=2\nB=x y\n") && text.ends_with("A=3\n1.\n")),
        sh("several_assignments", "A=1 B=$A.; echo $A $B").out("1 .\n"),
        sh("patterns", "echo no* /n?t*s 'no*' [a-z]otes x*; cat n*s; A=no; echo $A*")
            .file("notes", "one\n")
            .file("/etc/notes2", "")
            .out("notes /notes no* notes x*\none\nnotes\n"),
        sh("patterns_with_folders", "echo * */notes? /*/no*")
            .file("notes", "")
            .file("/etc/notes2", "")
            .out_check(|text| text.split(' ').any(|word| word == "bin") && text.ends_with(" etc/notes2 /etc/notes2\n")),
        sh("what_is_not_there_is_refused", "(echo a)").status(2).err(
            "shell: `(`: subshells and functions are not there \
             yet (quote it if you mean it)\n",
        ),
        sh("if_is_refused", "echo before; if true; then echo a; fi").status(2).err_has(&["shell: `if`: not there"]),
        sh("backticks_are_refused", "echo `echo a`").status(2).err_has(&["shell: ```: commands within"]),
        words("words_are_not_assignments", &["A=1", "env"]).status(127).err_has(&["A=1: not found"]),
        sh("empty_commands", ";; echo on ; ;").out("on\n"),
        sh("open_quote", "echo 'open").status(2).err_has(&["shell: "]),
        sh("ps_says_what_is_special", "check as attack unclear 5000 & check as asks-its-pager 5000 & sleep 1; ps")
            .out_has(&[
                "made\n",
                " has a pager for its threads: 0x",
                " 3\n",
                " is called by the kernel: its text 0x",
                " could write the key register, in the page at 0x",
            ])
            .matrix(),
        sh("ps_shows_programs", "spin & sleep 0.1; ps").out_has(&["loader", "shell", "spin"]),
        sh("ps_shows_the_time_of_who_runs_alone", "spin & sleep 3; ps; echo then; ps -t")
            .out_check(ran_for_seconds)
            .cpus(2),
        sh("what_it_may_not_is_said", &may_not()).out("1\n1\n1\n").err_check(said_what_it_may_not),
        sh(
            "batch",
            "sh lines; echo $? $A.; . lines; echo $? $A.; sh lines | cat; sh none; echo $?; sh nothing; echo $?",
        )
        .file("lines", "#!bin/shell\n# nothing\nA=1 # two\necho $A &&\n  echo 'b\nc'\necho d \\\ne\nfalse")
        .file("nothing", "")
        .out("1\nb\nc\nd e\n1 .\n1\nb\nc\nd e\n1 1.\n1\nb\nc\nd e\n127\n0\n")
        .err("none: not found\n"),
        sh("batch_says_where", ". again; echo $?; sh lines; echo $?; . lines; echo on")
            .file("lines", "true\n\nnothere\ncat nofile\necho 'a\nb' > /no/way/x\necho )\nsleep x y\nexit 7")
            .file("again", ". again\n")
            .out("2\n7\n")
            .status(7)
            .err_check(says_where),
        sh(
            "batch_has_words",
            "sh words one 'two  three' four '*'; . words x; echo $# $0 -$1$@$*-.; A=no; do/it $A '' \"$@\"",
        )
        .file("words", WORDS)
        .file("count", "echo $0 $#: $1; shift; echo $1")
        .file("share", "shift")
        .program("do/it", "#!bin/shell\nA=$@; echo $# -$A-; shift; echo $# -$@-\n")
        .out(WORDS_SHOWN)
        .err("words:4: shift: 3: more than there are words (1)\n"),
        sh("words_have_numbers", "echo before; echo ${1a}").status(2).err_check(|err| {
            err.lines().count() == 1 && err.starts_with("shell: `${1a}`: only a name or a number can stand")
        }),
        sh(
            "shift_takes_no_more_than_there_is",
            "shift; echo $?; shift 0; echo $?; shift x; echo $?; shift -1; echo $?",
        )
        .out("1\n0\n2\n2\n")
        .err("shift: 1: more than there are words (0)\nshift: usage: shift [COUNT]\nshift: usage: shift [COUNT]\n"),
        sh(
            "batch_is_a_program",
            "do/it; echo $?; do/other; echo $?; do/bad; echo $?; cat do/not | sh; do/not; echo $?",
        )
        .program("do/it", "#!bin/shell\necho it; exit 3\n")
        .program("do/other", "#! /bin/sh\necho other | cat\n")
        .program("do/bad", "#!bin/nothing\n")
        .file("do/not", "echo read\n")
        .out("it\n3\nother\n0\n127\nread\n126\n")
        .err_any(),
        sh(
            "debug_shows_where_a_program_faulted",
            "debug crash divide; echo $?; debug hello > /dev/null || debug true; echo $?",
        )
        .out("139\n0\n")
        .err_check(|err| {
            let all = [
                "debug: thread ",
                "exception 0x0, cause 3, at 0x",
                "crash+0x",
                " in crash::",
                "  rax 0000000000000001  rbx ",
                "called by\n  0x",
                "stack\n  0x",
            ];
            all.iter().all(|part| err.contains(part)) && err.contains("crash: fault: division by zero")
        }),
        sh("inspect_shows_registers", "spin & sleep 0.5; inspect %1; kill %1; inspect thread:1; inspect %2")
            .status(1)
            .out_check(|out| {
                let all = [
                    "thread ",
                    ", called by 0 others",
                    "stopped at 0x",
                    " = spin+0x",
                    " in spin::",
                    "  rax ",
                    "  r12 ",
                    "its registers: no right over thread 1, by (thread ",
                ];
                all.iter().all(|part| out.contains(part))
            })
            .err_has(&["inspect: %2: no such job"]),
        sh("inspect_asks_for_rights", &inspects())
            .out_check(|text| {
                let lines: Vec<&str> = text.lines().collect();
                lines.len() == 6
                    && lines[5].starts_with("its registers: no right over thread 1, by (thread ")
                    && lines[0].contains(" = first text+0x0: text, owner task ")
                    && lines[1].starts_with("0")
                    && lines.iter().any(|line| line.starts_with("thread ") && line.contains(" of task "))
            })
            .err_has(&["inspect: 0x8: ", "inspect: usage: inspect ADDRESS [BYTES] | thread:N | task:N | %JOB"]),
        sh("lines_of_ten_tasks", "check as ten-writers 300 1")
            .out_check(|out| whole_lines(out, 3000, 1))
            .timeout(200)
            .spread(),
        sh("lines_in_pieces", "check as ten-writers 40 3")
            .out_check(|out| whole_lines(out, 400, 3))
            .cpus(1)
            .icount()
            .timeout(200),
        sh("lines_of_threads", "check as writing-threads 100 3")
            .out_check(|out| whole_lines(out, 400, 3))
            .timeout(200)
            .spread(),
        sh("half_a_line_is_not_lost", "check as half-line; check as half-line; echo on").out("halfhalfon\n"),
        function("lines_of_programs_and_of_the_log", lines_and_the_log),
        function("lines_on_a_terminal", lines_on_a_terminal),
        function("prompt", prompt),
        function("at_the_screen", at_the_screen),
        function("line_editing", line_editing),
        function("history", history),
        function("interrupt_ends_a_program", interrupt),
        function("interrupt_ends_what_was_started", interrupt_below),
        function("end_of_input_gives_another_shell", another_shell),
    ]
}

/// Words are one each, whatever is in them; a file that is given none shares those of who runs it, and takes away from them.
const WORDS: &str =
    "echo $0 $#: $1,${2}0,-$5$10-. $*\n. count $@\n. count a$@\\z\nshift 3; echo $# \"$1\"\n. share; echo $#\n";
const WORDS_SHOWN: &str = "words 4: one,two  three0,-one0-. one two  three four *
count 4: one
two  three
count 4: aone
two  three
1 *
0
words 1: x,0,-x0-. x
count 1: x

count 1: axz

1 x
0
0 shell --.
2 -no -
1 --
";

/// The text of the first task is the first section; neither is the shell's to change.
fn may_not() -> String {
    let text = FIRST_TEXT;
    format!("acl {text:#x} set any any r; echo $?; acl {text:#x} set task:7 {text:#x} -; echo $?; kill 1; echo $?")
}

/// Both tables say so of `spin` and its thread.
fn ran_for_seconds(text: &str) -> bool {
    let seconds =
        |word: &str| word.strip_suffix('s').is_some_and(|number| number.parse::<f64>().is_ok_and(|n| n >= 1.0));
    let spin = |table: &str| table.lines().any(|line| line.ends_with(" spin") && line.split(' ').any(seconds));
    text.split_once("then\n").is_some_and(|(tasks, threads)| spin(tasks) && spin(threads))
}

/// Two lines of `time`, and no others.
fn timed(err: &str) -> bool {
    err.lines().count() == 2 && err.lines().all(|line| line.ends_with(" ticks of the processor)"))
}

/// What is missing, on what, and whose it would have to be: the shell's, by name.
fn said_what_it_may_not(err: &str) -> bool {
    let acl = format!("acl: {FIRST_TEXT:#x}: no right change-acl on section first text {FIRST_TEXT:#x}, by (thread ");
    let wanted = [&acl, &acl, "kill: 1: no right over task 1, by (thread "];
    let lines: Vec<&str> = err.lines().collect();
    let by = |rest: &str| rest.split_once(", text shell 0x").is_some_and(|(thread, _)| thread.parse::<u64>().is_ok());
    lines.len() == wanted.len()
        && lines.iter().zip(wanted).all(|(line, start)| line.strip_prefix(start).is_some_and(by))
}

/// What `check as bytes out N` prints.
fn counted(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 256) as u8 ^ (n / 256) as u8).collect()
}

fn off(session: Session) -> Result<(), Failure> {
    match session.power_off()? {
        Some(0) => Ok(()),
        other => Err(Failure::Failed(format!("./musubi run ended with {other:?} after poweroff"))),
    }
}

fn prompt(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let mut session = Session::start(lab, &[])?;
    session.line("echo hello", &["hello"])?;
    session.line("no-such-program", &["no-such-program: not found"])?;
    session.line("hello x | cat", &["argument 1: x"])?;
    off(session)
}

fn line_editing(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let mut session = Session::start(lab, &["--cpus", "1"])?;
    const LEFT: &str = "\x1b[D";
    for (keys, answer) in [
        (format!("echo wrld{LEFT}{LEFT}{LEFT}o"), "world"),
        ("echo wrongg\x7f\x08g".into(), "wrong"),
        ("cho begin\x01e".into(), "begin"),
        ("echo keep these\x01\x06\x06\x06\x06\x06\x06\x06\x06\x06\x0b".into(), "keep"),
        ("echo not this\x15echo but this".into(), "but this"),
        ("echo two words\x17one".into(), "two one"),
        ("echo ab\x1b[H\x1b[F!".into(), "ab!"),
        ("echo x\x1b[D\x1b[3~y".into(), "y"),
        ("echo \u{e4}\u{f6}\x7f\u{fc}".into(), "\u{e4}\u{fc}"),
        // Cancelled, and begun anew.
        ("echo not\x03echo anew".into(), "anew"),
    ] {
        session.line(&keys, &[answer])?;
    }
    off(session)
}

fn history(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let mut session = Session::start(lab, &[])?;
    session.line("echo first", &["first"])?;
    session.line("echo second", &["second"])?;
    session.line("\x1b[A\x1b[A", &["first"])?;
    session.line("\x10\x10\x10\x0e", &["second"])?;
    session.line("history", &[])?;
    off(session)
}

/// `^C` ends what runs in the foreground, and only that.
fn interrupt(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let mut session = Session::start(lab, &[])?;
    session.line("spin &", &[])?;
    for program in ["spin", "crash loop", "spin | cat", "sleep 1000", "cat", "cat | cat", "time sleep 1000"] {
        session.keys(&format!("{program}\r"))?;
        // Until it runs: before that, `^C` meets the shell.
        std::thread::sleep(std::time::Duration::from_millis(1000));
        session.keys("\x03")?;
        session.expect(": killed\n")?;
        session.line("echo still here", &["still here"])?;
    }
    session.keys("jobs\r")?;
    session.expect("[1] spin")?;
    session.expect(PROMPT)?;
    off(session)
}

/// And what that has started.
fn interrupt_below(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let mut session = Session::start(lab, &["--put", "/bin/busybox"])?;
    session.keys("bin/shell -c 'hello below; spin'\r")?;
    session.expect("argument 1: below\n")?;
    std::thread::sleep(std::time::Duration::from_millis(1000));
    session.keys("\x03")?;
    session.expect("bin/shell: killed")?;
    session.expect(PROMPT)?;
    // How many lines end with its name.
    session.line("ps | busybox grep -c ' spin$'", &["0"])?;
    off(session)
}

fn another_shell(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let mut session = Session::start(lab, &[])?;
    session.line("A=here; echo $A", &["here"])?;
    session.keys("\x04")?;
    session.expect(PROMPT)?;
    session.line("echo $A.", &["."])?;
    off(session)
}

/// The file and the line of each command of `batch_says_where` that goes wrong, whoever runs it.
fn says_where(err: &str) -> bool {
    let wanted = [
        "lines:3: nothere: not found",
        "lines:4: cat: ",
        "lines:5: shell: /no/way/x",
        "lines:7: shell: ",
        "lines:8: sleep: usage",
    ];
    wanted.iter().all(|line| err.matches(line).count() == 2) && err.contains("again:1: again: 16 files run each other")
}

/// An address that nobody has, one that has something, a thread, and nonsense.
fn inspects() -> String {
    format!("inspect {FIRST_TEXT:#x} 1; inspect 8; inspect; inspect thread:1")
}

/// So many lines, and in each the same writer and number as often as it has pieces.
fn whole_lines(out: &str, count: usize, pieces: usize) -> bool {
    let whole = |line: &&str| {
        let first = line.split_inclusive('>').next().unwrap_or_default();
        !first.is_empty() && **line == first.repeat(pieces)
    };
    out.lines().count() == count && out.lines().filter(whole).count() == count
}

/// SSS-22: ten programs and the kernel write to one port, on four processors. No line is torn, and none is lost.
fn lines_and_the_log(lab: &Lab, _: &Options) -> Result<(), Failure> {
    const LINES: usize = 30;
    const OF_THE_LOG: usize = 200;
    let driver = lab.folder(&[File::Ours { program: "own-driver", guest: "bin/keyboard" }])?;
    let put = format!("{}:bin/keyboard", driver.path("bin/keyboard").display());
    let mut session = Session::start(lab, &["--cpus", "4", "--put", &put])?;
    session.keys(&format!("check as writers-and-the-log {LINES} 1 {OF_THE_LOG}; echo ended with $?\r"))?;
    session.expect("$?\u{1b}[K\n")?;
    let from = session.seen();
    session.expect("\nended with 0")?;
    session.expect(PROMPT)?;
    let shown = session.shown_since(from);
    let (log, others): (Vec<&str>, Vec<&str>) = shown.lines().partition(|line| line.starts_with('['));
    let writers =
        others.iter().filter(|line| line.starts_with('<') && line.ends_with('>') && line.matches('<').count() == 1);
    let numbers = log.iter().filter_map(|line| {
        let (_, said) = line.split_once("] own-driver says line ")?;
        said.strip_suffix(", and some more of it, so that there is something to be torn")?.parse::<usize>().ok()
    });
    let (writers, numbers) = (writers.count(), numbers.collect::<Vec<_>>());
    let is_whole = writers == 10 * LINES && numbers.iter().copied().eq(0..OF_THE_LOG);
    ensure_shown(is_whole, &format!("{writers} lines of programs, {} of the log", numbers.len()), shown)?;
    off(session)
}

fn ensure_shown(holds: bool, what: &str, shown: &str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure::Failed(format!("{what}:\n{shown}"))) }
}

/// What programs write in the middle of a line is there at once, and stays; who else writes does so on a line of his own.
fn lines_on_a_terminal(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let mut session = Session::start(lab, &[])?;
    session.keys("check as half-line\r")?;
    session.expect("\nhalf")?;
    session.expect(PROMPT)?;
    // In the background somebody prints while somebody is asked.
    session.keys("check as late-writer &\r")?;
    session.expect(PROMPT)?;
    session.keys("check as ask\r")?;
    session.expect("\nname? ")?;
    session.keys("bo")?;
    session.expect("bo")?;
    session.expect("\n<7 0 ")?;
    session.keys("b\r")?;
    session.expect("hello bob\n")?;
    session.expect("musubi> ")?;
    off(session)
}

/// SSS-70: on the machine's own screen, with its own keyboard. One processor, and a program that never gives it up.
fn at_the_screen(lab: &Lab, _: &Options) -> Result<(), Failure> {
    const EMPTY: &str = "musubi>";
    let mut screen = Screen::start(lab, &["--cpus", "1"])?;
    screen.expect(&["Musubi. An address is enough: try `tour`, or `help`.", EMPTY])?;
    screen.types("echo some words")?;
    screen.expect(&["musubi> echo some words", "some words", EMPTY])?;
    // Beside the prompt, and in front of it.
    screen.types("spin & echo goes on")?;
    screen.expect(&["goes on", EMPTY])?;
    screen.types("spin")?;
    screen.expect(&["musubi> spin"])?;
    screen.press(&["ctrl-c"])?;
    screen.expect(&["spin: killed", EMPTY])?;
    screen.types("echo $?")?;
    screen.expect(&["137", EMPTY])?;
    screen.types("kill %1")?;
    screen.expect(&["[1] spin ended with 137", EMPTY])
}
