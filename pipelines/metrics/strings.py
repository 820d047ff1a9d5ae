"""What the command `strings` asks: two kinds of metrics, by what they search with."""

from __future__ import annotations

from typing import ClassVar, Literal

from pipelines.metrics.options import published
from pipelines.metrics.unknown_strings.options import UnknownStringsOptions
from pipelines.request.options import option

_SEARCH = "how it is searched"


class StringsOptions(UnknownStringsOptions):
    """The options of the search that is usual, and which search it is."""

    withheld: ClassVar[str] = "too little budget, or too few reports"
    brief: ClassVar[str] = "the frequent strings, of which none was declared"
    description: ClassVar[str] = (
        "The frequent strings of a telemetry log and how many hold each, such as addresses, error "
        "messages, names of features or words. No list of candidates is needed. A string that few "
        "hold stays unknown."
    )
    examples: ClassVar[str] = """\
examples, with the files of the repository:
  by a threshold: some twenty holders are enough, and the job is trusted with the strings
    hushbeam strings --input examples/flights.parquet --column destination \\
        --epsilon 1 --output flights-strings
  by levels: nobody is trusted with a string, and hundreds of a million users must hold it
    hushbeam strings --search levels --input examples/flights.parquet --column destination \\
        --alphabet upper --max-length 3 --epsilon 1 --output flights-destinations

how threshold works: the job counts the strings, adds noise to each number, and publishes those
above a threshold that noise alone never reaches. All others it forgets. Whether anybody takes part
is hidden.

how levels works: each user reports the beginning of its string, of a random length, as a randomised
bucket of a public hash. The collector builds strings up from their beginnings, and follows those
whose buckets hold more than chance explains. --max-length is then of characters (default: 32, or 10
for integers); longer strings are published by their beginning, and marked. One row of each user of
--user-column counts. With --dummies shuffler the job draws the noise: far rarer strings are found.

what is found: before the run a line says how many users must hold a string. It falls with a larger
epsilon; of levels also with more users, a smaller --alphabet and a shorter --max-length.
"""

    output: str = published("unknown_strings.parquet (of levels heavy_hitters.parquet)")
    search: Literal["threshold", "levels"] = option(
        "threshold (the job counts strings: some twenty holders are enough) or levels (reports are "
        "randomised: nobody is trusted with a string)",
        "threshold", group=_SEARCH, essential=True,
    )  # fmt: skip
