"""What a person asks of unknown strings."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from pipelines.metrics.counting.options import HiddenOptions
from pipelines.metrics.options import published
from pipelines.request.options import PROMISE, option
from pipelines.request.requests import AS_TYPED, Count


class UnknownStringsOptions(HiddenOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.unknown_strings.metric:UnknownStrings"
    sizing: ClassVar[str] = "pipelines.size.strings:StringsQuestion"
    brief: ClassVar[str] = "the strings that enough users hold, of which none was declared"
    description: ClassVar[str] = (
        "The strings that enough users hold, of which none was declared, and how many hold each: "
        "names of new features, error messages, addresses, words. The job counts them, adds noise "
        "to each number, and publishes what is above a threshold that noise alone never reaches; "
        "all others it forgets. Whether anybody takes part is hidden. Some twenty holders are "
        "enough, of however many users; the job is trusted with the strings."
    )
    examples: ClassVar[str] = """\
how it compares: `heavy-hitters` trusts nobody with a string and finds those that hundreds of a
million users hold, or with --dummies shuffler a hundred and fifty; here some twenty are enough, and
strings are of any alphabet.

what is found: before the run a line tells how many users must hold a string for it to be found.
It falls with a larger epsilon and a larger delta, and does not depend on how many users there are.

example, with the files of the repository:
  hushbeam unknown-strings --input examples/flights.parquet --column destination \\
      --epsilon 1 --output flights-unknown
"""
    subject: ClassVar[str] = "what is looked for"

    column: str = option(
        "the column whose strings are looked for; integers are taken as their digits"
    )
    max_length: Annotated[int, Field(ge=1, le=1 << 10), AS_TYPED] = option(
        "how many bytes of a string are looked at, in UTF-8; longer ones are counted, and "
        "published, by their beginning",
        64, metavar="L",
    )  # fmt: skip
    rows_per_user: Count = option(
        "k, how many different strings of a user count; where a user has more they are drawn "
        "uniformly. The threshold grows with k where k is small, and with its square root from "
        "about 5 on: take what most users have",
        1, group=PROMISE, metavar="K", le=1 << 16,
    )  # fmt: skip
    output: str = published("unknown_strings.parquet")
