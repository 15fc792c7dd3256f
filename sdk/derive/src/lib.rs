#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use proc_macro::TokenStream;

mod emit;
mod model;
mod service;

/// Declares an interface: see the crate's page.
#[proc_macro_attribute]
pub fn interface(attribute: TokenStream, item: TokenStream) -> TokenStream {
    if !attribute.is_empty() {
        let e = syn::Error::new(proc_macro2::Span::call_site(), "`#[interface]` takes no arguments");
        return e.into_compile_error().into();
    }
    let declared = syn::parse_macro_input!(item as syn::ItemTrait);
    match model::read(declared) {
        Ok(interface) => emit::all(&interface).into(),
        Err(e) => e.into_compile_error().into(),
    }
}
