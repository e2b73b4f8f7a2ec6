"""gateway.backends.kafka.claims: gateways that write at once agree on whose what is, also after Kafka has compacted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.kafka.claims import NAMESPACES, Claim, Claims, Written, claimed, settled
from gateway.backends.kafka.configs import read, written
from gateway.core.commands import TopicSettings

Log = list[Written]


class Gateway:
    """One that has read the log up to somewhere, and writes by what it knows."""

    def __init__(self, log: Log, number: int) -> None:
        self.log = log
        self.claims = Claims()
        self.read = 0
        self._nonces = (b"%02d-%013d" % (number, at) for at in range(1000))

    def catch_up(self) -> None:
        for key, value in self.log[self.read :]:
            self.claims.apply(key, value)
        self.read = len(self.log)

    def claim(self, scope: str, name: str, id: int | None = None) -> bytes:
        wanted = self.claims.next_id(scope) if id is None else id
        record = claimed(next(self._nonces), Claim(scope, name, wanted, 0))
        self.log.append(record)
        return record[0]

    def free(self, scope: str, name: str) -> None:
        self.log += self.claims.freeing(scope, name)

    def end(self, key: bytes) -> None:
        self.log += self.claims.ending(key)


def compacted(log: Log) -> Log:
    """As Kafka may leave it: of each key the last record, where it was, and no tombstones."""
    last = {key: at for at, (key, _) in enumerate(log)}
    return [record for at, record in enumerate(log) if last[record[0]] == at and record[1] is not None]


def state(log: Log, scope: str) -> tuple[list[Claim], int]:
    claims = Claims()
    for key, value in log:
        claims.apply(key, value)
    return sorted(claims.owned(scope), key=lambda claim: claim.id), claims.next_id(scope)


def test_of_two_that_claim_a_name_at_once_the_first_in_the_log_has_it() -> None:
    log: Log = []
    one, two = Gateway(log, 1), Gateway(log, 2)
    first, second = one.claim(NAMESPACES, "sales"), two.claim(NAMESPACES, "sales")
    for gateway in one, two:
        gateway.catch_up()
        assert gateway.claims.owns(first)
        assert not gateway.claims.owns(second)
        assert gateway.claims.find(NAMESPACES, "sales") == gateway.claims.find(NAMESPACES, 1)


def test_of_two_names_that_claim_an_id_at_once_the_second_gets_another() -> None:
    log: Log = []
    one, two = Gateway(log, 1), Gateway(log, 2)
    one.claim("7", "orders")
    late = two.claim("7", "users")
    two.catch_up()
    assert not two.claims.owns(late)
    two.end(late)
    two.catch_up()
    assert two.claims.owns(two.claim("7", "users")) is False, "before it is read back"
    one.catch_up()
    two.catch_up()
    for gateway in one, two:
        assert [(claim.name, claim.id) for claim in gateway.claims.owned("7")] == [("orders", 1), ("users", 2)]


def test_a_late_claim_that_nobody_ended_goes_with_the_name() -> None:
    log: Log = []
    one, two = Gateway(log, 1), Gateway(log, 2)
    one.claim(NAMESPACES, "sales")
    two.claim(NAMESPACES, "sales")  # and then it was killed
    one.catch_up()
    one.free(NAMESPACES, "sales")
    assert state(log, NAMESPACES)[0] == state(compacted(log), NAMESPACES)[0] == []


def test_an_id_is_not_given_out_twice_though_its_owner_is_gone() -> None:
    log: Log = []
    gateway = Gateway(log, 1)
    for name in "abc":
        gateway.claim("1", name)
        gateway.catch_up()
    for name in "cba":
        gateway.free("1", name)
        gateway.catch_up()
        assert state(log, "1")[1] == state(compacted(log), "1")[1] == 4
    assert len(compacted(log)) == 1, "and nothing is left but the highest"


def test_scopes_do_not_know_each_other() -> None:
    log: Log = []
    gateway = Gateway(log, 1)
    for scope in NAMESPACES, "1", "1/1":
        gateway.claim(scope, "x")
    gateway.catch_up()
    assert [gateway.claims.find(scope, "x") for scope in (NAMESPACES, "1", "1/1")] == [
        Claim(scope, "x", 1, 0) for scope in (NAMESPACES, "1", "1/1")
    ]


def test_a_record_that_cannot_be_read_is_passed_over() -> None:
    claims = Claims()
    for key, value in ((b"c/1", b"\xff"), (b"s/x/y", b"\x90"), (b"z", b""), (b"s/1", b"\x90"), (b"c/2", None)):
        assert claims.apply(key, value) is None
    assert claims.scopes() == []


def test_the_latest_settings_of_a_topic_count_until_they_are_forgotten() -> None:
    claims = Claims()
    settings = TopicSettings(idempotent=True, labels={"owner": "me"})
    claims.apply(*settled(1, 2, TopicSettings()))
    assert claims.apply(*settled(1, 2, settings)) == "1"
    assert claims.settings == {(1, 2): settings}
    for record in claims.forgetting(1, 2):
        claims.apply(*record)
    assert claims.settings == {}


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["claim", "wanted", "free", "retreat", "read"]),
        st.sampled_from("abc"),
        st.integers(1, 4),
    ),
    max_size=40,
)


@given(STEPS, st.data())
def test_whoever_reads_whatever_is_left_of_the_log_sees_the_same(
    steps: list[tuple[int, str, str, int]], data: st.DataObject
) -> None:
    log: Log = []
    gateways = [Gateway(log, number) for number in range(3)]
    written_by: list[list[bytes]] = [[], [], []]
    for number, step, name, id in steps:
        gateway = gateways[number]
        if step == "claim":
            written_by[number].append(gateway.claim("1", name))
        elif step == "wanted":
            written_by[number].append(gateway.claim("1", name, id))
        elif step == "free":
            gateway.free("1", name)
        elif step == "retreat" and written_by[number]:
            gateway.end(written_by[number].pop())
        else:
            gateway.catch_up()
    cut = data.draw(st.integers(0, len(log)))
    whole = state(log, "1")
    assert state(compacted(log), "1") == whole
    assert state(compacted(log[:cut]) + log[cut:], "1") == whole, "compacted while it was written"
    owners, _ = whole
    assert len({claim.id for claim in owners}) == len({claim.name for claim in owners}) == len(owners)


@given(
    st.builds(
        TopicSettings,
        retention_us=st.integers(0, 1 << 50),
        retention_bytes=st.integers(0, 1 << 50),
        cleanup=st.sampled_from(["delete", "compact", "delete,compact"]),
    )
)
def test_settings_that_kafka_keeps_come_back_as_they_were(settings: TopicSettings) -> None:
    assert read(written(settings), settings) == settings
    changed = read(written(settings), TopicSettings())
    assert 0 <= changed.retention_us - settings.retention_us < 1000, (
        "kept a part of a millisecond longer, never shorter"
    )


def test_what_was_changed_in_kafka_is_shown() -> None:
    config = {"retention.ms": "5000", "retention.bytes": "-1", "cleanup.policy": "compact,delete"}
    kept = TopicSettings(retention_us=1500, retention_bytes=7, idempotent=True)
    assert read(config, kept) == TopicSettings(retention_us=5_000_000, cleanup="delete,compact", idempotent=True)
