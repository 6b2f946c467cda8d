"""`rollq access role`: named sets of rules that accounts share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.base.access_rules import Rule
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq access role list
  rollq access role add nights
  rollq access role grant nights jobs.submit 'queue:night.*'
"""
app = typer.Typer(
    name="role",
    help="Show and change roles.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[str, typer.Argument(metavar="ROLE", help="Name of a role.")]
Action = Annotated[
    str, typer.Argument(metavar="ACTION", help="Pattern of actions, as in jobs.submit or jobs.*.")
]
Resource = Annotated[
    str, typer.Argument(metavar="RESOURCE", help="KIND:PATTERN, as in queue:render.*; or *.")
]


@app.command("list", epilog="Example: rollq access role list --json | jq -r .name")
def list_(
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List all roles; five are built in.

    With --json: one JSON object a line.
    """
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_json, write_table

    documents = with_client(servers, timeout, _roles)
    if as_json:
        for document in documents:
            write_json(document)
        return
    write_table(
        ["role", "built_in", "rules"],
        [[one["name"], one["built_in"], len(one["rules"])] for one in documents],
    )


@app.command(epilog="Example: rollq access role show client")
def show(
    role: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the rules of a role.

    Exit code 4 if there is none.
    """
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_json, write_line

    document = with_client(servers, timeout, lambda client: _role(client, role))
    if as_json:
        write_json(document)
        return
    for rule in document["rules"]:
        write_line(rule)


@app.command(epilog="Example: rollq access role add nights")
def add(
    role: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Create a role without rules.

    Exit code 4 if it exists.
    """
    from rollq.cli.grid import with_client

    with_client(servers, timeout, lambda client: client.access.add_role(role))
    _done(role, f"role {role} added", as_json=as_json)


@app.command(epilog="Example: rollq access role remove nights")
def remove(
    role: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Delete a role that no account has."""
    from rollq.cli.grid import with_client

    with_client(servers, timeout, lambda client: client.access.remove_role(role))
    _done(role, f"role {role} removed", as_json=as_json)


@app.command(epilog="Example: rollq access role grant nights jobs.submit 'queue:night.*'")
def grant(
    role: Name,
    action: Action,
    resource: Resource,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Allow an action on a resource to all accounts that have a role."""
    from rollq.cli.grid import with_client

    rules = rules_of(action, resource, ("allow",))
    with_client(servers, timeout, lambda client: client.access.add_role_rules(role, *rules))
    _done(role, f"granted to role {role}: {action} {resource}", as_json=as_json)


@app.command(epilog="Example: rollq access role deny nights results.read 'client:*'")
def deny(
    role: Name,
    action: Action,
    resource: Resource,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Deny an action on a resource to all accounts that have a role."""
    from rollq.cli.grid import with_client

    rules = rules_of(action, resource, ("deny",))
    with_client(servers, timeout, lambda client: client.access.add_role_rules(role, *rules))
    _done(role, f"denied to role {role}: {action} {resource}", as_json=as_json)


@app.command(epilog="Example: rollq access role revoke nights jobs.submit 'queue:night.*'")
def revoke(
    role: Name,
    action: Action,
    resource: Resource,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Take a rule (allowing or denying) from a role.

    Exit code 4 if the role does not have it.
    """
    from rollq.cli.grid import with_client

    rules = rules_of(action, resource, ("allow", "deny"))

    async def change(client: Client) -> None:
        held = (await _role(client, role))["rules"]
        if not any(f"{rule.effect} {rule.action} {rule.resource}" in held for rule in rules):
            raise StateError(
                ErrorCode.BAD_ACCESS,
                f"the role {role} has no rule on {action} {resource}",
                f"`rollq access role show {role}` shows its rules",
            )
        await client.access.remove_role_rules(role, *rules)

    with_client(servers, timeout, change)
    _done(role, f"revoked from role {role}: {action} {resource}", as_json=as_json)


def rules_of(action: str, resource: str, effects: tuple[str, ...]) -> list[Rule]:
    """The rules with these effects.

    Raises:
        LocalError: BAD_OPTIONS, if a rule is invalid.
    """
    from rollq.base.access_checks import why_bad_rule
    from rollq.base.access_rules import Rule

    made = [Rule(cast("Literal['allow', 'deny']", effect), action, resource) for effect in effects]
    why = why_bad_rule(made[0])
    if why:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, why, "docs/access.md lists actions and kinds of resources"
        )
    return made


async def _roles(client: Client) -> list[dict[str, Any]]:
    from rollq.documents.access import role_document

    return [role_document(view) async for view in client.access.roles()]


async def _role(client: Client, name: str) -> dict[str, Any]:
    from rollq.documents.access import role_document

    view = await client.access.role(name)
    if view is None:
        raise StateError(
            ErrorCode.UNKNOWN_ROLE,
            f"no role {name[:64]!r}",
            "`rollq access role list` lists them",
        )
    return role_document(view)


def _done(role: str, text: str, *, as_json: bool) -> None:
    from rollq.cli.output import write_answer

    write_answer({"role": role, "done": text}, text, as_json=as_json)
