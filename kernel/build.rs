//! Links the kernel's image with its own script.

fn main() {
    println!("cargo:rerun-if-changed=boot/link.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
        println!("cargo:rustc-link-arg-bins=-T{here}/boot/link.ld");
        for argument in ["--no-pie", "-zmax-page-size=4096", "--build-id=none", "-znorelro"] {
            println!("cargo:rustc-link-arg-bins={argument}");
        }
    }
}
