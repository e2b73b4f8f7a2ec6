"""Topics as `export` finds them and `load` makes them: their number of partitions and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.core.commands import (
    AlterTopic,
    CreateNamespace,
    CreateTopic,
    DescribeTopic,
    LatestOffsets,
    ListTopics,
    Topic,
    TopicSettings,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import NamespaceDescription, Offsets, TopicDescription, Topics
from gateway.pipeline.asking import Connection
from gateway.pipeline.finding import fits, survey


class Described(msgspec.Struct, frozen=True):
    """A topic as it stands in the note of an export."""

    name: str
    partitions: int
    settings: Mapping[str, Any]


def found(connection: Connection, pattern: str) -> list[Described]:
    """The topics of its place that a name, `PREFIX*` or `*` means; with settings where the wire has words for them.

    Raises CommandFailed: NO_SUCH_TOPIC where it means none.
    """
    namespace = connection.place.namespace
    try:
        if not pattern.endswith("*"):
            return [_described(connection.ask(DescribeTopic(Topic(namespace, pattern)), TopicDescription))]
        listed = connection.ask(ListTopics(namespace), Topics).topics
    except CommandFailed as failure:
        if failure.fault is not Fault.UNSUPPORTED:
            raise
        plain = msgspec.structs.asdict(TopicSettings())
        return [Described(name, len(one.bounds), plain) for name, one in survey(connection, pattern).items()]
    fitting = [_described(topic) for topic in listed if fits(pattern, topic.name)]
    if not fitting:
        raise CommandFailed(Fault.NO_SUCH_TOPIC, f"no topic of {namespace} fits {pattern}")
    return fitting


def _described(topic: TopicDescription) -> Described:
    return Described(topic.name, len(topic.partitions), msgspec.structs.asdict(topic.settings))


class Made(msgspec.Struct, frozen=True):
    """A topic to load into.

    new:  it was not there before.
    lost: names of the settings that it could not be given.
    """

    topic: Topic
    new: bool
    lost: tuple[str, ...] = ()


def make(connection: Connection, topic: Topic, like: Described) -> Made:
    """Have a topic with these partitions and, if it is new, these settings; but it does not look at producers yet.

    Raises CommandFailed; ValueError, with a sentence, where the topic is there and has fewer partitions.
    """
    asked = msgspec.structs.replace(_settings(like), idempotent=False)
    for settings in _ever_less(asked):
        try:
            made = _create(connection, CreateTopic(topic, like.partitions, settings))
        except CommandFailed as failure:
            if failure.fault is Fault.TOPIC_EXISTS:
                return _old(connection, topic, like)
            if failure.fault not in (Fault.UNSUPPORTED, Fault.INVALID_ARGUMENT) or settings == TopicSettings():
                raise
        else:
            return Made(topic, True, _differing(asked, made.settings))
    raise AssertionError("the last attempt has no settings at all")


def _old(connection: Connection, topic: Topic, like: Described) -> Made:
    count = connection.ask(LatestOffsets(topic), Offsets).partitions
    if count < like.partitions:
        raise ValueError(f"{topic.name} is there and has {count} partitions, not {like.partitions}")
    return Made(topic, False)


def complete(connection: Connection, made: Made, like: Described) -> Made:
    """Have a new topic check the numbers of producers from now on, if it did where it comes from.

    Not before, since the records of a producer need not begin with its first: older ones may be gone.
    """
    settings = _settings(like)
    if not made.new or not settings.idempotent:
        return made
    try:
        altered = connection.ask(AlterTopic(made.topic, settings), TopicDescription)
    except CommandFailed as failure:
        if failure.fault not in (Fault.UNSUPPORTED, Fault.INVALID_ARGUMENT):
            raise
        return Made(made.topic, True, (*made.lost, "idempotent"))
    return Made(made.topic, True, _differing(settings, altered.settings))


def _settings(like: Described) -> TopicSettings:
    """Those that this version knows."""
    known = {name: like.settings[name] for name in TopicSettings.__struct_fields__ if name in like.settings}
    return TopicSettings(**known)


def _differing(asked: TopicSettings, got: TopicSettings) -> tuple[str, ...]:
    return tuple(name for name in TopicSettings.__struct_fields__ if getattr(asked, name) != getattr(got, name))


def _ever_less(settings: TopicSettings) -> list[TopicSettings]:
    """What to try, one after the other: everything; what every broker knows; nothing."""
    common = TopicSettings(settings.retention_us, settings.retention_bytes, settings.cleanup)
    return [settings, common, TopicSettings()]


def _create(connection: Connection, command: CreateTopic) -> TopicDescription:
    """In a new namespace if it takes one."""
    try:
        return connection.ask(command, TopicDescription)
    except CommandFailed as failure:
        if failure.fault is not Fault.NO_SUCH_NAMESPACE:
            raise
    assert isinstance(command.topic.namespace, str), "it was named"
    connection.ask(CreateNamespace(command.topic.namespace), NamespaceDescription)
    return connection.ask(command, TopicDescription)


def ends(connection: Connection, topic: Topic) -> dict[int, int]:
    """The next offset of each partition."""
    return {each.partition: each.end for each in connection.ask(LatestOffsets(topic), Offsets).offsets}
