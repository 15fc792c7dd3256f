//! The client of a server that is restarted where it stood.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::emit::{Encoded, args_len, decode_answer, encode, value_type};
use crate::model::{Argument, Interface, Method};

pub fn client(interface: &Interface) -> TokenStream {
    let vis = &interface.declared.vis;
    let name = &interface.declared.ident;
    let service = format_ident!("{name}Service");
    let default_len = args_len(interface);
    let stubs = interface.methods.iter().enumerate().map(|(i, m)| stub(i as u64, m));
    let docs = format!(
        "Client of the interface `{name}` for a server that is restarted where it stood: calls that came too late are made when it is \
         there again, and so are those that it ended in the middle of, if they may be repeated."
    );
    quote! {
        #[doc = #docs]
        #[derive(Debug)]
        #vis struct #service {
            service: ::rt::Service,
        }

        #[allow(dead_code)]
        impl #service {
            /// The server whose block of gates is at `gate`; bound with the first call.
            #[must_use]
            pub const fn new(gate: u64) -> #service {
                Self::new_with_args(gate, #default_len)
            }

            /// The same with an argument section of `len` bytes: the longest sum of slices that can be passed.
            #[must_use]
            pub const fn new_with_args(gate: u64, len: u64) -> #service {
                #service { service: ::rt::Service::new(gate, len) }
            }

            /// See `rt::Service::always`.
            #[must_use]
            pub fn always(self) -> #service {
                #service { service: self.service.always() }
            }

            /// Where calls go.
            #[must_use]
            pub const fn service(&self) -> &::rt::Service {
                &self.service
            }

            #(#stubs)*
        }
    }
}

fn stub(index: u64, method: &Method) -> TokenStream {
    let Method { name, docs, repeat, .. } = method;
    let parameters = method.arguments.iter().map(|Argument { name, ty, .. }| quote!(#name: #ty));
    let value = value_type(&method.result);
    let Encoded { words, slices } = encode(method);
    let answer = decode_answer(method);
    let errors = if *repeat {
        "What the method answers; `Dead` if the server has ended for good; `Faulted`; what the kernel answers."
    } else {
        "What the method answers; `Dead` if the server ended in the middle, or for good; `Faulted`; what the kernel answers."
    };
    quote! {
        #(#docs)*
        ///
        /// # Errors
        #[doc = #errors]
        #[allow(clippy::too_many_arguments)]
        pub fn #name(&self, #(#parameters),*) -> ::core::result::Result<#value, ::rt::Error> {
            let __values = self.service.call_with(#repeat, #index, [#(#words),*], [#(#slices),*])?;
            #answer
        }
    }
}
