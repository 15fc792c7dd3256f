//! What the kernel keeps, found in its source: every `static`, and every structure that one of them holds, itself or by way of others, in
//! the kernel, in `arch` and in `core`. (Of what a macro makes, nothing is seen.)

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use syn::visit::{self, Visit};

use crate::tree;

/// A static, or a structure that is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    pub file: String,
    pub name: String,
    /// Of a structure: its fields, in their order; by number where they have no name. Of a choice of several: its cases.
    pub fields: Vec<String>,
}

/// A name as it stands in the source, `::` before it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    from_root: bool,
    parts: Vec<String>,
}

/// Something that has a name, and what it consists of.
#[derive(Debug, Default)]
struct Item {
    /// Another name of these.
    is_alias: bool,
    fields: Vec<(String, Vec<Name>)>,
}

/// A module's path, the crate before all.
type Place = Vec<String>;

#[derive(Debug, Default)]
struct Module {
    file: String,
    items: BTreeMap<String, Item>,
    uses: BTreeMap<String, Name>,
    /// Where all is used of.
    all_of: Vec<Name>,
    statics: Vec<(String, Vec<Name>)>,
}

#[derive(Debug, Default)]
struct Modules(BTreeMap<Place, Module>);

/// All of it, by file and name.
///
/// # Errors
/// What cannot be read.
pub fn find(root: &Path) -> Result<Vec<Kept>> {
    let modules = Modules::read(root)?;
    let mut kept = BTreeSet::new();
    let mut open: Vec<(Place, String)> = Vec::new();
    for (place, module) in &modules.0 {
        for (name, types) in &module.statics {
            kept.insert(Kept { file: module.file.clone(), name: name.clone(), fields: Vec::new() });
            open.extend(modules.resolve_all(place, types)?);
        }
    }
    let mut seen = BTreeSet::new();
    while let Some((place, name)) = open.pop() {
        if !seen.insert((place.clone(), name.clone())) {
            continue;
        }
        let module = &modules.0[&place];
        let item = &module.items[&name];
        for (_, types) in &item.fields {
            open.extend(modules.resolve_all(&place, types)?);
        }
        if !item.is_alias {
            let fields = item.fields.iter().map(|(field, _)| field.clone()).collect();
            kept.insert(Kept { file: module.file.clone(), name, fields });
        }
    }
    Ok(kept.into_iter().collect())
}

impl Modules {
    fn read(root: &Path) -> Result<Modules> {
        let mut modules = Modules::default();
        let files = tree::files(root)?;
        for file in files.iter().filter(|file| file.starts_with("kernel/") || file.starts_with("core/")) {
            let Some((dir, inside)) = file.split_once("/src/") else { continue };
            let Some(inside) = inside.strip_suffix(".rs") else { continue };
            // Another kernel of the same modules, and what only tests have.
            if inside == "untold" || inside.split('/').any(|part| part == "tests") {
                continue;
            }
            let mut place = vec![crate_name(root, dir)?];
            let parts = inside.split('/').filter(|part| !["lib", "main", "mod"].contains(part));
            place.extend(parts.map(String::from));
            let text = tree::text(root, file).with_context(|| format!("{file} cannot be read"))?;
            let parsed = syn::parse_file(&text).with_context(|| format!("{file} is no Rust"))?;
            modules.add(place, file, &parsed.items);
        }
        Ok(modules)
    }

    fn add(&mut self, place: Place, file: &str, items: &[syn::Item]) {
        let mut module = Module { file: file.to_string(), ..Module::default() };
        for item in items.iter().filter(|item| !is_of_tests(item)) {
            match item {
                syn::Item::Mod(inner) => {
                    if let Some((_, items)) = &inner.content {
                        let place = [&place[..], &[inner.ident.to_string()]].concat();
                        self.add(place, file, items);
                    }
                }
                syn::Item::Use(item) => {
                    let from_root = item.leading_colon.is_some();
                    module.uses(&item.tree, &mut Name { from_root, parts: Vec::new() });
                }
                syn::Item::Struct(item) => module.item(&item.ident, fields(&item.fields)),
                syn::Item::Union(item) => module.item(&item.ident, fields(&item.fields.clone().into())),
                syn::Item::Enum(item) => {
                    let case = |case: &syn::Variant| {
                        let types = fields(&case.fields).into_iter().flat_map(|(_, types)| types).collect();
                        (case.ident.to_string(), types)
                    };
                    module.item(&item.ident, item.variants.iter().map(case).collect());
                }
                syn::Item::Type(item) => {
                    let fields = vec![(String::new(), names(&item.ty))];
                    module.items.insert(item.ident.to_string(), Item { is_alias: true, fields });
                }
                _ => {}
            }
            // In functions, too.
            Statics(&mut module.statics).visit_item(item);
        }
        self.0.insert(place, module);
    }

    /// Those of these names that are of ours. One that may be and is not found is an error: nothing is left out unseen.
    fn resolve_all(&self, place: &Place, types: &[Name]) -> Result<Vec<(Place, String)>> {
        let mut found = Vec::new();
        for name in types {
            match self.resolve(place, name, 0) {
                Some(one) => found.push(one),
                None if self.is_of_others(place, name) => {}
                None => bail!("{}: it cannot be told which {} that is", self.0[place].file, name.parts.join("::")),
            }
        }
        Ok(found)
    }

    /// Whether a name that was not found is none of ours: nothing is called so, or it is used of another crate.
    fn is_of_others(&self, place: &Place, name: &Name) -> bool {
        let (Some(first), Some(last)) = (name.parts.first(), name.parts.last()) else { return true };
        if !self.0.values().any(|module| module.items.contains_key(last)) {
            return true;
        }
        let from = self.0[place].uses.get(first).and_then(|used| used.parts.first());
        from.or((name.parts.len() > 1).then_some(first)).is_some_and(|from| {
            !["crate", "self", "super"].contains(&from.as_str()) && !self.0.contains_key(&vec![from.clone()])
        })
    }

    /// Where what a module calls so is, if it is one of ours. `deep`: by how many other names so far.
    fn resolve(&self, place: &Place, name: &Name, deep: usize) -> Option<(Place, String)> {
        if deep > 16 {
            return None;
        }
        let module = self.0.get(place)?;
        let (first, rest) = name.parts.split_first()?;
        let at = |mut place: Place, rest: &[String]| {
            let (last, path) = rest.split_last()?;
            place.extend(path.iter().cloned());
            let name = Name { from_root: false, parts: vec![last.clone()] };
            self.resolve(&place, &name, deep + 1)
        };
        if name.from_root {
            return at(vec![first.clone()], rest);
        }
        match first.as_str() {
            "crate" => return at(place[..1].to_vec(), rest),
            "self" => return at(place.clone(), rest),
            "super" => return at(place[..place.len().checked_sub(1)?].to_vec(), rest),
            _ => {}
        }
        if rest.is_empty() && module.items.contains_key(first) {
            return Some((place.clone(), first.clone()));
        }
        let child = [&place[..], std::slice::from_ref(first)].concat();
        if !rest.is_empty() && self.0.contains_key(&child) {
            return at(child, rest);
        }
        if let Some(used) = module.uses.get(first) {
            let parts = [&used.parts[..], rest].concat();
            // What is used of a crate of that name begins there.
            return self.resolve(place, &Name { parts, ..used.clone() }, deep + 1);
        }
        let crate_of_that_name = vec![first.clone()];
        if !rest.is_empty() && self.0.contains_key(&crate_of_that_name) {
            return at(crate_of_that_name, rest);
        }
        module.all_of.iter().find_map(|all| {
            let parts = [&all.parts[..], &name.parts[..]].concat();
            self.resolve(place, &Name { parts, ..all.clone() }, deep + 1)
        })
    }
}

impl Module {
    fn item(&mut self, name: &syn::Ident, fields: Vec<(String, Vec<Name>)>) {
        self.items.insert(name.to_string(), Item { is_alias: false, fields });
    }

    fn uses(&mut self, tree: &syn::UseTree, before: &mut Name) {
        match tree {
            syn::UseTree::Path(path) => {
                before.parts.push(path.ident.to_string());
                self.uses(&path.tree, before);
                before.parts.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.uses(tree, before)),
            syn::UseTree::Glob(_) => self.all_of.push(before.clone()),
            syn::UseTree::Name(name) => self.uses_as(&name.ident, &name.ident, before),
            syn::UseTree::Rename(name) => self.uses_as(&name.ident, &name.rename, before),
        }
    }

    fn uses_as(&mut self, name: &syn::Ident, here: &syn::Ident, before: &Name) {
        let mut whole = before.clone();
        let mut here = here.to_string();
        if name == "self" {
            // The module itself, by its own name or another.
            here = if here == "self" { before.parts.last().cloned().unwrap_or_default() } else { here };
        } else {
            whole.parts.push(name.to_string());
        }
        self.uses.insert(here, whole);
    }
}

/// The name by which other crates know the one in this folder.
fn crate_name(root: &Path, dir: &str) -> Result<String> {
    let manifest = tree::text(root, &format!("{dir}/Cargo.toml")).with_context(|| format!("{dir} has no manifest"))?;
    let manifest: toml::Table = manifest.parse()?;
    let name = manifest.get("lib").and_then(|lib| lib.get("name")).and_then(toml::Value::as_str);
    Ok(name.unwrap_or(dir).to_string())
}

fn is_of_tests(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|one| {
        one.path().is_ident("cfg") && one.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
    })
}

fn fields(fields: &syn::Fields) -> Vec<(String, Vec<Name>)> {
    let named = fields.iter().enumerate().map(|(at, field)| {
        let name = field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
        (name, names(&field.ty))
    });
    named.collect()
}

/// All names of types in a type, but those that a function only takes.
fn names(of: &syn::Type) -> Vec<Name> {
    let mut names = Names(Vec::new());
    names.visit_type(of);
    names.0
}

struct Names(Vec<Name>);

impl<'a> Visit<'a> for Names {
    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.0.push(Name { from_root: path.leading_colon.is_some(), parts });
        visit::visit_path(self, path);
    }

    fn visit_type_bare_fn(&mut self, _: &'a syn::TypeBareFn) {}
    fn visit_parenthesized_generic_arguments(&mut self, _: &'a syn::ParenthesizedGenericArguments) {}
}

struct Statics<'a>(&'a mut Vec<(String, Vec<Name>)>);

impl<'a> Visit<'a> for Statics<'_> {
    fn visit_item_static(&mut self, item: &'a syn::ItemStatic) {
        self.0.push((item.ident.to_string(), names(&item.ty)));
    }

    /// It is looked through by itself.
    fn visit_item_mod(&mut self, _: &'a syn::ItemMod) {}
}
