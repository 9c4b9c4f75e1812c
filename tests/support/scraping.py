"""Ask a monitoring page as Prometheus does."""

import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from dcron.monitoring.address import ListenAddress


@dataclass(frozen=True)
class Reply:
    """The answer of a monitoring server."""

    status: int
    content_type: str
    text: str

    def samples(self) -> dict[str, float]:
        """Return the value of each series: `name{label=value,…}`."""
        return samples_of(self.text)


def samples_of(text: str) -> dict[str, float]:
    """Return the value of each series of a page in Prometheus's text format."""
    return {
        name + _labels(labels): value
        for family in text_string_to_metric_families(text)
        for name, labels, value, *_ in family.samples
    }


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{key}={value}" for key, value in labels.items()) + "}" if labels else ""


def families_of(text: str) -> list[Metric]:
    """Return the families of a page in the OpenMetrics format. Raises ValueError if it is not valid."""
    return list(openmetrics.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]


def get(address: ListenAddress | int, path: str, accept: str = "", method: str = "GET") -> Reply:
    """Ask for a page; a port alone is one of this machine."""
    where = f"127.0.0.1:{address}" if isinstance(address, int) else str(address)
    request = urllib.request.Request(f"http://{where}{path}", headers={"Accept": accept}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return Reply(reply.status, reply.headers["Content-Type"], reply.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.headers["Content-Type"], error.read().decode())
