"""`rollq init`: creates keys, certificates and configuration of a new cluster."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import Json
from rollq.security.expiry import CERTIFICATE_DAYS
from rollq.security.identity import CertificateRole

if TYPE_CHECKING:
    from rollq.cli.units import UnitProcess

EPILOG = """\b
Examples:
  rollq init cluster
  rollq init cluster --hosts 10.0.0.1,10.0.0.2,10.0.0.3 --cluster render
  rollq init cluster --members 1 --port 6000
"""
CONFIG: Final = "rollq.toml"
AUTHORITY: Final = "ca"
EXECS: Final = "exec"
ADMIN: Final = "admin"
PROGRAM: Final = "hello"
PROGRAM_TEXT: Final = 'echo "hello, $1"'
MEMBERS_MAX: Final = 9


class ClusterProcess(NamedTuple):
    """A process of the cluster, with its own directory."""

    name: str
    role: CertificateRole
    config: dict[str, Any]  # its configuration file; a dict is a table
    words: tuple[str, ...]  # its command line, after `rollq --config FILE`

    @property
    def serves(self) -> bool:
        """Whether it is a service."""
        return self.role in (CertificateRole.MEMBER, CertificateRole.WORKER)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(init)


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.")],
    hosts: Annotated[
        str,
        typer.Option(
            metavar="HOST[:PORT],…",
            help="Where members run (default: all on this machine, on successive ports).",
        ),
    ] = "",
    members: Annotated[
        int, typer.Option(min=1, max=MEMBERS_MAX, metavar="N", help="Members without --hosts.")
    ] = 3,
    port: Annotated[
        int, typer.Option(min=1, max=65_000, metavar="PORT", help="Port of the first member.")
    ] = 5_000,
    cluster: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the cluster and of its group.")
    ] = "rollq",
    workers: Annotated[
        int, typer.Option(min=0, max=1_000, metavar="N", help="Workers to make credentials for.")
    ] = 1,
    days: Annotated[
        int, typer.Option(min=1, max=3_650, metavar="DAYS", help="Validity of the certificates.")
    ] = CERTIFICATE_DAYS,
    as_json: Json = False,
) -> None:
    """Create the authority, certificates, keys and configuration of a new cluster.

    Prints the commands that start it, and those that install it as systemd services, for which it
    writes units. Each process has a directory with its credentials and its configuration, which
    can be moved to another machine. TLS and authentication are required.
    """
    from rollq.cli.output import write_json

    addresses = _addresses(hosts, members, port)
    processes = _processes(addresses, cluster, workers)
    if directory.exists() and any(directory.iterdir()):
        raise LocalError(
            ErrorCode.BAD_SETUP, f"{directory} is not empty", "name a directory that does not exist"
        )
    _write(directory, processes, cluster, days)
    _write_units(directory, processes, cluster)
    commands = [_command(directory, process) for process in processes]
    if as_json:
        write_json(
            {
                "cluster": cluster,
                "directory": str(directory),
                "members": addresses,
                "commands": [
                    {"name": process.name, "role": process.role.value, "words": shlex.split(line)}
                    for process, line in zip(processes, commands, strict=True)
                ],
            }
        )
        return
    _show(directory, cluster, processes, commands)


def _show(
    directory: Path, cluster: str, processes: list[ClusterProcess], commands: list[str]
) -> None:
    from rollq.cli.output import write_line

    lines = [f"  {command}" for command in commands]
    serving = sum(process.serves for process in processes)
    write_line(f"made cluster {cluster} in {directory}; start it, each in a terminal of its own:")
    write_line("\n".join(("", *lines[:serving])))
    write_line("\nthen submit a job and show the cluster:")
    write_line("\n".join(("", *lines[serving:])))
    _show_units(directory, processes)
    config = shlex.quote(str(directory / ADMIN / CONFIG))
    write_line(
        f"\n{directory / ADMIN} holds the certificate of the first administrator, who has all "
        "rights. Once the\ncluster runs, add accounts and tokens with it, also for the pages:\n\n"
        f"  rollq --config {config} access add alice --role client\n"
        f"  rollq --config {config} access token alice"
    )
    write_line(
        "\nCopy each directory as a whole to the machine of its process.\n"
        f"Keep {directory / AUTHORITY} off these machines: its key can issue any certificate."
    )


def _show_units(directory: Path, processes: list[ClusterProcess]) -> None:
    from rollq.cli.output import write_line
    from rollq.cli.units import FOLDER, install_lines

    write_line(f"\nor as services of systemd ({directory / FOLDER}); as root, on their machines:\n")
    for role in (CertificateRole.MEMBER, CertificateRole.WORKER):
        named = [process.name for process in processes if process.role is role]
        if named:
            lines = install_lines(directory, named[0], is_worker=role is CertificateRole.WORKER)
            write_line("\n".join(f"  {line}" for line in lines))
        if named[1:]:
            write_line(f"  … and likewise {', '.join(named[1:])}")


def _addresses(hosts: str, members: int, port: int) -> list[str]:
    """The addresses of the members, `host:port`."""
    from rollq.net.dialer import split_address

    named = [part.strip() for part in hosts.split(",") if part.strip()]
    if not named:
        return [f"127.0.0.1:{port + number}" for number in range(members)]
    addresses = []
    for one in named:
        address = one if ":" in one and not one.endswith("]") else f"{one}:{port}"
        host, _ = split_address(address)
        if ":" in host and not one.startswith("["):
            raise LocalError(
                ErrorCode.BAD_ADDRESS, f"not HOST:PORT: {one!r}", f"write [{one}] for an IPv6 host"
            )
        addresses.append(address)
    if len(set(addresses)) < len(addresses) or len(addresses) > MEMBERS_MAX:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"--hosts needs up to {MEMBERS_MAX} addresses that differ",
            "give members of one machine a port each: HOST:PORT,HOST:PORT",
        )
    return addresses


def _processes(addresses: list[str], cluster: str, workers: int) -> list[ClusterProcess]:
    """The processes: members, workers, a client and an administrator."""
    processes = []
    for number, address in enumerate(addresses, 1):
        name = f"member-{number}"
        config = {"leader": _member_options(address, addresses, cluster)}
        processes.append(ClusterProcess(name, CertificateRole.MEMBER, config, ("leader",)))
    for number in range(1, workers + 1):
        name = f"worker-{number}"
        config = {"worker": _worker_options(name, addresses)}
        processes.append(ClusterProcess(name, CertificateRole.WORKER, config, ("worker",)))
    caller = {"credentials": ".", "servers": addresses}
    return [
        *processes,
        ClusterProcess(
            "client", CertificateRole.CLIENT, caller, ("submit", PROGRAM, "world", "--wait")
        ),
        ClusterProcess(ADMIN, CertificateRole.ADMIN, caller, ("status",)),
    ]


def _member_options(address: str, addresses: list[str], cluster: str) -> dict[str, Any]:
    from rollq.net.addresses import is_loopback
    from rollq.net.dialer import split_address

    host, port = split_address(address)
    others = [one for one in addresses if one != address]
    options: dict[str, Any] = {"credentials": ".", "group": cluster, "port": port, "host": host}
    if not is_loopback(host):
        options |= {"host": "::" if ":" in host else "0.0.0.0", "advertise": address}
    return options | ({"peers": others} if others else {})


def _worker_options(name: str, addresses: list[str]) -> dict[str, Any]:
    from rollq.net.dialer import split_address

    host, port = split_address(addresses[0])
    more = {"servers": addresses[1:]} if addresses[1:] else {}
    return {"credentials": ".", "host": host, "port": port, "name": name} | more


def _write(directory: Path, processes: list[ClusterProcess], cluster: str, days: int) -> None:
    """Write the files; existing files are never replaced."""
    from datetime import UTC, datetime

    from rollq.cli.fleet import write_program
    from rollq.security.authority import Authority, make_cluster_key, put_cluster_key, put_file

    now = datetime.now(UTC)
    authority = Authority.make(directory / AUTHORITY, cluster, now)
    key = make_cluster_key()
    for process in processes:
        target = directory / process.name
        authority.issue(target, process.role, process.name, now, days=days)
        if process.role is CertificateRole.MEMBER:
            put_cluster_key(target, key)
        put_file(target / CONFIG, _toml(process.config).encode())
    write_program(directory / EXECS, PROGRAM, PROGRAM_TEXT)


def _write_units(directory: Path, processes: list[ClusterProcess], cluster: str) -> None:
    """Write a systemd unit for each service."""
    from rollq.cli.units import FOLDER, unit_name, unit_text

    folder = directory / FOLDER
    folder.mkdir()
    for process in processes:
        if process.serves:
            unit = _unit_process(directory, process)
            (folder / unit_name(unit)).write_text(unit_text(unit, cluster), encoding="utf-8")


def _unit_process(directory: Path, process: ClusterProcess) -> UnitProcess:
    from rollq.cli.units import UnitProcess

    files = sorted(path.name for path in (directory / process.name).iterdir())
    is_worker = process.role is CertificateRole.WORKER
    return UnitProcess(process.name, process.words, files, is_worker)


def _toml(values: dict[str, Any]) -> str:
    """Encode TOML; text, numbers and lists of text have the same form in JSON."""
    lines = [f"{key} = {_text(one)}" for key, one in values.items() if not isinstance(one, dict)]
    for name, table in values.items():
        if isinstance(table, dict):
            lines += [f"[{name}]", *(f"{key} = {_text(one)}" for key, one in table.items())]
    return "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _command(directory: Path, process: ClusterProcess) -> str:
    words = ["rollq", "--config", str(directory / process.name / CONFIG), *process.words]
    if process.role is CertificateRole.WORKER:
        words += ["--exec-dir", str(directory / EXECS)]
    return shlex.join(words)
