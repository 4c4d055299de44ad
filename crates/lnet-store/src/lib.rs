//! A storage service over LNet RPC, and its client.
