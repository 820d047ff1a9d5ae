"""`hushbeam evaluate` on the command line."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

_DESCRIPTION = """\
Compare systems side by side on simulated releases of populations whose truth is known. Nothing here
is a release: errors are measured against the true values, so that whoever may not see the data may
not see this folder either.
"""

_STUDIES = {
    "histogram": "errors of histograms",
    "poisoning": "poisoning of histograms by malicious clients, and defences",
    "heavy-hitters": "what searches for undeclared strings find",
    "distribution": "errors of distributions of a number, of their quantiles and means",
    "mean": "errors of means, and what one report gives away",
    "sum": "errors of sums, messages they take, and poisoning by malicious clients",
    "vector-mean": "errors of many means at once, predicted and measured",
    "key-value": "errors of keys' frequencies and of the means of their numbers",
    "synthetic": "how near synthetic records come, beside AIM",
    "train": "how good private models get",
}


def add_to(commands: Any) -> None:
    """Add the command and what can be evaluated."""
    parser = commands.add_parser(
        "evaluate",
        description=_DESCRIPTION,
    )
    kinds = parser.add_subparsers(
        title="what is evaluated", metavar="WHAT", required=True, parser_class=_late(type(parser))
    )
    for name, brief in _STUDIES.items():
        kind = kinds.add_parser(
            name,
            help=brief,
        )
        kind.set_defaults(module=f"hushbeam.studies.studies.{name.replace('-', '_')}")


def _late(parser_class: type[argparse.ArgumentParser]) -> type[argparse.ArgumentParser]:
    """A parser that imports its study, which takes a second or more, once it is chosen."""

    class Late(parser_class):  # type: ignore[misc, valid-type]
        def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
            # Once: a second look at the same words must not add the options again.
            module = self._defaults.pop("module", None)
            if module is not None:
                import_module(module).COMMAND.describe(self)
            return super().parse_known_args(args, namespace)

    return Late
