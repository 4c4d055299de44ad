//! What control clients see of the RPCs.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use lnet_dlc::protocol::{RpcFilter, RpcNumbers, RpcRow, RpcTable, RpcTold};
use lnet_ptlrpc::{By, End, Figures, Rpc};
use lnet_types::Time;

use super::Shared;
use super::board::{Board, Line, Reader, Sums};
use super::watching::Watch;

/// A handle of what is counted.
pub(crate) struct RpcView(Arc<Shared>);

impl RpcView {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Returns the tables of now.
    pub(crate) fn numbers(&self, now: Time) -> RpcNumbers {
        let mut counted = self
            .0
            .counted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        counted.slowest.turn(now);
        let tables = counted.boards.iter_mut().map(|board| RpcTable {
            by: board.by().name().to_owned(),
            rows: board.look(Reader::Control).iter().map(row).collect(),
        });
        let tables = tables.collect();
        // The table with the fewest rows.
        let mut boards = counted.boards.iter();
        let all = boards.find(|board| board.by() == By::Operation);
        RpcNumbers {
            all: all.map_or_else(RpcRow::default, of_all),
            outstanding: counted.pairer.outstanding() as u64,
            missed: self.0.missed.load(Ordering::Relaxed),
            not_followed: counted.pairer.tally.forgotten,
            tables,
            slowest: counted.slowest.both().iter().map(told).collect(),
        }
    }

    /// Begins to watch the RPCs that pass a filter.
    pub(crate) fn watch(&self, filter: RpcFilter) -> Watch {
        self.0.watchers.add(filter)
    }
}

fn of_all(board: &Board) -> RpcRow {
    let figures = &board.total();
    row(&Line {
        name: "all",
        sums: Sums::of(figures),
        figures: Some(figures),
    })
}

fn row(line: &Line<'_>) -> RpcRow {
    let Line {
        name,
        sums,
        figures,
    } = line;
    RpcRow {
        name: (*name).to_owned(),
        rpcs: sums.rpcs,
        errors: sums.errors,
        unanswered: sums.unanswered,
        bytes: sums.bytes,
        answered: sums.answered,
        micros: sums.micros,
        micros_99: figures.and_then(|figures| figures.within(0.99)),
        micros_max: figures.and_then(Figures::longest),
    }
}

/// Returns an RPC as control clients see it.
pub(super) fn told(rpc: &Rpc) -> RpcTold {
    let micros = |took: std::time::Duration| u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    RpcTold {
        client: rpc.client.to_string(),
        server: rpc.server.to_string(),
        target: rpc.target_name(),
        operation: rpc.operation(),
        job: rpc.job.to_string(),
        subject: rpc.subject.clone(),
        xid: rpc.xid,
        bytes: rpc.moved(),
        status: rpc.status,
        micros: rpc.took().map(micros),
        service_seconds: rpc.service_time,
        resends: rpc.resends,
        early: rpc.early,
        forgotten: rpc.end == End::Forgotten,
    }
}

#[cfg(test)]
mod tests {
    use lnet_ptlrpc::opc;

    use super::*;
    use crate::rpcs::tests::rpc;

    #[test]
    fn bytes_of_an_rpc_are_those_that_the_tables_count() {
        let small = |opc, status, asked, bulk| Rpc {
            opc: Some(opc),
            status: Some(status),
            asked,
            bulk,
            ..rpc(1)
        };
        for (rpc, expected) in [
            (small(opc::OST_WRITE, 0, 2, 0), 2),
            (small(opc::OST_READ, 4096, 8192, 0), 4096),
            (small(opc::OST_READ, -5, 8192, 0), 0),
            (small(opc::OST_WRITE, 0, 8192, 8192), 8192),
        ] {
            let mut board = Board::new(By::Operation);
            board.add(&rpc);
            assert_eq!(
                (told(&rpc).bytes, of_all(&board).bytes),
                (expected, expected)
            );
        }
    }
}
