//! What control clients see of the RPCs.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use lnet_dlc::protocol::{RpcFilter, RpcNumbers, RpcRow, RpcTable, RpcTold};
use lnet_ptlrpc::{Figures, OTHER, Rpc, Summary};
use lnet_types::Time;

use super::Shared;
use super::metrics::OWN_MAX;
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
        let all = counted.tables.first().map(Summary::total);
        let tables = counted.tables.iter().map(|table| RpcTable {
            by: table.by().first().map_or("", |by| by.name()).to_owned(),
            rows: rows(table),
        });
        RpcNumbers {
            all: all.map_or_else(RpcRow::default, |all| row("all", all)),
            outstanding: counted.pairer.outstanding() as u64,
            missed: self.0.missed.load(Ordering::Relaxed),
            tables: tables.collect(),
            slowest: counted.slowest.both().iter().map(told).collect(),
        }
    }

    /// Begins to watch the RPCs that pass a filter.
    pub(crate) fn watch(&self, filter: RpcFilter) -> Watch {
        self.0.watchers.add(filter)
    }
}

/// Returns the rows with the most RPCs, and one row of all others.
fn rows(table: &Summary) -> Vec<RpcRow> {
    let mut own = Vec::new();
    let mut rest: Option<RpcRow> = None;
    for (key, figures) in table.rows() {
        let row = row(key.first().map_or("", String::as_str), figures);
        if own.len() < OWN_MAX && row.name != OTHER {
            own.push(row);
            continue;
        }
        let rest = rest.get_or_insert_with(|| RpcRow {
            name: OTHER.to_owned(),
            ..RpcRow::default()
        });
        rest.rpcs += row.rpcs;
        rest.errors += row.errors;
        rest.unanswered += row.unanswered;
        rest.bytes = rest.bytes.saturating_add(row.bytes);
        rest.answered += row.answered;
        rest.micros = rest.micros.saturating_add(row.micros);
    }
    own.extend(rest);
    own
}

fn row(name: &str, figures: &Figures) -> RpcRow {
    RpcRow {
        name: name.to_owned(),
        rpcs: figures.rpcs,
        errors: figures.errors,
        unanswered: figures.unanswered,
        bytes: figures.bytes,
        answered: figures.answered,
        micros: figures.micros,
        micros_99: figures.within(0.99),
        micros_max: figures.longest(),
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
        bytes: rpc.bulk,
        status: rpc.status,
        micros: rpc.took().map(micros),
        service_seconds: rpc.service_time,
        resends: rpc.resends,
        early: rpc.early,
    }
}

#[cfg(test)]
mod tests {
    use lnet_ptlrpc::By;

    use super::*;
    use crate::rpcs::tests::rpc;

    #[test]
    fn others_are_one_row_and_no_rpc_is_lost() {
        let mut table = Summary::new(&[By::Client]);
        for client in 1..=150 {
            for _ in 0..client {
                table.add(&rpc(client));
            }
        }
        let rows = rows(&table);
        assert_eq!(rows.len(), OWN_MAX + 1);
        let rest = rows
            .last()
            .map(|rest| (rest.name.as_str(), rest.rpcs, rest.errors));
        assert_eq!(rest, Some((OTHER, 1275, 1275)));
        assert_eq!(
            rows.iter().map(|row| row.rpcs).sum::<u64>(),
            table.total().rpcs
        );
    }
}
