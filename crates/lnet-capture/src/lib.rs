//! LNet traffic in packet captures: TCP reassembly, decoding, conformance.
