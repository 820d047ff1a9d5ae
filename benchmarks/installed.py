"""What is installed: packages and megabytes of each way to install, and what each package adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
_MEGABYTE = 1e6


def closure(words: Iterable[str]) -> dict[str, float]:
    """Every distribution that requirements come to -> its megabytes, as it is installed here.

    Args:
        words: requirements, as in pyproject.toml.
    """
    sizes: dict[str, float] = {}
    waiting, seen = [(Requirement(word), "") for word in words], set[tuple[str, str]]()
    while waiting:
        wanted, extra = waiting.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(wanted.name)
        for part in ("", *wanted.extras):
            if (name, part) in seen:
                continue
            seen.add((name, part))
            try:
                needs = distribution(name).requires or ()
            except PackageNotFoundError:  # another platform's, or another version's of Python
                continue
            sizes.setdefault(name, _megabytes(name))
            waiting += [(Requirement(need), part) for need in needs]
    return sizes


def _megabytes(name: str) -> float:
    paths = (Path(str(file.locate())) for file in distribution(name).files or ())
    return sum(path.stat().st_size for path in paths if path.is_file()) / _MEGABYTE


def added(words: list[str], word: str) -> float:
    """The megabytes of a requirement, with all that nothing else needs."""
    with_it, without = closure(words), closure(one for one in words if one != word)
    own = canonicalize_name(Requirement(word).name)
    return sum(size for name, size in with_it.items() if name not in without or name == own)


def main() -> None:
    """A row for each way to install, and for each package."""
    import tomllib  # of Python 3.11

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    device = tomllib.loads((ROOT / "deploy/device/pyproject.toml").read_text())["project"]
    whole, extras = project["dependencies"], project["optional-dependencies"]
    ways = {"device": device["dependencies"], "whole": whole}
    ways |= {f"whole, {name}": [*whole, *more] for name, more in extras.items()}
    _print("ways to install", {name: closure(words) for name, words in ways.items()})
    every = [*whole, *extras["plots"]]
    table = Table("package", "MB with what only it needs")
    for word in sorted(every, key=lambda word: -added(every, word)):
        table.add_row(Requirement(word).name, f"{added(every, word):.1f}")
    Console(width=100).print(table)


def _print(title: str, ways: Mapping[str, Mapping[str, float]]) -> None:
    table = Table("installed", "packages", "MB", title=title)
    for name, sizes in ways.items():
        table.add_row(name, str(len(sizes)), f"{sum(sizes.values()):.0f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
