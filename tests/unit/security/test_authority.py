"""Directories of an authority and of credentials: made once, renewed in place, never lost."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.security import authority as module
from rollq.security.authority import Authority, make_cluster_key, put_cluster_key, put_file
from rollq.security.certificates import facts_of, is_signed_by, split_pem
from rollq.security.files import load_credentials
from rollq.security.identity import CertificateRole
from tests.unit.security.handshakes import shake

NOW = datetime.now(UTC)


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "ca", "c1", NOW)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_keys_are_for_their_owner_alone(ca: Authority, tmp_path: Path) -> None:
    member = tmp_path / "member"
    ca.issue(member, CertificateRole.MEMBER, "m1", NOW)
    put_cluster_key(member, make_cluster_key())
    for directory in (ca.directory, member):
        assert mode(directory) == 0o700
    for path in (ca.directory / "ca.key", member / "key.pem", member / "cluster.key"):
        assert mode(path) == 0o600
    assert mode(member / "cert.pem") & 0o600 == 0o600
    read = load_credentials(member)
    assert read.certificate == (str(member / "cert.pem"), str(member / "key.pem"))
    assert read.cluster_key is not None
    assert len(bytes.fromhex(read.cluster_key.reveal().decode())) == 32
    assert not [name for name in os.listdir(member) if name.startswith(".")]


def test_a_link_between_holders_shows_who_they_are(ca: Authority, tmp_path: Path) -> None:
    for role in CertificateRole:
        ca.issue(tmp_path / role, role, f"{role}-1", NOW)
    for role in CertificateRole:
        seen = shake(server=tmp_path / "member", client=tmp_path / role)
        assert seen == ("rollq://c1/member/member-1", f"rollq://c1/{role}/{role}-1")
    with pytest.raises(ssl.SSLError):
        shake(server=tmp_path / "client", client=tmp_path / "member")


def test_a_holder_of_another_authority_is_refused(ca: Authority, tmp_path: Path) -> None:
    other = Authority.make(tmp_path / "other", "c1", NOW)
    ca.issue(tmp_path / "a", CertificateRole.MEMBER, "m1", NOW)
    other.issue(tmp_path / "b", CertificateRole.MEMBER, "m1", NOW)
    with pytest.raises(ssl.SSLError):
        shake(server=tmp_path / "a", client=tmp_path / "b")


def test_nothing_is_overwritten(ca: Authority, tmp_path: Path) -> None:
    target = tmp_path / "w"
    ca.issue(target, CertificateRole.WORKER, "w", NOW)
    before = content(target), content(ca.directory)
    refused(ErrorCode.BAD_SETUP, lambda: ca.issue(target, CertificateRole.WORKER, "w", NOW))
    refused(ErrorCode.BAD_SETUP, lambda: Authority.make(ca.directory, "c1", NOW))
    refused(ErrorCode.BAD_SETUP, lambda: put_file(target / "key.pem", b"x", is_secret=True))
    (ca.directory / "ca.pem").rename(tmp_path / "kept.pem")
    refused(ErrorCode.BAD_SETUP, lambda: Authority.make(ca.directory, "c1", NOW))
    (tmp_path / "kept.pem").rename(ca.directory / "ca.pem")
    assert (content(target), content(ca.directory)) == before


def test_what_lies_beside_stays(ca: Authority, tmp_path: Path) -> None:
    target = tmp_path / "w"
    target.mkdir()
    (target / "token").write_bytes(b"t")
    ca.issue(target, CertificateRole.WORKER, "w", NOW)
    assert (target / "token").read_bytes() == b"t"


def test_a_renewed_certificate_has_the_same_holder_and_a_new_key(
    ca: Authority, tmp_path: Path
) -> None:
    target = tmp_path / "w"
    first = ca.issue(target, CertificateRole.WORKER, "w", NOW, hosts=("w.example", "10.0.0.1"))
    key = (target / "key.pem").read_bytes()
    second = ca.renew(target, NOW, days=30)
    assert (second.identity, second.hosts) == (first.identity, first.hosts)
    assert second.fingerprint != first.fingerprint
    assert (target / "key.pem").read_bytes() != key
    assert mode(target / "key.pem") == 0o600
    shake(server=target, client=target)
    assert facts_of((target / "cert.pem").read_bytes()) == second


def test_a_certificate_of_another_cluster_is_not_renewed(ca: Authority, tmp_path: Path) -> None:
    other = Authority.make(tmp_path / "other", "c2", NOW)
    other.issue(tmp_path / "w", CertificateRole.WORKER, "w", NOW)
    before = content(tmp_path / "w")
    refused(ErrorCode.BAD_CERTIFICATE, lambda: ca.renew(tmp_path / "w", NOW))
    refused(ErrorCode.BAD_CERTIFICATE, lambda: ca.share(tmp_path / "w"))
    refused(ErrorCode.BAD_CREDENTIALS, lambda: ca.renew(tmp_path / "nothing", NOW))
    assert content(tmp_path / "w") == before


def test_authorities_change_in_three_steps_and_links_work_at_each(
    ca: Authority, tmp_path: Path
) -> None:
    holders = [tmp_path / name for name in ("a", "b")]
    for holder in holders:
        ca.issue(holder, CertificateRole.MEMBER, holder.name, NOW)

    def all_shake() -> None:
        for server in holders:
            for client in holders:
                shake(server, client)

    new = ca.replace(NOW)
    assert len(new.trusted) == 2
    assert new.facts != ca.facts
    all_shake()
    for holder in holders:
        new.share(holder)
        all_shake()
    for holder in holders:
        new.renew(holder, NOW)
        all_shake()
    last = new.drop_old()
    assert last.trusted == [new.facts]
    for holder in holders:
        last.share(holder)
        all_shake()
        (trusted,) = split_pem((holder / "ca.pem").read_bytes())
        assert is_signed_by((holder / "cert.pem").read_bytes(), trusted)


def test_a_second_change_waits_for_the_end_of_the_first(ca: Authority) -> None:
    new = ca.replace(NOW)
    refused(ErrorCode.BAD_SETUP, lambda: new.replace(NOW))
    new.drop_old().replace(NOW)


def test_a_change_of_authorities_that_was_cut_short_is_undone_by_its_end(
    ca: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(path: Path, *_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    real = module.put_file
    monkeypatch.setattr(
        module,
        "put_file",
        lambda path, *a, **o: (crash if path.suffix == ".key" else real)(path, *a, **o),
    )
    with pytest.raises(KeyboardInterrupt):
        ca.replace(NOW)
    monkeypatch.undo()
    left = Authority(ca.directory)
    assert left.facts == ca.facts  # the old one signs, and both are trusted
    left.issue(tmp_path / "w", CertificateRole.MEMBER, "w", NOW)
    shake(tmp_path / "w", tmp_path / "w")
    assert left.drop_old().trusted == [ca.facts]


def test_an_authority_whose_key_others_may_read_does_not_sign(ca: Authority) -> None:
    (ca.directory / "ca.key").chmod(0o644)
    refused(ErrorCode.BAD_CREDENTIALS, lambda: Authority(ca.directory))


def test_what_is_no_authority_is_said(ca: Authority, tmp_path: Path) -> None:
    refused(ErrorCode.BAD_CREDENTIALS, lambda: Authority(tmp_path))
    (ca.directory / "ca.pem").write_bytes(b"x")
    refused(ErrorCode.BAD_CERTIFICATE, lambda: Authority(ca.directory))


def test_a_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    refused(ErrorCode.DISK_FAILED, lambda: put_file(tmp_path / "key.pem", b"x", is_secret=True))
    assert os.listdir(tmp_path) == []


def refused(code: ErrorCode, doing: Callable[[], object]) -> None:
    with pytest.raises(LocalError) as caught:
        doing()
    assert caught.value.code is code
    assert caught.value.hint
