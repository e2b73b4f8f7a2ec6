"""What goes wrong as the codes of an RPCError, and back; and which of them make a client look for another node.

Source: protocol page, "Error codes" and ShouldReconnect.  A client that reads 3, 4 or 11 asks for the leader again and
dials it, up to ten times, so no trouble that passes by itself has one of them.
"""

from __future__ import annotations

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.dialect import Refusal, Request

UNKNOWN = 0
TOPIC_REQUIRED = 1
TOPIC_NAME_REQUIRED = 2
TOPIC_NOT_FOUND = 3
NOT_TOPIC_LEADER = 4
VALUES_REQUIRED = 5
READ_OFFSET = 6
COMMIT_OFFSET = 7
RECOVER_OFFSETS = 8
REPLICA_COUNT_INVALID = 9
LEADER_ADDR_REQUIRED = 10
RAFT_LEADER_UNAVAILABLE = 11
TOPIC_EXISTS = 12
NOT_ENOUGH_NODES = 13
CANNOT_REACH_LEADER = 14
INVALID_ACK_MODE = 15
TIMEOUT_CATCH_UP = 16

RECONNECT = frozenset({TOPIC_NOT_FOUND, NOT_TOPIC_LEADER, RAFT_LEADER_UNAVAILABLE})

CODES: dict[Fault, int] = {
    **dict.fromkeys(Fault, UNKNOWN),
    Fault.INVALID_NAME: TOPIC_REQUIRED,
    Fault.NO_SUCH_NAMESPACE: TOPIC_NOT_FOUND,
    Fault.NO_SUCH_TOPIC: TOPIC_NOT_FOUND,
    Fault.NOT_LEADER: NOT_TOPIC_LEADER,
    Fault.EMPTY_BATCH: VALUES_REQUIRED,
    Fault.OFFSET_GONE: READ_OFFSET,
    Fault.INVALID_OFFSET: READ_OFFSET,
    Fault.OFFSET_REGRESSION: COMMIT_OFFSET,
    Fault.NOT_A_MEMBER: COMMIT_OFFSET,
    Fault.STALE_GENERATION: COMMIT_OFFSET,
    Fault.NOT_OWNER: COMMIT_OFFSET,
    Fault.NO_SUCH_OFFSET: RECOVER_OFFSETS,
    Fault.NO_SUCH_GROUP: RECOVER_OFFSETS,
    Fault.TOPIC_EXISTS: TOPIC_EXISTS,
    Fault.TIMEOUT: TIMEOUT_CATCH_UP,
}
"""What a fault is where nothing more is known of it."""

_MEANT: dict[int, Fault] = {
    UNKNOWN: Fault.UNAVAILABLE,
    TOPIC_REQUIRED: Fault.INVALID_NAME,
    TOPIC_NAME_REQUIRED: Fault.INVALID_NAME,
    TOPIC_NOT_FOUND: Fault.NO_SUCH_TOPIC,
    NOT_TOPIC_LEADER: Fault.NOT_LEADER,
    VALUES_REQUIRED: Fault.EMPTY_BATCH,
    READ_OFFSET: Fault.INVALID_OFFSET,
    COMMIT_OFFSET: Fault.OFFSET_REGRESSION,
    RECOVER_OFFSETS: Fault.NO_SUCH_OFFSET,
    REPLICA_COUNT_INVALID: Fault.INVALID_ARGUMENT,
    LEADER_ADDR_REQUIRED: Fault.INVALID_ARGUMENT,
    RAFT_LEADER_UNAVAILABLE: Fault.UNAVAILABLE,
    TOPIC_EXISTS: Fault.TOPIC_EXISTS,
    NOT_ENOUGH_NODES: Fault.INVALID_ARGUMENT,
    CANNOT_REACH_LEADER: Fault.UNAVAILABLE,
    INVALID_ACK_MODE: Fault.INVALID_ARGUMENT,
    TIMEOUT_CATCH_UP: Fault.TIMEOUT,
}


def refused(fault: Fault, text: str, code: int) -> CommandFailed:
    """What a request itself is refused for, with the code and the words for the peer."""
    return CommandFailed(fault, text, code=code)


def code_of(failure: CommandFailed, request: Request | Refusal) -> int:
    """The code that is sent for a failure."""
    if isinstance(request, Refusal):
        said = failure.facts.get("code")
        return said if isinstance(said, int) else CODES[failure.fault]
    if failure.fault is Fault.INVALID_NAME and isinstance(request.command, q.CreateTopic | q.DeleteTopic):
        return TOPIC_NAME_REQUIRED
    return CODES[failure.fault]


def words_of(failure: CommandFailed, request: Request | Refusal) -> str:
    """The message beside the code.

    What a backend says is for the log; what we refused ourselves is for the peer, and so are the words of a server of
    this dialect that was asked in its stead.
    """
    words = failure.facts.get("words")
    if isinstance(words, str):
        return words
    if isinstance(request, Refusal):
        return failure.detail or failure.fault.value
    topic = getattr(request.command, "topic", None) or getattr(request.command, "subject", None)
    if isinstance(topic, q.Topic) and failure.fault in _OF_TOPIC:
        return f"topic {topic.name} {_OF_TOPIC[failure.fault]}"
    return failure.fault.value


_OF_TOPIC = {Fault.NO_SUCH_TOPIC: "not found", Fault.TOPIC_EXISTS: "already exists"}


def failure_of(code: int, message: str) -> CommandFailed:
    """What an RPCError of a server means; its code and its words are facts of the failure."""
    return CommandFailed(_MEANT.get(code, Fault.UNAVAILABLE), message, code=code, words=message)


def should_reconnect(error: BaseException | None) -> bool:
    """Whether a client does well to look for the leader again and dial it: ShouldReconnect of the project.

    A failure that a server told has its code; one without a code is of the connection itself, where what passes or is
    gone is a reason to dial again.
    """
    if isinstance(error, CommandFailed):
        code = error.facts.get("code")
        return error.fault in _OF_CONNECTIONS if code is None else code in RECONNECT
    return isinstance(error, EOFError | ConnectionError | TimeoutError)


_OF_CONNECTIONS = (Fault.UNAVAILABLE, Fault.TIMEOUT)
