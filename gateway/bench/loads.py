"""What is sent: functions from a Control to the requests of each connection and how to count their replies."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from gateway.bench import BenchFailed, frames
from gateway.bench.control import TOPIC, Control
from gateway.bench.opening import Opening
from gateway.bench.tally import Marked, Same, Sized, Tally

BATCH = 100
"""Records in a batch."""

_FILLED = 1_000
"""Batches in the topic that is fetched from."""

_KEYS = 1_000
"""Keys of the map that is written and read."""

_PRODUCED_BATCH = Marked(b'{"BaseOffset":')


class Load(msgspec.Struct, frozen=True):
    """The requests of each connection, which repeats them in order, and how their replies are counted.

    streams: requests sent once, each on a further connection; what is pushed there is then what is measured.
    pushed:  how pushes are counted; every stream has to get one for each reply.
    opening: what every connection says before all that, and how it is answered.
    """

    rings: list[list[bytes]]
    tally: Tally
    streams: list[bytes] = []
    pushed: Tally | None = None
    opening: Opening | None = None


def produce(records: int) -> Callable[[Control, int], Load]:
    """Cursus batches of so many records; each connection writes to a partition of its own."""

    def load(control: Control, connections: int) -> Load:
        control.create(connections)
        rings = [[frames.cursus_batch(TOPIC, partition, records)] for partition in range(connections)]
        return Load(rings, Marked(b'{"status":"OK","last_offset":'))

    return load


def fetch(control: Control, connections: int) -> Load:
    """CONSUME of a whole stored batch each, walking through the topic as a reader does."""
    control.create(1)
    control.fill(_FILLED, BATCH)
    return Load([_consumes()] * connections, Sized(*frames.cursus_fetched(TOPIC, 0, BATCH)))


def fetch_of_iggy(control: Control, connections: int) -> Load:
    """The same of a topic that an Iggy client has written."""
    control.create(1)
    _fill_by_iggy(control)
    return Load([_consumes()] * connections, Sized(*frames.cursus_fetched_foreign(TOPIC, 0, BATCH)))


def _consumes() -> list[bytes]:
    ask = f"CONSUME topic={TOPIC} partition=0 offset=%d member=m autoOffsetReset=earliest batch={BATCH}"
    return [frames.cursus_text(ask % (number * BATCH)) for number in range(_FILLED)]


def poll_group(control: Control, connections: int) -> Load:
    """CONSUME of a whole batch as a member of a group, and a BATCH_COMMIT behind it: what a polling consumer does.

    It commits the same offset each time, since a ring goes round and a committed offset does not go back.
    """
    control.create(1)
    control.fill(_FILLED, BATCH)
    who = _member(control)
    consume = f"CONSUME topic={TOPIC} partition=0 offset=%d {who} batch={BATCH}"
    commit = frames.cursus_text(f"BATCH_COMMIT topic={TOPIC} {who} P0:1")
    ring = [frames.cursus_text(consume % (number * BATCH)) + commit for number in range(1, _FILLED)]
    size, head = frames.cursus_fetched(TOPIC, 0, BATCH)
    return Load([ring] * connections, Sized(size + len(frames.framed(b"OK batched=1")), head))


def stream_group(control: Control, connections: int) -> Load:
    """Produce on some connections while as many streams, each of a group of its own, get what is produced."""
    control.create(1)
    size, head = frames.cursus_fetched(TOPIC, 0, BATCH)
    ask = f"STREAM topic={TOPIC} partition=0 group=g%d member=m generation=1"
    streams = [frames.cursus_text(ask % number) for number in range(connections)]
    ring = [frames.cursus_batch(TOPIC, 0, BATCH)]
    return Load([ring] * connections, Marked(b'{"status":"OK","last_offset":'), streams, Sized(size, head))


def heartbeat(control: Control, connections: int) -> Load:
    """HEARTBEAT of the one member of a group."""
    control.create(1)
    who = _member(control)
    answer = frames.framed("OK {2} {1}".format(*who.split()).encode())
    return Load([[frames.cursus_text(f"HEARTBEAT topic={TOPIC} {who}")]] * connections, Same(answer))


def _member(control: Control) -> str:
    """The arguments of the one member of a group: group=, generation= and member=."""
    joined = control.ask(f"JOIN_GROUP topic={TOPIC} group=g member=m")
    found = re.search(r"generation=(\d+) member=(\S+)", joined)
    if not found:
        raise BenchFailed(f"JOIN_GROUP was answered {joined}")
    return f"group=g generation={found[1]} member={found[2]}"


def pipe_produce(control: Control, connections: int) -> Load:
    """PRODUCE of one record; each connection has a key of its own, which chooses the partition."""
    control.create(connections)
    rings = [[frames.pipe_produce(TOPIC, f"k{connection}")] for connection in range(connections)]
    return Load(rings, Marked(b"|OK|partition="))


def pipe_offset(control: Control, connections: int) -> Load:
    """OFFSET of a group that has committed nothing."""
    control.create(1)
    answer = b"V1|1|OK|offset=0\n"
    return Load([[frames.pipe_line("OFFSET", f"g {TOPIC} 0")]] * connections, Same(answer))


def iggy_send(records: int, version: str = frames.IGGY_G2C) -> Callable[[Control, int], Load]:
    """SENDs of so many messages by clients of that version; each connection writes to a partition of its own."""
    frame = {frames.IGGY_G2C: frames.iggy_send, frames.IGGY_G1B: frames.iggy_send_old}[version]

    def load(control: Control, connections: int) -> Load:
        control.create(connections)
        rings = [[frame(TOPIC, partition, records)] for partition in range(connections)]
        return Load(rings, Same(frames.IGGY_DONE), opening=_logged_in(version))

    return load


def iggy_poll(records: int) -> Callable[[Control, int], Load]:
    """POLLs of so many messages, walking through a topic that another client of this dialect has written."""

    def load(control: Control, connections: int) -> Load:
        control.create(1)
        _fill_by_iggy(control)
        return _polls(records, connections)

    return load


def iggy_poll_of_cursus(records: int) -> Callable[[Control, int], Load]:
    """The same of a topic that a Cursus client has written."""

    def load(control: Control, connections: int) -> Load:
        control.create(1)
        control.fill(_FILLED, BATCH)
        return _polls(records, connections)

    return load


def _polls(records: int, connections: int) -> Load:
    end = _FILLED * BATCH
    ring = [frames.iggy_poll(TOPIC, 0, offset, records) for offset in range(0, end, records)]
    polled = Sized(*frames.iggy_polled(0, end, records))
    return Load([ring] * connections, polled, opening=_logged_in(frames.IGGY_G2C))


def iggy_ping(control: Control, connections: int) -> Load:
    """PING."""
    return Load([[frames.iggy_ping()]] * connections, Same(frames.IGGY_DONE), opening=_logged_in(frames.IGGY_G2C))


def _fill_by_iggy(control: Control) -> None:
    """Write _FILLED batches as a client of Iggy does, which logs in first."""
    batches = [frames.iggy_send(TOPIC, 0, BATCH)] * _FILLED
    control.say("iggy", batches, Same(frames.IGGY_DONE), _logged_in(frames.IGGY_G2C))


def _logged_in(version: str) -> Opening:
    return Opening(frames.iggy_login(version), Sized(*frames.IGGY_LOGGED_IN))


def mlog_produce(control: Control, connections: int) -> Load:
    """Produce of one record; a topic has one partition here, which all connections write to."""
    control.create(1)
    return Load([[frames.mlog_produce(TOPIC)]] * connections, Marked(b'{"Offset":'))


def mlog_produce_batch(control: Control, connections: int) -> Load:
    """ProduceBatch of a batch."""
    control.create(1)
    return Load([[frames.mlog_produce_batch(TOPIC, BATCH)]] * connections, _PRODUCED_BATCH)


def mlog_fetch(control: Control, connections: int) -> Load:
    """Fetch of one record each, walking through a topic that another client of this dialect has written."""
    _fill_by_mlog(control)
    ring = [frames.mlog_fetch(TOPIC, offset) for offset in range(1, 10 * BATCH)]
    return Load([ring] * connections, Marked(b'{"Entry":{"Offset":'))


def mlog_fetch_batch(control: Control, connections: int) -> Load:
    """FetchBatch of a batch each, from where on all offsets have five digits and all answers one size."""
    _fill_by_mlog(control)
    first, end = 10_000, _FILLED * BATCH
    ring = [frames.mlog_fetch_batch(TOPIC, offset, BATCH) for offset in range(first, end, BATCH)]
    return Load([ring] * connections, Sized(*frames.mlog_fetched_batch(first, BATCH)))


def _fill_by_mlog(control: Control) -> None:
    control.create(1)
    control.say("mlog", [frames.mlog_produce_batch(TOPIC, BATCH)] * _FILLED, _PRODUCED_BATCH)


def grid_put(control: Control, connections: int) -> Load:
    """MAP_PUT of every key in turn; connections begin at different ones."""
    control.create(1)
    return Load(_keys_in_turn(frames.grid_put, connections), Marked(frames.GRID_STORED))


def grid_get(control: Control, connections: int) -> Load:
    """MAP_GET of every key in turn, after all have been put."""
    control.say("grid", [frames.grid_put(TOPIC, number) for number in range(_KEYS)], Marked(frames.GRID_STORED))
    return Load(_keys_in_turn(frames.grid_get, connections), Marked(frames.GRID_FOUND))


def _keys_in_turn(frame: Callable[[str, int], bytes], connections: int) -> list[list[bytes]]:
    ring = [frame(TOPIC, number) for number in range(_KEYS)]
    starts = [_KEYS * connection // connections for connection in range(connections)]
    return [ring[start:] + ring[:start] for start in starts]


def echoed(frame: bytes) -> Callable[[Control, int], Load]:
    """One frame, which comes back as it is."""
    return lambda control, connections: Load([[frame]] * connections, Sized(len(frame), frame[:64]))
