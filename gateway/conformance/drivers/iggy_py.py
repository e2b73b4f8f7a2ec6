"""Drives iggy-py, 0.2.0 to 0.4.0."""

from __future__ import annotations

import importlib

from gateway.conformance.drivers import iggy

if __name__ == "__main__":
    iggy.main("iggy-py", importlib.import_module("iggy_py"))
