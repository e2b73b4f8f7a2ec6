"""What tests of whole systems share."""

from __future__ import annotations

from system.kafka import kafka

__all__ = ["kafka"]
