"""Run as a process of its own, with one version of cursus-client and nothing else on its path.

Arguments: host:port, topic, group, member, `polling` or `streaming`.  Says, a line of JSON each:

    [generation]                                    that it has joined
    [generation, partitions, offset, value]         a record, and what it believed to own when it got it

Leaves the group when its standard input ends.
"""

from __future__ import annotations

import json
import sys
import threading

from cursus import Consumer, ConsumerConfig, ConsumerMode, Message
from cursus.errors import ConnectionError as Fenced


def say(*words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


class Running:
    """A consumer that is started again when a commit of its own tells it that the group has changed: then it raises."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._over = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._tell_generations, daemon=True).start()
        closing = threading.Thread(target=self._close_at_the_end, daemon=True)
        closing.start()
        while not self._over.is_set():
            try:
                self._consumer.start(self._show)
            except Fenced as failure:
                if not any(word in str(failure) for word in ("GEN_MISMATCH", "member_not_found")):
                    raise
        closing.join()

    def _show(self, message: Message) -> None:
        say(self._consumer._generation, self._consumer._assignments, message.offset, message.payload)

    def _tell_generations(self) -> None:
        told = 0
        while not self._over.wait(0.02):
            if (now := self._consumer._generation) != told:
                say(now)
                told = now

    def _close_at_the_end(self) -> None:
        sys.stdin.read()
        self._over.set()
        self._consumer.close()


def main(address: str, topic: str, group: str, member: str, mode: str) -> None:
    config = ConsumerConfig(
        topic=topic,
        brokers=[address],
        group_id=group,
        consumer_id=member,
        mode=ConsumerMode(mode),
        heartbeat_interval_ms=1000,
        auto_commit_interval_s=0.5,
    )
    Running(Consumer(config)).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
