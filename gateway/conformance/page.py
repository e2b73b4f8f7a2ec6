"""The report as one page that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import gzip
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
        .replace("/*document*/", _packed(msgspec.json.encode(made)))
        .replace("/*script*/", text["report.js"])
    )


def _packed(json: bytes) -> str:
    """A tenth of it: every frame is in there twice, as bytes and as what they mean."""
    return base64.b64encode(gzip.compress(json, mtime=0)).decode()
