"""A driver in a process of its own, with two streams: from a topic to Parquet, and from Parquet to a topic.

It ends when both have done all there is, if nobody kills it before.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gateway.pipeline.spark import session

READ, WRITTEN = "read", "written"
"""The streams, and their topics: the one that is read into Parquet, and the one that is written from it."""

SCHEMA = "partition int, offset long, value binary"


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("endpoint")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--records", type=int, required=True, help="of the topic in a micro-batch")
    parser.add_argument("--files", type=int, required=True, help="of Parquet in one")
    chosen = parser.parse_args()
    spark = session("streams", master="local[2]", conf={"spark.driver.memory": "512m"})
    told = {"endpoint": chosen.endpoint, "timeoutSeconds": "30"}
    rows = spark.readStream.format("gateway").options(**told).option("topic", READ)
    out = rows.option("maxRecordsPerTrigger", chosen.records).load().writeStream.format("parquet")
    reading = out.option("checkpointLocation", str(chosen.directory / READ)).start(str(chosen.directory / "lake"))
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", chosen.files)
    ordered = files.parquet(str(chosen.directory / "files")).repartition(2, "partition")
    into = ordered.writeStream.format("gateway").options(**told).option("orderBy", "offset")
    into = into.option("topic", WRITTEN).option("createPartitions", 2)
    writing = into.option("checkpointLocation", str(chosen.directory / WRITTEN)).start()
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    reading.processAllAvailable()
    writing.processAllAvailable()
    reading.stop()
    writing.stop()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
