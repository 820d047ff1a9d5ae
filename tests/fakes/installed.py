"""Packages that are installed for a test: as pip would have left them, in a folder of their own."""

from __future__ import annotations

import re
from pathlib import Path

import tomllib

FAKES = Path(__file__).parent


def blocks(page: str, language: str) -> list[str]:
    """The code of a Markdown page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def install(project: str, site: Path) -> None:
    """What is left of a package beside its modules: its name, its version, its entry points.

    Args:
        project: its pyproject.toml.
        site: a folder on the search path, or to become one.
    """
    facts = tomllib.loads(project)["project"]
    name, version = facts["name"], facts["version"]
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = (
        "\n".join([f"[{group}]", *(f"{key} = {place}" for key, place in members.items())])
        for group, members in facts["entry-points"].items()
    )
    (folder / "entry_points.txt").write_text("\n".join(points) + "\n")
