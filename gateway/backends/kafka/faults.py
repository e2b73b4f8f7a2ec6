"""What errors of Kafka mean here."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from gateway.core.faults import CommandFailed, Fact, Fault

_CODES: dict[Fault, tuple[int, ...]] = {
    Fault.NO_SUCH_PARTITION: (KafkaError._UNKNOWN_PARTITION,),
    Fault.NO_SUCH_TOPIC: (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID),
    Fault.INVALID_NAME: (KafkaError.TOPIC_EXCEPTION, KafkaError.INVALID_GROUP_ID),
    Fault.INVALID_ARGUMENT: (
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_REQUEST,
        KafkaError.POLICY_VIOLATION,
        KafkaError._INVALID_ARG,
    ),
    Fault.TOO_LARGE: (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_MSG_SIZE),
    Fault.FORBIDDEN: (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_DELETION_DISABLED,
    ),
    Fault.BUSY: (KafkaError._QUEUE_FULL, KafkaError.THROTTLING_QUOTA_EXCEEDED),
    Fault.NO_SUCH_GROUP: (KafkaError.GROUP_ID_NOT_FOUND,),
    Fault.UNSUPPORTED: (
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.SECURITY_DISABLED,
    ),
    Fault.UNAVAILABLE: (
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._AUTHENTICATION,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._NOENT,
        KafkaError._RESOLVE,
        KafkaError._SSL,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
        KafkaError._DESTROY,
        KafkaError._DESTROY_BROKER,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.INVALID_REPLICA_ASSIGNMENT,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    ),
}

_EARLY = (
    KafkaError._NOENT,  # no leader is known
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
"""What passes within a moment when a leader has just been named."""

_FAULTS = {code: fault for fault, codes in _CODES.items() for code in codes}


def failed(error: KafkaError | KafkaException, **facts: Fact) -> CommandFailed:
    """What a command fails with where Kafka said this.  facts: what the fault has to carry, for who knows it.

    What retrying may help is UNAVAILABLE; what is not in the table is INTERNAL, with Kafka's own name of it.
    """
    reason = error_of(error)
    if reason is None:
        return CommandFailed(Fault.INTERNAL, f"Kafka's client: {error}")
    if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return CommandFailed(Fault.TOPIC_EXISTS, reason.str(), taken="name")
    fault = _FAULTS.get(reason.code())
    if fault is None:
        fault = Fault.UNAVAILABLE if reason.retriable() else Fault.INTERNAL
    return CommandFailed(fault, f"{reason.name()}: {reason.str()}", **facts)


def error_of(error: KafkaError | KafkaException) -> KafkaError | None:
    """Kafka's own error, None = there is only a sentence."""
    reason = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return reason if isinstance(reason, KafkaError) else None


def is_code(error: BaseException, *codes: int) -> bool:
    """Whether that is a KafkaException with one of those codes."""
    reason = error_of(error) if isinstance(error, KafkaException) else None
    return reason is not None and reason.code() in codes


def is_early(error: KafkaException) -> bool:
    """Whether the broker is there, and not ready for that yet."""
    return is_code(error, *_EARLY)
