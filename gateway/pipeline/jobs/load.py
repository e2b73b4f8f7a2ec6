"""What `export` has written into topics again, of the same gateway or of another: keys, values, headers, times,
partitions and the order in each are kept, offsets are counted anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click
import msgspec

from gateway.core.commands import Topic
from gateway.pipeline.asking import Connection
from gateway.pipeline.finding import fits
from gateway.pipeline.jobs import job, place_options
from gateway.pipeline.jobs.topics import Described, Made, complete, ends, make
from gateway.pipeline.notes import EXPORTED, beside, read_note, records_in
from gateway.pipeline.places import Place, place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def transform(frame: DataFrame, partitions: int) -> DataFrame:
    """Records of one topic so that each of its partitions is in one task, in the order of its offsets."""
    return frame.repartition(max(1, partitions), "partition").sortWithinPartitions("partition", "offset")


@place_options
@click.argument("path", metavar="DIRECTORY")
@click.option("--topic", default="*", help="Of those exported: a name, `PREFIX*`, or `*`.", show_default=True)
@click.option("--as", "name", default="", help="Another name for it, where it is one topic.")
@click.option("--append", is_flag=True, help="Into a topic that has records, too.")
def run(
    spark: SparkSession,
    *,
    place: Mapping[str, str],
    path: str,
    topic: str = "*",
    name: str = "",
    append: bool = False,
) -> str:
    """Make the topics and publish the records.  Raises ValueError where a topic has records already, and more."""
    chosen = _chosen(spark, path, topic)
    if name and len(chosen) != 1:
        raise ValueError(f"--as names one topic, and {topic} means {len(chosen)} of those in {path}")
    records = records_in(spark, path)
    where = place_of(place)
    said = []
    for one in chosen:
        mine = records.where(records.topic == one.name)
        made, before = _ready(where, Topic(where.namespace, name or one.name), one, append=append)
        into = dict(place) | {"topic": str(made.topic.name)}
        transform(mine, one.partitions).write.format("gateway").options(**into).mode("append").save()
        count, lost = _settled(mine, where, made, one, before)
        said.append(f"{count:,} records into {made.topic.name}" + (f" without its {', '.join(lost)}" if lost else ""))
    return "\n".join(said)


def _chosen(spark: SparkSession, path: str, pattern: str) -> list[Described]:
    note = read_note(spark, beside(path, EXPORTED))
    if note is None:
        raise ValueError(f"{path} was not written by an export that has ended")
    topics = msgspec.convert(note["topics"], list[Described])
    chosen = [one for one in topics if fits(pattern, one.name)]
    if not chosen:
        raise ValueError(f"{path} has no topic {pattern}; it has {', '.join(one.name for one in topics)}")
    return chosen


def _ready(where: Place, target: Topic, like: Described, *, append: bool) -> tuple[Made, dict[int, int]]:
    """A topic that may be written to, and its ends."""
    with Connection(where) as connection:
        made = make(connection, target, like)
        before = ends(connection, target)
    if any(before.values()) and not append:
        raise ValueError(f"{target.name} has records already; --append adds to them")
    return made, before


def _settled(
    records: DataFrame, where: Place, made: Made, like: Described, before: Mapping[int, int]
) -> tuple[int, tuple[str, ...]]:
    """How many records there were, and the settings that were lost.

    Raises ValueError unless every partition has got its own: a task that had to be done again may have published some
    of them twice.  To a topic that was there others may write, too.
    """
    sent = {row.partition: row["count"] for row in records.groupBy("partition").count().collect()}
    with Connection(where) as connection:
        after = ends(connection, made.topic)
        for partition, count in sent.items():
            got = after.get(partition, 0) - before.get(partition, 0)
            if got < count or (made.new and got > count):
                raise ValueError(
                    f"partition {partition} of {made.topic.name} has got {got:,} records, and {count:,} were sent:"
                    " delete the topic, and load it again"
                )
        return sum(sent.values()), complete(connection, made, like).lost


main = job(run)
