"""A Spark Connect server over the tables of a pipeline, and its discovery by commands.

The server registers the tables for all of its sessions as `rollq.jobs` and so on, always of the
newest batch. It writes its address beside the tables and locks that file while it runs, so an
unlocked file is from a server that has ended. For tables at a URL or in a catalog the file is in
the user's cache, named by their location and by the settings that say which store or catalog it is.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from rollq.base.errors import DiskError, ErrorCode, LocalError, RollqError
from rollq.spark.asking.queries import DATABASE, TABLES, loader
from rollq.spark.java import user_cache
from rollq.spark.pipeline.failures import store_error
from rollq.spark.pipeline.formats import PARQUET, form_of, storage_of
from rollq.spark.pipeline.manifest import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFRESH_S: Final = 2.0
LAKE_REFRESH_S: Final = 10.0  # finding the newest batch takes a query
RETRY_S: Final = 2.0
RETRY_S_MAX: Final = 60.0
BUGS: Final = (TypeError, AttributeError, NameError, LookupError, AssertionError)  # of rollq
LOCK_S_MAX: Final = 1.0  # `find_server` holds the lock briefly
_LOOPBACK: Final = "127.0.0.1"
_NOTE: Final = "server.json"
_PLACE_SETTINGS: Final = ("spark.sql.catalog.", "spark.hadoop.")  # which store or catalog it is
_DEFAULT: Final = re.compile(r"\s*(spark\.[^\s=:]+)\s*[\s=:]\s*(.*?)\s*")  # of spark-defaults.conf
# In the environment, as the arguments of a process are readable by every user.
_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"

Value = TypeVar("Value")


class ServerNote(msgspec.Struct, frozen=True):
    """The file that a server leaves beside the tables."""

    address: str  # with its token: the file is readable only by its owner
    host: str
    pid: int


def find_server(tables: str | Path, conf: Mapping[str, str]) -> str:
    """The address of the running server over these tables on this machine; "" if there is none
    that is ready, or it is of another user.

    Args:
        tables: a folder, a URL, or a database of a catalog.
        conf: the settings of the user. Where they and `spark-defaults.conf` say nothing of stores
            and catalogs, the only server over tables of this name is found.
    """
    try:
        found = list(filter(None, map(_address_in, _notes_of(tables, conf))))
    except OSError:
        return ""
    return found[0] if len(found) == 1 else ""


@contextmanager
def announcing(tables: str | Path, conf: Mapping[str, str]) -> Iterator[Callable[[str], None]]:
    """Hold the lock as the only server over these tables; yields the function that publishes its
    address.

    Args:
        tables: a folder, a URL, or a database of a catalog.
        conf: the settings of the user.

    Raises:
        DiskError: DISK_BUSY if there is a server already, DISK_FAILED if the folder is not
            writable.
    """
    path: Path | str = "the address of the server"
    try:
        path = _note_of(tables, conf)
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    except OSError as error:
        raise DiskError(
            ErrorCode.DISK_FAILED,
            f"cannot write {path}: {error.strerror or error}",
            "give this user the right to write there",
        ) from error
    with stream:
        deadline = time.monotonic() + LOCK_S_MAX
        while not _is_locked_by_us(stream, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise DiskError(
                    ErrorCode.DISK_BUSY,
                    f"another rollq pipeline serve runs over {tables}",
                    "use that one, or stop it first",
                )
            time.sleep(0.05)
        stream.truncate()

        def announce(address: str) -> None:
            note = ServerNote(address, socket.gethostname(), os.getpid())
            stream.write(msgspec.json.encode(note))
            stream.flush()

        try:
            yield announce
        finally:
            stream.truncate(0)


@contextmanager
def with_token() -> Iterator[str]:
    """A token that a server started in this block requires of its clients: a client can run code as
    our user, and other users of this machine can connect to the loopback interface."""
    token = secrets.token_urlsafe(24)
    os.environ[_TOKEN] = token
    try:
        yield token
    finally:
        del os.environ[_TOKEN]


def connect_settings(port: int) -> dict[str, str]:
    """Settings that make a session a Connect server, too."""
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": _LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.globalTempDatabase": DATABASE,
    }


def usable_port(port: int) -> int:
    """This port, or a free one for 0.

    Raises:
        LocalError: BAD_OPTIONS if the port is in use.
    """
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((_LOOPBACK, port))
        except OSError as error:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"port {port}: {error.strerror or error}",
                "choose another with --port; 0 takes any that is free",
            ) from None
        return int(tried.getsockname()[1])


def address_of(port: int, token: str) -> str:
    """The URL for clients. With the host name `localhost` they send a token without TLS."""
    return f"sc://localhost:{port}/;token={token}"


class Outage(NamedTuple):
    """The store or the catalog of the tables did not answer as it should."""

    error: RollqError | None  # None: it is over
    lasted_s: float
    retry_s: float = 0.0


def outlasting(work: Callable[[], Value], told: Callable[[Outage], None]) -> Value:
    """The result of work with tables, tried until no store or catalog fails, at growing intervals.

    Args:
        work: called again after a failure.
        told: called with each failure, and when one is over.

    Raises:
        RollqError: that no retry mends.
    """
    began, retry_s = time.monotonic(), 0.0
    while True:
        try:
            done = work()
        except BUGS:
            raise
        except Exception as error:
            cause = store_error(error)
            if not cause.retryable:
                raise cause from error
            if not retry_s:
                began = time.monotonic()
            retry_s = min(2 * retry_s, RETRY_S_MAX) or RETRY_S
            told(Outage(cause, time.monotonic() - began, retry_s))
            time.sleep(retry_s)
        else:
            if retry_s:
                told(Outage(None, time.monotonic() - began))
            return done


class TableServer:
    """Registers the newest batch of the tables for all sessions of a Spark server."""

    def __init__(self, spark: SparkSession, tables: str | Path, form: str = "") -> None:
        self._spark = spark
        self._tables = tables
        self._form = form_of(tables, form)
        self._storage = storage_of(spark, tables, self._form)
        self.batch = 0  # the registered batch

    def refresh(self) -> bool:
        """Register the newest batch; returns whether there was a new one."""
        newest = self._storage.expect()
        if newest.number == self.batch:
            return False
        load = loader(self._spark, self._tables, self._form)
        for table, name in TABLES.items():
            frame = load(table)
            frame.createOrReplaceGlobalTempView(table)
            frame.createOrReplaceGlobalTempView(name)
        self.batch = newest.number
        return True

    def wait_for_batch(self, told: Callable[[Outage], None]) -> None:
        """Wait for a new batch, and register it; see `outlasting`."""
        while not outlasting(self.refresh, told):
            time.sleep(REFRESH_S if self._form == PARQUET else LAKE_REFRESH_S)


def warm_up(address: str) -> None:
    """Run a query as a client: the first query on a server takes ten times as long as later
    ones."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    remote = RemoteSession.builder.remote(address).create()
    try:
        remote.sql(f"SELECT state, count(*) FROM {DATABASE}.jobs GROUP BY state").collect()
    finally:
        remote.stop()


def _notes_of(tables: str | Path, conf: Mapping[str, str]) -> list[Path]:
    """Where servers that these settings may mean leave their addresses."""
    note = _note_of(tables, conf)
    if note.name == _NOTE or _place_settings(conf):
        return [note]
    return list(note.parent.glob(f"{_key_of(tables)}-*.json"))


def _note_of(tables: str | Path, conf: Mapping[str, str]) -> Path:
    """Where a server over these tables leaves its address.

    Raises:
        OSError: this user has no home directory to keep it in.
    """
    folder = Path(tables)
    if (folder / FOLDER).is_dir():
        return folder / FOLDER / _NOTE
    settings = [] if folder.is_dir() else _place_settings(conf)
    try:
        return user_cache() / "serve" / f"{_key_of(tables)}-{_short_hash(repr(settings))}.json"
    except RuntimeError as error:
        raise OSError(str(error)) from None


def _key_of(tables: str | Path) -> str:
    """The name of tables in the cache. A folder is named in full: the same relative path means
    others elsewhere."""
    folder = Path(tables)
    return _short_hash(str(folder.resolve()) if folder.is_dir() else str(tables))


def _place_settings(conf: Mapping[str, str]) -> list[tuple[str, str]]:
    """Settings that tell stores and catalogs of one name apart."""
    every = _default_settings() | dict(conf)
    return sorted(one for one in every.items() if one[0].startswith(_PLACE_SETTINGS))


def _default_settings() -> dict[str, str]:
    """What `spark-defaults.conf` says."""
    folder = os.environ.get("SPARK_CONF_DIR", "")
    if not folder:
        spec = importlib.util.find_spec("pyspark")
        home = next(iter(spec.submodule_search_locations or ()), "") if spec else ""
        folder = str(Path(os.environ.get("SPARK_HOME") or home) / "conf")
    try:
        lines = (Path(folder) / "spark-defaults.conf").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {found[1]: found[2] for found in map(_DEFAULT.fullmatch, lines) if found}


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _address_in(note: Path) -> str:
    """The address of the server that holds this file; "" if none does, or it is not ready."""
    try:
        with note.open("rb") as stream:
            if _is_locked_by_us(stream, fcntl.LOCK_SH):
                return ""
            found = msgspec.json.decode(stream.read(), type=ServerNote)
    except (OSError, msgspec.MsgspecError):
        return ""
    return found.address if found.host == socket.gethostname() else ""


def _is_locked_by_us(stream: IO[bytes], kind: int) -> bool:
    """Try to lock a file; the lock is released when it is closed or the process ends."""
    try:
        fcntl.flock(stream, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
