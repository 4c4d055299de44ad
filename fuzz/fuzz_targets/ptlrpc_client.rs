#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lnet_fuzz::ptlrpc_client(data));
