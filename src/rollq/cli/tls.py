"""`rollq tls`: a private certificate authority, and its certificates."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.failures import EXIT_FOUND
from rollq.cli.options import Json
from rollq.security.expiry import AUTHORITY_DAYS, CERTIFICATE_DAYS, days_left, expiry_warning
from rollq.security.identity import CertificateRole

if TYPE_CHECKING:
    from rollq.security.certificates import CertificateFacts

EPILOG = """\b
Examples:
  rollq tls init ca --cluster grid
  rollq tls issue worker-7 --role worker --ca ca
  rollq tls rotate worker-7 --ca ca
  rollq tls show worker-7
"""
app = typer.Typer(
    name="tls",
    help="Issue, renew and show certificates.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
Ca = Annotated[
    Path,
    typer.Option(
        "--ca", envvar="ROLLQ_CA", metavar="DIR", help="Directory of the authority (ca.key)."
    ),
]
Days = Annotated[int, typer.Option(min=1, max=36_500, metavar="DAYS", help="Valid for this long.")]


@app.command(epilog="Example: rollq tls init ca --cluster grid")
def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where ca.pem and ca.key are written.")
    ],
    cluster: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the cluster, part of every identity.")
    ] = "rollq",
    days: Days = AUTHORITY_DAYS,
    as_json: Json = False,
) -> None:
    """Create a private certificate authority (CA) for a cluster.

    Keep ca.key off the machines of the cluster: it can issue a certificate for any identity.
    """
    from rollq.cli.output import write_answer
    from rollq.security.authority import Authority

    facts = Authority.make(directory, cluster, _now(), days).facts
    write_answer(
        _document(directory / "ca.pem", facts),
        f"made the authority of cluster {cluster} in {directory}; keep its ca.key secret",
        as_json=as_json,
    )


@app.command(
    epilog="""\b
Examples:
  rollq tls issue member-4 --role member --ca ca --out member-4
  rollq tls issue alice --role client --ca ca --days 30
  rollq tls issue web --role member --ca ca --host grid.example.org
"""
)
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the holder: its account.")],
    role: Annotated[CertificateRole, typer.Option(help="Role of the holder.", show_default=False)],
    ca: Ca = Path("ca"),
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of credentials.", show_default="./NAME"),
    ] = None,
    days: Days = CERTIFICATE_DAYS,
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="For pages alone: host name or address that browsers look for; may be repeated.",
            show_default="none",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a directory of credentials: ca.pem, cert.pem and key.pem.

    Give it to a process with --credentials. Existing certificates and keys are not replaced.
    """
    from rollq.cli.output import write_answer
    from rollq.security.authority import Authority
    from rollq.security.files import CERTIFICATE

    target = out or Path(name)
    facts = Authority(ca).issue(target, role, name, _now(), days=days, hosts=host or ())
    document = _document(target / CERTIFICATE, facts)
    write_answer(
        document,
        f"issued {document['identity']} in {target}, valid until {document['not_after']}",
        as_json=as_json,
    )


@app.command(
    epilog="""\b
Examples:
  rollq tls rotate member-1 member-2 member-3 --ca ca
  rollq tls rotate --ca ca --new-ca
  rollq tls rotate member-1 --ca ca --trust-only
"""
)
def rotate(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="DIR", help="Directories of credentials.")
    ] = None,
    ca: Ca = Path("ca"),
    days: Annotated[
        int,
        typer.Option(
            min=0, max=36_500, metavar="DAYS", help="Valid for this long (0 = the default)."
        ),
    ] = 0,
    trust_only: Annotated[bool, typer.Option("--trust-only", help="Only update ca.pem.")] = False,
    new_ca: Annotated[
        bool, typer.Option("--new-ca", help="Replace the authority; the old one stays trusted.")
    ] = False,
    drop_old_ca: Annotated[
        bool, typer.Option("--drop-old-ca", help="Stop trusting the previous authority.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Renew certificates in place, with new keys; or replace the authority.

    Running processes reload them, and connections stay open. To replace the authority: --new-ca,
    then --trust-only for all directories, then renew all, then --drop-old-ca, then --trust-only
    again. Copy the files to their machines after each step.
    """
    from rollq.security.authority import Authority
    from rollq.security.files import CA, CERTIFICATE

    _one_step(directories or [], trust_only=trust_only, new_ca=new_ca, drop_old_ca=drop_old_ca)
    authority = Authority(ca)
    if new_ca:
        authority = authority.replace(_now(), days or AUTHORITY_DAYS)
    elif drop_old_ca:
        authority = authority.drop_old()
    if new_ca or drop_old_ca:
        _write(
            [_document(ca / CA, facts) for facts in authority.trusted],
            f"{ca / CA} is changed; next: rollq tls rotate DIR… --ca {ca} --trust-only",
            as_json=as_json,
        )
        return
    rows = []
    for directory in directories or []:
        if trust_only:
            authority.share(directory)
            rows += [_document(directory / CA, facts) for facts in authority.trusted]
        else:
            facts = authority.renew(directory, _now(), days or CERTIFICATE_DAYS)
            rows.append(_document(directory / CERTIFICATE, facts))
    _write(rows, "", as_json=as_json)


@app.command(
    epilog="""\b
Examples:
  rollq tls show member-1
  rollq tls show member-1/cert.pem --json | jq .days_left
"""
)
def show(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Directories of credentials, or PEM files."),
    ],
    as_json: Json = False,
) -> None:
    """Show certificates: holder, validity, and fingerprint.

    A certificate that expires within 30 days is named on stderr. Exit code 1 if one has expired,
    or is not signed by an authority of the ca.pem beside it. With --json: one JSON object per line.
    """
    rows = [row for path in paths for row in _certificates(path)]
    _write(rows, "", as_json=as_json)
    if not all(row["valid"] for row in rows):
        raise typer.Exit(EXIT_FOUND)


def _one_step(
    directories: list[Path], *, trust_only: bool, new_ca: bool, drop_old_ca: bool
) -> None:
    """Refuse to mix the steps: each must reach all machines before the next."""
    if trust_only + new_ca + drop_old_ca > 1:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "--trust-only, --new-ca and --drop-old-ca are separate steps",
            "give one of them",
        )
    of_authority = new_ca or drop_old_ca
    if of_authority == bool(directories):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "--new-ca and --drop-old-ca change the authority alone"
            if of_authority
            else "there is nothing to renew",
            "leave out DIR" if of_authority else "name directories of credentials, or --new-ca",
        )


def _certificates(path: Path) -> list[dict[str, Any]]:
    from rollq.security.authority import read_pem
    from rollq.security.certificates import facts_of, is_signed_by, split_pem
    from rollq.security.files import CA, CERTIFICATE

    if path.is_dir():
        files = [path / name for name in (CERTIFICATE, CA) if (path / name).exists()]
        if not files:
            raise LocalError(
                ErrorCode.BAD_CREDENTIALS,
                f"{path} has neither {CERTIFICATE} nor {CA}",
                "name a directory that `rollq init` or `rollq tls` made",
            )
    else:
        files = [path]
    rows = []
    for file in files:
        authorities = file.with_name(CA)
        trusted = split_pem(read_pem(authorities)) if authorities.exists() else []
        for pem in split_pem(read_pem(file)):
            row = _document(file, facts_of(pem))
            row["trusted"] = not trusted or any(is_signed_by(pem, one) for one in trusted)
            row["valid"] &= row["trusted"]
            rows.append(row)
    return rows


def _document(path: Path, facts: CertificateFacts) -> dict[str, Any]:
    from rollq.documents.times import when

    now_ms = int(_now().timestamp() * 1_000)
    identity = facts.identity
    return {
        "file": str(path),
        "cluster": facts.cluster,
        "role": identity.role.value if identity else "authority",
        "name": identity.name if identity else "",
        "identity": identity.uri if identity else "",
        "not_before": when(facts.not_before_ms).partition(".")[0],
        "not_after": when(facts.not_after_ms).partition(".")[0],
        "not_after_ms": facts.not_after_ms,
        "days_left": days_left(facts.not_after_ms, now_ms),
        "serial": facts.serial,
        "fingerprint": facts.fingerprint,
        "valid": facts.not_before_ms <= now_ms < facts.not_after_ms,
    }


def _write(rows: list[dict[str, Any]], remarks: str, *, as_json: bool) -> None:
    from rollq.cli.output import remark, write_json, write_table

    if as_json:
        for row in rows:
            write_json(row)
    else:
        columns = ("file", "cluster", "role", "name", "not_after", "days_left", "fingerprint")
        write_table(columns, [[row[name] for name in columns] for row in rows])
    now_ms = int(_now().timestamp() * 1_000)
    for row in rows:
        whose = row["identity"] or f"the authority of {row['cluster']}"
        warning = expiry_warning(f"{whose} ({row['file']})", row["not_after_ms"], now_ms)
        if warning:
            remark(f"warning: {warning}")
        if not row.get("trusted", True):
            remark(f"warning: no authority of the ca.pem beside {row['file']} has signed it")
    if remarks and not as_json:
        remark(remarks)


def _now() -> datetime:
    return datetime.now(UTC)
