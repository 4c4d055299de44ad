//! Plans of fine-grained routing, as arrays.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use fgr::evaluate::{Evaluation, Gateways, LinkLoads, Summary, Traffic, Utilisation};
use fgr::topology::Fabric;
use fgr::{Disjoint, Options, Policy};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::failure::{failed, invalid};
use crate::wait::{interruptible, object};

/// A machine: its fabric, clients and router modules.
#[pyclass(frozen, module = "finerail")]
pub(crate) struct Machine(Arc<fgr::Machine>);

/// Which routers each client of a machine uses.
#[pyclass(frozen, module = "finerail")]
pub(crate) struct Plan {
    machine: Arc<fgr::Machine>,
    plan: Arc<fgr::Plan>,
}

/// Marks a place in an array without a router.
const NONE: i64 = -1;

#[pymethods]
impl Machine {
    /// Reads a machine file (YAML).
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let text = std::fs::read_to_string(&path)?;
        let name = path.display().to_string();
        Self::parse(py, text, name)
    }

    /// Reads the text of a machine file; `name` is for errors.
    #[staticmethod]
    #[pyo3(signature = (text, name="machine".to_owned()))]
    fn parse(py: Python<'_>, text: String, name: String) -> PyResult<Self> {
        let machine = interruptible(py, move || fgr::read_machine(&name, &text))?;
        Ok(Self(Arc::new(machine.map_err(invalid)?)))
    }

    /// Makes a model of a machine that was published: `Machine.presets()` has the names.
    #[staticmethod]
    fn preset(py: Python<'_>, name: String) -> PyResult<Self> {
        let unknown = invalid(format_args!(
            "{name:?} is none of {}",
            fgr::PRESETS.join(", ")
        ));
        let machine = interruptible(py, move || fgr::preset(&name))?;
        Ok(Self(Arc::new(machine.ok_or(unknown)?.map_err(invalid)?)))
    }

    /// The names of published machines.
    #[staticmethod]
    fn presets() -> Vec<&'static str> {
        fgr::PRESETS.to_vec()
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The nets behind the routers, in the order of a plan's columns.
    #[getter]
    fn nets(&self) -> Vec<String> {
        let nets = self.0.nets.iter();
        nets.map(|entry| entry.net.to_string()).collect()
    }

    /// The numbers of the clients, in the order of a plan's rows.
    #[getter]
    fn clients<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        PyArray1::from_iter(py, self.0.clients.iter().map(|client| client.id))
    }

    /// Assigns routers to clients. `policy` is one of `Machine.policies()`, and the one that suits the machine without.
    #[pyo3(signature = (policy=None, *, backups=2, dead=vec![]))]
    fn plan(
        &self,
        py: Python<'_>,
        policy: Option<&str>,
        backups: u8,
        dead: Vec<u32>,
    ) -> PyResult<Plan> {
        let machine = Arc::clone(&self.0);
        let policy = match policy {
            None => Policy::suited(&machine),
            Some(name) => named(name)?,
        };
        let options = Options {
            backups,
            disjoint: Disjoint::default(),
            dead: self.routers_with(&dead)?,
        };
        let plan = interruptible(py, move || fgr::assign(&machine, policy, &options))?;
        Ok(Plan {
            machine: Arc::clone(&self.0),
            plan: Arc::new(plan.map_err(failed)?),
        })
    }

    /// The names of the policies.
    #[staticmethod]
    fn policies() -> Vec<&'static str> {
        Policy::ALL.iter().map(|policy| policy.name()).collect()
    }
}

impl Machine {
    /// Returns the indices of the routers with these node numbers.
    fn routers_with(&self, numbers: &[u32]) -> PyResult<BTreeSet<u16>> {
        let index = |number: &u32| {
            let found = self
                .0
                .routers
                .iter()
                .position(|router| router.id == *number);
            let index = found.and_then(|index| u16::try_from(index).ok());
            index.ok_or_else(|| invalid(format_args!("no router has the number {number}")))
        };
        numbers.iter().map(index).collect()
    }
}

fn named(name: &str) -> PyResult<Policy> {
    let known = Policy::ALL.into_iter().find(|policy| policy.name() == name);
    known.ok_or_else(|| {
        let names: Vec<_> = Policy::ALL.iter().map(|policy| policy.name()).collect();
        invalid(format_args!("{name:?} is none of {}", names.join(", ")))
    })
}

#[pymethods]
impl Plan {
    /// The policy that made the plan.
    #[getter]
    fn policy(&self) -> String {
        self.plan.policy.label()
    }

    /// What is not as intended.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.plan.warnings.iter().map(ToString::to_string).collect()
    }

    /// The node numbers of the routers: an array of clients × nets × choices, the primary first, -1 for none.
    #[getter]
    fn routers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray3<i64>>> {
        let (machine, plan) = (&self.machine, &self.plan);
        let shape = [machine.clients.len(), machine.nets.len(), plan.choices()];
        let mut cells = Vec::with_capacity(shape.iter().product());
        for client in 0..shape[0] {
            let row = plan.row_of(client);
            for net in 0..shape[1] {
                let chosen = plan.routers(row, net);
                let numbers = chosen
                    .iter()
                    .map(|&router| machine.routers[usize::from(router)].id);
                let numbers = numbers.map(i64::from).chain(std::iter::repeat(NONE));
                cells.extend(numbers.take(shape[2]));
            }
        }
        PyArray1::from_vec(py, cells).reshape(shape)
    }

    /// What the plan costs, as a dictionary: distances, loads of routers and links, the rate at which the hottest link
    /// is full.
    fn evaluate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (machine, plan) = (Arc::clone(&self.machine), Arc::clone(&self.plan));
        let evaluation = interruptible(py, move || {
            Evaluation::new(&machine, &plan, Gateways::Primary)
        })?;
        object(py, &costs(&evaluation))
    }

    /// The load of each link in units per GB/s, with every client moving one unit to or from each net: an array of
    /// links × (number, load, capacity in GB/s). `reads` counts what clients read instead of what they write.
    #[pyo3(signature = (*, reads=false))]
    fn link_loads<'py>(&self, py: Python<'py>, reads: bool) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (machine, plan) = (Arc::clone(&self.machine), Arc::clone(&self.plan));
        let traffic = if reads { Traffic::Read } else { Traffic::Write };
        let rows = interruptible(py, move || {
            let loads = LinkLoads::new(&machine, &plan, Gateways::Primary, traffic);
            let links = loads.links(&machine.fabric);
            let rows = links.map(|(link, load, capacity)| [f64::from(link.0), load, capacity]);
            rows.collect::<Vec<_>>()
        })?;
        let count = rows.len();
        PyArray1::from_vec(py, rows.concat()).reshape([count, 3])
    }

    /// The places of the clients on the fabric: an array of clients × dimensions on a torus or mesh, of clients × 1
    /// with the number of the vertex elsewhere.
    fn places<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i64>>> {
        let clients = &self.machine.clients;
        let places: Vec<Vec<i64>> = clients
            .iter()
            .map(|client| match &self.machine.fabric {
                Fabric::Grid(grid, _) => {
                    let at = grid.coordinates(client.vertex);
                    at.iter().map(|&at| i64::from(at)).collect()
                }
                _ => vec![i64::from(client.vertex.0)],
            })
            .collect();
        let width = places.first().map_or(0, Vec::len);
        PyArray1::from_vec(py, places.concat()).reshape([clients.len(), width])
    }
}

fn costs(evaluation: &Evaluation) -> Value {
    json!({
        "unserved": evaluation.unserved,
        "hops": summary(&evaluation.hops),
        "hops_histogram": evaluation.hops_histogram,
        "cost": summary(&evaluation.cost),
        "client_cost": summary(&evaluation.client_cost),
        "hops_by_dimension": evaluation.hops_by_dimension,
        "router_load": summary(&evaluation.router_load),
        "balance": evaluation.balance(),
        "write": utilisation(&evaluation.write),
        "read": utilisation(&evaluation.read),
    })
}

fn summary(summary: &Summary) -> Value {
    json!({
        "count": summary.count,
        "min": summary.min,
        "max": summary.max,
        "mean": summary.mean,
        "deviation": summary.deviation,
    })
}

fn utilisation(utilisation: &Utilisation) -> Value {
    json!({
        "max": utilisation.max,
        "hottest": utilisation.hottest.map(|link| link.0),
        "ceiling": utilisation.ceiling,
        "work": utilisation.work,
    })
}
