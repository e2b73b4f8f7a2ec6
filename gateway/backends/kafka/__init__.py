"""Kafka as the store: topics, partitions, records, groups and committed offsets are Kafka's own.

What native programs write and make is there by itself, and they see what is written and made here.  A write is answered
when all replicas in sync have it (`replicated`).  Every gateway of one Kafka shares namespaces, ids and the settings
that Kafka has no place for: they are in the compacted topic `__gateway`, which any of them makes.

The gateway starts whether or not a broker answers; until one does commands fail with UNAVAILABLE, and the log says why.
What a gateway knows of topics stays good during an outage.

Names: topics of `default` keep theirs, `orders` of the namespace `sales` is `sales.orders`; what Kafka cannot name, or
could not tell from something else, is refused with INVALID_NAME.  A topic that a native program deletes and makes again
between two looks keeps its id.

What Kafka cannot do is UNSUPPORTED: taking partitions away, renaming a topic, a topic without partitions
(INVALID_ARGUMENT).  It does not say how many bytes a partition holds (0 is shown), nor when a native topic was made.

Bounds: 10 s a command beside what it asks to wait, 8 threads and 1000 waiting calls for what blocks, a look at the
topics every 3 s, 5 s to close.

Only the maker is here: whoever looks for backends imports this file, and Kafka's client need not be installed.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.interfaces import IReactorTime
from twisted.plugin import IPlugin
from zope.interface import implementer

from gateway.backends.interface import IBackend, IBackendMaker
from gateway.core.records import Encoding


@implementer(IPlugin, IBackendMaker)
class _Maker:
    name = "kafka"
    usage = "kafka:HOST:PORT,..."

    def make(self, argument: str, encodings: Mapping[str, Encoding], reactor: IReactorTime) -> IBackend:
        """See IBackendMaker."""
        try:
            import confluent_kafka  # noqa: F401  # looked for, not used here
        except ImportError:
            missing = "the kafka backend needs confluent-kafka: pip install 'polyglot-gateway[kafka]'"
            raise ValueError(missing) from None
        from gateway.backends.kafka.backend import KafkaBackend
        from gateway.backends.kafka.cluster import check_bootstrap

        return KafkaBackend(check_bootstrap(argument), encodings, reactor)


maker = _Maker()
