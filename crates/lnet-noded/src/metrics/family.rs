//! A metric and how its values are read from what it is about.
//!
//! ```text
//!  Family { name: "ni_sent_messages", help, by type }
//!      × Series { nid="…", view } …      ─▶  # HELP, # TYPE, and a line for each series and type
//! ```

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Something with a value for each of some names.
pub(super) type Named = Vec<(Cow<'static, str>, u64)>;

/// How some values are spread, for each of some names.
pub(super) type Spreads = Vec<(&'static str, Spread)>;

/// How values in nanoseconds are spread.
pub(super) struct Spread {
    /// All of them together.
    pub(super) sum: u64,
    /// Their number.
    pub(super) count: u64,
    /// Upper bounds in seconds, the last of them infinite, each with the number of the values in its
    /// range.
    pub(super) ranges: Vec<(f64, u64)>,
}

/// A metric of a `V`.
pub(super) struct Family<V> {
    name: &'static str,
    help: &'static str,
    quantity: Quantity,
    values: Values<V>,
}

/// What the numbers are, and how they are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// A plain number.
    Number,
    /// Bytes.
    Bytes,
    /// Read as nanoseconds, written as seconds.
    Time,
}

enum Values<V> {
    /// It only grows.
    Count(fn(&V) -> u64),
    /// The same for each value of a label.
    Counts(&'static str, fn(&V) -> Named),
    /// How things stand.
    Level(fn(&V) -> i64),
    /// The same for each value of a label.
    Levels(&'static str, fn(&V) -> Named),
    /// How values are spread, for each value of a label.
    Spreads(&'static str, fn(&V) -> Spreads),
}

impl<V> Family<V> {
    pub(super) const fn count(name: &'static str, help: &'static str, of: fn(&V) -> u64) -> Self {
        Self::new(name, help, Values::Count(of))
    }

    pub(super) const fn counts(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        of: fn(&V) -> Named,
    ) -> Self {
        Self::new(name, help, Values::Counts(label, of))
    }

    pub(super) const fn level(name: &'static str, help: &'static str, of: fn(&V) -> i64) -> Self {
        Self::new(name, help, Values::Level(of))
    }

    pub(super) const fn levels(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        of: fn(&V) -> Named,
    ) -> Self {
        Self::new(name, help, Values::Levels(label, of))
    }

    /// Of times.
    pub(super) const fn spreads(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        of: fn(&V) -> Spreads,
    ) -> Self {
        Self::new(name, help, Values::Spreads(label, of)).in_unit(Quantity::Time)
    }

    const fn new(name: &'static str, help: &'static str, values: Values<V>) -> Self {
        Self {
            name,
            help,
            quantity: Quantity::Number,
            values,
        }
    }

    /// Its numbers are of this kind, which its name will say.
    pub(super) const fn in_unit(self, quantity: Quantity) -> Self {
        Self { quantity, ..self }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, series: &[Series<V>]) -> fmt::Result {
        let unit = match self.quantity {
            Quantity::Number => None,
            Quantity::Bytes => Some(Unit::Bytes),
            Quantity::Time => Some(Unit::Seconds),
        };
        let kind = match self.values {
            Values::Count(_) | Values::Counts(..) => MetricType::Counter,
            Values::Level(_) | Values::Levels(..) => MetricType::Gauge,
            Values::Spreads(..) => MetricType::Histogram,
        };
        let mut metric = encoder.encode_descriptor(self.name, self.help, unit.as_ref(), kind)?;
        for series in series {
            self.encode_series(&mut metric, series)?;
        }
        Ok(())
    }

    fn encode_series(&self, metric: &mut MetricEncoder<'_>, series: &Series<V>) -> fmt::Result {
        let view = &series.view;
        let labels = Labels {
            own: &series.labels,
            more: None,
        };
        match self.values {
            Values::Count(of) => self.counter(metric, &labels, of(view)),
            Values::Level(of) => metric.encode_family(&labels)?.encode_gauge(&of(view)),
            Values::Counts(label, of) => of(view).iter().try_for_each(|(name, value)| {
                self.counter(metric, &labels.and(label, name), *value)
            }),
            Values::Levels(label, of) => of(view)
                .iter()
                .try_for_each(|(name, value)| self.gauge(metric, &labels.and(label, name), *value)),
            Values::Spreads(label, of) => of(view)
                .iter()
                .try_for_each(|(name, spread)| histogram(metric, &labels.and(label, name), spread)),
        }
    }

    fn counter(&self, metric: &mut MetricEncoder<'_>, at: &Labels<'_>, value: u64) -> fmt::Result {
        let mut metric = metric.encode_family(at)?;
        match self.quantity {
            Quantity::Time => metric.encode_counter::<NoLabelSet, _, f64>(&seconds(value), None),
            Quantity::Number | Quantity::Bytes => {
                metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
            }
        }
    }

    fn gauge(&self, metric: &mut MetricEncoder<'_>, at: &Labels<'_>, value: u64) -> fmt::Result {
        let mut metric = metric.encode_family(at)?;
        match self.quantity {
            Quantity::Time => metric.encode_gauge(&seconds(value)),
            Quantity::Number | Quantity::Bytes => metric.encode_gauge(&value),
        }
    }
}

fn histogram(metric: &mut MetricEncoder<'_>, at: &Labels<'_>, spread: &Spread) -> fmt::Result {
    let mut metric = metric.encode_family(at)?;
    metric.encode_histogram::<NoLabelSet>(seconds(spread.sum), spread.count, &spread.ranges, None)
}

pub(super) fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

/// What some metrics are about, and the labels that say which it is.
#[derive(Debug)]
pub(super) struct Series<V> {
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) view: V,
}

/// Writes metrics of a kind for all there are of it. Those of which there are none are explained all
/// the same, so that every name is always there to be found.
pub(super) fn encode_all<V>(
    encoder: &mut DescriptorEncoder<'_>,
    families: &[Family<V>],
    series: &[Series<V>],
) -> fmt::Result {
    families
        .iter()
        .try_for_each(|family| family.encode(encoder, series))
}

/// The labels of a series, and perhaps one more.
#[derive(Debug)]
struct Labels<'a> {
    own: &'a [(&'static str, String)],
    more: Option<(&'static str, &'a str)>,
}

impl<'a> Labels<'a> {
    fn and(&self, label: &'static str, value: &'a str) -> Self {
        Self {
            own: self.own,
            more: Some((label, value)),
        }
    }
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let own = self.own.iter().map(|(name, value)| (*name, value.as_str()));
        own.chain(self.more)
            .try_for_each(|label| label.encode(encoder.encode_label()))
    }
}
