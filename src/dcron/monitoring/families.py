"""Build families of metrics: one figure, or one for each value of a label."""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily


def gauge(name: str, help_text: str, value: float) -> Metric:
    """Return a gauge without labels."""
    return GaugeMetricFamily(name, help_text, value=value)


def gauges_by(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    """Return a gauge for each value of the label."""
    return _by_label(GaugeMetricFamily(name, help_text, labels=[label]), values)


def ones(name: str, help_text: str, labels: Sequence[str], values: Iterable[Sequence[str]]) -> Metric:
    """Return a gauge that is 1 for each of these values of the labels."""
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for each in values:
        family.add_metric(each, 1)
    return family


def counts_by(name: str, help_text: str, label: str, counts: Mapping[str, int]) -> Metric:
    """Return a counter for each value of the label."""
    return _by_label(CounterMetricFamily(name, help_text, labels=[label]), counts)


def _by_label(
    family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[str, float]
) -> CounterMetricFamily | GaugeMetricFamily:
    for value_of_label, value in values.items():
        family.add_metric([value_of_label], value)
    return family
