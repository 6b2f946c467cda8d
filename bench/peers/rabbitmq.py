"""RabbitMQ: a durable quorum queue on one node or three, driven by a raw pipelining client.

Everything of it, its port mapper too, runs in the case's folder and on loopback.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.peers.amqp_wire import AmqpSocket, ConfirmPipeline
from bench.procs import (
    HOST,
    Process,
    free_ports,
    missing_program,
    output_of,
    program,
    stop_all,
)
from bench.window import Rate, pipeline_rates

# The commands on PATH change to another user first, who may not write to our folder.
FOLDER: Final = "/usr/lib/rabbitmq/bin"
QUEUE: Final = "jobs"
LOOPBACK_ONLY: Final = "-kernel inet_dist_use_interface {127,0,0,1}"


class Rabbitmq:
    """Modes: `durable` is one node, `r3` three."""

    def __init__(self, mode: str) -> None:
        self._count = 3 if mode == "r3" else 1
        self._processes: list[Process] = []
        self._ports: dict[str, int] = {}  # by node
        self._env: dict[str, str] = {}

    def available(self) -> str:
        """A system package."""
        return missing_program("rabbitmq-server", "rabbitmq-server") or missing_program(
            "epmd", "erlang-base"
        )

    def version(self) -> str:
        """The server's."""
        return f"rabbitmq {output_of([f'{FOLDER}/rabbitmqctl', 'version'])}"

    def start(self, folder: Path) -> None:
        """Returns when the queue is there."""
        folder.mkdir(parents=True)
        nodes = [f"bench{number}@localhost" for number in range(self._count)]
        mapper_port, *ports = free_ports(1 + 2 * self._count)
        cookie = folder / ".erlang.cookie"
        cookie.write_text("bench")
        cookie.chmod(0o400)
        plugins = folder / "plugins"
        plugins.write_text("[].\n")
        config = folder / "rabbitmq.conf"
        config.write_text(config_of(nodes))
        self._env = {
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(mapper_port),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": LOOPBACK_ONLY,
        }
        mapper = Process(
            [program("epmd"), "-port", str(mapper_port)], folder / "epmd.log", self._env
        )
        self._processes.append(mapper)
        mapper.wait_for_port(mapper_port)
        for number, node in enumerate(nodes):
            self._start_node(
                folder / f"node{number}", node, ports[2 * number], ports[2 * number + 1]
            )
        for process, port in zip(self._processes[1:], self._ports.values(), strict=True):
            process.wait_for_port(port)
        wish = ["await_online_nodes", str(self._count)]
        output_of([f"{FOLDER}/rabbitmqctl", "--node", nodes[0], *wish], self._env)
        link = AmqpSocket(self._ports[nodes[0]])
        link.declare_quorum(QUEUE, self._count)
        link.close()

    def stop(self) -> None:
        """End nodes, then their mapper."""
        stop_all(self._processes)
        self._processes.clear()

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """Publishes with confirms."""
        link = AmqpSocket(next(iter(self._ports.values())))
        yield from pipeline_rates(ConfirmPipeline(link, QUEUE, payload), windows, seconds)
        link.close()

    def _start_node(self, folder: Path, node: str, port: int, dist_port: int) -> None:
        folder.mkdir()
        env = {
            **self._env,
            "RABBITMQ_NODENAME": node,
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(dist_port),
            "RABBITMQ_MNESIA_BASE": str(folder),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
        }
        self._ports[node] = port
        log = folder / f"{os.path.basename(folder)}.out"
        self._processes.append(Process([f"{FOLDER}/rabbitmq-server"], log, env))


def config_of(nodes: list[str]) -> str:
    """Settings of every node: how they find each other, and no limit on a small disk."""
    lines = ["disk_free_limit.absolute = 100MB"]
    if len(nodes) > 1:
        lines.append("cluster_formation.peer_discovery_backend = classic_config")
        lines += [
            f"cluster_formation.classic_config.nodes.{number} = {node}"
            for number, node in enumerate(nodes, 1)
        ]
    return "\n".join(lines) + "\n"
