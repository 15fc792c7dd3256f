//! Any sequence of changes against a plain map from paths to kinds.

use super::{Files, ME, tree};
use crate::Kind;
use abi::Error;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Change {
    Create(String, Kind),
    Remove(String, Kind),
    Rename(String, String),
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4).prop_map(|names| names.join("/"))
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::File, Kind::Directory])
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (path(), kind()).prop_map(|(path, kind)| Change::Create(path, kind)),
        1 => (path(), kind()).prop_map(|(path, kind)| Change::Remove(path, kind)),
        3 => (path(), path()).prop_map(|(from, to)| Change::Rename(from, to)),
    ]
}

/// Paths with their kinds; the root is not among them.
type Model = BTreeMap<String, Kind>;

fn parent_of(model: &Model, path: &str) -> Result<(), Error> {
    let Some((parent, _)) = path.rsplit_once('/') else { return Ok(()) };
    let mut at = String::new();
    for name in parent.split('/') {
        at = if at.is_empty() { name.to_string() } else { format!("{at}/{name}") };
        match model.get(&at) {
            None => return Err(Error::NotFound),
            Some(Kind::File) => return Err(Error::NotADirectory),
            Some(Kind::Directory) => {}
        }
    }
    Ok(())
}

fn is_empty(model: &Model, path: &str) -> bool {
    !model.keys().any(|other| other.starts_with(&format!("{path}/")))
}

fn apply(model: &mut Model, change: &Change) -> Result<(), Error> {
    match change {
        Change::Create(path, kind) => {
            parent_of(model, path)?;
            if model.contains_key(path) {
                return Err(Error::Exists);
            }
            model.insert(path.clone(), *kind);
        }
        Change::Remove(path, kind) => {
            parent_of(model, path)?;
            match (kind, model.get(path).ok_or(Error::NotFound)?) {
                (Kind::File, Kind::Directory) => return Err(Error::IsADirectory),
                (Kind::Directory, Kind::File) => return Err(Error::NotADirectory),
                _ if !is_empty(model, path) => return Err(Error::NotEmpty),
                _ => model.remove(path),
            };
        }
        Change::Rename(from, to) => {
            parent_of(model, from)?;
            let kind = *model.get(from).ok_or(Error::NotFound)?;
            parent_of(model, to)?;
            if from == to {
                return Ok(());
            }
            match (kind, model.get(to)) {
                (Kind::File, Some(Kind::Directory)) => return Err(Error::IsADirectory),
                (Kind::Directory, Some(Kind::File)) => return Err(Error::NotADirectory),
                _ => {}
            }
            if to.starts_with(&format!("{from}/")) {
                return Err(Error::BadArgument);
            }
            if model.contains_key(to) && !is_empty(model, to) {
                return Err(Error::NotEmpty);
            }
            let below = format!("{from}/");
            let moved: Vec<(String, Kind)> = model
                .iter()
                .filter(|(path, _)| *path == from || path.starts_with(&below))
                .map(|(path, kind)| (path.clone(), *kind))
                .collect();
            for (path, kind) in moved {
                model.remove(&path);
                model.insert(format!("{to}{}", &path[from.len()..]), kind);
            }
        }
    }
    Ok(())
}

fn on_tree(tree: &Files, change: &Change) -> Result<(), Error> {
    match change {
        Change::Create(path, kind) => tree.create(ME, path.as_bytes(), *kind, 0o755, 1).map(drop),
        Change::Remove(path, kind) => tree.remove(ME, path.as_bytes(), *kind, 1),
        Change::Rename(from, to) => tree.rename(ME, from.as_bytes(), to.as_bytes(), 1),
    }
}

fn listed(tree: &Files) -> Model {
    let mut model = Model::new();
    let mut open = vec![(String::new(), tree.root().clone())];
    while let Some((path, node)) = open.pop() {
        let each = |name: &[u8], child: &std::sync::Arc<_>| {
            let path = format!("{path}{}", String::from_utf8_lossy(name));
            let child: &std::sync::Arc<crate::Node<_, _>> = child;
            model.insert(path.clone(), child.kind);
            if child.kind == Kind::Directory {
                open.push((format!("{path}/"), child.clone()));
            }
            true
        };
        node.list(ME, b"", each).unwrap();
    }
    model
}

proptest! {
    #[test]
    fn agrees_with_a_map_of_paths(changes in prop::collection::vec(change(), 1..60)) {
        let (tree, mut model) = (tree(), Model::new());
        for change in &changes {
            prop_assert_eq!(on_tree(&tree, change), apply(&mut model, change), "{:?}", change);
        }
        prop_assert_eq!(tree.nodes_of(ME), model.len() as u64);
        prop_assert_eq!(listed(&tree), model);
    }
}
