"""The report as one page that needs nothing else: no network, no other file."""

from __future__ import annotations

from importlib import resources

import msgspec

from gateway.conformance.documents import Document


def page(made: Document) -> str:
    """HTML with its style, its script and the document inside."""
    parts = resources.files("gateway.conformance").joinpath("report")
    text = {name: parts.joinpath(name).read_text("utf-8") for name in ("index.html", "report.css", "report.js")}
    return (
        text["index.html"]
        .replace("/*style*/", text["report.css"])
        .replace("/*document*/", _embedded(msgspec.json.encode(made).decode()))
        .replace("/*script*/", text["report.js"])
    )


def _embedded(json: str) -> str:
    """So that nothing in it ends the element that it is in."""
    return json.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
