//! Locks of files that several gateways serve.

use files::spread::Mode;
use files::{Caller, Data, FileSystem, Lock, LockAction, LockOutcome, Place, Reply, Request};

use crate::common::Site;

#[test]
fn the_first_gateway_has_all_locks_in_every_mode() {
    for mode in [Mode::Serial, Mode::Cluster, Mode::Stripe, Mode::LoadBalance] {
        let site = Site::new(3, &[]);
        let clients = [site.spread(mode, 100), site.spread(mode, 100)];
        for number in 0..8 {
            let name = number.to_string();
            std::fs::write(site.path(&name), "x").unwrap();
            let ask = |client: usize, sequence, action| {
                let (caller, place) = (
                    Caller::default(),
                    Place::from_root(name.as_bytes()).unwrap(),
                );
                let handle = clients[client].lookup(&caller, place).unwrap().handle;
                let lock = Lock {
                    owner: 1,
                    process: 0,
                    is_exclusive: true,
                    first: 0,
                    last: 9,
                };
                let request = Request::Lock {
                    holder: client as u64,
                    sequence,
                    floor: 0,
                    handle,
                    action,
                    lock,
                };
                let reply = clients[client].call(&caller, &request, Data::None);
                assert!(matches!(reply, Ok(Reply::Lock(..))), "{reply:?}");
                reply
                    == Ok(Reply::Lock(
                        session(&clients[client], client),
                        LockOutcome::Done,
                    ))
            };
            assert!(ask(0, 1, LockAction::Try), "{mode:?}");
            assert!(!ask(1, 1, LockAction::Try), "{mode:?}");
            assert!(ask(0, 2, LockAction::Release), "{mode:?}");
            assert!(ask(1, 2, LockAction::Try), "{mode:?}");
        }
    }
}

/// Returns the number of the session of a client.
fn session(client: &impl FileSystem, number: usize) -> u64 {
    let request = Request::KeepLocks {
        holder: number as u64,
    };
    let kept = client.call(&Caller::default(), &request, Data::None);
    let Ok(Reply::Lock(session, LockOutcome::Done)) = kept else {
        return u64::MAX;
    };
    session
}
