"""RabbitMQ: durable quorum queues on one node or three, with a raw pipelining client or aio-pika.

Everything of it, its port mapper too, runs in the case's folder and on loopback.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, Final

import psutil

from bench.cpu import Roles
from bench.loops import run
from bench.peers.amqp_wire import AmqpSocket, ConfirmPipeline
from bench.peers.fresh import fresh_start_s
from bench.peers.rabbitmq_client import JOBS, RESULTS, JobClient, RabbitmqLoad
from bench.procs import (
    HOST,
    Process,
    disk_bytes,
    free_ports,
    missing_module,
    missing_program,
    output_of,
    program,
    python,
    stop_all,
    wait_until,
)
from bench.window import NO_END, Rate, drive_async, fill_s, pipeline_rates

# The commands on PATH change to another user first, who may not write to our folder.
FOLDER: Final = "/usr/lib/rabbitmq/bin"
LOOPBACK_ONLY: Final = "-kernel inet_dist_use_interface {127,0,0,1}"
WORKERS: Final = 2
RESTART_S_MAX: Final = 180.0


class RabbitmqNodes:
    """Modes: `durable` is one node, `r3` three."""

    def __init__(self, mode: str) -> None:
        self._count = 3 if mode == "r3" else 1
        self.processes: list[Process] = []  # the mapper and workers
        self.nodes: dict[str, Process] = {}
        self.ports: dict[str, int] = {}
        self._envs: dict[str, dict[str, str]] = {}
        self._env: dict[str, str] = {}
        self.folder = Path()

    def available(self) -> str:
        """A system package."""
        return missing_program("rabbitmq-server", "rabbitmq-server") or missing_program(
            "epmd", "erlang-base"
        )

    def version(self) -> str:
        """The server's."""
        return f"rabbitmq {output_of([f'{FOLDER}/rabbitmqctl', 'version'])}"

    def start(self, folder: Path) -> None:
        """Returns when the queues are there."""
        folder.mkdir(parents=True)
        self.folder = folder
        names = [f"bench{number}@localhost" for number in range(self._count)]
        mapper_port, *ports = free_ports(1 + 2 * self._count)
        self._env = common_settings(folder, names, mapper_port)
        argv = [program("epmd"), "-port", str(mapper_port)]
        mapper = Process(argv, folder / "epmd.log", self._env)
        self.processes.append(mapper)
        mapper.wait_for_port(mapper_port)
        for number, name in enumerate(names):
            self.ports[name] = ports[2 * number]
            home = folder / f"node{number}"
            self._envs[name] = {
                **self._env,
                "RABBITMQ_NODENAME": name,
                "RABBITMQ_NODE_PORT": str(ports[2 * number]),
                "RABBITMQ_DIST_PORT": str(ports[2 * number + 1]),
                "RABBITMQ_MNESIA_BASE": str(home),
                "RABBITMQ_LOG_BASE": str(home),
                "RABBITMQ_PID_FILE": str(home / "pid"),
            }
            self.start_node(name)
        for name, node in self.nodes.items():
            node.wait_for_port(self.ports[name])
        self.ctl(names[0], "await_online_nodes", str(self._count))
        link = AmqpSocket(self.ports[names[0]])
        for queue in (JOBS, RESULTS):
            link.declare_quorum(queue, self._count)
        link.close()

    def start_node(self, name: str) -> None:
        """Start one node, or start it again on the disk it had."""
        log = self.folder / f"{name.partition('@')[0]}.log"
        self.nodes[name] = Process([f"{FOLDER}/rabbitmq-server"], log, self._envs[name])

    def stop(self) -> None:
        """End nodes, then workers and the mapper. Nothing of it is needed again: no farewell."""
        for name in [name for name, node in self.nodes.items() if node.is_running]:
            self.kill(name)
        stop_all(self.processes)
        self.nodes.clear()
        self.ports.clear()
        self.processes.clear()

    def kill(self, name: str) -> None:
        """kill -9 of a node: the script that started it ends by itself."""
        if (machine := self._machine(name)) is not None:
            machine.kill()
        else:
            self.nodes[name].kill()
        wait_until(lambda: not self.nodes[name].is_running, "a node to end")

    def ctl(self, name: str, *wish: str) -> str:
        """What `rabbitmqctl` says of a node."""
        return output_of([f"{FOLDER}/rabbitmqctl", "--quiet", "--node", name, *wish], self._env)

    @property
    def port(self) -> int:
        """A node to talk to."""
        return next(iter(self.ports.values()))

    # --- backlog

    def fill(self, payload: bytes, count: int) -> float:
        """Publish jobs; seconds until all are confirmed."""
        link = AmqpSocket(self.port)
        seconds = fill_s(ConfirmPipeline(link, JOBS, payload), count)
        link.close()
        return seconds

    def rss_mb(self) -> float:
        """Memory of the node."""
        machine = self._machine(next(iter(self.nodes)))
        return float(machine.memory_info().rss) / 1e6 if machine else 0.0

    def disk_bytes(self) -> int:
        """What its files take."""
        return disk_bytes(self.folder)

    def restart(self, with_kill: bool) -> float:
        """End the node and start it; seconds until a job is delivered."""
        (name,) = self.nodes
        if with_kill:
            self.kill(name)
        else:
            self.nodes[name].stop()
        started = time.perf_counter()
        self.start_node(name)
        self.nodes[name].wait_for(self._delivers, "a job", RESTART_S_MAX)
        return time.perf_counter() - started

    def longest_stall_ms(self, payload: bytes) -> float | None:
        """Not looked for."""
        return None

    def _delivers(self) -> bool:
        try:
            link = AmqpSocket(self.port)
            is_there = link.get(JOBS)
            link.close()
        except OSError:
            return False
        return is_there

    def _machine(self, name: str) -> psutil.Process | None:
        """The Erlang machine below the script; None while there is none."""
        try:
            family = psutil.Process(self.nodes[name].pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return None
        return next((one for one in family if one.name().startswith("beam")), None)


class RabbitmqRaw(RabbitmqNodes):
    """A client that pipelines on a bare socket."""

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """Publishes with confirms."""
        link = AmqpSocket(self.port)
        yield from pipeline_rates(ConfirmPipeline(link, JOBS, payload), windows, seconds)
        link.close()


class Rabbitmq(RabbitmqNodes):
    """aio-pika: the usual client of asyncio programs."""

    def available(self) -> str:
        """The client comes from PyPI."""
        return super().available() or missing_module("aio_pika")

    def version(self) -> str:
        """Server and client."""
        return f"{super().version()}, aio-pika {version_of('aio-pika')}"

    def noop(self, payload: bytes, window: int, seconds: float) -> Rate:
        """Jobs through two worker processes; results are confirmed before a job is."""
        if not self.processes[1:]:
            self._start_workers()
        return run(self._noop(payload, window, seconds))

    def roles(self) -> Roles:
        """Erlang machines and the two workers."""
        machines = [self._machine(name) for name in self.nodes]
        return {
            "server": [one.pid for one in machines if one is not None],
            "worker": [one.pid for one in self.processes[1:]],
        }

    def first_result_s(self, payload: bytes) -> float:
        """From starting the node, two workers and a client to the first result."""

        def first() -> None:
            self._start_workers()
            run(self._first(payload))

        return fresh_start_s(self, self.folder, first)

    async def _first(self, payload: bytes) -> None:
        async with JobClient(self.port, payload) as client:
            await client.run()

    async def _noop(self, payload: bytes, window: int, seconds: float) -> Rate:
        async with JobClient(self.port, payload) as client:
            return await drive_async(client.run, window, seconds, NO_END)

    def _start_workers(self) -> None:
        workers = [
            Process(
                python("bench.peers.rabbitmq_worker", str(self.port)),
                self.folder / f"worker-{number}.log",
            )
            for number in range(WORKERS)
        ]
        self.processes.extend(workers)
        for worker in workers:
            worker.wait_for_text("worker ready")

    # --- fail-over

    def leader(self) -> str:
        """The node that leads the jobs' queue; waits until there is one."""
        found = ""

        def look() -> bool:
            nonlocal found
            found = str(self._queue("leader") or "")
            return found in self.nodes and self.nodes[found].is_running

        wait_until(look, "a leader of the queue")
        return found

    def revive(self, name: str) -> None:
        """Start it again; it follows when it counts as online in the queue."""
        self.start_node(name)
        self.nodes[name].wait_for_port(self.ports[name])
        wait_until(lambda: name in (self._queue("online") or ()), "a node to follow")

    def freeze(self, name: str) -> None:
        """SIGSTOP of the Erlang machine."""
        if (machine := self._machine(name)) is not None:
            machine.send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        if (machine := self._machine(name)) is not None:
            machine.send_signal(signal.SIGCONT)
        wait_until(lambda: name in (self._queue("online") or ()), "a node to follow")

    def load(self, payload: bytes) -> RabbitmqLoad:
        """Publishes that move to the next node when one fails."""
        return RabbitmqLoad(list(self.ports.values()), payload)

    def _queue(self, column: str) -> Any:
        """What a running node says of the jobs' queue; None if it says nothing."""
        name = next(name for name, node in self.nodes.items() if node.is_running)
        said = self.ctl(name, "list_queues", "--formatter", "json", "name", column)
        try:
            rows = json.loads(said)
        except ValueError:
            return None
        return next((row[column] for row in rows if row.get("name") == JOBS), None)


def common_settings(folder: Path, names: list[str], mapper_port: int) -> dict[str, str]:
    """What every node finds in its environment, with the files it points to."""
    cookie = folder / ".erlang.cookie"
    cookie.write_text("bench")
    cookie.chmod(0o400)
    plugins = folder / "plugins"
    plugins.write_text("[].\n")
    config = folder / "rabbitmq.conf"
    config.write_text(config_of(names))
    return {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(mapper_port),
        "ERL_EPMD_ADDRESS": HOST,
        "RABBITMQ_CONFIG_FILE": str(config),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": LOOPBACK_ONLY,
    }


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
