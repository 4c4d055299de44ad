//! The operations of programs: PUTs, GETs, and unlinking their memory.

use std::rc::Rc;

use lnet_core::{Core, GetRequest, MdHandle, MdOptions, MdSpec, PortalError, PutRequest};
use lnet_types::{ProcessId, Time};

use super::Happening;
use super::Sim;
use super::node::PORTAL;
use crate::cores::plan::{Operation, OperationKind};

impl Sim {
    /// Begins an operation of a program, and plans the next one.
    pub(super) fn operation(&mut self, index: u32) {
        let plan = Rc::clone(&self.plan);
        if let Some(next) = plan.operations.get(index as usize + 1) {
            let at = next.at.max(self.now);
            self.agenda.plan(at, Happening::Operation(index + 1));
        }
        self.operations_left = self.operations_left.saturating_sub(1);
        let Some(operation) = plan.operations.get(index as usize) else {
            return;
        };
        let target = plan.world.nodes.get(operation.to as usize);
        let target = target.and_then(|node| node.nis.get(usize::from(operation.to_ni)));
        let Some(target) = target.map(|ni| ni.nid) else {
            return;
        };
        let now = self.time();
        let Some(node) = self.nodes.get_mut(operation.from as usize) else {
            return;
        };
        let Some(core) = node.core.as_deref_mut() else {
            return;
        };
        if let Some(spec) = plan.world.nodes.get(operation.from as usize)
            && plan.shows_first_paths(operation.from)
        {
            self.checker.foresee(index, &spec.rules, core, target);
        }
        let Ok(md) = start(core, operation, index, ProcessId::lustre(target), now) else {
            return;
        };
        self.checker.started(index, self.now);
        self.tally.started();
        if operation.cancel_after > 0 {
            node.cancellable.push((index, md));
            let at = self.now + operation.cancel_after;
            self.agenda.plan(at, Happening::Cancel(index));
        }
        self.trace
            .operation(self.now, &plan.world, index, operation);
        self.settle(operation.from);
    }

    /// Unlinks the memory of an operation.
    pub(super) fn cancel(&mut self, index: u32) {
        let Some(from) = self
            .plan
            .operations
            .get(index as usize)
            .map(|spec| spec.from)
        else {
            return;
        };
        let now = self.time();
        let Some(node) = self.nodes.get_mut(from as usize) else {
            return;
        };
        let mut cancellable = node.cancellable.iter();
        let at = cancellable.position(|(operation, _)| *operation == index);
        let Some((_, md)) = at.map(|at| node.cancellable.swap_remove(at)) else {
            return;
        };
        // The descriptor may have ended already.
        if let Some(core) = node.core.as_deref_mut()
            && core.md_unlink(md, now).is_ok()
        {
            self.checker.cancelled(index);
            self.settle(from);
        }
    }
}

fn start(
    core: &mut Core,
    operation: &Operation,
    index: u32,
    target: ProcessId,
    now: Time,
) -> Result<MdHandle, PortalError> {
    let answered = operation.kind != OperationKind::Put;
    let md = core.md_bind(MdSpec {
        length: operation.length,
        threshold: Some(1 + u32::from(answered)),
        max_size: 0,
        options: MdOptions::empty(),
        unlink_when_exhausted: true,
        user: index.into(),
    })?;
    let match_bits = u64::from(index);
    let put = PutRequest {
        md,
        ack: answered,
        source: None,
        target,
        portal: PORTAL,
        match_bits,
        offset: 0,
        hdr_data: match_bits,
    };
    let get = GetRequest {
        md,
        source: None,
        target,
        portal: PORTAL,
        match_bits,
        offset: 0,
    };
    match operation.kind {
        OperationKind::Get => core.get(get, now)?,
        OperationKind::Put | OperationKind::PutAck => core.put(put, now)?,
    }
    Ok(md)
}
