//! Tells the laboratory the profile that it is built with. Cargo's `PROFILE` is `release` for every
//! profile that inherits from it, so it is read from the path of the build:
//! `…/PROFILE/build/…/out`.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let folder = Path::new(&out).ancestors().nth(3);
    let profile = folder.and_then(Path::file_name).unwrap_or_default();
    println!("cargo::rustc-env=PROFILE={}", profile.to_string_lossy());
}
