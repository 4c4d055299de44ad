//! A metric, and how its values are read from the object that it describes.
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

/// The values of an object, each with its name.
pub(super) type Named = Vec<(Cow<'static, str>, u64)>;

/// Distributions of values, each with its name.
pub(super) type Spreads = Vec<(&'static str, Spread)>;

/// The distribution of some values, which are in nanoseconds.
pub(super) struct Spread {
    /// The sum of the values.
    pub(super) sum: u64,
    /// The number of the values.
    pub(super) count: u64,
    /// The upper limits of the ranges in seconds, the last of them infinite, each with the number of the values in
    /// its range.
    pub(super) ranges: Vec<(f64, u64)>,
}

/// A metric of an object of type `V`.
pub(super) struct Family<V> {
    name: &'static str,
    help: &'static str,
    quantity: Quantity,
    values: Values<V>,
}

/// The kind of the numbers, and how they are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// A plain number.
    Number,
    /// Bytes.
    Bytes,
    /// A time: read in nanoseconds, written in seconds.
    Time,
}

enum Values<V> {
    /// A number that only grows.
    Count(fn(&V) -> u64),
    /// A number that only grows, for each value of a label.
    Counts(&'static str, fn(&V) -> Named),
    /// A number that rises and falls.
    Level(fn(&V) -> i64),
    /// A number that rises and falls, for each value of a label.
    Levels(&'static str, fn(&V) -> Named),
    /// A distribution, for each value of a label.
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

    /// Makes a metric of distributions of times.
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

    /// Sets the kind of the numbers, which becomes a part of the metric's name.
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

/// An object that metrics describe, and the labels that identify it.
#[derive(Debug)]
pub(super) struct Series<V> {
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) view: V,
}

/// Writes the metrics of all objects of one type. Without any object, the metrics are explained all the same, so that
/// every name can always be found.
pub(super) fn encode_all<V>(
    encoder: &mut DescriptorEncoder<'_>,
    families: &[Family<V>],
    series: &[Series<V>],
) -> fmt::Result {
    families
        .iter()
        .try_for_each(|family| family.encode(encoder, series))
}

/// The labels of a series, and perhaps one more label.
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
