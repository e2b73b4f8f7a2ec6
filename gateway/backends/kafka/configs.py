"""Settings of a topic that Kafka keeps itself: what it calls them.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gateway.core.commands import TopicSettings

RETENTION = "retention.ms"
SIZE = "retention.bytes"
CLEANUP = "cleanup.policy"

_CLEANUPS = ("delete", "compact", "delete,compact")


def written(settings: TopicSettings) -> dict[str, str]:
    """The settings as configuration of a topic: -1 = for ever.  A part of a millisecond counts as a whole."""
    milliseconds = -(-settings.retention_us // 1000)
    return {
        RETENTION: str(milliseconds or -1),
        SIZE: str(settings.retention_bytes or -1),
        CLEANUP: settings.cleanup,
    }


def read(config: Mapping[str, str | None], kept: TopicSettings) -> TopicSettings:
    """The settings that Kafka has, with those that only the registry keeps."""
    asked = written(kept)
    policies = set((config.get(CLEANUP) or "").split(","))
    cleanup = next((name for name in _CLEANUPS if set(name.split(",")) == policies), kept.cleanup)
    retention = kept.retention_us
    if config.get(RETENTION, asked[RETENTION]) != asked[RETENTION]:
        retention = max(0, int(config[RETENTION] or 0)) * 1000
    return msgspec.structs.replace(
        kept,
        retention_us=retention,
        retention_bytes=max(0, int(config.get(SIZE) or kept.retention_bytes)),
        cleanup=cleanup,
    )
