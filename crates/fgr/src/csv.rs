//! A plan as a table that other tools can be compared with.

use std::fmt::{self, Write};

use crate::machine::Machine;
use crate::plan::Plan;

/// Writes the header `client_nid,net,primary_nid,backup1_nid,…`, then a line for each client, by
/// ascending number, and each of its nets, ascending. Nodes are the bare numbers of the machine, nets
/// as LNet writes them; lines end with a line feed. A missing router leaves its field empty.
///
/// # Errors
///
/// Those of `out`.
pub fn write_csv(machine: &Machine, plan: &Plan, out: &mut impl Write) -> fmt::Result {
    out.write_str("client_nid,net,primary_nid")?;
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
