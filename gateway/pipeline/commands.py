"""`gateway pipeline JOB`: the jobs as commands, each imported when it is called for."""

from __future__ import annotations

import importlib
import importlib.util

import click

from gateway.pipeline.jobs import JOBS

MISSING = "it runs on Spark: pip install 'polyglot-gateway[pipeline]'"


class Jobs(click.Group):
    """The jobs by name.  Listing them imports none, so that --help needs no Spark."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(JOBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name.  Raises click.ClickException where PySpark is missing."""
        if cmd_name not in JOBS:
            return None
        if importlib.util.find_spec("pyspark") is None:
            raise click.ClickException(MISSING)
        found = importlib.import_module(f"gateway.pipeline.jobs.{cmd_name}").main
        assert isinstance(found, click.Command), f"{cmd_name} is no job"
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table, for the same reason."""
        with formatter.section("Jobs"):
            formatter.write_dl(list(JOBS.items()))


def main(argv: list[str]) -> int:
    """`gateway pipeline ...`.  Exit status: 0 = done, 1 = it failed, after a sentence, 2 = asked wrongly."""
    try:
        return int(pipeline.main(argv, prog_name="gateway pipeline", standalone_mode=False) or 0)
    except click.UsageError as wrong:
        wrong.show()
        return 2
    except click.ClickException as failure:
        click.echo(f"gateway pipeline: {failure.format_message()}", err=True)
        return 1
    except click.Abort:
        click.echo("interrupted", err=True)
        return 130


@click.group(cls=Jobs)
def pipeline() -> None:
    """Jobs on Spark over topics and captured traffic.  `gateway pipeline JOB --help` lists the options of one."""
