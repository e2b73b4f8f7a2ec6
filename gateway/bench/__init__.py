"""`gateway bench`: load from processes of its own against servers of its own, and a table of what came back.

A leaf: nothing but the command line imports it.  What is worth measuring stands in `rows` and `loads`, how good is good
enough in `figures`; the rest only measures.
"""

from __future__ import annotations


class BenchFailed(Exception):
    """A measurement that cannot be trusted, or a server that did not come up; the sentence is for the user."""
