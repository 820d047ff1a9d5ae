"""What a person asks for of an experiment."""

from __future__ import annotations

from typing import ClassVar

from pipelines.metrics.counting.options import CountingOptions
from pipelines.metrics.options import published
from pipelines.request.options import option
from pipelines.request.requests import Count, Texts

TABLE = "experiment.parquet"
MOST_LOOKS = 100


class ExperimentOptions(CountingOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.experiment:Experiment"
    sizing: ClassVar[str] = "pipelines.size.experiments:ExperimentQuestion"
    brief: ClassVar[str] = (
        "whether a treatment changes rates, means or quantiles, beyond chance and noise"
    )
    description: ClassVar[str] = (
        "The difference between an arm and the first one, for each outcome, with an interval that "
        "covers chance among users and the noise. Arms must have the declared shares of users; a "
        "user in several arms counts in none. Whether anybody takes part is hidden."
    )
    examples: ClassVar[str] = """\
examples:
  two arms, a rate and a mean
    hushbeam experiment --input 'logs/*.parquet' --user-column user --arm variant \\
        --arms control,treatment --rate bought --mean seconds=0,600 --epsilon 1 --output effect
  arms that devices draw by a hash of the user's id; the third of five planned looks
    hushbeam experiment --input 'logs/*.parquet' --user-column user --salt checkout-2026-11 \\
        --arms control,blue,red --shares 2,1,1 --rate bought --looks 5 --look 3 --epsilon 1 \\
        --output effect-3
"""
    subject: ClassVar[str] = "what is compared"

    arm: str | None = option(
        "the column that says which arm a row's user is in", None, metavar="COLUMN", essential=True
    )
    salt: str | None = option(
        "in place of --arm: the arm of a user is drawn by a hash of its id with this text, which "
        "is public and of this experiment alone; docs/experiments.md says how devices draw it",
        None, metavar="TEXT", min_length=1,
    )  # fmt: skip
    arms: str = option(
        "the arms, with commas between; the first is the one that others are compared with",
        metavar="CONTROL,TREATMENT,...",
    )
    shares: str | None = option(
        "how users are divided among the arms, as in 9,1 (default: equally)", None, metavar="S,S,.."
    )
    rate: Texts = option(
        "an outcome that a user has or has not: a column of booleans, or numbers other than 0; of "
        "several rows, whether any has it",
        (), metavar="COLUMN", repeated=True, essential=True,
    )  # fmt: skip
    mean: Texts = option(
        "an outcome that is a number, and its bounds: of several rows their average, clipped. A "
        "user without a number counts as 0. Bounds are public knowledge, not taken from the data",
        (), metavar="COLUMN=L,U", repeated=True, essential=True,
    )  # fmt: skip
    total: Texts = option(
        "the same where the rows of a user are added up", (), metavar="COLUMN=L,U", repeated=True
    )
    quantile: Texts = option(
        "an outcome of which quantiles are compared: of several rows their average; of the users "
        "with a number, to within a 1,024th of the bounds",
        (), metavar="COLUMN=L,U@P,P", repeated=True,
    )  # fmt: skip
    covariate: str | None = option(
        "a number that was known of the user before the experiment, in a column of the same rows, "
        "and where to cut it into bins: arms are compared bin by bin, which takes out the chance "
        "that it explains (CUPED). Public knowledge, too",
        None, metavar="COLUMN=E,E,...",
    )  # fmt: skip
    before: str | None = option(
        "a column of booleans: rows from before the start, of which the covariate alone counts, "
        "and of the others not. A user without later rows does not count",
        None, metavar="COLUMN",
    )  # fmt: skip
    looks: Count = option(
        "how many looks are planned, equally many users apart: intervals are wide enough for all "
        "of them, the earlier the wider. Each look is a release of its own, of all rows so far",
        1, metavar="N", figure=False, le=MOST_LOOKS,
    )  # fmt: skip
    look: Count = option("which look this is, from 1", 1, metavar="I", figure=False)
    always_valid: bool = option(
        "intervals hold at any number of looks, and whatever the reason to stop; they are "
        "narrowest where as many users are there as --expected says",
        False, figure=False,
    )  # fmt: skip
    output: str = published(TABLE)

    @property
    def unsaid(self) -> frozenset[str]:
        named = {"salt", "shares", "rate", "mean", "total", "quantile", "covariate", "before"}
        named.add("always_valid")
        return super().unsaid | {name for name in named if not getattr(self, name)}
