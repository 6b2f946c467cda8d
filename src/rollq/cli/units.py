"""systemd units of the processes of a cluster, for `rollq init`.

Each process runs as a dynamic user, may write only to its state directory, and gets its keys from
the manager (LoadCredential): the files in /etc belong to root.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

ETC: Final = "/etc/rollq"  # parent of the directories of processes
FOLDER: Final = "systemd"

COMMON: Final = """\
[Unit]
Description=rollq {name} of cluster {cluster}
Documentation=man:systemd.service(5)
Wants=network-online.target
After=network-online.target
# A process that is needed is started for ever.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
Restart=on-failure
RestartSec=2
# Wrong options do not get right by themselves.
RestartPreventExitStatus=2
# Its event loop gives a sign of life; a loop that stands still is started anew.
WatchdogSec=30
TimeoutStartSec=90
{kind}
# Keys belong to root and are handed over at the start: after a renewal restart the unit.
{credentials}
DynamicUser=yes
StateDirectory=rollq/{name}
StateDirectoryMode=0700
WorkingDirectory=%S/rollq/{name}
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
PrivateTmp=yes
ProtectSystem=strict
ProtectHome={home}
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
"""
MEMBER: Final = """\
# Itself gets the signal, and hands leadership over; helpers end with it.
KillMode=mixed
TimeoutStopSec=90
LimitNOFILE=65536
OOMScoreAdjust=-500
PrivateDevices=yes
ProtectControlGroups=yes
RestrictNamespaces=yes
SystemCallFilter=@system-service"""
WORKER: Final = """\
# Itself gets the signal and lets its jobs, which are its children, come to their end: must be
# longer than --drain-s.
KillMode=mixed
TimeoutStopSec=15min
LimitNOFILE=65536
# A job that takes too much memory ends alone.
OOMPolicy=continue
# Limits of jobs are groups below its own; sandboxes are namespaces and must not be forbidden.
Delegate=yes"""


class UnitProcess(NamedTuple):
    """The process of a unit.

    Attributes:
        name: The name of the process and of its directory.
        words: Its command line, after `rollq --config FILE`.
        files: Files passed as credentials: certificate, keys, configuration.
        is_worker: Whether it runs jobs.
    """

    name: str
    words: Sequence[str]
    files: Sequence[str]
    is_worker: bool


def unit_name(process: UnitProcess) -> str:
    """The file name of a unit."""
    return f"rollq-{process.name}.service"


def unit_text(process: UnitProcess, cluster: str) -> str:
    """The text of a unit."""
    program = program_words()
    words = [*program, "--config", "%d/rollq.toml", *process.words]
    state = f"%S/rollq/{process.name}"
    words += ["--state", f"{state}/worker" if process.is_worker else f"{state}/member"]
    if process.is_worker:
        words += ["--jobs-dir", f"{state}/jobs", "--exec-dir", f"{ETC}/exec"]
    is_at_home = any(word.startswith(("/home/", "/root/")) for word in program)
    return COMMON.format(
        name=process.name,
        cluster=cluster,
        command=" ".join(map(_quoted, words)),
        kind=WORKER if process.is_worker else MEMBER,
        credentials="\n".join(
            f"LoadCredential={file}:{ETC}/{process.name}/{file}" for file in process.files
        ),
        home="read-only" if is_at_home else "yes",
    )


def install_lines(directory: Path, name: str, *, is_worker: bool) -> list[str]:
    """The commands that install and start a unit, to be run as root on its machine."""
    unit = f"rollq-{name}.service"
    given = [directory / name, *([directory / "exec"] if is_worker else [])]
    sources = " ".join(shlex.quote(str(one)) for one in given)
    rights = f" && chmod -R a+rX {ETC}/exec" if is_worker else ""
    return [
        f"mkdir -p {ETC} && cp -r {sources} {ETC}/ && chown -R root: {ETC}/{name}{rights}",
        f"cp {shlex.quote(str(directory / FOLDER / unit))} /etc/systemd/system/",
        f"systemctl daemon-reload && systemctl enable --now {unit.removesuffix('.service')}",
    ]


def program_words() -> list[str]:
    """The command of this `rollq`, by absolute path."""
    beside = Path(sys.executable).with_name("rollq")
    found = str(beside) if beside.exists() else shutil.which("rollq")
    return [found] if found else [sys.executable, "-m", "rollq"]


def _quoted(word: str) -> str:
    """Quote a word of ExecStart; systemd specifiers are kept."""
    return f'"{word}"' if any(one.isspace() for one in word) else word
