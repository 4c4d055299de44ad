//! A spread behaves like the reference model while its gateways fail, hang, restart and recover.

use std::sync::Arc;

use files::reftest::{Mismatch, Steps, Subject, Tally, compare_in_trouble, steps};
use files::spread::Mode;
use files::{Caller, FileSystem};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::common::{Fault, Site, faults};

/// How a test uses a site.
#[derive(Clone, Copy, Debug)]
struct Use {
    mode: Mode,
    gateways: usize,
    writers: usize,
    readers: usize,
    objects_max: usize,
}

fn compare(how: Use, steps: &Steps, faults: &[Fault]) -> Result<Tally, Mismatch> {
    let site = Site::new(how.gateways, faults);
    let client = |mode| Arc::new(site.spread(mode, how.objects_max)) as Arc<dyn FileSystem>;
    let writers = (0..how.writers).map(|_| client(how.mode));
    let clients: Vec<_> = writers
        .chain((0..how.readers).map(|_| client(Mode::LoadBalance)))
        .collect();
    let clients: Vec<&dyn FileSystem> = clients.iter().map(|client| &**client).collect();
    let subject = Subject {
        clients: &clients,
        readers: how.readers,
        truth: &site.truth,
        trouble: &site,
    };
    compare_in_trouble(&subject, &Caller::default(), steps)
}

fn modes() -> impl Strategy<Value = Mode> {
    prop::sample::select(vec![Mode::Serial, Mode::Cluster, Mode::Stripe])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::common::cases()))]

    #[test]
    fn one_client_sees_nothing_of_failing_gateways_but_unknown_outcomes(
        mode in modes(),
        gateways in 1..=3_usize,
        steps in steps(80, 1),
        faults in faults(80, 3),
    ) {
        let how = Use { mode, gateways, writers: 1, readers: 0, objects_max: 1000 };
        let result = compare(how, &steps, &faults);
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }

    #[test]
    fn several_clients_and_readers_see_each_operation_once(
        mode in modes(),
        gateways in 1..=3_usize,
        steps in steps(80, 3),
        faults in faults(80, 3),
        objects_max in prop::sample::select(vec![4_usize, 1000]),
    ) {
        let how = Use { mode, gateways, writers: 2, readers: 1, objects_max };
        let result = compare(how, &steps, &faults);
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}

#[test]
fn the_drawn_faults_meet_the_operations() {
    let (mut runner, mut sum) = (TestRunner::deterministic(), Tally::default());
    for _ in 0..100 {
        let drawn = (steps(80, 1), faults(80, 2));
        let (steps, faults) = drawn.new_tree(&mut runner).unwrap().current();
        let how = Use {
            mode: Mode::Cluster,
            gateways: 2,
            writers: 1,
            readers: 0,
            objects_max: 1000,
        };
        let tally = compare(how, &steps, &faults).unwrap();
        sum.done += tally.done;
        sum.survived += tally.survived;
        sum.unknown += tally.unknown;
        sum.unreached += tally.unreached;
    }
    // The draw must contain some of each; the limits fit its number of cases.
    assert!(
        sum.survived >= 100 && sum.unknown >= 5 && sum.unreached >= 5,
        "{sum:?}"
    );
}
