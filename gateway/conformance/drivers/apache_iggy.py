"""Drives apache-iggy, 0.5.0 to 0.8.0."""

from __future__ import annotations

import importlib

from gateway.conformance.drivers import iggy

if __name__ == "__main__":
    iggy.main("apache-iggy", importlib.import_module("apache_iggy"))
