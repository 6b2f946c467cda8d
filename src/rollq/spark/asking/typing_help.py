"""SQL completion for a shell: statement boundaries and completion candidates. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rollq.spark.asking.queries import TABLES
from rollq.spark.pipeline import catalog

# Tokens that may contain a semicolon; then the openings of unterminated ones.
_PIECES: Final = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|;|['"`]|/\*""", re.DOTALL
)
_OPEN: Final = ("'", '"', "`", "/*")
_COMMENTS: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD: Final = re.compile(r"[\w`]*\Z")
_BEFORE_TABLES: Final = ("from", "join", "table", "describe", "desc", "d")
KEYWORDS: Final = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "JOIN", "LEFT JOIN"),
    *("ON", "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL", "AS", "WITH", "UNION ALL"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT", "DESC", "OVER", "PARTITION BY", "EXPLAIN"),
    *("SHOW TABLES", "DESCRIBE", "INTERVAL"),
    *(
        "count(",
        "sum(",
        "avg(",
        "min(",
        "max(",
        "round(",
        "percentile(",
        "date_trunc(",
        "coalesce(",
    ),
)


class Candidate(NamedTuple):
    """A completion candidate."""

    text: str
    meaning: str


def split_statements(text: str) -> tuple[list[str], str]:
    """The statements that end with a semicolon, and the rest after the last one. Blanks and
    comments are dropped."""
    found: list[str] = []
    start = 0
    for piece in _PIECES.finditer(text):
        if piece[0] in _OPEN:
            break
        if piece[0] == ";":
            found.append(text[start : piece.start()])
            start = piece.end()
    rest = text[start:]
    said = [one.strip() for one in found if _COMMENTS.sub("", one).strip()]
    return said, rest if _COMMENTS.sub("", rest).strip() else ""


def candidates(before: str, text: str) -> tuple[str, list[Candidate]]:
    """The word prefix before the cursor, and its completions: tables after FROM and the like, else
    columns of the tables in the statement, then keywords.

    Args:
        before: the text before the cursor.
        text: the whole statement, since SELECT names columns before FROM names tables.
    """
    word = _WORD.search(before)
    part = word[0] if word else ""
    words = re.findall(r"\w+", before[: len(before) - len(part)].lower())
    is_of_one = before[: len(before) - len(part)].endswith(".")
    if words and words[-1] in _BEFORE_TABLES and not is_of_one:
        known = [Candidate(short, f"{table}, table") for table, short in TABLES.items()]
        known += [Candidate(table, "table") for table in TABLES]
    else:
        known = _columns(text)
        known += [] if is_of_one else [Candidate(one, "") for one in KEYWORDS]
    wanted = part.strip("`").lower()
    return part, [one for one in known if one.text.strip("`").lower().startswith(wanted)]


def _columns(text: str) -> list[Candidate]:
    """Columns of the tables in the statement, or of all tables."""
    words = set(re.findall(r"\w+", text.lower()))
    named = [table for table, short in TABLES.items() if {table, short} & words] or list(TABLES)
    of: dict[str, list[str]] = {}
    for table in named:
        for column in catalog.TABLES[table].columns:
            # A keyword of SQL.
            name = "`group`" if column.name == "group" else column.name
            of.setdefault(name, []).append(TABLES[table])
    return [Candidate(name, f"column of {', '.join(tables)}") for name, tables in of.items()]
