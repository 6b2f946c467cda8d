"""`rollq metrics`: metrics of members, and dashboards and alerts for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.base.counters import Family

EPILOG = """\b
Examples:
  rollq metrics show --servers 127.0.0.1:5000
  rollq metrics dashboard > rollq.json
  rollq metrics alerts > rollq-alerts.yml
"""
app = typer.Typer(
    name="metrics",
    help="Show metrics of a member, the Grafana dashboard, and alert rules for Prometheus.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(epilog="Example: rollq metrics show | grep rollq_queue_jobs")
def show(
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the metrics of the first member that responds, in the Prometheus format.

    Any member can respond; some metrics exist on the leader only.
    """
    import sys

    from rollq.cli.output import write_json
    from rollq.cli.service import run
    from rollq.observe.text import exposition

    families = run(_ask(servers, timeout))
    if as_json:
        write_json({"metrics": [_document(family) for family in families]})
    else:
        sys.stdout.write(exposition(families).decode())


@app.command(epilog="Example: rollq metrics dashboard > rollq.json")
def dashboard(as_json: Json = False) -> None:
    """Print a Grafana dashboard: import it, and choose the Prometheus that scrapes the group."""
    _print("grafana.json", as_json=as_json)


@app.command(epilog="Example: rollq metrics alerts > rollq-alerts.yml")
def alerts(as_json: Json = False) -> None:
    """Print alert rules for Prometheus: add the file to rule_files."""
    _print("alerts.yml", as_json=as_json)


def _print(name: str, *, as_json: bool) -> None:
    import sys

    from rollq.cli.output import write_json
    from rollq.observe.shipped import shipped_text

    text = shipped_text(name)
    if as_json:
        write_json({"name": name, "text": text})
    else:
        sys.stdout.write(text)


async def _ask(servers: str, timeout_s: float) -> list[Family]:
    from rollq.base.counters import Family
    from rollq.cli.credentials import given_credentials
    from rollq.roles.client.addresses import as_addresses
    from rollq.roles.client.answers import decode_as
    from rollq.roles.reader.observer import Observer

    addresses = as_addresses(servers)
    observer = Observer(addresses, "", given_credentials(), prefer=addresses[0], answer_s=timeout_s)
    await observer.start()
    try:
        _, value = await observer.query("metrics")
    finally:
        await observer.stop()
    return decode_as(value, list[Family])


def _document(family: Family) -> dict[str, object]:
    samples: list[dict[str, object]] = []
    for sample in family.samples:
        row: dict[str, object] = {
            "labels": dict(zip(family.labels, sample.labels, strict=True)),
            "value": sample.value,
        }
        if sample.counts:
            row["counts"] = sample.counts
        samples.append(row)
    document: dict[str, object] = {"name": family.name, "type": family.kind, "samples": samples}
    return document | ({"bounds": family.bounds} if family.bounds else {})
