use crate::source::Source;

fn code(text: &str) -> String {
    Source::new(text).code.join("\n")
}

#[test]
fn literals_and_comments_are_blanked() {
    for hidden in [
        "// X",
        "/* X */",
        "/* /* */ X */",
        "\"X\"",
        "\"\\\" X\"",
        "r\"X\\\"",
        "r#\"\" X\"#",
        "br##\"\"# X\"##",
        "c\"X\"",
        "'X'",
        "b'X'",
        "'\\'' /*X*/",
        "'\"' /*X*/ '\"'",
        "\"one\ntwo X\"",
    ] {
        assert!(!code(hidden).contains('X'), "{hidden}");
        assert_eq!(code(&format!("{hidden}\n{{ Y }}")).lines().last(), Some("{ Y }"), "{hidden}");
    }
}

#[test]
fn code_stays() {
    for shown in ["fn f<'a>(x: &'a X) {}", "r#X", "'X: loop {}", "1 / X", "impl<'a, 'b> X<'a>"] {
        assert_eq!(code(shown), shown);
    }
}

#[test]
fn comments_are_kept_by_line() {
    let source = Source::new("a // one\n/* two\nthree */ b");
    assert!(
        source.comments[0].contains("one")
            && source.comments[1].contains("two")
            && source.comments[2].contains("three")
    );
    assert_eq!(source.code[2].trim(), "b");
}

#[test]
fn words_are_whole() {
    let source = Source::new("unsafe unsafe_code\nmy_unsafe(unsafe)");
    assert_eq!(source.find_word("unsafe"), [(0, 0), (1, 10)]);
}
