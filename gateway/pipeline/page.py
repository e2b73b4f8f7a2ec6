"""A report as one HTML page that needs nothing else: its pictures and its style are in it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from html import escape

import msgspec

from gateway.pipeline.plots import DARK, LIGHT, NARROW, WIDE, Look, Plot, Shape, picture

PHONE = "(max-width: 640px)"
NIGHT = "(prefers-color-scheme: dark)"

STYLE = """
:root { color-scheme: light dark;
  --ground: #f5f6f8; --card: #fff; --line: #e3e6ea; --text: #1a1e24; --dim: #626c7a; --failed: #bf2c47; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #0e1116; --card: #161a21; --line: #272d37; --text: #e5e9ef; --dim: #8f99a8; --failed: #ff7288; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1100px; padding: 20px; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
header { margin: 4px 0 16px; } h1 { margin: 0; font-size: 22px; } header p { margin: 2px 0 0; color: var(--dim); }
section, .number { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; }
section { margin: 0 0 12px; } h2 { margin: 0 0 8px; font-size: 16px; }
.numbers { display: grid; grid-template-columns: repeat(4, 1fr); gap: 12px; margin: 0 0 12px; }
.number span { display: block; color: var(--dim); font-size: 13px; }
.number b { font-size: 22px; font-weight: 600; white-space: nowrap; }
.lost { border-color: var(--failed); }
img { display: block; width: 100%; height: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 14px; white-space: nowrap; }
th { color: var(--dim); font-weight: 400; font-size: 13px; }
th, td { padding: 6px 0 6px 16px; border-bottom: 1px solid var(--line); text-align: right;
  font-variant-numeric: tabular-nums; }
th.text, td.text { text-align: left; } th:first-child, td:first-child { padding-left: 0; }
tr:last-child td { border-bottom: 0; }
@media (max-width: 640px) { body { padding: 10px; } section, .number { padding: 10px 12px; }
  .numbers { grid-template-columns: 1fr 1fr; gap: 8px; } .number b { font-size: 19px; } }
"""


class Table(msgspec.Struct, frozen=True):
    """title, the heads of its columns, and rows: a text stands to the left, all else was written out already."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int


class Report(msgspec.Struct, frozen=True):
    """about: a line below the title.  numbers: name -> value.  plots: title -> plot.  lost: what is missing."""

    about: str
    numbers: Mapping[str, str]
    plots: Mapping[str, Plot]
    tables: Sequence[Table]
    lost: str = ""


def page(report: Report) -> str:
    """The whole of it."""
    numbers = "".join(
        f'<div class="number"><span>{_text(name)}</span><b>{_text(value)}</b></div>'
        for name, value in report.numbers.items()
    )
    lost = f'<section class="lost">{_text(report.lost)}</section>' if report.lost else ""
    plots = "".join(_figure(title, plot) for title, plot in report.plots.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>gateway: captured traffic</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>'
        f"<header><h1>Captured traffic</h1><p>{_text(report.about)}</p></header>{lost}"
        f'<div class="numbers">{numbers}</div>{plots}{"".join(map(_table, report.tables))}</body></html>\n'
    )


def _figure(title: str, plot: Plot) -> str:
    """Each reader's browser takes the one of four that fits."""
    chosen: list[tuple[str, Look, Shape]] = [
        (f"{NIGHT} and {PHONE}", DARK, NARROW),
        (PHONE, LIGHT, NARROW),
        (NIGHT, DARK, WIDE),
    ]
    sources = "".join(
        f'<source media="{media}" srcset="{_inline(plot, look, shape)}">' for media, look, shape in chosen
    )
    image = f'<img alt="{_text(title)}" src="{_inline(plot, LIGHT, WIDE)}">'
    return f"<section><picture>{sources}{image}</picture></section>"


def _inline(plot: Plot, look: Look, shape: Shape) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(picture(plot, look, shape, 'svg')).decode()}"


def _table(table: Table) -> str:
    heads = _row("th", table.heads, table.texts)
    rows = "".join(_row("td", row, table.texts) for row in table.rows)
    return (
        f'<section><h2>{_text(table.title)}</h2><div class="wide"><table><thead>{heads}</thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _row(tag: str, cells: Sequence[str], texts: int) -> str:
    mark: Callable[[int], str] = lambda at: ' class="text"' if at < texts else ""  # noqa: E731
    return f"<tr>{''.join(f'<{tag}{mark(at)}>{_text(cell)}</{tag}>' for at, cell in enumerate(cells))}</tr>"


def _text(text: str) -> str:
    """What clients chose stays text."""
    return escape("".join(letter if letter.isprintable() else "\ufffd" for letter in text))
