//! The first instruction of a program and of a gate, and what a program must have to be linked.

/// Makes `run` the program's main function: `fn run(start: &rt::Start) -> i32`. Its value is the exit status.
#[macro_export]
#[cfg(target_os = "musubi")]
#[allow_internal_unsafe]
macro_rules! program {
    ($main:path) => {
        const _: () = {
            #[unsafe(no_mangle)]
            extern "C" fn musubi_main() -> i32 {
                $crate::hidden::run($main)
            }
        };
    };
}

/// Makes `run` the program's main function: `fn run(start: &rt::Start) -> i32`. Its value is the exit status.
#[macro_export]
#[cfg(not(target_os = "musubi"))]
macro_rules! program {
    ($main:path) => {
        fn main() {
            $crate::hidden::run_on_host($main)
        }
    };
}

#[doc(hidden)]
pub fn run(main: fn(&crate::Start) -> i32) -> i32 {
    main(&crate::start())
}

/// Programs compile everywhere, so that editors and tests see them, and run on Musubi.
#[doc(hidden)]
#[cfg(not(target_os = "musubi"))]
pub fn run_on_host(_main: fn(&crate::Start) -> i32) {
    std::eprintln!("this is a Musubi program: run it with ./musubi exec");
    std::process::exit(126);
}

#[cfg(target_os = "musubi")]
mod machine {
    use core::arch::naked_asm;

    // SAFETY: `program!` defines it, with this signature, in every program.
    unsafe extern "C" {
        fn musubi_main() -> i32;
    }

    /// `rdi` = address of the start record. The frame chain ends here.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    extern "C" fn _start() -> ! {
        naked_asm!(
            "xor ebp, ebp",
            "and rsp, -16",
            "call {begin}",
            "ud2",
            begin = sym begin,
        )
    }

    extern "C" fn begin(info: *const abi::start::StartInfo) -> ! {
        // SAFETY: abi::start: at entry rdi points to the start record, which stays readable as long as the program.
        unsafe { crate::start::set(info) };
        crate::memory::look_at_processor();
        crate::fault::begin();
        abi::refusal::set_who(crate::task::who);
        // SAFETY: every program defines it with `program!`, with this signature.
        let code = unsafe { musubi_main() };
        crate::task::exit(code)
    }

    /// Tells loaders that this is a program of ours: name, type 1, version 1.
    #[repr(C)]
    struct Note {
        name_len: u32,
        desc_len: u32,
        kind: u32,
        name: [u8; 8],
        version: u32,
    }

    #[used]
    // SAFETY: a section of its own, of which the linker script keeps every byte.
    #[unsafe(link_section = ".note.musubi")]
    static NOTE: Note = Note { name_len: 7, desc_len: 4, kind: 1, name: *b"Musubi\0\0", version: 1 };
}
