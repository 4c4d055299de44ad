//! Questions about a site. The package reads the files; see `finerail.site`.

use lnet_site::{Selection, SiteFile};
use pyo3::prelude::*;

use crate::failure::failed;
use crate::wait::{interruptible, object};

fn files(files: Vec<(String, String)>) -> Vec<SiteFile> {
    let files = files.into_iter();
    files.map(|(path, text)| SiteFile { path, text }).collect()
}

/// Returns whether a file of this name belongs to a site.
#[pyfunction]
pub(crate) fn is_wanted(path: &str) -> bool {
    lnet_site::is_wanted(path)
}

/// Reports what is wrong in a site, given as pairs of a path and a text.
#[pyfunction]
pub(crate) fn site_check(
    py: Python<'_>,
    texts: Vec<(String, String)>,
) -> PyResult<Bound<'_, PyAny>> {
    let report = interruptible(py, move || {
        let site = lnet_site::read(&files(texts)).map_err(|error| error.to_string())?;
        lnet_site::check(&site).map_err(|error| error.to_string())
    })?;
    object(py, &report.map_err(failed)?)
}

/// Reports which nodes of a site reach which; `senders` and `receivers` are host lists, NIDs or nets.
#[pyfunction]
#[pyo3(signature = (texts, senders=None, receivers=None))]
pub(crate) fn site_reach(
    py: Python<'_>,
    texts: Vec<(String, String)>,
    senders: Option<String>,
    receivers: Option<String>,
) -> PyResult<Bound<'_, PyAny>> {
    let reach = interruptible(py, move || {
        let site = lnet_site::read(&files(texts)).map_err(|error| error.to_string())?;
        let select = |text: Option<String>| match text {
            None => Ok(Selection::default()),
            Some(text) => {
                let selection = Selection::parse(&text).map_err(|error| error.to_string())?;
                match &selection.unknown(&site)[..] {
                    [] => Ok(selection),
                    [name, ..] => Err(format!("{name:?} is no node, NID or net of the site")),
                }
            }
        };
        let (senders, receivers) = (select(senders)?, select(receivers)?);
        Ok::<_, String>(lnet_site::reach(&site, &senders, &receivers))
    })?;
    object(py, &reach.map_err(failed)?)
}
