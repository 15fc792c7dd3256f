//! The code that an interface becomes.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};

use crate::model::{Argument, Interface, Kind, Method, Outcome, WORDS};
use crate::service;

pub fn all(interface: &Interface) -> TokenStream {
    let declared = &interface.declared;
    let client = client(interface);
    let service = service::client(interface);
    let server = server(interface);
    quote! {
        #declared
        #client
        #service
        #server
    }
}

/// `ColourMap` as `colour-map` or `colour_map`.
fn snake(name: &str, between: char) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            out.push(between);
        }
        out.extend(c.to_lowercase());
    }
    out
}

fn client(interface: &Interface) -> TokenStream {
    let vis = &interface.declared.vis;
    let name = &interface.declared.ident;
    let client = format_ident!("{name}Client");
    let public_name = snake(&name.to_string(), '-');
    let default_len = args_len(interface);
    let stubs = interface.methods.iter().enumerate().map(|(i, m)| stub(i as u64, m));
    let later = format_ident!("{name}Later");
    let later_stubs = interface.methods.iter().enumerate().map(|(i, m)| later_stub(i as u64, m));
    let later_docs = format!("The methods of `{name}`, with answers that are waited for later.");
    let identity = identity(interface);
    let count = interface.methods.len() as u64;
    let descriptions = interface.methods.iter().map(describe);
    let docs = format!("Client of the interface `{name}`: every call may also fail because the server has ended.");
    quote! {
        #[doc = #docs]
        #[derive(Debug)]
        #vis struct #client {
            bound: ::rt::Bound,
        }

        impl #client {
            /// Name and methods, for programs that call what they do not know.
            pub const INTERFACE: ::rt::gate::Interface =
                ::rt::gate::Interface { name: #public_name, methods: &[#(#descriptions),*] };

            /// Which interface messages say that they are about.
            pub const IDENTITY: u32 = #identity;

            /// Binds this program to the server's block of gates.
            ///
            /// # Errors
            /// As `rt::Bound::bind`.
            pub fn bind(gate: u64) -> ::core::result::Result<#client, ::rt::Error> {
                Self::bind_with_args(gate, #default_len)
            }

            /// The same with an argument section of `len` bytes: the longest sum of slices that can be passed.
            ///
            /// # Errors
            /// As `rt::Bound::bind`.
            pub fn bind_with_args(gate: u64, len: u64) -> ::core::result::Result<#client, ::rt::Error> {
                ::core::result::Result::Ok(#client { bound: ::rt::Bound::bind(gate, len)? })
            }

            /// A client whose calls are just of this grade (`abi::gate::grade`).
            ///
            /// # Errors
            /// As `rt::Bound::bind_as`.
            pub fn bind_as(gate: u64, len: u64, grade: u64) -> ::core::result::Result<#client, ::rt::Error> {
                ::core::result::Result::Ok(#client { bound: ::rt::Bound::bind_as(gate, len, grade)? })
            }

            /// Calls by plain calls: no binding, and no memory is lent.
            #[must_use]
            pub fn plain(gate: u64) -> #client {
                #client { bound: ::rt::Bound::plain(gate) }
            }

            /// A client whose calls are served by a thread of the server's, by a line (ITC): the server must offer lines, and
            /// only the calling thread may call.
            ///
            /// # Errors
            /// As `rt::Bound::bind_line`.
            pub fn bind_itc(gate: u64, len: u64) -> ::core::result::Result<#client, ::rt::Error> {
                ::core::result::Result::Ok(#client { bound: ::rt::Bound::bind_line(gate, len, #count)? })
            }

            /// A client whose calls are questions at the server's post: the server must offer one, and its threads serve.
            ///
            /// # Errors
            /// As `rt::Bound::bind_post`.
            pub fn bind_post(gate: u64, len: u64) -> ::core::result::Result<#client, ::rt::Error> {
                ::core::result::Result::Ok(#client { bound: ::rt::Bound::bind_post(gate, len, #count, #identity)? })
            }

            /// The binding.
            #[must_use]
            pub fn bound(&self) -> &::rt::Bound {
                &self.bound
            }

            /// Calls whose answers are waited for later: by the line, if there is one. Without one they are made at once.
            #[must_use]
            pub fn later(&self) -> #later<'_> {
                #later(::rt::later::Later::of(&self.bound))
            }

            /// The same binding, for calls that are to be made by the gate where others go by a line or a post: the client chooses with
            /// each call. On any thread.
            #[must_use]
            pub fn by_gate(&self) -> ::rt::bound::Way<'_, #client> {
                ::rt::bound::Way::new(self, #client { bound: self.bound.gate_way() })
            }

            /// Calls by the server's post, with answers that come at `answers`. What a request passes by pointer the server may use until it
            /// answers that one, and no longer. Besides, this client calls as before.
            ///
            /// # Errors
            /// As `rt::later::Later::by_post`.
            pub fn by_post<'a>(
                &'a self,
                answers: &'a ::rt::Answers,
            ) -> ::core::result::Result<#later<'a>, ::rt::Error> {
                ::rt::later::Later::by_post(&self.bound, answers, #count, #identity).map(#later)
            }

            /// The same, and the server's threads may use all that this binding ever lends, until that ends.
            ///
            /// # Errors
            /// As `rt::later::Later::by_post`.
            pub fn by_post_shared<'a>(
                &'a self,
                answers: &'a ::rt::Answers,
            ) -> ::core::result::Result<#later<'a>, ::rt::Error> {
                ::rt::later::Later::by_post_shared(&self.bound, answers, #count, #identity).map(#later)
            }

            /// Ends the binding.
            ///
            /// # Errors
            /// As `rt::Bound::unbind`.
            pub fn unbind(self) -> ::core::result::Result<(), ::rt::Error> {
                self.bound.unbind()
            }

            /// Memory in the argument section: what is passed from there is not copied.
            ///
            /// # Errors
            /// As `rt::Bound::alloc`.
            pub fn alloc(&self, len: usize) -> ::core::result::Result<::rt::lend::Loan<'_>, ::rt::Error> {
                self.bound.alloc(len)
            }

            #(#stubs)*
        }

        #[doc = #later_docs]
        #[allow(dead_code)]
        #[derive(Clone, Copy, Debug)]
        #vis struct #later<'a>(::rt::later::Later<'a>);

        #[allow(dead_code)]
        impl<'a> #later<'a> {
            /// By a post that is known, without lending anything: see `rt::later::Later::to`.
            #[must_use]
            pub fn to(post: ::rt::post::Post, answers: &'a ::rt::Answers) -> #later<'a> {
                #later(::rt::later::Later::to(post, answers, #identity))
            }

            /// The same, and only answers of instances of this text are believed: see `rt::later::Later::to_program`.
            #[must_use]
            pub fn to_program(post: ::rt::post::Post, answers: &'a ::rt::Answers, original: u64) -> #later<'a> {
                #later(::rt::later::Later::to_program(post, answers, #identity, original))
            }

            /// What the server has counted of its post.
            ///
            /// # Errors
            /// As `rt::later::Later::count`.
            pub fn count(&self, which: ::rt::serve::Count) -> ::core::result::Result<u64, ::rt::Error> {
                self.0.count(#count, which)
            }

            #(#later_stubs)*
        }
    }
}

/// Length of the argument section if nobody asks for one.
pub fn args_len(interface: &Interface) -> TokenStream {
    let lends = interface.methods.iter().flat_map(|m| &m.arguments).any(|a| !matches!(a.kind, Kind::Word(_)));
    if lends { quote!(::rt::bound::ARGS_DEFAULT) } else { quote!(0) }
}

/// What messages of an interface have in common: of its name and all that is declared of its methods.
fn identity(interface: &Interface) -> u32 {
    let signatures = interface.declared.items.iter().map(|item| match item {
        syn::TraitItem::Fn(function) => function.sig.to_token_stream().to_string(),
        _ => String::new(),
    });
    let name = interface.declared.ident.to_string();
    // FNV-1a, folded to the bits that there are (`rt::request::IDENTITIES`). 0 is for those that say nothing.
    let whole = [name].into_iter().chain(signatures).flat_map(String::into_bytes);
    let hash =
        whole.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let folded = hash ^ hash >> 12 ^ hash >> 24 ^ hash >> 36 ^ hash >> 48 ^ hash >> 60;
    (folded as u32 & 0xfff).max(1)
}

/// A call as words, and what it passes by pointer.
pub struct Encoded {
    pub words: Vec<TokenStream>,
    pub slices: Vec<TokenStream>,
}

pub fn encode(method: &Method) -> Encoded {
    let mut words = Vec::new();
    let mut slices = Vec::new();
    for Argument { name, kind, .. } in &method.arguments {
        let word = words.len();
        let read = |bytes| quote!(::rt::lend::Slice::read(#word, #bytes));
        let write = |bytes| quote!(::rt::lend::Slice::write(#word, #bytes));
        let len = quote!(#name.len() as u64);
        match kind {
            Kind::Word(_) => words.push(quote!(::rt::gate::Word::into_word(#name))),
            _ => words.extend([quote!(0), len]),
        }
        match kind {
            Kind::Word(_) => {}
            Kind::Bytes => slices.push(read(quote!(#name))),
            Kind::Text => slices.push(read(quote!(#name.as_bytes()))),
            Kind::Array(_) => slices.push(read(quote!(#name.as_slice()))),
            Kind::BytesMut => slices.push(write(quote!(#name))),
            Kind::ArrayMut(_) => slices.push(write(quote!(#name.as_mut_slice()))),
        }
    }
    words.resize(WORDS, quote!(0));
    Encoded { words, slices }
}

/// The value in the two words of an answer.
pub fn decode_answer(method: &Method) -> TokenStream {
    match method.result {
        Outcome::Pair => quote!(::core::result::Result::Ok((__values[0], __values[1]))),
        _ => quote! {
            ::rt::gate::Word::from_word(::rt::bound::result_of(__values)?).ok_or(::rt::Error::BadArgument)
        },
    }
}

fn describe(method: &Method) -> TokenStream {
    let name = method.name.to_string().replace('_', "-");
    let words = method.arguments.iter().map(|a| {
        let (name, ty) = (a.name.to_string(), &a.ty);
        let ty = quote!(#ty).to_string().replace("& ", "&").replace(" ;", ";");
        quote!((#name, #ty))
    });
    let result = match method.result {
        Outcome::Pair => quote!(::rt::gate::Returns::Pair),
        _ => quote!(::rt::gate::Returns::Status),
    };
    quote!(::rt::gate::Method { name: #name, arguments: &[#(#words),*], returns: #result })
}

pub fn value_type(outcome: &Outcome) -> TokenStream {
    match outcome {
        Outcome::Nothing => quote!(()),
        Outcome::Word(ty) => quote!(#ty),
        Outcome::Pair => quote!((u64, u64)),
    }
}

fn stub(index: u64, method: &Method) -> TokenStream {
    let Method { name, docs, .. } = method;
    let parameters = method.arguments.iter().map(|Argument { name, ty, .. }| quote!(#name: #ty));
    let value = value_type(&method.result);
    let Encoded { words, slices } = encode(method);
    let call = if slices.is_empty() {
        quote!(self.bound.call(#index, [#(#words),*])?)
    } else {
        quote!(self.bound.call_with(#index, [#(#words),*], [#(#slices),*])?)
    };
    let answer = decode_answer(method);
    quote! {
        #(#docs)*
        ///
        /// # Errors
        /// What the method answers; `Dead` or `Faulted` if the server ended; what the kernel answers.
        #[allow(clippy::too_many_arguments)]
        #[inline]
        pub fn #name(&self, #(#parameters),*) -> ::core::result::Result<#value, ::rt::Error> {
            let __values = #call;
            #answer
        }
    }
}

fn later_stub(index: u64, method: &Method) -> TokenStream {
    let Method { name, docs, repeat, .. } = method;
    let value = value_type(&method.result);
    let Encoded { words, slices } = encode(method);
    let lent = method.arguments.iter().map(|Argument { name, ty, kind }| match kind {
        Kind::Word(_) => quote!(#name: #ty),
        Kind::Bytes => quote!(#name: &'a [u8]),
        Kind::BytesMut => quote!(#name: &'a mut [u8]),
        Kind::Text => quote!(#name: &'a str),
        Kind::Array(n) => quote!(#name: &'a [u8; #n]),
        Kind::ArrayMut(n) => quote!(#name: &'a mut [u8; #n]),
    });
    let answer = decode_answer(method);
    quote! {
        #(#docs)*
        ///
        /// # Errors
        /// As `rt::later::Later::begin`.
        #[allow(clippy::too_many_arguments)]
        pub fn #name(
            &self,
            #(#lent),*
        ) -> ::core::result::Result<::rt::later::Answer<'a, #value>, ::rt::Error> {
            let __posted = self.0.begin(#repeat, #index, [#(#words),*], [#(#slices),*])?;
            ::core::result::Result::Ok(::rt::later::Answer::of(__posted, |__values| #answer))
        }
    }
}

fn server(interface: &Interface) -> TokenStream {
    let vis = &interface.declared.vis;
    let name = &interface.declared.ident;
    let serve = format_ident!("{}_serve", snake(&name.to_string(), '_'));
    let count = interface.methods.len() as u64;
    let arms = interface.methods.iter().enumerate().map(|(i, m)| arm(i as u64, m));
    let serve_by = format_ident!("{serve}_by");
    let identity = identity(interface);
    let skeleton = format_ident!("{name}Skeleton");
    let (who, flags) = if interface.called_up {
        ("Nobody comes in but the kernel and schedulers", quote!(::rt::abi::gate::flag::CALLED_UP))
    } else {
        ("Nobody may call them before `Gates::admit`", quote!(0))
    };
    let docs =
        format!("Exports the gates of the interface `{name}`, served by `server` on its callers' threads. {who}.");
    // Messages come from whoever may send to the post.
    let by = (!interface.called_up).then(|| {
        quote! {
            /// The same, by further ways, too: threads of the server's serve callers who want that. See `rt::Gates::export_by`.
            ///
            /// # Errors
            /// As `rt::Gates::export_by`.
            #[allow(dead_code)]
            #vis fn #serve_by<S: #name + Sync>(
                server: &'static S,
                ways: ::rt::serve::Ways,
            ) -> ::core::result::Result<::rt::Gates, ::rt::Error> {
                ::rt::Gates::export_by::<_, #count>(#skeleton(server), ways)
            }
        }
    });
    quote! {
        #[doc = #docs]
        ///
        /// # Errors
        /// As `rt::Gates::export`.
        #vis fn #serve<S: #name + Sync>(server: &'static S) -> ::core::result::Result<::rt::Gates, ::rt::Error> {
            ::rt::Gates::export_with(#skeleton(server), #count, #flags)
        }

        #by

        #[doc(hidden)]
        struct #skeleton<S: 'static>(&'static S);

        impl<S: #name + Sync> ::rt::gate::Skeleton for #skeleton<S> {
            const IDENTITY: u32 = #identity;

            #[inline(always)]
            fn dispatch(&self, __caller: &::rt::Caller, __index: u64, __words: &[u64; 6]) -> ::rt::gate::Values {
                match __index {
                    #(#arms)*
                    _ => ::rt::gate::Values::of(::core::result::Result::Err(::rt::Error::NoSuchCall)),
                }
            }
        }
    }
}

fn arm(index: u64, method: &Method) -> TokenStream {
    let name = &method.name;
    let caller = method.caller.then(|| quote!(__caller,));
    let mut next = 0usize;
    let mut decode = Vec::new();
    let mut pass = Vec::new();
    let mut pointers = Vec::new();
    let mut pointed = Vec::new();
    for argument in &method.arguments {
        let name = &argument.name;
        let (first, second) = (next, next + 1);
        let pointer = match &argument.kind {
            Kind::Word(_) => None,
            Kind::Bytes => Some(quote!(Read(__words[#first], __words[#second]))),
            Kind::BytesMut => Some(quote!(Write(__words[#first], __words[#second]))),
            Kind::Text => Some(quote!(Text(__words[#first], __words[#second]))),
            Kind::Array(n) => Some(quote!(ReadArray::<{ #n }>(__words[#first], __words[#second]))),
            Kind::ArrayMut(n) => Some(quote!(WriteArray::<{ #n }>(__words[#first], __words[#second]))),
        };
        match pointer {
            Some(pointer) => {
                pointers.push(pointer);
                pointed.push(name);
            }
            None => decode.push(quote! {
                let #name = ::rt::gate::Word::from_word(__words[#first]).ok_or(::rt::Error::Refused)?;
            }),
        }
        next += argument.words();
        // A text comes as a copy.
        pass.push(if matches!(argument.kind, Kind::Text) { quote!(&#name) } else { quote!(#name) });
    }
    if !pointers.is_empty() {
        decode.push(quote! {
            let (#(#pointed,)*) = ::rt::gate::arguments(__caller, (#(::rt::gate::#pointers,)*))?;
        });
    }
    if matches!(method.result, Outcome::Pair) {
        // Every word is a valid argument here (model.rs), so there is nothing to decode.
        let words = (0..method.arguments.len()).map(|i| quote!(__words[#i]));
        let words = words.zip(&method.arguments).map(|(word, a)| {
            let ty = &a.ty;
            quote!(#word as #ty)
        });
        return quote! {
            #[allow(clippy::unnecessary_cast)]
            #index => {
                let (first, second) = self.0.#name(#caller #(#words),*);
                ::rt::gate::Values(first, second)
            }
        };
    }
    let question = method.fallible.then(|| quote!(?));
    // What cannot fail is not refused for want of memory either.
    let spare = (method.fallible && !method.when_short).then(|| quote!(::rt::spare::ready()?;));
    quote! {
        #[allow(clippy::let_unit_value)]
        #index => {
            let __run = || -> ::core::result::Result<u64, ::rt::Error> {
                #spare
                #(#decode)*
                let __value = self.0.#name(#caller #(#pass),*) #question;
                ::core::result::Result::Ok(::rt::gate::Word::into_word(__value))
            };
            ::rt::gate::Values::of(__run())
        }
    }
}
