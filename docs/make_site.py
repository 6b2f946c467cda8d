"""Hook of the site (`mkdocs.yml`): what pages link to outside of docs/ is no page of the site. The
changelog becomes one; of the rest the name is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:src|tests|deploy|bench)/[^)]+|README[^)]*)\)")


def on_files(files: Any, config: Any) -> Any:
    """The changelog lies where people look for it, beside docs/."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links out of docs/, as the site has them."""
    return OUTSIDE.sub(r"\1 (`\2`)", markdown).replace("](../CHANGELOG.md", "](changelog.md")
