#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use proc_macro::TokenStream;

mod emit;
mod model;
mod service;

/// Declares an interface: see the crate's page.
#[proc_macro_attribute]
pub fn interface(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let called_up = match attribute.to_string().as_str() {
        "" => false,
        "called_up" => true,
        _ => {
            let e = syn::Error::new(proc_macro2::Span::call_site(), "`#[interface]` takes no argument but `called_up`");
            return e.into_compile_error().into();
        }
    };
    let declared = syn::parse_macro_input!(item as syn::ItemTrait);
    match model::read(declared, called_up) {
        Ok(interface) => emit::all(&interface).into(),
        Err(e) => e.into_compile_error().into(),
    }
}
