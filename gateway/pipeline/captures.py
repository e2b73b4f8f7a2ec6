"""Format `gateway-capture`: files of captured traffic as frames, as commands with their answers, or judged.

    spark.read.format("gateway-capture").load("captured")                            one row a frame, see FRAMES
    spark.read.format("gateway-capture").option("as", "commands").load("captured")   one row a request, see COMMANDS
    spark.read.format("gateway-capture").option("as", "cases").load("captured")      one row a verdict, see CASES

Options, besides the path, which is a file, a directory (its files capture-*) or a pattern:

    as      `frames` (default), `commands` or `cases`; `decoded` = `true` is the same as `commands`
    mode    `fail` (default): a file that is none of ours, or damaged, ends the job with a sentence; `skip`: what cannot
            be read of it is passed over, counted and warned of

What is missing is never left out silently.  A row whose `direction` (of frames) or `missing` (of others) is `torn`
stands for the end of a file whose process died, or still writes; `damaged` for what was passed over; `gap` for rows
that the gateway could not keep up with.  Its `note` says how much.

Frames are read with a Spark partition a file.  Commands are those of one process from all its files, since a
connection may go on from one to the next, in so many partitions as there are files, up to SHARES, by connection.
Cases are, too; a row is a case that a connection has exercised, with one verdict: see gateway.conformance.overhearing.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from glob import glob, has_magic
from itertools import chain
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from gateway.capture.rows import SUFFIX, Capture, Header, NoCapture
from gateway.pipeline.capture_columns import (
    CASES,
    COMMANDS,
    FRAMES,
    Column,
    Command,
    Frame,
    Verdict,
    batches,
    chosen,
    schema_of,
)
from gateway.pipeline.capture_files import Missing, rows_of, summary
from gateway.pipeline.exchanges import Exchanges, Wanted
from gateway.pipeline.overheard import Overheard

FORMAT = "gateway-capture"

Form = Literal["frames", "commands", "cases"]
FORMS: tuple[Form, ...] = "frames", "commands", "cases"

SHARES = 8
"""Spark partitions of one process at most: each of them unpacks all of its files."""


class Options(msgspec.Struct, frozen=True):
    """What was asked for."""

    places: tuple[str, ...]
    form: Form = "frames"
    skip: bool = False


def options_of(said: Mapping[str, str]) -> Options:
    """Raises ValueError, with a sentence."""
    places = tuple(json.loads(said["paths"])) if "paths" in said else (said["path"],) if said.get("path") else ()
    if not places:
        raise ValueError('say which files: spark.read.format("gateway-capture").load(FILE, DIRECTORY or PATTERN)')
    decoded = _one_of(said, "decoded", ("false", "true")) == "true"
    form = "commands" if decoded and "as" not in said else _one_of(said, "as", FORMS)
    if decoded and form != "commands":
        raise ValueError(f"decoded is commands, and as={form} is not")
    skip = _one_of(said, "mode", ("fail", "skip")) == "skip"
    return Options(tuple(map(_local, places)), form, skip)


W = TypeVar("W", bound=str)


def _one_of(said: Mapping[str, str], name: str, words: tuple[W, ...]) -> W:
    """The first of them is what is meant where nothing is said."""
    found = said.get(name, words[0]).lower()
    for word in words:
        if found == word:
            return word
    raise ValueError(f"{name} is {', '.join(words[:-1])} or {words[-1]}, not {said[name]!r}")


def _local(place: str) -> str:
    """A path that every worker has."""
    scheme, found, rest = place.partition("://")
    if not found:
        return str(Path(place.removeprefix("file:")).absolute())
    if scheme != "file":
        raise ValueError(f"{place}: captures are read from paths that every worker has, not from {scheme}:")
    return rest


class CaptureSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """See DataSource."""
        return FORMAT

    def schema(self) -> StructType:
        """See DataSource."""
        return schema_of(COLUMNS[options_of(self.options).form])

    def reader(self, schema: StructType) -> DataSourceReader:
        """See DataSource.  A schema that was given may name fewer columns: what is not asked for is not decoded."""
        options = options_of(self.options)
        return READERS[options.form](options, chosen(COLUMNS[options.form], schema))


class Part(InputPartition):
    """Files of one process in their order, and which of their connections."""

    def __init__(self, paths: Sequence[str], share: tuple[int, int] = (0, 1)) -> None:
        self.paths = tuple(paths)
        self.share = share


class FramesReader(DataSourceReader):
    """Rows as they are."""

    def __init__(self, options: Options, columns: Mapping[str, Column]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """See DataSourceReader."""
        return [Part([str(path)]) for path in found(self._options.places)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See DataSourceReader."""
        assert isinstance(partition, Part), "as it was made"
        for path in map(Path, partition.paths):
            missing: list[Missing] = []
            numbered = enumerate(rows_of(path, skip=self._options.skip, missing=missing))
            frames = (Frame(str(path), number, header, row) for number, (header, row) in numbered)
            yield from batches(frames, self._columns, lambda each: len(each.row.frame))
            tell(missing)


class CommandsReader(DataSourceReader):
    """Requests with their answers."""

    def __init__(self, options: Options, columns: Mapping[str, Column]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """See DataSourceReader."""
        parts: list[InputPartition] = []
        for paths in processes(found(self._options.places)):
            shares = min(len(paths), SHARES)
            parts += [Part(paths, (at, shares)) for at in range(shares)]
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See DataSourceReader."""
        assert isinstance(partition, Part), "as it was made"
        missing: list[Missing] = []
        commands = self._commands(partition, missing)
        yield from batches(commands, self._columns, lambda each: len(each.exchange.frame or b""))
        if partition.share[0] == 0:  # the others have seen the same
            tell(missing)

    def _commands(self, part: Part, missing: list[Missing]) -> Iterator[Command]:
        needs = {column.needs for column in self._columns.values()}
        exchanges = Exchanges(Wanted(*(need in needs for need in Wanted.__struct_fields__)), part.share)
        header: Header | None = None
        for path in map(Path, part.paths):
            for header, row in rows_of(path, skip=self._options.skip, missing=missing):
                for exchange in exchanges.take(header, row):
                    yield Command(header, exchange)
        if header is not None:
            yield from (Command(header, exchange) for exchange in exchanges.rest())


class CasesReader(CommandsReader):
    """What came of cases."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See DataSourceReader."""
        assert isinstance(partition, Part), "as it was made"
        missing: list[Missing] = []
        yield from batches(
            self._verdicts(partition, missing), self._columns, lambda each: len(each.judged.frame or b"")
        )
        if partition.share[0] == 0:
            tell(missing)

    def _verdicts(self, part: Part, missing: list[Missing]) -> Iterator[Verdict]:
        overheard = Overheard(part.share)
        header: Header | None = None
        for path in map(Path, part.paths):
            for header, row in rows_of(path, skip=self._options.skip, missing=missing):
                for judged in overheard.take(header, row):
                    yield Verdict(header, judged)
        if header is not None:
            yield from (Verdict(header, judged) for judged in overheard.rest())


COLUMNS: dict[Form, dict[str, Column]] = {"frames": FRAMES, "commands": COMMANDS, "cases": CASES}
READERS: dict[Form, type[FramesReader] | type[CommandsReader]] = {
    "frames": FramesReader,
    "commands": CommandsReader,
    "cases": CasesReader,
}


def tell(missing: Sequence[Missing]) -> None:
    """Warn of what is missing; the driver's user sees it where the workers' standard error goes."""
    if missing:
        warnings.warn(summary(missing), stacklevel=2)


# -- files


def found(places: Sequence[str]) -> list[Path]:
    """Files in the order of their names, those of a directory that a capture writes.  Raises ValueError."""
    return list(dict.fromkeys(chain.from_iterable(map(_found, places))))


def _found(place: str) -> list[Path]:
    if Path(place).is_dir():
        paths = sorted(Path(place).glob(f"capture-*{SUFFIX}"))
        if not paths:
            raise ValueError(f"{place} has no files capture-*{SUFFIX}")
        return paths
    if Path(place).is_file():
        return [Path(place)]
    paths = sorted(map(Path, glob(place, recursive=True))) if has_magic(place) else []
    if not paths:
        raise ValueError(f"there is no file {place}")
    return [each for path in paths for each in (_found(str(path)) if path.is_dir() else [path])]


def processes(paths: Sequence[Path]) -> list[list[str]]:
    """The files of each process, in the order in which they were begun.

    One that cannot be read is by itself, as is what was kept of a single connection (`fault-...`): its first row is
    no beginning.
    """
    groups: dict[object, list[tuple[int, str]]] = {}
    for path in paths:
        key, opened = _process(path)
        groups.setdefault(key, []).append((opened, str(path)))
    return [[path for _, path in sorted(group)] for group in groups.values()]


def _process(path: Path) -> tuple[object, int]:
    try:
        header = Capture(path).header
    except (NoCapture, OSError):
        return path, 0
    return ((header.node, header.started) if path.name.startswith("capture-") else path), header.opened
