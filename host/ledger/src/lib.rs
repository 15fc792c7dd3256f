#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod check;
mod results;
mod row;
mod series;
mod table;
#[cfg(test)]
mod tests;

pub use check::{check, check_results};
pub use results::{Outcome, Results};
pub use row::{Ledger, Row, State};
pub use series::{Kind, Number, SERIES, Series, System};
pub use table::table;

/// Where the ledger lies, from the root of the project.
pub const PATH: &str = "docs/requirements.toml";
