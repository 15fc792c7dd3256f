//! Lines and what they come to.

use super::*;

fn text(s: &str) -> Word {
    Vec::from([Piece::Text(s.into())])
}

fn words(line: &str) -> Vec<Word> {
    parse(line.as_bytes()).unwrap().remove(0).commands.remove(0).words
}

#[test]
fn quotes_and_escapes() {
    assert_eq!(
        words(r#"a 'b  c' "d'e" f\ g '' "x\"y" h'i'"j""#),
        [text("a"), text("b  c"), text("d'e"), text("f g"), text(""), text("x\"y"), text("hij"),]
    );
    assert_eq!(words(r#"'$x \n'"#), [text(r"$x \n")]);
}

#[test]
fn variables() {
    let word = &words(r#"a"$B-${C}"$?$"#)[0];
    let variable = |s: &str| Piece::Variable(s.into());
    let t = |s: &str| Piece::Text(s.into());
    assert_eq!(*word, [t("a"), variable("B"), t("-"), variable("C"), variable("?"), t("$")]);
}

#[test]
fn words_of_a_batch() {
    let word = &words(r#"$0$12"${12}$#"$@'$1'$*"#)[0];
    let variable = |s: &str| Piece::Variable(s.into());
    let t = |s: &str| Piece::Text(s.into());
    let wanted =
        [variable("0"), variable("1"), t("2"), variable("12"), variable("#"), variable("@"), t("$1"), variable("*")];
    assert_eq!(*word, wanted);
}

#[test]
fn connectors_and_pipes() {
    let all = parse(b"a|b && c || d; e & f # not this ; x").unwrap();
    let whens: Vec<_> = all.iter().map(|p| (p.when, p.commands.len(), p.background)).collect();
    assert_eq!(
        whens,
        [
            (When::Always, 2, false),
            (When::IfTrue, 1, false),
            (When::IfFalse, 1, false),
            (When::Always, 1, true),
            (When::Always, 1, false),
        ]
    );
    assert_eq!(parse(b"  ;; # nothing").unwrap(), []);
    assert_eq!(parse(b"a;").unwrap().len(), 1);
    assert_eq!(parse(b"a\\;b").unwrap().len(), 1);
    assert_eq!(parse(b"\na # b\n\nc 'd\ne' &&\nf &\ng\n").unwrap().len(), 4, "lines are commands");
}

#[test]
fn what_makes_no_sense_is_said() {
    for line in [
        "'a", "\"a", "a\\", "| a", "a |", "a && ", "&& a", "a >", "a > | b", "> > a", "a 2>&1", "a << b", "${x",
        "a || ; b", "A=1 |",
    ] {
        assert!(parse(line.as_bytes()).is_err(), "{line}");
    }
}

#[test]
fn files_in_the_place_of_streams() {
    let one = |line: &str| parse(line.as_bytes()).unwrap().remove(0).commands.remove(0);
    let command = one("<in cmd a>out 2>>err b 2>e x2>>'a b'");
    assert_eq!(command.words, [text("cmd"), text("a"), text("b"), text("x2")]);
    let to = |redirect, word| (redirect, text(word));
    assert_eq!(
        command.redirects,
        [
            to(Redirect::Input, "in"),
            to(Redirect::Output, "out"),
            to(Redirect::ErrorsAppend, "err"),
            to(Redirect::Errors, "e"),
            to(Redirect::Append, "a b"),
        ]
    );
    assert_eq!((one(">f").words.len(), one(">f").redirects.len()), (0, 1));
    assert_eq!(parse(b"a >f | b <g; c").unwrap().len(), 2);
}

#[test]
fn bytes_that_are_no_text_pass_through() {
    let all = parse(b"echo \xff\xfe").unwrap();
    assert_eq!(all[0].commands[0].words[1], [Piece::Text(Vec::from([0xff, 0xfe]))]);
}

#[test]
fn assignments_stand_before_the_words() {
    let one = |line: &str| parse(line.as_bytes()).unwrap().remove(0).commands.remove(0);
    let name = |s: &str| s.as_bytes().to_vec();
    let command = one("A=1 _b2='x y'$C cmd D=4 \"E\"=5");
    assert_eq!(command.assignments[0], (name("A"), text("1")));
    assert_eq!(command.assignments[1].0, name("_b2"));
    assert_eq!(command.words, [text("cmd"), text("D=4"), text("E=5")]);
    assert_eq!(one("A=").assignments, [(name("A"), text(""))]);
    assert_eq!(one("A=b=c").assignments, [(name("A"), text("b=c"))]);
    for line in ["'A'=1", "A\\==1", "1A=2", "=x", "A-B=1", "$A=1"] {
        assert_eq!(one(line).words.len(), 1, "{line}");
    }
}

#[test]
fn patterns_are_not_quoted() {
    let star = || Piece::Pattern(Part::Star, b"*".to_vec());
    assert_eq!(
        words("a* '*' \"*\" \\*"),
        [Vec::from([Piece::Text(b"a".to_vec()), star()]), text("*"), text("*"), text("*")]
    );
    assert!(
        matches!(&words("[a-c]?")[0][..], [Piece::Pattern(Part::Set { .. }, typed), Piece::Pattern(Part::Any, _)] if typed == b"[a-c]")
    );
    assert_eq!(words("[ a ] [x"), [text("["), text("a"), text("]"), text("[x")]);
}

#[test]
fn what_is_not_there_is_named() {
    for (line, what) in [
        ("echo `a`", "`"),
        ("echo \"`a`\"", "`"),
        ("(a)", "("),
        ("a; (b)", "("),
        ("f() { b; }", "("),
        ("echo a)", ")"),
        ("if true; then a; fi", "if"),
        ("true; for x in a; do b; done", "for"),
        ("A=1 while true", "while"),
        ("{ a; }", "{"),
        ("! a", "!"),
        ("[[ a ]]", "[["),
        ("a | case x in", "case"),
        ("echo $(a)", "$("),
        ("echo $((1+1))", "$(("),
        ("echo ${A:-b}", "${A:-b}"),
        ("echo ${}", "${}"),
        ("echo ${1a}", "${1a}"),
        ("echo ${#A}", "${#A}"),
        ("echo $!", "$!"),
        ("echo $$", "$$"),
        ("echo ~", "~"),
        ("cat ~/x", "~"),
        ("a << b", "<<"),
    ] {
        let why = parse(line.as_bytes()).expect_err(line);
        assert!(why.starts_with(&alloc::format!("`{what}`: ")), "{line}: {why}");
    }
    for line in
        ["echo if then", "'if' x", "echo a{b}", "echo '(' \\( \"~\" a~b", "echo $", "echo \"$\" $. {a,b}", "i\\f x"]
    {
        assert!(parse(line.as_bytes()).is_ok(), "{line}");
    }
}

#[test]
fn a_line_can_go_on_in_the_next() {
    assert_eq!(words("a\\\nb c"), [text("ab"), text("c")]);
    assert_eq!(words("a \\\n b"), [text("a"), text("b")]);
}

#[test]
fn a_backslash_joins_the_next_line_if_it_is_one() {
    for (line, open) in [
        ("echo a \\\n", true),
        ("echo a\\\\\\\n", true),
        ("echo a &&\n", true),
        ("echo 'a\n", true),
        ("echo \\\\\n", false),
        ("echo a # b \\\n", false),
        ("# a\\\n", false),
        ("echo 'a\\'\n", false),
        ("echo a\n", false),
        ("# a\necho b \\\n", true),
    ] {
        assert_eq!(super::is_open(line.as_bytes()), open, "{line:?}");
    }
}
