//! Statics and what they hold are found, by whatever name, and nothing else.

use super::*;
use crate::kept::{self, Kept};

fn tree() -> Tree {
    let lib = |name: &str| format!("[lib]\nname = \"{name}\"\n");
    Tree::new().member("kernel", "").member("kernel/arch", &lib("arch")).member("core/line", &lib("queue"))
}

fn found(tree: &Tree) -> Vec<String> {
    let said = |kept: Kept| [vec![kept.file, kept.name], kept.fields].concat().join(" ");
    kept::find(tree.root()).unwrap().into_iter().map(said).collect()
}

#[test]
fn statics_are_found_and_what_they_hold() {
    let tree = tree()
        .write("kernel/src/main.rs", "mod one;\nfn f() {\n    static COUNT: AtomicU64 = AtomicU64::new(0);\n}\n")
        .write(
            "kernel/src/one.rs",
            "use arch::cards::{Card as Own, self};\nuse super::two::*;\nmod inner { pub struct Deep(pub u64); }\n\
             static ALL: Once<Vec<Arc<One>>> = Once::new();\n\
             struct One { own: Own, deep: inner::Deep, other: Mutex<Other>, #[cfg(x)] f: fn(&Never) -> Never }\n\
             struct Never { a: u64 }\n#[cfg(test)]\nstatic OF_TESTS: Never = Never { a: 1 };\n",
        )
        .write("kernel/src/two.rs", "pub enum Other { No, Yes(Box<::queue::Line>) }\npub struct Unused;\n")
        .write("kernel/arch/src/lib.rs", "pub mod cards;\nextern \"C\" { static image: u8; }\n")
        .write("kernel/arch/src/cards.rs", "pub type Card = Kept;\npub struct Kept { id: u64, next: *const Kept }\n")
        .write("core/line/src/lib.rs", "mod line;\nmod tests;\npub use line::Line;\n")
        .write("core/line/src/line.rs", "pub struct Line { pub first: u32 }\nstruct Free;\n")
        .write("core/line/src/tests.rs", "static IN_TESTS: u64 = 0;\n");
    let all = [
        "core/line/src/line.rs Line first",
        "kernel/arch/src/cards.rs Kept id next",
        "kernel/src/main.rs COUNT",
        "kernel/src/one.rs ALL",
        "kernel/src/one.rs Deep 0",
        "kernel/src/one.rs One own deep other f",
        "kernel/src/two.rs Other No Yes",
    ];
    assert_eq!(found(&tree), all);
    // What may be ours and is not found is not passed over.
    let lost = tree.write("kernel/src/two.rs", "pub enum Other { No, Yes(Box<Line>) }\n");
    assert!(kept::find(lost.root()).unwrap_err().to_string().contains("which Line that is"));
    let tree = lost.write("kernel/src/two.rs", "pub enum Other { No, Yes(Box<::queue::Line>) }\npub struct Unused;\n");
    // A new static, a new structure, a new field: each is found.
    let tree = tree.write(
        "core/line/src/line.rs",
        "pub struct Line { first: u32, free: Free }\nstruct Free;\nstatic NEW: u8 = 0;\n",
    );
    let now = found(&tree);
    assert_eq!(
        now[..3],
        ["core/line/src/line.rs Free", "core/line/src/line.rs Line first free", "core/line/src/line.rs NEW"]
    );
    assert_eq!(now.len(), all.len() + 2);
}
