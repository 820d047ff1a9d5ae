"""`size`, `compare` and `site` as functions: what these commands answer to programs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from hushbeam.calls import called, warn
from hushbeam.releases import Release
from pipelines.errors import RequestError, UnknownWordsError
from pipelines.request.options import flag

Place = str | os.PathLike[str] | Release


def size(**options: Any) -> dict[str, Any]:
    """Which mechanism to use and what it will cost, before any data is touched.

    Args:
        options: options of `hushbeam size` by name: `size(counts=100, epsilon=1)`.

    Returns:
        What `hushbeam size --json` prints.

    Raises:
        RequestError: the question is wrong.
    """
    return answered("size", [], options, joined=True)


def compare(*releases: Place, **options: Any) -> dict[str, Any]:
    """What has changed between two releases beyond noise, or differs within one.

    Args:
        releases: two, the earlier first, or one; each a `Release`, or its folder.
        options: options of `hushbeam compare`: `compare(release, values=["Oslo", "Bergen"])`.

    Returns:
        What `hushbeam compare --json` prints; `answer["changes"]` are the differences.

    Raises:
        RequestError: the releases cannot be compared.
    """
    return answered("compare", releases, options)


def site(*releases: Place, output: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """A static site over releases: each metric over time, what has changed, what is left.

    Args:
        releases: each a `Release`, a folder, a folder of such, or a glob.
        output: a local folder.
        options: options of `hushbeam site`: `site("releases", output="public", ledger="l.sqlite")`.

    Returns:
        What `hushbeam site --json` prints.

    Raises:
        RequestError: there is no release, or the folder holds something else.
    """
    return answered("site", releases, {"output": output, **options})


def answered(
    command: str, places: Iterable[Place], options: dict[str, Any], joined: bool = False
) -> dict[str, Any]:
    """What a command answers to programs, but for its exit code.

    Args:
        command: its name.
        places: the words right behind it.
        options: its options by name.
        joined: whether a list is one word, with commas, and not several.
    """
    with called() as cautions:
        from pipelines.cli.cli import flags_of, misspelt, parser_of
        from pipelines.request import answers

        words = [command, *(p.folder if isinstance(p, Release) else os.fspath(p) for p in places)]
        for name, value in options.items():
            words += _words(flag(name), value, joined)
        with answers.listening() as answer:
            parser = parser_of(words)
            parsed, rest = parser.parse_known_args(words)
            try:
                parsed.command(parsed, rest)
            except UnknownWordsError as error:
                meant = misspelt(error.words, (*error.known, *flags_of(parser)))
                raise RequestError(f"{error}{meant}") from None
    warn(cautions, 3)
    return answer.content


def _words(option: str, value: Any, joined: bool) -> list[str]:
    """An option as it is typed."""
    if value is None or isinstance(value, bool):
        return [option] * bool(value)
    if isinstance(value, list | tuple | range):
        texts = [str(part) for part in value]
        return [f"{option}={','.join(texts)}"] if joined else [option, *texts]
    return [f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}"]
