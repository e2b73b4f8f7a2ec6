"""The data source `gateway`: topics of a running gateway, or of another server, as DataFrames, both ways."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from gateway.pipeline.options import reading_of
from gateway.pipeline.reading import BatchReader
from gateway.pipeline.schema import SCHEMA, check_schema
from gateway.pipeline.streaming import StreamReader
from gateway.pipeline.writing import BatchWriter, StreamWriter


class GatewaySource(DataSource):
    """`spark.read.format("gateway")` and its three siblings; docs/pipeline.md has the options."""

    @classmethod
    def name(cls) -> str:
        """What it is called in `format`."""
        return "gateway"

    def schema(self) -> StructType:
        """Every column; see schema.py."""
        return SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        """A bounded read.  Raises ValueError for options or a schema that mean nothing."""
        check_schema(schema)
        return BatchReader(reading_of(self.options), schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """An unbounded read.  Raises ValueError likewise."""
        check_schema(schema)
        return StreamReader(reading_of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """A batch write.  Raises ValueError likewise."""
        return BatchWriter(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """A stream write.  Raises ValueError likewise."""
        return StreamWriter(schema, self.options, overwrite)
