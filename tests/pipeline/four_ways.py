"""A driver in a process of its own: a topic is read and written, at once and as a stream, on whatever PySpark is there.

Arguments: the gateway's endpoint, and a directory.  The topic `orders` goes to `copied`, to a lake, and to `streamed`.
"""

from __future__ import annotations

import sys

import pyspark

from gateway.pipeline.jobs import ingest
from gateway.pipeline.spark import session

endpoint, directory = sys.argv[1:]
place = {"endpoint": endpoint}
lake = f"{directory}/lake"
spark = session("four ways", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
orders = spark.read.format("gateway").options(**place, topic="orders").load()
sys.stdout.write(f"{pyspark.__version__}: {orders.count()} records\n")
orders.write.format("gateway").options(**place, topic="copied", createPartitions="2").mode("append").save()
sys.stdout.write(ingest.run(spark, place=place, path=lake, topic="orders", available_now=True, max_records=400) + "\n")
taken = spark.readStream.format("gateway").options(**place, topic="orders", maxRecordsPerTrigger="800").load()
writing = taken.writeStream.format("gateway").options(**place, topic="streamed", createPartitions="2")
writing.option("checkpointLocation", f"{directory}/written").trigger(availableNow=True).start().awaitTermination()
spark.stop()
