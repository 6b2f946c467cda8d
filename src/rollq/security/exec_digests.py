"""The list of programs that a worker may run: names and digests, optionally signed.

One digest per line, `NAME sha256:HEX` or `NAME blake2b:HEX`; a name may have several. Text after #
is a comment.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.names import is_exec_name
from rollq.security.files import read_secret

log = logging.getLogger("rollq.worker")

ALGORITHMS: Final[Mapping[str, Callable[[], Any]]] = {
    "sha256": hashlib.sha256,
    "blake2b": hashlib.blake2b,
}
DIGEST: Final = re.compile(r"(?:sha256:[0-9a-f]{64}|blake2b:[0-9a-f]{128})")
LIST_BYTES_MAX: Final = 16 * 1024**2
SIGNATURE_SUFFIX: Final = ".sig"
PUBLIC_SUFFIX: Final = ".pub"
# Domain separation: a signature with this context is valid for a list only.
CONTEXT: Final = b"rollq exec digests 1\0"

Digests = Mapping[str, frozenset[str]]


class ExecDigests:
    """A list in a file, which is reloaded when it changes. If a new version cannot be read, the
    previous one stays in force.

    Args:
        path: The list.
        key: The file of the public key that signs it; None: no signature is required.

    Raises:
        LocalError: BAD_SETUP; it cannot be read, or the signature is wrong.
    """

    def __init__(self, path: Path, key: Path | None = None) -> None:
        self._path = path
        self._key = None if key is None else read_public_key(key)
        self._stamp = _stamp_of(path)
        self._listed = self._read()

    def of(self, *names: str) -> frozenset[str]:
        """The digests listed for any of these names."""
        self._refresh()
        return frozenset().union(*(self._listed.get(name, frozenset()) for name in names))

    def can_run(self, name: str) -> bool:
        """Whether a program is listed under this name, or under it with a suffix."""
        return name in self._listed or any(
            listed.rpartition(".")[0] == name for listed in self._listed
        )

    def _refresh(self) -> None:
        stamp = _stamp_of(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._listed = self._read()
        except LocalError as error:
            log.error("%s; what was listed before stays in force", error)
        else:
            log.info("%s was read again: %d names", self._path, len(self._listed))

    def _read(self) -> Digests:
        data = _content(self._path)
        if self._key is not None:
            signature = _content(self._path.with_name(self._path.name + SIGNATURE_SUFFIX))
            check_signature(self._key, data, signature, self._path)
        return parse_list(data, str(self._path))


def parse_list(data: bytes, source: str) -> Digests:
    """Digests by name.

    Raises:
        LocalError: BAD_SETUP, naming the line.
    """
    listed: dict[str, set[str]] = {}
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not is_exec_name(words[0]) or not DIGEST.fullmatch(words[1].lower()):
            raise _bad(
                f"line {number} of {source} is not NAME sha256:HEX",
                "make it with `rollq exec digest FILE…`",
            )
        listed.setdefault(words[0], set()).add(words[1].lower())
    return {name: frozenset(digests) for name, digests in listed.items()}


def digest_line(path: Path, name: str) -> str:
    """The line of the list for a program. Raises OSError."""
    with open(path, "rb") as file:
        return f"{name} sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def make_key(path: Path) -> tuple[Path, Path]:
    """Create a key pair for signing lists; returns the private and the public file.

    Raises:
        LocalError: BAD_SETUP; a file exists already, or cannot be written.
    """
    private = Ed25519PrivateKey.generate()
    public = path.with_name(path.name + PUBLIC_SUFFIX)
    text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    output = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    try:
        for one, mode, content in ((path, 0o600, text), (public, 0o644, output)):
            with open(os.open(one, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
    except OSError as error:
        raise _bad(f"{error.filename}: {error.strerror}", "name another file") from None
    return path, public


def sign_list(path: Path, key: Path) -> Path:
    """Write the signature of a list beside it; returns its file.

    Raises:
        LocalError: BAD_SETUP or BAD_CREDENTIALS; nothing was written.
    """
    data = _content(path)
    parse_list(data, str(path))
    try:
        private = load_pem_private_key(read_secret(key).reveal(), None)
    except (ValueError, TypeError):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise _bad(f"{key} is no Ed25519 private key", "make one with `rollq exec key FILE`")
    made = path.with_name(path.name + SIGNATURE_SUFFIX)
    made.write_bytes(base64.b64encode(private.sign(CONTEXT + data)) + b"\n")
    return made


def read_public_key(path: Path) -> Ed25519PublicKey:
    """A public key, PEM.

    Raises:
        LocalError: BAD_SETUP.
    """
    try:
        key = load_pem_public_key(_content(path))
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise _bad(f"{path} is no Ed25519 public key", "give the .pub file of `rollq exec key`")
    return key


def check_signature(key: Ed25519PublicKey, data: bytes, signature: bytes, path: Path) -> None:
    """Raises LocalError BAD_SETUP, if the signature of the list is not valid."""
    try:
        key.verify(base64.b64decode(signature.strip(), validate=True), CONTEXT + data)
    except (InvalidSignature, binascii.Error):
        raise _bad(
            f"the signature of {path} is wrong",
            "sign it again with `rollq exec sign`, if the change to it is yours",
        ) from None


def _content(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(LIST_BYTES_MAX + 1)
    except OSError as error:
        raise _bad(f"{path}: {error.strerror or error}", "check the file") from None
    if len(data) > LIST_BYTES_MAX:
        raise _bad(f"{path} has more than {LIST_BYTES_MAX} bytes", "shorten it")
    return data


def _stamp_of(path: Path) -> tuple[int, ...]:
    """Identifies the current version of the list and its signature."""
    stamp: list[int] = []
    for one in (path, path.with_name(path.name + SIGNATURE_SUFFIX)):
        try:
            status = os.stat(one)
        except OSError:
            continue
        stamp += status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return tuple(stamp)


def _bad(what: str, hint: str) -> LocalError:
    return LocalError(ErrorCode.BAD_SETUP, what, hint)
