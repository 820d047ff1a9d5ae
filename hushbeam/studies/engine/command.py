"""A command that runs studies."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from hushbeam.studies.engine.options import Options, add_options
from hushbeam.studies.engine.study import Study, evaluate
from pipelines.request.requests import no_more, request

_RESUMED = """
A study that was killed goes on where it stopped when it is started again by the same command. Every
repetition has a seed of its own, so results do not depend on --jobs, nor on interruptions.

"""
_RESULT = (
    "what comes out: results.parquet, refused.json, the journal to go on from, and figures against "
    "everything that has several values, as .png and .svg ({figures}){more}."
)
_CODES = """
exit codes: 0 done; 2 the request or its data are wrong; 3 the run failed or was interrupted.
"""

QUANTILES = (
    "the line is the mean, the band reaches from the 10 % to the 90 % quantile over repetitions"
)
ERRORS = "the line is the mean, the band two standard errors of it either way"


@dataclass(frozen=True)
class StudyCommand:
    """What `hushbeam evaluate NAME` says of itself, and what it runs.

    Attributes:
        description: what it is for.
        about: systems, data and examples.
        figures: what lines and bands are.
        more: what else comes out.
        studies: name -> study; one alone is called "", and needs no --study.
    """

    description: str
    about: str
    figures: str
    studies: Mapping[str, Study]
    more: str = ""

    def describe(self, parser: argparse.ArgumentParser) -> None:
        """Give a parser its words and options."""
        parser.description = self.description
        result = _RESULT.format(figures=self.figures, more=self.more and f"; {self.more}")
        parser.epilog = self.about + _RESUMED + textwrap.fill(result, 100) + _CODES
        if len(self.studies) > 1:
            parser.add_argument(
                "--study", required=True, choices=list(self.studies), help="what is compared"
            )
        add_options(parser, {name: study.options for name, study in self.studies.items()})
        parser.set_defaults(command=partial(_run, self))

    def parsed(self, words: Mapping[str, Any]) -> tuple[str, Study, Options]:
        """The study that is meant, by its name, and its options.

        Args:
            words: option -> what was typed.

        Raises:
            RequestError: an option is malformed, out of range, or another study's.
        """
        given = {name: value for name, value in words.items() if name not in ("command", "study")}
        name = words.get("study", "")
        study = self.studies[name]
        return name, study, request(study.options, given)


def _run(command: StudyCommand, arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Run one of the studies."""
    no_more(beam_arguments)
    name, study, options = command.parsed(vars(arguments))
    return evaluate(study, options, name)
