"""A driver in a process of its own: the jobs that the first argument names in JSON, on the master it names.

{"master": "spark://...", "conf": {...}, "jobs": [["compact", {"topic": "users", ...}], ...]}
"""

from __future__ import annotations

import importlib
import json
import sys

from gateway.pipeline.spark import session

asked = json.loads(sys.argv[1])
spark = session("driven", master=asked["master"], conf=asked["conf"])
for name, said in asked["jobs"]:
    sys.stdout.write(importlib.import_module(f"gateway.pipeline.jobs.{name}").run(spark, **said) + "\n")
spark.stop()
