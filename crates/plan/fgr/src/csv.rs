//! A plan as a table, for comparison with other tools.

use std::fmt::{self, Write};

use crate::machine::Machine;
use crate::plan::Plan;

/// The beginning of the header of [`write_csv`], by which a plan is known.
pub const CSV_HEADER: &str = "client_nid,net,primary_nid";

/// Writes the header `client_nid,net,primary_nid,backup1_nid,…`, then one line for each client and
/// net, in ascending order of both. Nodes are written as the machine's numbers, nets as LNet writes
/// them. Lines end with a line feed. The field of a missing router is empty.
///
/// # Errors
///
/// Errors of `out`.
pub fn write_csv(machine: &Machine, plan: &Plan, out: &mut impl Write) -> fmt::Result {
    out.write_str(CSV_HEADER)?;
    for backup in 1..plan.choices() {
        write!(out, ",backup{backup}_nid")?;
    }
    out.write_char('\n')?;
    let nets: Vec<String> = machine
        .nets
        .iter()
        .map(|entry| entry.net.to_string())
        .collect();
    for (client, entry) in machine.clients.iter().enumerate() {
        let row = plan.row_of(client);
        for (net, name) in nets.iter().enumerate() {
            write!(out, "{},{name}", entry.id)?;
            let routers = plan.routers(row, net);
            for choice in 0..plan.choices() {
                out.write_char(',')?;
                if let Some(&router) = routers.get(choice) {
                    write!(out, "{}", machine.routers[usize::from(router)].id)?;
                }
            }
            out.write_char('\n')?;
        }
    }
    Ok(())
}
