"""What the arguments of verbs may be: what TAB proposes, as it can be typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gateway.admin import watching
from gateway.admin.shown import topic_name, word
from gateway.admin.view import View

Choices = Callable[[View], Awaitable[list[str]]]


async def topic_names(view: View) -> list[str]:
    """As they can be typed."""
    found: list[str] = []
    await view.each_topic(lambda topics: found.extend([topic_name(one.namespace, one.name) for one in topics]))
    return found


async def group_names(view: View) -> list[str]:
    """As they can be typed."""
    groups = await view.groups_of(sorted(await view.namespaces()))
    return sorted({topic_name(one.namespace, one.name) for one in groups})


async def session_ids(view: View) -> list[str]:
    """Of all connections."""
    return [str(one.id) for one in view.sessions()]


async def watched(view: View) -> list[str]:
    """What `tap` can look at."""
    return [
        *dict.fromkeys(word(name) for one in view.listeners() for name in (one.dialect, one.name)),
        *await session_ids(view),
    ]


async def kinds(view: View) -> list[str]:
    """What `tap` can be narrowed to."""
    return [*watching.KINDS.values(), *await topic_names(view)]
