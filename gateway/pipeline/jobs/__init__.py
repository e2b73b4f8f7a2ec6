"""What `gateway pipeline JOB` can do: one module each, and what they have in common.

A job is a module of this package with three names:

    transform(frame, ...) -> DataFrame     what it is about; pure, it starts nothing and writes nothing
    run(spark, ...) -> str                 reads, transforms, writes; the sentence it returns is printed.  Its click
                                           options stand above it; @place_options gives it `place`
    main = job(run)                        the command: it starts the session, shows progress, and turns what Spark
                                           raises into a sentence

and a line in JOBS.  PySpark is imported inside functions or for types alone: what is missing is said by the command.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import click

JOBS = {
    "ingest": "Topics to a lake of Parquet files, each record once.",
    "export": "Topics to Parquet files that `load` can bring back.",
    "load": "What `export` wrote into topics, here or elsewhere.",
    "compact": "The latest value of each key of a topic, as a table.",
    "sessions": "Requests and replies of a capture: latencies, errors, slow sessions.",
    "lineage": "Who wrote what others read, and what was lost on the way.",
    "conformance": "Captured clients judged by the cases of their dialect.",
    "report": "Plots of throughput, latency and lag.",
}
"""Name -> what `gateway pipeline --help` says of it."""

P = ParamSpec("P")

_PLACE = {
    "endpoint": "DIALECT=tcp:HOST:PORT of the gateway, `tls:` for TLS.",
    "namespace": "Whose topics.",
    "user": "Who logs in.",
    "password_file": "File that holds the password.",
    "ca_file": "PEM certificates to check the gateway against.",
    "timeout_seconds": "How long an answer may take.",
}
_NAMED = {"password_file": "passwordFile", "ca_file": "caFile", "timeout_seconds": "timeoutSeconds"}


def place_options(run: Callable[P, str]) -> Callable[P, str]:
    """Options that say which gateway.  The function is given, as `place`, those that were said."""
    for name, what in reversed(_PLACE.items()):
        run = click.option(f"--{name.replace('_', '-')}", help=what)(run)
    return run


def _place(options: dict[str, object]) -> dict[str, str]:
    """Taken out of the options of a command, as options of the data sources.

    The password itself: where Spark reads its options the file may not be.  Spark redacts it where it shows it.
    """
    said = {_NAMED.get(name, name): str(value) for name in _PLACE if (value := options.pop(name)) is not None}
    path = said.pop("passwordFile", "")
    return said | ({"password": Path(path).read_text(encoding="utf-8").strip()} if path else {})


def job(run: Callable[..., str]) -> click.Command:
    """The command of a job, with the options that start Spark.  It exits with 1, after a sentence, where it fails."""
    name = run.__module__.rpartition(".")[2]

    @functools.wraps(run)
    def main(
        master: str, remote: str, packages: tuple[str, ...], conf: tuple[tuple[str, str], ...], **options: object
    ) -> None:
        from gateway.pipeline.running import running

        with running(name, master=master, remote=remote, packages=packages, conf=dict(conf)) as spark:
            place = {"place": _place(options)} if "endpoint" in options else {}
            click.echo(run(spark, **place, **options))

    for option in _SPARK:
        main = option(main)
    return click.command(name, help=JOBS[name])(main)


def _setting(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """`KEY=VALUE` of --conf, split."""
    if wrong := [text for text in texts if "=" not in text]:
        raise click.BadParameter(f"{wrong[0]!r} is not KEY=VALUE")
    return tuple((key, value) for key, _, value in (text.partition("=") for text in texts))


_SPARK = (
    click.option("--conf", multiple=True, metavar="KEY=VALUE", callback=_setting, help="A setting of Spark."),
    click.option("--packages", multiple=True, metavar="COORDINATES", help="A Maven package for Spark."),
    click.option("--remote", default="", metavar="sc://HOST:PORT", help="A Spark Connect server in place of --master."),
    click.option("--master", default="local[*]", show_default=True, metavar="URL", help="Where Spark runs."),
)
