//! Sets the soname of the shared library: the name under which programs load it.

// [CABI-2]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libbmi.so");
}
