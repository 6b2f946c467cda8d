"""`rollq access`: accounts and their rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.cli import access_credentials, access_roles
from rollq.cli.access_credentials import Name
from rollq.cli.access_roles import Action, Resource, rules_of
from rollq.cli.failures import EXIT_FOUND
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.base.access_rules import Rule
    from rollq.roles.client.calls.access import AccessDecision
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq access add alice --role client
  rollq access token alice --expires 90d --out alice/token
  rollq access deny alice jobs.submit 'queue:prod.*'
  rollq access check alice jobs.cancel client:bob queue:render
"""
app = typer.Typer(
    name="access",
    help="Show and change accounts, their credentials and rights.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
Roles = Annotated[
    list[str] | None, typer.Option("--role", metavar="ROLE", help="Name of a role; repeatable.")
]


@app.command("list", epilog="Example: rollq access list --json | jq -r .name")
def list_(
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List all accounts.

    With --json: one JSON object a line.
    """
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_json, write_table
    from rollq.documents.times import when

    documents = with_client(servers, timeout, _accounts)
    if as_json:
        for document in documents:
            write_json(document)
        return
    write_table(
        ["account", "state", "roles", "rules", "tokens", "keys", "next_expiry"],
        [
            [
                *(one["name"], "disabled" if one["disabled"] else "enabled"),
                *(" ".join(one["roles"]), len(one["rules"])),
                *(len(one["tokens"]), len(one["keys"])),
                when(min(filter(None, (t["expires_ms"] for t in one["tokens"])), default=0)),
            ]
            for one in documents
        ],
        fits=True,
    )


@app.command(epilog="Example: rollq access show alice")
def show(
    account: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show one account: roles, rules, tokens by their ids, and public keys.

    Exit code 4 if there is none.
    """
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_fields, write_json
    from rollq.documents.times import when

    document = with_client(servers, timeout, lambda client: _account(client, account))
    if as_json:
        write_json(document)
        return
    write_fields(
        {
            "account": document["name"],
            "state": "disabled" if document["disabled"] else "enabled",
            "roles": " ".join(document["roles"]),
            **{f"rule {number}": rule for number, rule in enumerate(document["rules"], 1)},
            **{
                f"token {token['id']}": when(token["expires_ms"]) or "never expires"
                for token in document["tokens"]
            },
            **{f"key {number}": key for number, key in enumerate(document["keys"], 1)},
        }
    )


@app.command(
    epilog="""\b
Examples:
  rollq access add alice --role client
  rollq access add nightly --role reader --role client
"""
)
def add(
    account: Name,
    role: Roles = None,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Create an account.

    Give it a token or a key next, or use its name in a certificate. Exit code 4 if it exists.
    """
    from rollq.cli.grid import with_client

    roles = role or []
    with_client(servers, timeout, lambda client: client.access.add(account, roles=roles))
    _done(account, f"account {account} added", as_json=as_json)


@app.command(epilog="Example: rollq access remove alice")
def remove(
    account: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Delete an account with its tokens and keys."""
    from rollq.cli.grid import with_client

    with_client(servers, timeout, lambda client: client.access.remove(account))
    _done(account, f"account {account} removed", as_json=as_json)


@app.command(epilog="Example: rollq access enable alice")
def enable(
    account: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Let a disabled account log in again."""
    from rollq.cli.grid import with_client

    with_client(servers, timeout, lambda client: client.access.set_disabled(account, False))
    _done(account, f"account {account} enabled", as_json=as_json)


@app.command(epilog="Example: rollq access disable alice")
def disable(
    account: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Disable an account: it cannot log in. Its rights are kept."""
    from rollq.cli.grid import with_client

    with_client(servers, timeout, lambda client: client.access.set_disabled(account, True))
    _done(account, f"account {account} disabled", as_json=as_json)


@app.command(
    epilog="""\b
Examples:
  rollq access grant alice jobs.submit 'queue:render.*'
  rollq access grant alice --role operator
"""
)
def grant(
    account: Name,
    action: Action = "",
    resource: Resource = "",
    role: Roles = None,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Allow an account an action on a resource, or give it roles."""
    from rollq.cli.grid import with_client

    rules, roles = _wanted(action, resource, role, ("allow",))

    async def change(client: Client) -> None:
        if roles:
            await client.access.add_roles(account, *roles)
        if rules:
            await client.access.add_rules(account, *rules)

    with_client(servers, timeout, change)
    _done(account, f"granted to {account}: {_description(rules, roles)}", as_json=as_json)


@app.command(epilog="Example: rollq access deny alice jobs.submit 'queue:prod.*'")
def deny(
    account: Name,
    action: Action,
    resource: Resource,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Deny an account an action on a resource. A deny overrides every allow."""
    from rollq.cli.grid import with_client

    rules, _ = _wanted(action, resource, None, ("deny",))
    with_client(servers, timeout, lambda client: client.access.add_rules(account, *rules))
    _done(account, f"denied to {account}: {_description(rules, [])}", as_json=as_json)


@app.command(
    epilog="""\b
Examples:
  rollq access revoke alice jobs.submit 'queue:render.*'
  rollq access revoke alice --role operator
  rollq access revoke alice --token 5f2c9b01
"""
)
def revoke(
    account: Name,
    action: Action = "",
    resource: Resource = "",
    role: Roles = None,
    token: Annotated[str, typer.Option(metavar="ID", help="Id of a token (`access show`).")] = "",
    key: Annotated[str, typer.Option(metavar="HEX", help="Public key (`access show`).")] = "",
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Take a rule (allowing or denying), roles, a token or a key from an account.

    Exit code 4 if the account does not have it.
    """
    from rollq.cli.grid import with_client

    if not (token or key):
        rules, roles = _wanted(action, resource, role, ("allow", "deny"))
    elif action or role or (token and key):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "more than one of a rule, --role, --token and --key is given",
            "revoke them one by one",
        )
    else:
        rules, roles = [], []

    async def change(client: Client) -> None:
        document = await _account(client, account)
        held = [*document["rules"], *document["roles"], *document["keys"]]
        held += [one["id"] for one in document["tokens"]]
        wanted = [*(_text(rule) for rule in rules), *roles, *filter(None, (token, key))]
        if not any(one in held for one in wanted):
            raise StateError(
                ErrorCode.BAD_ACCESS,
                f"the account {account} does not have that itself",
                f"`rollq access show {account}` shows what it has; roles have rules of their own",
            )
        if rules:
            await client.access.remove_rules(account, *rules)
        if roles:
            await client.access.remove_roles(account, *roles)
        if token:
            await client.access.remove_token(account, token)
        if key:
            await client.access.remove_key(account, bytes.fromhex(key))

    with_client(servers, timeout, change)
    what = _description(rules[:1], roles, token, key).removeprefix("allow ")
    _done(account, f"revoked from {account}: {what}", as_json=as_json)


@app.command(
    epilog="""\b
Examples:
  rollq access check alice jobs.submit queue:render exec:blender
  rollq access check alice jobs.cancel client:bob queue:render
"""
)
def check(
    account: Name,
    action: Annotated[
        str, typer.Argument(metavar="ACTION", help="Action to check, such as jobs.submit.")
    ],
    resources: Annotated[
        list[str],
        typer.Argument(metavar="RESOURCE", help="KIND:NAME of each resource of the action."),
    ],
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Check whether an account may do an action, and show the rules that apply.

    The resources of a job are its client and its queue. Every resource must be allowed, and a
    single deny refuses the action. Exit code 1 if it is refused.
    """
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_json, write_line, write_table

    decision = with_client(
        servers, timeout, lambda client: client.access.check(account, action, *resources)
    )
    if as_json:
        write_json(_decision(decision))
    else:
        if decision.rulings:
            write_table(
                ["effect", "action", "rule_resource", "from", "resource"],
                [
                    [
                        *(one.rule.effect, one.rule.action, one.rule.resource),
                        *(f"role {one.source}" if one.source else "the account", one.resource),
                    ]
                    for one in decision.rulings
                ],
            )
        write_line(f"{'allowed' if decision.allowed else 'refused'}: {decision.reason}")
    if not decision.allowed:
        raise typer.Exit(EXIT_FOUND)


access_credentials.register(app)
app.add_typer(access_roles.app)


def _wanted(
    action: str, resource: str, role: list[str] | None, effects: tuple[str, ...]
) -> tuple[list[Rule], list[str]]:
    """The rules or the roles that a command names; exactly one of the two must be given."""
    if bool(action) is not bool(resource) or bool(action) is bool(role):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "neither ACTION and RESOURCE nor a role are given, or both",
            "as in `jobs.submit queue:render.*`, or `--role operator`",
        )
    return (rules_of(action, resource, effects) if action else []), role or []


async def _accounts(client: Client) -> list[dict[str, Any]]:
    from rollq.documents.access import account_document

    return [account_document(view) async for view in client.access.accounts()]


async def _account(client: Client, name: str) -> dict[str, Any]:
    from rollq.documents.access import account_document

    view = await client.access.account(name)
    if view is None:
        raise StateError(
            ErrorCode.UNKNOWN_ACCOUNT,
            f"no account {name[:64]!r}",
            "`rollq access list` lists them",
        )
    return account_document(view)


def _decision(decision: AccessDecision) -> dict[str, Any]:
    return {
        "allowed": decision.allowed,
        "reason": decision.reason,
        "rules": [
            {
                "effect": one.rule.effect,
                "action": one.rule.action,
                "rule_resource": one.rule.resource,
                "role": one.source,
                "resource": one.resource,
            }
            for one in decision.rulings
        ],
    }


def _description(rules: list[Rule], roles: list[str], *others: str) -> str:
    words = [*(_text(rule) for rule in rules), *(f"role {name}" for name in roles)]
    return ", ".join([*words, *filter(None, others)])


def _text(rule: Rule) -> str:
    return f"{rule.effect} {rule.action} {rule.resource}"


def _done(account: str, text: str, *, as_json: bool) -> None:
    from rollq.cli.output import write_answer

    write_answer({"account": account, "done": text}, text, as_json=as_json)
