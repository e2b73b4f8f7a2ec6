"""Run as a process of its own, with one version of cursus-client and nothing else on its path.

Arguments: host:port, topic, partitions, records, `idempotent` or `plain`.  Says how many were acknowledged.
"""

from __future__ import annotations

import sys

from cursus import Producer, ProducerConfig


def main(address: str, topic: str, partitions: str, records: str, kind: str) -> None:
    config = ProducerConfig(topic=topic, brokers=[address], partitions=int(partitions), idempotent=kind == "idempotent")
    with Producer(config) as producer:
        for number in range(int(records)):
            producer.send(f"n-{number}", key=f"key{number % 97}")
        producer.flush()
        sys.stdout.write(f"{producer.unique_ack_count}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
