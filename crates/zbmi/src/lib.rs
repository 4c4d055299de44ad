//! The zbmi plugin engine: which client message meets which server buffer, as a state machine without I/O.
