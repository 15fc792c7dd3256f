//! In the initial version the mechanism only switches to who was chosen (CUBIX-49): nothing there knows a queue, an order or a priority.

use std::path::Path;

use anyhow::{Context, Result};

use crate::source::Source;
use crate::{Problems, tree};

const MECHANISM: &str = "servers/sched-initial/src/main.rs";
/// What a board has to choose by, and who does.
const CHOOSING: [&str; 9] =
    ["Queue", "queue", "Order", "Position", "Priorities", "priorities", "LEVELS", "Policy", "policies"];

pub fn check(root: &Path) -> Result<Problems> {
    let text = tree::text(root, MECHANISM).with_context(|| format!("{MECHANISM} cannot be read"))?;
    Ok(of(&text))
}

fn of(text: &str) -> Problems {
    let source = Source::new(text);
    let found =
        CHOOSING.into_iter().flat_map(|word| source.find_word(word).into_iter().map(move |(line, _)| (line, word)));
    found
        .map(|(line, word)| {
            format!("{MECHANISM}:{}: `{word}`: the mechanism does not choose; the policy does (CUBIX-49)", line + 1)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_chooses_is_found() {
        assert_eq!(of("let high = desk.high(); // by its queue\n"), Problems::new());
        assert_eq!(of("let first = board.queue(0).pop();\nlet to = LEVELS;\n").len(), 2);
    }
}
