"""A job on a Spark session of its own: how far it is, on a terminal, and what went wrong as one sentence."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.core.faults import CommandFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

_RAISED = re.compile(r"^(?:[a-z_]\w*\.)*\w*(?:Error|Exception|Failed|Fault): (.+)$", re.MULTILINE)
"""The last line of a Python traceback, as Spark gives it in its own text."""


@contextmanager
def running(
    name: str,
    *,
    master: str = "local[*]",
    remote: str = "",
    packages: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session for a job, as `spark.session` has it, stopped with the block.

    Raises click.ClickException with a sentence for what a user can do something about; exits after Ctrl-C.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from gateway.pipeline.progress import shown
    from gateway.pipeline.spark import session

    spark = None
    _hush()
    try:
        spark = session(f"gateway {name}", master=master, remote=remote, packages=packages, conf=conf)
        with shown(spark, remote=bool(remote)) if sys.stderr.isatty() else nullcontext():
            yield spark
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except (PySparkException, Py4JError, CommandFailed, ValueError, OSError) as error:
        raise click.ClickException(sentence(error)) from error
    finally:
        if spark is not None:
            spark.stop()


def _hush() -> None:
    """Keep py4j from logging, traceback and all, that a call was interrupted; that is said in a word."""
    hearing = logging.StreamHandler()
    hearing.addFilter(lambda record: not {"py4j", "pyspark"} & set(Path(record.pathname).parts))
    logging.getLogger().addHandler(hearing)


def sentence(error: BaseException) -> str:
    """What went wrong, without the traceback that Spark wraps it in."""
    text = str(error)
    raised = _RAISED.findall(text.partition("Traceback (most recent call last)")[2])
    if raised:
        return str(raised[-1])
    return text.partition("\nJVM stacktrace")[0].strip() or type(error).__name__
