"""What can go wrong, as a closed catalogue.  Every dialect maps every entry to a code or text of its own."""

from __future__ import annotations

import enum

Fact = int | str


class Fault(enum.Enum):
    """One kind of failure; the value is what an operator reads.

    A name in brackets is a fact that `CommandFailed.facts` carries whenever the fault comes from a backend.
    """

    MALFORMED = "the bytes are not a valid request of this dialect"
    UNSUPPORTED = "neither this gateway nor its backend does this"
    TOO_LARGE = "longer than the limit of this listener"
    UNREPRESENTABLE = "the wire of this dialect cannot carry the value"
    INVALID_NAME = "the name is empty, too long or not legal here"
    INVALID_ARGUMENT = "an argument is out of range"
    NO_SUCH_NAMESPACE = "the namespace does not exist"
    NAMESPACE_EXISTS = "the namespace exists already"  # [taken], `id` or `name`
    NO_SUCH_TOPIC = "the topic does not exist"
    TOPIC_EXISTS = "the topic exists already"  # [taken], `id` or `name`
    NO_SUCH_PARTITION = "the topic has no such partition"  # [partition, partitions]
    FEWER_PARTITIONS = "a topic cannot lose partitions this way"  # [current, requested]
    PARTITION_FULL = "the partition holds as many records as the store can number"
    EMPTY_BATCH = "a batch needs at least one record"
    OFFSET_GONE = "the offset is older than the earliest record kept"  # [requested, earliest, latest]
    INVALID_OFFSET = "the offset is not one that can be stored or read"
    OFFSET_REGRESSION = "the offset is lower than the committed one"  # [partition, current, requested]
    NO_SUCH_OFFSET = "no offset was committed"
    SEQUENCE_GAP = "records of this producer are missing"  # [producer, expected, got]
    STALE_EPOCH = "a newer producer has this id"  # [producer, current, got]
    NO_SUCH_GROUP = "the consumer group does not exist"
    GROUP_EXISTS = "the consumer group exists already"  # [taken], `id` or `name`
    OTHER_TOPIC = "the consumer group belongs to another topic"  # [expected, actual]
    NOT_A_MEMBER = "not a member of the consumer group"  # [member]
    STALE_GENERATION = "the consumer group has moved on"  # [current, requested]
    NOT_OWNER = "the partition is assigned to another member"  # [partition, generation]
    NOT_A_NUMBER = "the value is not a counter"
    NO_SUCH_SESSION = "the session does not exist"
    UNAUTHENTICATED = "log in first"
    BAD_CREDENTIALS = "the user name or the secret is wrong"
    FORBIDDEN = "not allowed"
    BUSY = "too much is in flight; retry"
    TIMEOUT = "not done within the deadline"
    NOT_LEADER = "another node leads the partition"
    UNAVAILABLE = "the backend cannot do it now; retrying may help"
    INTERNAL = "a defect in the gateway; see its log"


class CommandFailed(Exception):
    """The one error that crosses a layer, raised or handed on as an outcome.

    fault:  what kind.
    detail: for the log, and for a peer only where the fault is the peer's own doing.
    facts:  the numbers and names a dialect needs for its own wording; which ones, the catalogue says.
    """

    def __init__(self, fault: Fault, detail: str = "", **facts: Fact) -> None:
        super().__init__(fault, detail)
        self.fault = fault
        self.detail = detail
        self.facts = facts

    def __str__(self) -> str:
        """One line for a log."""
        return f"{self.fault.name}: {self.detail or self.fault.value}"
