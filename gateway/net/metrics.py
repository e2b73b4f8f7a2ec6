"""What is counted, in the words of Prometheus.  Who serves the registry is another matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from gateway import dialects
from gateway.core.table_decisions import ORIGIN
from gateway.dialects import Listener, Losses
from gateway.dialects.fidelity import FIELDS
from gateway.dialects.losses import UNKNOWN

COUNTED = frozenset({*FIELDS, "type"})
"""The fields that dialects count; `type` is that of a value of the grid."""

LOSSES = "gateway_translation_loss"
"""`_total` is added to it where it is shown."""


class TranslationLosses(Collector):
    """The losses of all listeners, together.

    Each label has few values: a dialect or field that is not known here, such as what a native client says of where
    its records are from, is `?`.
    """

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners

    def collect(self) -> Iterable[CounterMetricFamily]:
        """See Collector."""
        text = "Records of which a field was changed or dropped on the way from one dialect to another."
        family = CounterMetricFamily(LOSSES, text, labels=("from", "to", "field"))
        for place, times in sorted(self._total().items()):
            family.add_metric(place, times)
        return [family]

    def _total(self) -> Losses:
        known = {*dialects.names(), *(listener.dialect.name for listener in self._listeners), ORIGIN}
        total: Losses = Counter()
        for listener in self._listeners:
            for (origin, to, field), times in listener.losses.items():
                place = tuple(one if one in those else UNKNOWN for one, those in ((origin, known), (to, known)))
                total[place[0], place[1], field if field in COUNTED else UNKNOWN] += times
        return total


def register(registry: CollectorRegistry, listeners: Sequence[Listener]) -> None:
    """Have the registry count what these listeners lose from now on."""
    registry.register(TranslationLosses(listeners))
