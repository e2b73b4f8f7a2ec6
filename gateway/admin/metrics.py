"""What is counted, in the words of Prometheus: METRICS is the list, and to add one is to add to it.

Every label has few values: listeners and users are the operator's, kinds and faults are closed sets, and of topics and
groups the first MOST have a series each, the rest one together whose namespace is empty.  What is lost in translation
is counted in gateway.net.metrics.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

import twisted
from gateway.admin.view import ListenerRow, View
from gateway.admin.web_delay import Delay
from gateway.admin.web_rows import Stored
from gateway.backends.commits import SIZES
from gateway.net.meters import BOUNDS
from gateway.net.tapping import Journaled

MOST = 20
"""Topics, and groups, that have a series of their own."""

OTHER = "other"
"""Topic and group of the rest."""


class Spread(msgspec.Struct, frozen=True):
    """How values were spread.  counts: by bound, and of what is beyond the last.  total: their sum."""

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


Labels = tuple[str, ...]
Sample = tuple[Labels, float | Spread]


class Sight(msgspec.Struct, frozen=True):
    """What metrics are read from.  stored: as of the last look, None = nobody looked.  ready: likewise."""

    view: View
    delay: Delay
    stored: Stored | None
    ready: bool | None
    rows: list[ListenerRow]


class Counted(msgspec.Struct, frozen=True):
    """One metric.  name: without prefix, and without `_total`.  read: its samples, all numbers or all Spreads."""

    name: str
    kind: type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]
    text: str
    labels: Labels
    read: Callable[[Sight], Iterable[Sample]]

    def family(self, sight: Sight) -> Metric:
        """It, with the samples of now."""
        family = self.kind(f"gateway_{self.name}", self.text, labels=self.labels)
        for labels, value in self.read(sight):
            if isinstance(family, HistogramMetricFamily):
                assert isinstance(value, Spread), f"{self.name} is a histogram"
                family.add_metric(labels, _buckets(value), value.total)
            else:
                assert not isinstance(value, Spread), f"{self.name} is a number"
                family.add_metric(labels, value)
        return family


def _of(read: Callable[[ListenerRow], float]) -> Callable[[Sight], Iterable[Sample]]:
    """A number of every listener."""
    return lambda sight: [((row.name, row.dialect), read(row)) for row in sight.rows]


def _of_each(read: Callable[[ListenerRow], Iterable[Sample]]) -> Callable[[Sight], Iterable[Sample]]:
    """Several numbers of every listener, with labels beside its own."""
    return lambda sight: [((row.name, row.dialect, *more), value) for row in sight.rows for more, value in read(row)]


def _stored(read: Callable[[Stored], Iterable[Sample]]) -> Callable[[Sight], Iterable[Sample]]:
    return lambda sight: () if sight.stored is None else read(sight.stored)


def _total(read: Callable[[Stored], float | None]) -> Callable[[Sight], Iterable[Sample]]:
    return _stored(lambda stored: [] if (value := read(stored)) is None else [((), value)])


def _commands(row: ListenerRow) -> Iterable[Sample]:
    return [((kind.__name__,), times) for kind, times in row.meter.asked.items()]


def _latencies(row: ListenerRow) -> Iterable[Sample]:
    measured = row.meter.latency.items()
    return [((kind.__name__,), Spread(BOUNDS, latency.counts, latency.total)) for kind, latency in measured]


def _faults(row: ListenerRow) -> Iterable[Sample]:
    return [((kind.__name__, fault.name), times) for (kind, fault), times in row.meter.faults.items()]


def _refused(row: ListenerRow) -> Iterable[Sample]:
    return [((fault.name,), times) for fault, times in row.meter.refused.items()]


def _turned_away(row: ListenerRow) -> Iterable[Sample]:
    return [((limit,), times) for limit, times in row.meter.turned_away.items()]


def _topic_rates(stored: Stored) -> Iterable[Sample]:
    if stored.rate is None:
        return
    first = stored.topics.rows[:MOST]
    yield from (((topic.namespace, topic.name), topic.rate or 0.0) for topic in first)
    if stored.topics.total > len(first):
        yield ("", OTHER), max(0.0, stored.rate - sum(topic.rate or 0.0 for topic in first))


def _lags(stored: Stored) -> Iterable[Sample]:
    known = [group for group in stored.groups.rows if group.lag is not None]
    yield from (((group.namespace, group.topic, group.name), group.lag or 0) for group in known[:MOST])
    if len(known) > MOST:
        yield ("", OTHER, OTHER), sum(group.lag or 0 for group in known[MOST:])


def _commit_seconds(sight: Sight) -> Iterable[Sample]:
    found = [Spread(BOUNDS, commits.latency.counts, commits.latency.total) for commits in sight.view.commits]
    return [((), _together(found))] if found else []


def _commit_sizes(sight: Sight) -> Iterable[Sample]:
    found = [Spread(SIZES, commits.sizes.counts, commits.sizes.total) for commits in sight.view.commits]
    return [((), _together(found))] if found else []


def _commits_failed(sight: Sight) -> Iterable[Sample]:
    return [((), sum(commits.failed for commits in sight.view.commits))] if sight.view.commits else []


def _captured(read: Callable[[Journaled], int]) -> Callable[[Sight], Iterable[Sample]]:
    """A number of all captures together; none where nothing is captured."""

    def samples(sight: Sight) -> Iterable[Sample]:
        found = sight.view.journals
        return [((), sum(map(read, found)))] if found else []

    return samples


def _together(found: Sequence[Spread]) -> Spread:
    counts = [sum(column) for column in zip(*(each.counts for each in found), strict=True)]
    return Spread(found[0].bounds, counts, sum(each.total for each in found))


def _build(sight: Sight) -> Iterable[Sample]:
    return [((sight.view.version, platform.python_version(), twisted.__version__, sight.view.durability), 1)]


_counter, _gauge, _histogram = CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
_LISTENER = ("listener", "dialect")
_KIND = (*_LISTENER, "kind")

METRICS = (
    Counted("commands", _counter, "Commands that clients asked for, however they ended.", _KIND, _of_each(_commands)),
    Counted(
        "command_seconds",
        _histogram,
        "From a command to its answer; of commands that were answered at once, one of each chunk is measured.",
        _KIND,
        _of_each(_latencies),
    ),
    Counted("faults", _counter, "Commands that failed.", (*_KIND, "fault"), _of_each(_faults)),
    Counted("refused_frames", _counter, "Frames that were no commands.", (*_LISTENER, "fault"), _of_each(_refused)),
    Counted("received_bytes", _counter, "Bytes from clients.", _LISTENER, _of(lambda row: row.meter.bytes_in)),
    Counted("sent_bytes", _counter, "Bytes to clients.", _LISTENER, _of(lambda row: row.meter.bytes_out)),
    Counted("connections", _gauge, "Connections there are.", _LISTENER, _of(lambda row: row.connections)),
    Counted("accepted", _counter, "Connections there were ever.", _LISTENER, _of(lambda row: row.meter.accepted)),
    Counted("closed", _counter, "Connections that ended.", _LISTENER, _of(lambda row: row.meter.closed)),
    Counted("turned_away", _counter, "What met a limit.", (*_LISTENER, "limit"), _of_each(_turned_away)),
    Counted("topics", _gauge, "Topics there are.", (), _total(lambda stored: stored.topics.total)),
    Counted("partitions", _gauge, "Partitions there are.", (), _total(lambda stored: stored.partitions)),
    Counted("stored_records", _gauge, "Records that are kept.", (), _total(lambda stored: stored.records)),
    Counted("stored_bytes", _gauge, "Bytes of the records that are kept.", (), _total(lambda stored: stored.bytes)),
    Counted("groups", _gauge, "Consumer groups there are.", (), _total(lambda stored: stored.groups.total)),
    Counted(
        "topic_records_per_second",
        _gauge,
        f"Records written between the last two looks: of the {MOST} busiest topics, and of all others.",
        ("namespace", "topic"),
        _stored(_topic_rates),
    ),
    Counted(
        "group_lag",
        _gauge,
        f"Records that a group has not committed: of the {MOST} furthest behind, and of all others looked at.",
        ("namespace", "topic", "group"),
        _stored(_lags),
    ),
    Counted("commit_seconds", _histogram, "A transaction of the store, with its sync.", (), _commit_seconds),
    Counted("commit_commands", _histogram, "Commands in a transaction of the store.", (), _commit_sizes),
    Counted("commit_failures", _counter, "Transactions that the disk did not take.", (), _commits_failed),
    Counted("captured_rows", _counter, "Rows in files of a capture.", (), _captured(lambda told: told.rows)),
    Counted("captured_bytes", _counter, "Bytes that they take there.", (), _captured(lambda told: told.octets)),
    Counted(
        "captured_rows_dropped",
        _counter,
        "Rows for which there was no room in memory.",
        (),
        _captured(lambda told: told.dropped),
    ),
    Counted(
        "captured_rows_failed",
        _counter,
        "Rows that could not be written.",
        (),
        _captured(lambda told: told.failed),
    ),
    Counted(
        "ready",
        _gauge,
        "Whether it serves.",
        (),
        lambda sight: [] if sight.ready is None else [((), float(sight.ready))],
    ),
    Counted(
        "reactor_delay_seconds",
        _histogram,
        "By how much the reactor was late, looked at ten times a second.",
        (),
        lambda sight: [((), Spread(BOUNDS, sight.delay.latency.counts, sight.delay.latency.total))],
    ),
    Counted(
        "reactor_delay_worst_seconds",
        _gauge,
        "The longest of the last minute.",
        (),
        lambda sight: [((), sight.delay.worst)],
    ),
    Counted("build_info", _gauge, "What runs.", ("version", "python", "twisted", "durability"), _build),
)
"""All of them; each is shown as gateway_NAME."""


class Metrics(Collector):
    """Reads all of METRICS when it is asked.

    registry: where it is collected from, until `close`; with what Prometheus itself knows of a process.
    stored, ready: as of the last look.
    """

    def __init__(self, registry: CollectorRegistry, view: View, delay: Delay) -> None:
        self.stored: Stored | None = None
        self.ready: bool | None = None
        self._view = view
        self._delay = delay
        self._registry = registry
        self._process = ProcessCollector(namespace="gateway", registry=registry)
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """See Collector."""
        sight = Sight(self._view, self._delay, self.stored, self.ready, self._view.listeners())
        for metric in METRICS:
            yield metric.family(sight)

    def close(self) -> None:
        """Be collected no more."""
        self._registry.unregister(self)
        self._registry.unregister(self._process)


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    names = [*(f"{bound:g}" for bound in spread.bounds), "+Inf"]
    return list(zip(names, accumulate(spread.counts), strict=True))
