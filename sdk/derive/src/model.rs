//! What a declaration says, or why it cannot be an interface.

use quote::ToTokens;
use syn::{
    Attribute, Error, Expr, FnArg, GenericArgument, Ident, ItemTrait, Meta, Pat, PathArguments, Result, ReturnType,
    TraitItem, TraitItemFn, Type,
};

/// Argument registers.
pub const WORDS: usize = 6;

pub struct Interface {
    pub declared: ItemTrait,
    pub methods: Vec<Method>,
    /// By the kernel or a scheduler, and nobody else: what they say is believed.
    pub called_up: bool,
}

pub struct Method {
    pub name: Ident,
    pub docs: Vec<Attribute>,
    pub caller: bool,
    pub arguments: Vec<Argument>,
    pub result: Outcome,
    pub fallible: bool,
    /// Doing it twice is doing it once.
    pub repeat: bool,
    /// It is begun also where memory is short (`rt::spare`), without asking.
    pub when_short: bool,
}

pub struct Argument {
    pub name: Ident,
    pub ty: Type,
    pub kind: Kind,
}

pub enum Kind {
    /// An integer or bool, named by its type.
    Word(Ident),
    Bytes,
    BytesMut,
    Text,
    Array(Expr),
    ArrayMut(Expr),
}

pub enum Outcome {
    Nothing,
    Word(Ident),
    Pair,
}

impl Argument {
    /// Registers that the argument takes.
    pub fn words(&self) -> usize {
        match self.kind {
            Kind::Word(_) => 1,
            _ => 2,
        }
    }

    /// Whether every word is a valid value, so that nothing can be refused.
    fn total(&self) -> bool {
        matches!(&self.kind, Kind::Word(ty) if ty == "u64" || ty == "i64")
    }
}

/// Collects all errors of a declaration instead of stopping at the first.
struct Errors(Option<Error>);

impl Errors {
    fn add(&mut self, e: Error) {
        match &mut self.0 {
            Some(all) => all.combine(e),
            None => self.0 = Some(e),
        }
    }

    fn at(&mut self, what: &impl ToTokens, message: &str) {
        // Marks all of it, also where spans cannot be joined.
        self.add(Error::new_spanned(what, message));
    }
}

/// Marks a method that may be repeated.
const REPEAT: &str = "repeat";
/// Marks one that gives memory back, or needs next to none.
const WHEN_SHORT: &str = "when_short";

pub fn read(mut declared: ItemTrait, called_up: bool) -> Result<Interface> {
    let mut errors = Errors(None);
    if !declared.generics.params.is_empty() {
        errors.at(&declared.generics, "an interface cannot be generic: a gate has one fixed meaning");
    }
    if !declared.supertraits.is_empty() {
        errors.at(&declared.supertraits, "an interface stands alone: no supertraits");
    }
    let mut methods = Vec::new();
    for item in &declared.items {
        match item {
            TraitItem::Fn(function) => match method(function) {
                Ok(m) => methods.push(m),
                Err(e) => errors.add(e),
            },
            other => errors.at(&other, "an interface holds methods only"),
        }
    }
    if methods.len() > 256 {
        errors.at(&declared.ident, "at most 256 methods: a text exports no more gates");
    }
    // The marks are for us alone.
    for item in &mut declared.items {
        if let TraitItem::Fn(function) = item {
            function.attrs.retain(|a| ![REPEAT, WHEN_SHORT].iter().any(|mark| a.path().is_ident(mark)));
        }
    }
    match errors.0 {
        Some(e) => Err(e),
        None => Ok(Interface { declared, methods, called_up }),
    }
}

fn method(function: &TraitItemFn) -> Result<Method> {
    let mut errors = Errors(None);
    let signature = &function.sig;
    if let Some(keyword) = &signature.asyncness {
        errors.at(&keyword, "a call runs on its caller's thread and returns to it: methods cannot be async");
    }
    if let Some(keyword) = &signature.unsafety {
        errors.at(&keyword, "the skeleton checks every argument: methods cannot be unsafe");
    }
    if !signature.generics.params.is_empty() {
        errors.at(&signature.generics, "a method cannot be generic: its gate has one fixed meaning");
    }
    if let Some(body) = &function.default {
        errors.at(&body, "a method has no default body: the server implements it");
    }
    match signature.inputs.first() {
        Some(FnArg::Receiver(r)) if r.reference.is_some() && r.mutability.is_none() && r.colon_token.is_none() => {}
        _ => errors.at(&signature.inputs, "a method takes `&self` first: callers enter from many threads at once"),
    }
    let mut caller = false;
    let mut arguments = Vec::new();
    for (i, input) in signature.inputs.iter().enumerate().skip(1) {
        let FnArg::Typed(input) = input else { continue };
        if i == 1 && is_caller(&input.ty) {
            caller = true;
            continue;
        }
        let Pat::Ident(name) = &*input.pat else {
            errors.at(&input.pat, "an argument has a plain name");
            continue;
        };
        match kind(&input.ty) {
            Ok(kind) => arguments.push(Argument { name: name.ident.clone(), ty: (*input.ty).clone(), kind }),
            Err(e) => errors.add(e),
        }
    }
    let words: usize = arguments.iter().map(Argument::words).sum();
    if words > WORDS {
        errors.at(
            &signature.inputs,
            &format!(
                "{words} argument words, but a call carries at most {WORDS} (a slice or string is two: address and \
                 length): pass a pointer to a record instead"
            ),
        );
    }
    let (result, fallible) = outcome(&signature.output).unwrap_or_else(|e| {
        errors.add(e);
        (Outcome::Nothing, false)
    });
    if matches!(result, Outcome::Pair)
        && let Some(partial) = arguments.iter().find(|a| !a.total())
    {
        errors.at(
            &partial.ty,
            "a result `(u64, u64)` fills both words and leaves none to refuse this argument with: return one word, or \
             take only `u64` and `i64`",
        );
    }
    let repeat = is_marked(function, REPEAT, &mut errors);
    let when_short = is_marked(function, WHEN_SHORT, &mut errors);
    if when_short && !fallible {
        errors.at(&signature.output, "a method that is refused nothing needs no `#[when_short]`: it is always begun");
    }
    match errors.0 {
        Some(e) => Err(e),
        None => {
            let docs = function.attrs.iter().filter(|a| a.path().is_ident("doc")).cloned().collect();
            Ok(Method { name: signature.ident.clone(), docs, caller, arguments, result, fallible, repeat, when_short })
        }
    }
}

fn is_marked(function: &TraitItemFn, name: &str, errors: &mut Errors) -> bool {
    let mut marks = function.attrs.iter().filter(|a| a.path().is_ident(name));
    let mark = marks.next();
    if let Some(mark) = mark.filter(|a| !matches!(a.meta, Meta::Path(_))) {
        errors.at(mark, &format!("`#[{name}]` takes no arguments"));
    }
    if let Some(second) = marks.next() {
        errors.at(second, &format!("`#[{name}]` says it once"));
    }
    mark.is_some()
}

fn is_caller(ty: &Type) -> bool {
    let Type::Reference(reference) = ty else { return false };
    let Type::Path(path) = &*reference.elem else { return false };
    reference.mutability.is_none() && path.path.segments.last().is_some_and(|s| s.ident == "Caller")
}

fn simple(ty: &Type) -> Option<Ident> {
    let Type::Path(path) = ty else { return None };
    path.path.get_ident().cloned()
}

const WORD_TYPES: [&str; 7] = ["u64", "i64", "u32", "i32", "u16", "u8", "bool"];

fn word(ty: &Type) -> Option<Ident> {
    simple(ty).filter(|name| WORD_TYPES.iter().any(|t| name == t))
}

fn kind(ty: &Type) -> Result<Kind> {
    let refused = || {
        Error::new_spanned(
            ty,
            "cannot be passed in a call: use an integer, `bool`, `&[u8]`, `&mut [u8]`, `&str`, `&[u8; N]` or \
             `&mut [u8; N]`",
        )
    };
    if let Some(name) = word(ty) {
        return Ok(Kind::Word(name));
    }
    let Type::Reference(reference) = ty else { return Err(refused()) };
    let mutable = reference.mutability.is_some();
    let byte = |ty: &Type| simple(ty).is_some_and(|name| name == "u8");
    match &*reference.elem {
        Type::Slice(slice) if byte(&slice.elem) && mutable => Ok(Kind::BytesMut),
        Type::Slice(slice) if byte(&slice.elem) => Ok(Kind::Bytes),
        Type::Array(array) if byte(&array.elem) && mutable => Ok(Kind::ArrayMut(array.len.clone())),
        Type::Array(array) if byte(&array.elem) => Ok(Kind::Array(array.len.clone())),
        other if !mutable && simple(other).is_some_and(|name| name == "str") => Ok(Kind::Text),
        _ => Err(refused()),
    }
}

fn outcome(output: &ReturnType) -> Result<(Outcome, bool)> {
    let ReturnType::Type(_, ty) = output else { return Ok((Outcome::Nothing, false)) };
    if let Type::Path(path) = &**ty
        && let Some(last) = path.path.segments.last()
        && last.ident == "Result"
        && let PathArguments::AngleBracketed(given) = &last.arguments
    {
        let types: Vec<&Type> =
            given.args.iter().filter_map(|a| if let GenericArgument::Type(t) = a { Some(t) } else { None }).collect();
        let [value, error] = types.as_slice() else {
            return Err(Error::new_spanned(ty, "write `Result<_, Error>` with the error of calls"));
        };
        let is_error = matches!(error, Type::Path(p) if p.path.segments.last().is_some_and(|s| s.ident == "Error"));
        if !is_error {
            return Err(Error::new_spanned(error, "the error of a call is `Error` (abi::Error)"));
        }
        return match plain_outcome(value)? {
            Outcome::Pair => Err(Error::new_spanned(
                value,
                "a call returns two words, and the first of a `Result` is its status: `Result` of a pair does not fit",
            )),
            one => Ok((one, true)),
        };
    }
    Ok((plain_outcome(ty)?, false))
}

fn plain_outcome(ty: &Type) -> Result<Outcome> {
    if let Some(name) = word(ty) {
        return Ok(Outcome::Word(name));
    }
    if let Type::Tuple(tuple) = ty {
        if tuple.elems.is_empty() {
            return Ok(Outcome::Nothing);
        }
        if tuple.elems.len() == 2 && tuple.elems.iter().all(|t| simple(t).is_some_and(|name| name == "u64")) {
            return Ok(Outcome::Pair);
        }
    }
    Err(Error::new_spanned(
        ty,
        "cannot be returned from a call: use `()`, an integer, `bool`, `(u64, u64)`, or a `Result` of one of the first \
         three; what is longer goes into a `&mut [u8]` argument",
    ))
}
