"""The verbs of the console, in one table.  A new one is one function here: help, completion, `--json`, the count of its
arguments and confirmation come from what stands above it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Coroutine
from typing import Protocol

import msgspec
from twisted.internet.defer import Deferred

from gateway.admin import doings, rows, watching, words
from gateway.admin.answers import Answer, Facts
from gateway.admin.choices import Choices, group_names, kinds, session_ids, topic_names, watched
from gateway.admin.shown import harmless, topic_name
from gateway.admin.tables import Column, Row, Table
from gateway.admin.view import MAX_SHOWN, SessionRow, View
from gateway.admin.watching import Wanted, Watch
from gateway.admin.words import Wrong
from gateway.core.commands import DEFAULT_NAMESPACE, DEFAULT_NAMESPACE_ID, Session, Topic
from gateway.core.faults import CommandFailed
from gateway.core.replies import TopicDescription

JSON = "--json"
YES = "yes"

RECORDS = 20
"""That are shown if nobody says how many."""


class Console(Protocol):
    """Who asks, as a verb sees it.  view: what there is to see.  as_json: how a watch writes its lines."""

    view: View
    as_json: bool

    def wall(self) -> int:
        """us since the epoch."""

    def leave(self) -> None:
        """Hang up when all is said."""

    def note(self, deed: str) -> None:
        """A line for the operator's log: who did what."""

    async def watch(self, watch: Watch, chosen: Callable[[Session], bool], there: Callable[[], bool]) -> None:
        """Show lines as they come, until told to stop, or as long as it is there."""


Arguments = list[str]
CarryOut = Callable[[Console, Arguments], Coroutine[Deferred[object], object, Answer]]


class Verb(msgspec.Struct, frozen=True):
    """One thing that can be typed.

    usage:    its arguments, as `help` shows them; those in [ ] may be left out.
    takes:    what each argument may be, for completion.
    confirms: it changes something: unless `yes` is the last argument, `sentence` says what it would do.
    """

    name: str
    usage: str
    says: str
    carry_out: CarryOut
    takes: tuple[Choices, ...] = ()
    confirms: bool = False

    @property
    def least(self) -> int:
        """How many arguments there have to be."""
        return len([one for one in self.usage.split() if not one.startswith("[")])

    @property
    def most(self) -> int:
        """How many there may be."""
        return len(self.usage.split()) + self.confirms

    def check(self, arguments: Arguments) -> None:
        """Raises Wrong if they are too few or too many."""
        if not self.least <= len(arguments) <= self.most:
            raise Wrong(f"usage: {self.name} {self.usage}".rstrip())


VERBS: dict[str, Verb] = {}


def verb(name: str, usage: str, says: str, *takes: Choices, confirms: bool = False) -> Callable[[CarryOut], CarryOut]:
    """Put what follows into the table."""

    def add(carry_out: CarryOut) -> CarryOut:
        VERBS[name] = Verb(name, usage, says, carry_out, takes, confirms)
        return carry_out

    return add


def find(name: str) -> Verb:
    """Raises Wrong, with what may have been meant."""
    if name not in VERBS:
        near = difflib.get_close_matches(name.lower(), VERBS, 1)
        raise Wrong(f"no such verb: {name}{f'; did you mean {near[0]}?' if near else ''} (`help` lists them)")
    return VERBS[name]


async def verb_names(view: View) -> list[str]:
    """For `help`."""
    return list(VERBS)


# -- what is there


@verb("help", "[VERB]", "What can be typed.", verb_names)
async def show_help(console: Console, arguments: Arguments) -> Answer:
    """All verbs, or one."""
    columns = (
        Column("verb", "VERB"),
        Column("usage", "ARGUMENTS", str, least=24, rank=1),
        Column("says", "WHAT IT DOES", least=24),
    )
    if arguments:
        return Answer(Facts(columns, _verb_row(find(arguments[0]))))
    hint = "A name in a namespace is NS/NAME, quotes keep spaces in a name, --json is for programs."
    return Answer(tables=(Table("verbs", columns, list(VERBS.values()), _verb_row),), sentence=hint)


@verb("listeners", "", "The open ports, and what they have done.")
async def show_listeners(console: Console, arguments: Arguments) -> Answer:
    """In the order they were named."""
    return Answer(tables=(rows.listeners(console.view.listeners()),), empty="There are no listeners.")


@verb("sessions", "[TEXT]", "The connections, or those with the text.")
async def show_sessions(console: Console, arguments: Arguments) -> Answer:
    """Oldest first."""
    part = words.name(arguments[0]) if arguments else ""
    found = [one for one in console.view.sessions() if part in _row_text(one)]
    return Answer(tables=(rows.sessions(found, console.wall()),), empty="There are no such sessions.")


@verb("topics", "[PREFIX]", "The topics of all namespaces.", topic_names)
async def show_topics(console: Console, arguments: Arguments) -> Answer:
    """By namespace, in the order of their numbers."""
    prefix = words.name(arguments[0]) if arguments else ""
    found: list[TopicDescription] = []
    await console.view.each_topic(
        lambda topics: found.extend([one for one in topics if _begins(one.namespace, one.name, prefix)])
    )
    return Answer(tables=(rows.topics(found),), empty="There are no such topics.")


@verb("topic", "NAME", "One topic, and its partitions.", topic_names)
async def show_topic(console: Console, arguments: Arguments) -> Answer:
    """Its settings, too."""
    found = await console.view.topic(words.topic(arguments[0]))
    return Answer(Facts(rows.TOPIC, rows.topic(found)), (rows.partitions(found.partitions),), empty="No partitions.")


@verb("groups", "[PREFIX]", "Consumer groups, and how far behind.", group_names)
async def show_groups(console: Console, arguments: Arguments) -> Answer:
    """By namespace and name."""
    view = console.view
    prefix = words.name(arguments[0]) if arguments else ""
    everywhere = await view.groups_of(sorted(await view.namespaces()))
    found = await view.lags(one for one in everywhere if _begins(one.namespace, one.name, prefix))
    return Answer(tables=(rows.groups(found),), empty="There are no such groups.")


@verb("group", "NAME [TOPIC]", "One group, and its members.", group_names, topic_names)
async def show_group(console: Console, arguments: Arguments) -> Answer:
    """The topic says which, where several have a group of that name."""
    named = words.topic(arguments[0])
    topic = words.topic(arguments[1]) if len(arguments) > 1 else Topic(named.namespace, "")
    found = await console.view.group(topic, str(named.name))
    table = rows.members(found.group.members, console.wall())
    return Answer(Facts(rows.GROUP, rows.group(found)), (table,), empty="It has no members.")


@verb("records", "TOPIC PARTITION OFFSET [N]", f"N records from there on, or {RECORDS}.", topic_names)
async def show_records(console: Console, arguments: Arguments) -> Answer:
    """What was written, whatever dialect wrote it."""
    partition, offset = words.number(arguments[1], "PARTITION"), words.number(arguments[2], "OFFSET")
    most = words.number(arguments[3], "N") if len(arguments) > 3 else RECORDS
    if not 1 <= most <= MAX_SHOWN:
        raise Wrong(f"N is from 1 to {MAX_SHOWN}")
    found = await console.view.records(words.topic(arguments[0]), partition, offset, most)
    return Answer(tables=(rows.records(found),), empty="There are no records from there on.")


@verb("map", "NAME KEY", "The latest value of a key.", topic_names)
async def show_value(console: Console, arguments: Arguments) -> Answer:
    """What the grid's MAP_GET would say, and any topic is a map."""
    key = words.octets(arguments[1])
    value = await console.view.value(words.topic(arguments[0]), key)
    columns = (Column("key", "key"), Column("value", "value", rows.value))
    return Answer(Facts(columns, {"key": key, "value": value}))


@verb("losses", "", "What was lost between dialects.")
async def show_losses(console: Console, arguments: Arguments) -> Answer:
    """Most often first."""
    return Answer(tables=(rows.losses(console.view.losses()),), empty="Nothing was lost.")


@verb("faults", "", "The last commands that failed.")
async def show_faults(console: Console, arguments: Arguments) -> Answer:
    """Newest last."""
    return Answer(tables=(rows.faults(console.view.faults()),), empty="No command has failed.")


@verb("metrics", "", "The node, and how long commands take.")
async def show_metrics(console: Console, arguments: Arguments) -> Answer:
    """The page and /metrics have more."""
    view = console.view
    node = await view.node()
    listeners = view.listeners()
    row = {
        "version": view.version,
        "running_us": console.wall() - view.started,
        "ready": view.ready(),
        "sessions": sum(one.connections for one in listeners),
        **{key: getattr(node, key) for key in ("durability", "namespaces", "topics", "partitions", "records")},
        **{key: getattr(node, key) for key in ("bytes", "groups")},
    }
    tables = [doings.commands(listeners), *([limits] if (limits := doings.turned_away(listeners)).items else [])]
    return Answer(Facts(doings.NODE, row), tuple(tables), empty="Nothing was asked yet.")


# -- what happens


@verb("tap", "ID|DIALECT [COMMAND|TOPIC]", "Frames as they cross; Enter or q ends it.", watched, kinds)
async def show_frames(console: Console, arguments: Arguments) -> Answer:
    """On one connection, or on all of a dialect or listener."""
    view = console.view
    wanted = await _wanted(view, arguments[1]) if len(arguments) > 1 else watching.everything
    watch = Watch(wanted, view.clock, console.wall, pushes=len(arguments) < 2, as_json=console.as_json)
    name = words.name(arguments[0])
    if name.isdigit():
        one = int(name)

        def there() -> bool:
            return any(row.id == one for row in view.sessions())

        if not there():
            raise Wrong(f"there is no session {name}")
        await console.watch(watch, lambda who: who.id == one, there)
    elif any(name in (row.dialect, row.name) for row in view.listeners()):
        await console.watch(watch, lambda who: name in (who.dialect, who.listener), lambda: True)
    else:
        raise Wrong(f"there is no session, dialect or listener {name}")
    return Answer()


@verb("kick", "ID", "Hang up on a connection.", session_ids, confirms=True)
async def kick(console: Console, arguments: Arguments) -> Answer:
    """After `yes`."""
    number = words.number(arguments[0], "ID")
    found = next((one for one in console.view.sessions() if one.id == number), None)
    if found is None:
        raise Wrong(f"there is no session {number}")
    shown = f"{number}, {found.dialect} from {found.peer}" + (
        f", {harmless(found.principal)}" if found.principal else ""
    )
    if not _confirmed(arguments, 1):
        return Answer(sentence=f"That is {shown}.  Type `kick {number} yes` to hang up on it.")
    console.note(f"hung up on {shown}")
    console.view.kick(number)
    return Answer(sentence=f"Hung up on {shown}.")


@verb("drain", "", "Stop the gateway in good order.", confirms=True)
async def drain(console: Console, arguments: Arguments) -> Answer:
    """After `yes`."""
    if not _confirmed(arguments, 0):
        open_ = len(console.view.sessions())
        return Answer(sentence=f"That stops the gateway, with {open_:,} connections open.  Type `drain yes` to do it.")
    console.note("stops the gateway")
    console.view.drain()
    return Answer(sentence="The gateway is stopping.")


@verb("quit", "", "Leave.")
async def leave(console: Console, arguments: Arguments) -> Answer:
    """Ctrl-D does it, too."""
    console.leave()
    return Answer()


async def _wanted(view: View, typed: str) -> Wanted:
    kind = watching.wanted_kind(typed)
    if kind is not None:
        return watching.of_kind(kind)
    topic = words.topic(typed)
    namespaces: list[int | str] = [topic.namespace]
    if topic.namespace == DEFAULT_NAMESPACE:
        namespaces.append(DEFAULT_NAMESPACE_ID)
    try:  # Iggy's clients may call both by their numbers
        found: TopicDescription = await view.topic(topic)
        namespaces.append((await view.namespace(topic.namespace)).id)
    except CommandFailed:  # it may come into being while one looks
        return watching.of_topic(tuple(namespaces), (topic.name,))
    return watching.of_topic(tuple(namespaces), (topic.name, found.id))


def _verb_row(one: Verb) -> Row:
    usage = f"{one.usage} [yes]".strip() if one.confirms else one.usage
    return {"verb": one.name, "usage": usage, "says": one.says}


def _confirmed(arguments: Arguments, at: int) -> bool:
    if len(arguments) > at and arguments[at] != YES:
        raise Wrong(f"say `{YES}` or nothing, not {arguments[at]}")
    return len(arguments) > at


def _begins(namespace: str, name: str, prefix: str) -> bool:
    return not prefix or name.startswith(prefix) or topic_name(namespace, name).startswith(prefix)


def _row_text(row: SessionRow) -> str:
    return " ".join((str(row.id), row.dialect, row.listener, row.peer, row.principal or ""))
