//! A disk image that boots under BIOS and UEFI: GRUB with the kernel and the pack.

use crate::load::Load;
use crate::qemu::PACK;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What GRUB needs to find and start us; its other modules, fonts and themes would make the image five times as big.
const MODULES: &str = "multiboot2 normal boot serial terminal all_video gfxterm part_gpt part_msdos iso9660 \
                       search search_fs_file configfile echo";

/// Refuses a place where no image can be made, in our own words and before anything is built.
pub fn check_place(out: &Path) -> Result<()> {
    let shown = || format!("cannot make the image {}", out.display());
    // A name that ends in a slash means a folder even where there is none.
    let is_folder = out.is_dir() || out.as_os_str().as_encoded_bytes().ends_with(b"/");
    ensure!(!is_folder, "{}: it is a folder", shown());
    let is_new = !out.exists();
    ensure!(is_new || out.is_file(), "{}: it is a device or the like, not a file", shown());
    fs::OpenOptions::new().append(true).create(true).open(out).with_context(shown)?;
    if is_new {
        fs::remove_file(out).with_context(shown)?;
    }
    Ok(())
}

/// Makes the image `out` in the working folder `dir`, without these servers; returns the length of the pack in it.
pub fn make(load: &Load, without: &[String], words: &str, dir: &Path, out: &Path) -> Result<u64> {
    let root = dir.join("root");
    let boot = root.join("boot");
    fs::create_dir_all(boot.join("grub"))?;
    let kernel = &load.parts.kernel;
    let file = fs::read(kernel).with_context(|| format!("cannot read {}", kernel.display()))?;
    fs::write(boot.join("kernel"), pack::strip::loaded(&file)?)?;
    let pack = load.write(&boot.join(PACK), without)?;
    fs::write(boot.join("grub/grub.cfg"), config(words))?;
    let made = Command::new("grub-mkrescue")
        .arg(format!("--install-modules={MODULES}"))
        .args(["--locales=", "--fonts=", "--themes=", "-o"])
        .args([out, &root])
        .output()
        .context("grub-mkrescue does not start (package grub-common)")?;
    // xorriso makes an image even where a part of the firmware's files is missing; then GRUB says so.
    ensure!(made.status.success(), "grub-mkrescue failed:\n{}", String::from_utf8_lossy(&made.stderr));
    fs::remove_dir_all(&root)?;
    Ok(pack)
}

fn config(words: &str) -> String {
    format!(
        "set timeout=0\n\
         if serial --unit=0 --speed=115200; then terminal_output --append serial; fi\n\
         insmod all_video\n\
         set gfxpayload=1024x768x32,auto\n\
         menuentry Musubi {{\n\
         \x20   multiboot2 /boot/kernel {words}\n\
         \x20   module2 /boot/{PACK} {PACK}\n\
         \x20   boot\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_for_an_image_is_checked_first() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        fs::write(place("old"), "before").unwrap();
        assert!(check_place(&place("new.iso")).is_ok() && !place("new.iso").exists());
        assert!(check_place(&place("old")).is_ok());
        assert_eq!(fs::read(place("old")).unwrap(), b"before");
        let said = |name: &str| format!("{:#}", check_place(&place(name)).unwrap_err());
        assert!(said("no/folder.iso").contains("No such file or directory"), "{}", said("no/folder.iso"));
        assert!(said("old/x").contains("Not a directory") && said("").contains("it is a folder"));
        assert!(said("new/").contains("it is a folder"));
        assert!(check_place(Path::new("/dev/null")).unwrap_err().to_string().contains("not a file"));
    }

    #[test]
    fn grub_is_told_kernel_pack_and_words() {
        let config = config("build=1 exec");
        assert!(config.contains("multiboot2 /boot/kernel build=1 exec\n"));
        assert!(config.contains("module2 /boot/pack pack\n"));
    }
}
