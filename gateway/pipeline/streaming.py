"""The stream read of format `gateway`: micro-batches of offset ranges, resumed from Spark's checkpoint.

An offset in a checkpoint says of each topic which one it is and where each of its partitions goes on, see
planning.position_of.  Spark keeps it before a batch is read and again when it is done, and asks for the records between
two of them; records are where their offsets say, so a batch that is read again is the same batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from gateway.pipeline.attempts import Attempts
from gateway.pipeline.options import Reading
from gateway.pipeline.planning import (
    Standings,
    beginning,
    between,
    forward,
    lost,
    offset_of,
    position_of,
    split,
)
from gateway.pipeline.reading import read, settle, there


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The topics that are meant, those made later too, each from its first record on."""

    def __init__(self, reading: Reading, schema: StructType) -> None:
        self._reading = reading
        self._schema = schema
        self._attempts = Attempts(reading.place)
        self._target: Standings | None = None
        self._seen: Standings | None = None

    def initialOffset(self) -> dict[str, object]:
        """Where a stream begins that has no checkpoint.  Raises ValueError, GatewayFailed."""
        return offset_of(beginning(self._look(), self._reading.begin))

    def getDefaultReadLimit(self) -> ReadLimit:
        """What `maxRecordsPerTrigger` says."""
        limit = self._reading.per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all that this query is going to read.  Raises GatewayFailed."""
        self._target = self._look()

    def latestOffset(self, start: Mapping[str, object], limit: ReadLimit) -> dict[str, object]:
        """Where the batch ends that begins there.  Raises GatewayFailed where records were lost meanwhile."""
        at = position_of(start)
        now = self._look() if self._target is None else self._target
        settle(lost(at, now), self._reading)
        return offset_of(forward(at, now, limit.max_rows if isinstance(limit, ReadMaxRows) else None))

    def reportLatestOffset(self) -> dict[str, object] | None:
        """How far it could be by now, as of the last look."""
        return None if self._seen is None else offset_of(forward({}, self._seen, None))

    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        return split(between(position_of(start), position_of(end)), self._reading.per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches of one task.  Raises GatewayFailed."""
        return read(partition, self._reading, self._schema)

    def stop(self) -> None:
        """Hang up."""
        self._attempts.close()

    def _look(self) -> Standings:
        self._seen = there(self._reading, self._attempts)
        return self._seen
