"""How much hypothesis tries: the same examples at each run, or, with HYPOTHESIS_PROFILE=fuzz, many new ones.  And what
has been collected once is not looked at by the garbage collector again: with ten thousand tests and Spark's libraries
one look takes half a second, in the middle of whatever is being timed.
"""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("same", derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile("fuzz", max_examples=5000, deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_collection_finish() -> None:
    """See pytest."""
    gc.collect()
    gc.freeze()
