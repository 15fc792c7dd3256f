use super::*;

const BENCH: Bench = Bench {
    name: "sizes",
    about: "a call and back",
    timeout: std::time::Duration::ZERO,
    cpus: 1,
    also_cpus: &[],
    untold: false,
    mem: "512M",
    limits: &[],
};

fn figure(system: &str, case: &str, bytes: u64, way: &str, unit: &str, value: u64) -> Figure {
    Figure {
        bench: "sizes".into(),
        case: case.into(),
        bytes,
        system: system.into(),
        way: way.into(),
        cpus: 1,
        unit: unit.into(),
        value,
        min: value,
        max: value,
        n: 10,
        source: Source::Measured,
    }
}

fn ours() -> Vec<Figure> {
    let own = |case, bytes, unit, value| figure(MUSUBI, case, bytes, "epc-s", unit, value);
    vec![
        own("NullProc", 0, "instructions", 800),
        own("NullProc/there", 0, "instructions", 300),
        own("NullProc/back", 0, "instructions", 500),
        own("NullProc", 0, count::ENTRIES, 2),
        own("NullProc", 0, count::LOCKED, 17),
        own("ArgNoRtn", 8192, "instructions", 1000),
    ]
}

/// The cells of the first row that begins like this, behind a heading.
fn row<'t>(text: &'t str, heading: &str, beginning: &str) -> Vec<&'t str> {
    let part = &text[text.find(heading).unwrap_or_else(|| panic!("no {heading:?} in {text}"))..];
    let line = part.lines().find(|line| line.starts_with(beginning));
    line.unwrap_or_else(|| panic!("no {beginning:?} in {part}")).split_whitespace().collect()
}

#[test]
fn a_pager_that_supplies_is_compared_with_one_that_does() {
    let of = |system, way, value| figure(system, "round-trip", 0, way, "instructions", value);
    let theirs = [of("linux-best", "sigsegv+mprotect", 90), of("linux-best", "userfaultfd", 170)];
    let figures = [&[of(MUSUBI, "validate", 15), of(MUSUBI, "supply", 40)][..], &theirs].concat();
    let text = Table { bench: &BENCH, figures: &figures, papers: &[], wall: &[] }.to_string();
    assert_eq!(row(&text, "case", "round-trip      0  validate")[4..7], ["90", "(sigsegv+mprotect)", "6.0"], "{text}");
    assert_eq!(row(&text, "case", "round-trip      0  supply")[4..7], ["170", "(userfaultfd)", "4.2"], "{text}");
}

#[test]
fn every_figure_has_its_column() {
    let papers = Paper::all().unwrap();
    let mut figures = ours();
    figures.extend(papers[0].beside(&figures).unwrap());
    figures.push(figure("linux-best", "NullProc", 8192, "pipe", "instructions", 11222));
    figures.push(figure("linux-best", "NullProc", 8192, "shm+futex", "instructions", 8000));
    figures.push(figure("linux-default", "ArgNoRtn", 8192, "pipe", "instructions", 18727));
    figures.push(figure("linux-default", "ArgNoRtn", 64, "pipe", "instructions", 5));
    let text = Table { bench: &BENCH, figures: &figures, papers: &papers, wall: &[] }.to_string();

    let head = ["case", "bytes", "way", "musubi", "linux-best", "ratio", "linux-default", "ratio", "paper"];
    assert_eq!(row(&text, "sizes:", "case"), head);
    let cells = row(&text, "sizes:", "NullProc");
    assert_eq!(cells[..9], ["NullProc", "0", "epc-s", "800", "8000", "(shm+futex)", "10.0", "-", "-"]);
    assert_eq!(cells[9..], ["0.163", "ms", "(cubix386", "epc-s)"]);
    let cells = row(&text, "sizes:", "ArgNoRtn");
    assert_eq!(cells[..9], ["ArgNoRtn", "8192", "epc-s", "1000", "-", "-", "18727", "(pipe)", "18.7"]);

    let cells = row(&text, "Which step", "NullProc");
    assert_eq!(cells[3..], ["there", "300", "(38", "%),", "back", "500", "(62", "%)"]);
    assert_eq!(row(&text, "What else", "case")[3..], count::ALL);
    assert_eq!(row(&text, "What else", "NullProc")[3..], ["2", "-", "-", "-", "-", "-", "-", "17", "-", "-", "-"]);
    assert!(text.contains("i486DX2-66") && text.contains("Okamoto"), "{text}");
}

#[test]
fn sizes_are_columns_and_every_way_has_its_row() {
    let papers = Paper::all().unwrap();
    let mut figures = Vec::new();
    for (bytes, more) in [(64, 0), (8192, 0), (1 << 20, 5)] {
        let own = |unit, value| figure(MUSUBI, "ArgNoRtn", bytes, "itc-initial", unit, value);
        figures.extend([own("instructions", 1000 + more), own(count::COPIED, more)]);
    }
    let step = |step: &str| figure(MUSUBI, &format!("ArgNoRtn/{step}"), 8192, "itc-initial", "instructions", 100);
    figures.extend((1..6).flat_map(|n| [step(&format!("caller {n}")), step(&format!("kernel {n}"))]));
    figures.extend(papers[0].beside(&figures).unwrap());
    for (way, value) in [("pipe", 9000), ("pipe-other", 8000), ("udp-other", 30000)] {
        figures.push(figure("linux-best", "ArgNoRtn", 8192, way, "instructions", value));
        figures.push(figure("linux-best", "ArgNoRtn", 64, way, "instructions", 7000));
    }
    let text = Table { bench: &BENCH, figures: &figures, papers: &papers, wall: &[] }.to_string();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let row = |way: &str, system: &str| {
        let found: Vec<_> = rows.iter().filter(|row| row.len() > 3 && row[1..3] == [way, system]).collect();
        assert_eq!(found.len(), 1, "{way} of {system} in {text}");
        found[0][3..].to_vec()
    };
    assert_eq!(rows[3][..6], ["case", "way", "system", "64", "8192", "1048576"]);
    assert_eq!(row("itc-initial", MUSUBI), ["1000", "1000", "1005", "8.0", "-", "0.902", "ms", "(cubix386", "itc)"]);
    assert_eq!(row("pipe", "linux-best")[..5], ["7000", "8000*", "-", "-", "-"]);
    assert_eq!(row("udp", "linux-best")[..3], ["7000*", "30000*", "-"]);
    assert_eq!(row("udp", "linux-best")[5..], ["3.180", "ms", "(bsd/386-1.1", "udp)"]);
    // What was published stands under its size, ours or not.
    assert_eq!(row("mig", "mach-2.5"), ["-", "1.210", "-", "-", "-", "ms"]);
    assert_eq!(row("itc", "cubix386"), ["-", "0.902", "-", "-", "-", "ms"]);
    assert!(text.contains("are of 8192 bytes, or of the least"), "{text}");
    // More is told of one size, of many steps by whom they are.
    let steps: Vec<_> = text.lines().filter(|line| line.contains(" %)")).collect();
    assert!(matches!(&steps[..], [one] if one.contains("caller 500 (50 %), kernel 500 (50 %)")), "{text}");
    let counted = &text[text.find("What else").unwrap()..];
    assert_eq!(counted.lines().filter(|line| line.starts_with("ArgNoRtn")).count(), 1, "{text}");
}

/// SSS-M3, SSS-M4: a row for each way of the paper's, which had real pages by the full entry.
#[test]
fn the_papers_numbers_stand_under_their_sizes() {
    let papers = Paper::all().unwrap();
    let own = |case, bytes, value| figure(MUSUBI, case, bytes, "light", "instructions", value);
    let mut figures = vec![own("page_invalidate", 4096, 297), own("page_invalidate", 65536, 609)];
    let real = [(4096, 1930), (16384, 3725), (65536, 11881), (262_144, 49392), (1 << 20, 207_396)];
    figures.extend(real.map(|(bytes, value)| own("alloc+free", bytes, value)));
    figures.push(figure(MUSUBI, "alloc+free", 2 << 20, "light-large", "instructions", 331_128));
    let ours = figures.clone();
    papers.iter().for_each(|paper| figures.extend(paper.beside(&ours).unwrap()));
    let text = Table { bench: &BENCH, figures: &figures, papers: &papers, wall: &[] }.to_string();
    let rows: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let count = |row: &str| rows.iter().filter(|one| *one == row).count();
    for expected in [
        "case way system 4096 65536 to linux-best to linux-default paper",
        "page_invalidate light musubi 297 609 - - 6100 nanoseconds (sss-core light)",
        "page_invalidate light sss-core 6100 25910 - - nanoseconds",
        "case way system 4096 16384 65536 262144 1048576 2097152 to linux-best to linux-default paper",
        "alloc+free light musubi 1930 3725 11881 49392 207396 - - - 43400 nanoseconds (sss-core full)",
        "alloc+free light-large musubi - - - - - 331128 - - -",
        "alloc+free full sss-core 43400 49270 72680 159430 530260 - - - nanoseconds",
    ] {
        assert_eq!(count(expected), 1, "{expected}\n{text}");
    }
    assert_eq!(rows.iter().filter(|one| one.contains(" sss-core ")).count(), 2, "{text}");
    assert!(text.contains("table 3: memory acquired and returned"), "{text}");
}

/// A way that was measured on two machines has two rows, whichever of them took less. What the peer and the papers took on one processor stands beside
/// that of one.
#[test]
fn machines_are_told_apart() {
    let papers = Paper::all().unwrap();
    let on =
        |cpus, way, bytes, value| Figure { cpus, ..figure(MUSUBI, "page_validate", bytes, way, "instructions", value) };
    let mut figures = vec![
        on(1, "light", 4096, 268),
        on(1, "light", 65536, 528),
        on(3, "light", 4096, 267),
        on(3, "light", 65536, 516),
        on(3, "light-2-processors", 4096, 266),
    ];
    let ours = figures.clone();
    papers.iter().for_each(|paper| figures.extend(paper.beside(&ours).unwrap()));
    figures.push(figure("linux-best", "page_validate", 4096, "mprotect", "instructions", 2680));
    let wall: Vec<Figure> =
        ours.iter().map(|own| Figure { unit: "nanoseconds".into(), value: 10 * own.value, ..own.clone() }).collect();
    let text = Table { bench: &BENCH, figures: &figures, papers: &papers, wall: &wall }.to_string();
    let rows: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "case way cpus system 4096 65536 to linux-best to linux-default paper",
        "page_validate light 1 musubi 268 528 10.0 - 6140 nanoseconds (sss-core light)",
        "page_validate light 3 musubi 267 516 - - -",
        "page_validate light-2-processors 3 musubi 266 - - - -",
        "page_validate mprotect 1 linux-best 2680 - - - -",
        "page_validate light 1 sss-core 6140 28740 - - nanoseconds",
        // And by the clock.
        "page_validate light 1 musubi 2680 5280 - - 268 -",
        "page_validate light 3 musubi 2670 5160 - - 267 -",
    ] {
        assert_eq!(rows.iter().filter(|one| *one == expected).count(), 1, "{expected}\n{text}");
    }
}

/// By each way, of the size that is shown; where nothing is counted there is no row.
#[test]
fn what_was_counted_of_a_peer_stands_behind_ours() {
    let mut figures = ours();
    figures.push(figure(MUSUBI, "ArgNoRtn", 64, "epc-s", "instructions", 1000));
    let theirs = |way, bytes, value, entries| {
        let of = |unit, value| figure("linux-best", "ArgNoRtn", bytes, way, unit, value);
        [of("instructions", value), of(count::ENTRIES, entries), of(count::COPIED, 2 * bytes)]
    };
    figures.extend(theirs("pipe", 64, 9000, 5));
    figures.extend(theirs("pipe", 8192, 9000, 6));
    figures.extend(theirs("pipe-other", 8192, 8000, 4));
    figures.push(figure("linux-default", "ArgNoRtn", 8192, "udp", "instructions", 30000));
    figures.push(figure(MUSUBI, "ArgNoRtn", 8192, "epc-s", count::COPIED, 7));
    let text = Table { bench: &BENCH, figures: &figures, papers: &[], wall: &[] }.to_string();
    let counted: Vec<Vec<&str>> =
        text[text.find("What else").unwrap()..].lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(counted[0][..5], ["case", "bytes", "way", "system", "kernel-entries"], "{text}");
    assert_eq!(counted[1][..6], ["NullProc", "0", "epc-s", MUSUBI, "2", "-"], "{text}");
    assert_eq!(counted[2][..4], ["ArgNoRtn", "8192", "epc-s", MUSUBI], "{text}");
    assert_eq!(counted[3][..6], ["ArgNoRtn", "8192", "pipe*", "linux-best", "4", "-"], "{text}");
    assert_eq!((counted[2][10], counted[3][10]), ("7", "16384"), "{text}");
    assert!(counted[4][0] == "-:" && text.contains("*: under the default policy"), "{text}");
}

#[test]
fn another_unit_is_not_compared() {
    let mut figures = ours();
    figures.push(figure("linux-best", "ArgNoRtn", 8192, "pipe", "cycles", 5));
    let text = Table { bench: &BENCH, figures: &figures, papers: &[], wall: &[] }.to_string();
    assert_eq!(row(&text, "sizes:", "ArgNoRtn")[4..], ["-", "-", "-", "-", "-"]);
}

#[test]
fn a_published_limit_is_shown_as_one() {
    let papers = Paper::all().unwrap();
    let mut figures = vec![figure(MUSUBI, "NullProc", 0, "epc-h", "instructions", 80)];
    figures.extend(papers[0].beside(&figures).unwrap());
    let text = Table { bench: &BENCH, figures: &figures, papers: &papers, wall: &[] }.to_string();
    assert!(text.contains("< 0.001 ms (cubix386 epc-h)"), "{text}");
}

#[test]
fn the_papers_comparisons_stand_beside_ours() {
    let mut figures = Vec::new();
    for (case, way, cpus, value) in [
        ("ping-pong", "pool", 1, 880),
        ("ping-pong", "rendezvous", 1, 800),
        ("ping-pong-without-clock", "pool", 1, 1000),
        ("ping-pong-with-clock", "pool", 1, 1100),
        ("ping-pong-with-clock", "pool", 2, 5000),
        ("ping-pong-with-clock", "pool", 8, 1111),
    ] {
        figures.push(Figure { cpus, ..figure(MUSUBI, case, 48, way, "instructions", value) });
    }
    let papers = Paper::all().unwrap();
    let of_k1 = papers.iter().find(|paper| paper.source.contains("K1")).unwrap();
    figures.extend(of_k1.beside(&figures).unwrap());
    for way in ["pipe", "unix-dgram"] {
        figures.push(figure("linux-best", "ping-pong", 48, way, "instructions", 9867));
    }
    let bench = Bench { name: "pool", ..BENCH };
    let text = Table { bench: &bench, figures: &figures, papers: &papers, wall: &[] }.to_string();
    for (beginning, ours, paper) in [("K1-M2", "1.10", "2.57"), ("K1-M3", "1.10", "1.01"), ("K1-M4", "1.01", "1.27")] {
        let cells = row(&text, "What the papers compare", beginning);
        assert_eq!(cells[cells.len() - 2..], [ours, paper], "{beginning}");
    }
    // The paper's own table, with each system's ways.
    let table = &text[text.find("K1-M1").unwrap()..text.find("What the papers compare").unwrap()];
    let rows: Vec<String> =
        table.lines().skip(2).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "musubi pool 1 1000 1100 instructions",
        "linux-best pipe 1 9867 - instructions",
        "linux-best unix-dgram 1 9867 - instructions",
        "k1/mp pool 3 0.803 0.815 ms (paper)",
        "k1/sp pool 1 0.635 0.642 ms (paper)",
        "minix rendezvous 1 0.247 0.247 ms (paper)",
    ] {
        assert!(rows.iter().any(|row| row == expected), "{expected}: {table}");
    }
    assert!(rows[0].starts_with("musubi"), "{table}");
    let row =
        |way: &str| text.lines().find(|line| line.starts_with("ping-pong-with-clock") && line.contains(way)).unwrap();
    assert!(row("pool").contains("0.642 ms (k1/sp pool)"), "{text}");
    // Nobody else's tables have them.
    let text = Table { bench: &BENCH, figures: &ours(), papers: &papers, wall: &[] }.to_string();
    assert!(!text.contains("K1"), "{text}");
}

#[test]
fn light_stands_beside_full() {
    let papers = Paper::all().unwrap();
    let mut figures: Vec<Figure> = [("light", 65), ("full", 326), ("foreign", 1700)]
        .map(|(way, value)| figure(MUSUBI, "get_taskid", 0, way, "instructions", value))
        .into();
    let ours = figures.clone();
    papers.iter().for_each(|paper| figures.extend(paper.beside(&ours).unwrap()));
    let bench = Bench { name: "entry", ..BENCH };
    let text = Table { bench: &bench, figures: &figures, papers: &papers, wall: &[] }.to_string();
    let cells = row(&text, "What the papers compare", "SSS-M2");
    assert_eq!(cells[cells.len() - 2..], ["5.02", "6.43"], "{text}");
    // Not without both.
    figures.retain(|figure| figure.way != "full");
    let text = Table { bench: &bench, figures: &figures, papers: &papers, wall: &[] }.to_string();
    assert!(!text.contains("SSS-M2"), "{text}");
}

#[test]
fn the_papers_schedulers_stand_beside_ours() {
    let papers = Paper::all().unwrap();
    let mut figures = Vec::new();
    for (case, way, value) in [
        ("switch", "itc-improved", 400),
        ("thread_next", "itc-improved", 100),
        ("switch", "itc-improved-by-kernel", 6000),
        ("switch", "itc-initial", 9000),
    ] {
        figures.push(figure(MUSUBI, case, 0, way, "instructions", value));
    }
    for paper in &papers {
        figures.extend(paper.beside(&figures[..4]).unwrap());
    }
    let bench = Bench { name: "sched", ..BENCH };
    let text = Table { bench: &bench, figures: &figures, papers: &papers, wall: &[] }.to_string();
    for (case, way, published) in [
        ("switch", "itc-improved ", "0.103 ms"),
        ("thread_next", "itc-improved ", "0.052 ms"),
        ("switch", "itc-improved-by-kernel", "0.103 ms"),
        ("switch", "itc-initial", "0.212 ms"),
    ] {
        let line = text.lines().find(|line| line.starts_with(case) && line.contains(way)).unwrap();
        assert!(line.contains(published), "{line}");
    }
    let compared: Vec<&str> = text.lines().filter(|line| line.starts_with("CUBIX-M7")).collect();
    assert!(
        matches!(&compared[..], [by_kernel, by_call] if by_kernel.contains("1.50") && by_call.contains("22.50")),
        "{text}"
    );
    assert!(compared.iter().all(|line| line.contains("2.06")), "{text}");
}

#[test]
fn wall_time_stands_apart_and_says_what_it_is() {
    let mut wall = Vec::new();
    for (bytes, value) in [(64, 900), (8192, 1000)] {
        wall.push(Figure { min: value - 1, ..figure(MUSUBI, "ArgNoRtn", bytes, "epc-s", "nanoseconds", value) });
        wall.push(figure(MUSUBI, "ArgNoRtn", bytes, "epc-s", unit::LATE, 2 * value));
        wall.push(figure("linux-best", "ArgNoRtn", bytes, "pipe", "nanoseconds", 4 * value));
    }
    let table = |wall| Table { bench: &BENCH, figures: &ours(), papers: &[], wall }.to_string();
    wall.push(figure("linux-best", "ArgNoRtn", 8192, "udp-other", "nanoseconds", 9000));
    let text = table(&wall);
    let part = &text[text.find("Wall time, nanoseconds of this host").unwrap()..];
    let rows: Vec<String> = part
        .lines()
        .filter(|line| line.contains("ArgNoRtn") || line.starts_with("case"))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    // Every way of each system, with each size.
    let expected = [
        "case way system 64 8192 to linux-best to linux-default least p99",
        "ArgNoRtn epc-s musubi 900 1000 4.0 - 999 2000",
        "ArgNoRtn pipe linux-best 3600 4000 - - 4000 -",
        "ArgNoRtn udp linux-best - 9000* - - 9000 -",
    ];
    assert_eq!(rows, expected, "{text}");
    // Of one size there is a row for each of ours.
    let of_one: Vec<Figure> = wall.iter().filter(|figure| figure.bytes == 8192).cloned().collect();
    let cells = table(&of_one);
    let cells = row(&cells, "Wall time, nanoseconds of this host", "ArgNoRtn");
    assert_eq!(cells, ["ArgNoRtn", "8192", "epc-s", "1000", "999", "2000", "4000", "(pipe)", "4.0", "-", "-"]);
    // Neither mixes with what is counted.
    assert_eq!(row(&text, "sizes:", "ArgNoRtn")[3], "1000");
    assert!(text.contains("compares with nothing but this run"), "{text}");
    assert_eq!(table(&[]), text[..text.find("\nWall time").unwrap()]);
    // What several threads gain is told if it was measured.
    assert!(!text.contains("as fast as one thread"), "{text}");
    let several = [wall.clone(), vec![figure(MUSUBI, "ArgNoRtn", 8192, "2-threads", count::BY_WALL, 1900)]].concat();
    let text = table(&several);
    assert_eq!(row(&text, "as fast as one thread", "ArgNoRtn")[3..], ["1900", count::BY_WALL]);
}

#[test]
fn rounds_of_messages_are_told_by_the_message() {
    let own = |case: &str, unit: &str, value| Figure {
        bench: "pool".into(),
        ..figure(MUSUBI, case, 48, "pool", unit, value)
    };
    let counted = |case: &'static str| {
        [("instructions", 789), (count::ENTRIES, 2), (count::LOCKS, 3), (count::SPINS, 0)].map(|(u, n)| own(case, u, n))
    };
    let figures: Vec<Figure> = ["queued", "ping-pong", "service"].into_iter().flat_map(counted).collect();
    let text = Table { bench: &BENCH, figures: &figures, papers: &[], wall: &[] }.to_string();
    let heading = "one message";
    assert_eq!(
        row(&text, heading, "case")[3..],
        ["kernel-entries", "post-locks", "locks", "locks-within", "copies", "spins"]
    );
    assert_eq!(row(&text, heading, "ping-pong")[3..], ["1", "-", "1.5", "-", "-", "0"]);
    assert_eq!(row(&text, heading, "queued")[3..], ["2", "-", "3", "-", "-", "0"]);
    assert!(!text[text.find(heading).unwrap()..].contains("service"), "{text}");
}

/// K1-U6.
#[test]
fn programs_stand_beside_the_peer_on_as_many_processors() {
    let bench = Bench { name: PROGRAMS, ..BENCH };
    let of =
        |system: &str, cpus, unit: &str, value| Figure { cpus, ..figure(system, "sort", 0, "busybox", unit, value) };
    let mut figures = Vec::new();
    for (cpus, value) in [(1, 1000), (2, 1100)] {
        figures.extend(
            [("instructions", value), (count::EXECUTED, value - 10), (count::MESSAGES, 7)]
                .map(|(unit, value)| of(MUSUBI, cpus, unit, value)),
        );
        figures.extend(
            [("instructions", 3 * value), (count::EXECUTED, 2 * value)]
                .map(|(unit, value)| of("linux-best", cpus, unit, value)),
        );
    }
    figures.push(Figure { cpus: 14, ..figure(MUSUBI, "sha256sum", 0, "2-programs", count::BESIDE, 1900) });
    let text = Table { bench: &bench, figures: &figures, papers: &[], wall: &[] }.to_string();
    assert_eq!(
        row(&text, "apps: ", "sort      0  busybox     1")[4..8],
        ["1000", "3000", "(busybox)", "3.0"],
        "{text}"
    );
    assert_eq!(
        row(&text, "apps: ", "sort      0  busybox     2")[4..8],
        ["1100", "3300", "(busybox)", "3.0"],
        "{text}"
    );
    let executed = &text[text.find("What all processors executed").unwrap()..];
    let rows: Vec<Vec<&str>> = executed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["sort", "0", "busybox", "2", "musubi", "1090", "7", "-"]), "{text}");
    assert!(rows.contains(&vec!["sort", "0", "busybox", "2", "linux-best", "2200", "-", "-"]), "{text}");
    assert!(rows.contains(&vec!["sha256sum", "0", "2-programs", "14", "1900", count::BESIDE]), "{text}");
}

#[test]
fn what_is_only_counted_is_shown_too() {
    let figures = [figure(MUSUBI, "service", 48, "2-threads", count::BESIDE, 2013)];
    let text = Table { bench: &BENCH, figures: &figures, papers: &[], wall: &[] }.to_string();
    assert_eq!(row(&text, "case", "service"), ["service", "48", "2-threads", "2013", "permille-side-by-side"]);
}
