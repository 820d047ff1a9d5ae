"""What a shuffle says of itself when it has finished: counts, and what it was a shuffle of."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.errors import RequestError
from pipelines.parties.samples import SIZE
from pipelines.releases import release
from pipelines.storage.formats import OtherFormatError, numbered

SUMMARY = "shuffle.json"  # written last: a folder without it is of a shuffle that did not finish
_VERSION: Literal[1] = 1


class OfMetric(BaseModel):
    """One metric's counts.

    Attributes:
        min_reports: the least batch that is sent on.
        reports: how many came, each once.
        sent_on: how many are in the files.
    """

    model_config = ConfigDict(frozen=True)

    min_reports: int
    reports: int
    sent_on: int


class Summary(BaseModel):
    """A shuffle.

    Attributes:
        summary_version: of this form.
        shuffle_id: the id of the batch, which its files name: a copy is not counted as another.
        created: when, in UTC.
        collection, version, fingerprint, window: of which plan, and which part of the time; the
            fingerprint is what the reports carry.
        plan: the fingerprint of the plan alone.
        design: of the plan and of what it has come to.
        sealed: whether the shuffler could not read the messages.
        second: the id of the second shuffler's key, which they are sealed to besides; or "".
        shufflers: how many have mixed them in a row, none of whom knows the whole order.
        tokens: whether an endpoint has taken a token with each report: checked or none; empty where
            the plan asks for none.
        reports: how many came, counting also those that were dropped.
        dropped: reason -> how many.
        metrics: by name.
        words: of noisy counters, how many there are, of reports and dummies; nothing else is said
            of them, for whatever is counted of reports tells how many people take part.
        share: of epsilon, that this pass over a batch and those before it tell; None if there is
            one pass.
        passes: the shares of the batch's first pass and of others before the last one, ascending.
        sample: of the reports that came, each once; see `samples`.
        sample_key: the name of the secret that it is under; only samples of one can be compared.
    """

    model_config = ConfigDict(frozen=True)

    summary_version: Literal[1] = _VERSION
    shuffle_id: str
    created: str
    collection: str
    version: int
    fingerprint: str
    window: str
    sealed: bool
    second: Annotated[str, Field(pattern="^([0-9a-f]{16})?$")] = ""
    shufflers: int = 1
    tokens: Literal["", "checked", "none"] = ""
    reports: int = 0
    dropped: dict[str, int] = Field(default_factory=dict)
    metrics: dict[str, OfMetric] = Field(default_factory=dict)
    words: int | None = None
    share: float | None = None
    passes: tuple[float, ...] = ()
    plan: str = ""
    design: str = ""
    sample_key: str = ""
    sample: tuple[Annotated[str, Field(pattern="^[0-9a-f]{16}$")], ...] = Field((), max_length=SIZE)


# What a summary leaves out: of noisy counters all that tells how many people take part.
_EXCLUDED = ({"reports", "dropped", "metrics", "sample", "sample_key"}, {"words"})


def answered(folder: str, summary: Summary) -> dict[str, Any]:
    """What programs are told of a shuffle: of its folder's summary what counts.

    Of noisy counters how many reports came stays on the shuffler's own screen: answers are kept,
    and read by others.
    """
    said = {"shuffle_id", "window", "reports", "dropped", "metrics", "words"}
    record = summary.model_dump(mode="json", include=said, exclude=_EXCLUDED[summary.words is None])
    return {"output": folder, "summary": FileSystems.join(folder, SUMMARY), **record}


def write(folder: str, summary: Summary) -> None:
    """Put a summary where it makes a folder of shuffled reports whole."""
    with FileSystems.create(FileSystems.join(folder, SUMMARY)) as stream:
        idle = set() if summary.passes else {"share", "passes"}
        record = summary.model_dump(mode="json", exclude=_EXCLUDED[summary.words is None] | idle)
        stream.write(release.written(record))


def read(folder: str) -> Summary | None:
    """What a shuffle says of itself; None if the name is not that of its folder.

    Raises:
        RequestError: it is the folder of something else, of a shuffle that did not finish, or of
            another format.
    """
    try:
        if FileSystems.exists(FileSystems.join(folder, SUMMARY)):
            where, content = f"--input: {folder}/{SUMMARY}", release.read(folder, SUMMARY)
            why = "or shuffle the reports anew with this one"
            return Summary.model_validate(
                numbered(where, content, _VERSION, why, "summary_version")
            )
        inside = os.path.isdir(folder) or _objects(folder)
    except ValidationError:
        raise RequestError(f"--input: {folder}/{SUMMARY} is no summary of a shuffle") from None
    except (OSError, BeamIOError, ValueError):
        return None
    if inside:
        raise RequestError(
            f"--input: {folder} holds no {SUMMARY}: the shuffle did not finish, or the folder is "
            "another's; to collect single files, name them"
        )
    return None


def whole(folder: str) -> Summary | None:
    """The same; None as well where a shuffle was cut off over it, or where others have put files.

    Raises:
        OtherFormatError: a shuffle of another format has left it.
    """
    try:
        return read(folder)
    except OtherFormatError:
        raise
    except RequestError:
        return None


def nearby(file: str) -> Summary | None:
    """What the shuffle that has left a file says of itself, if it lies beside the file."""
    return whole(FileSystems.split(file)[0] or os.curdir)


def _objects(folder: str) -> bool:
    """Whether there is anything in a folder of an object store."""
    return bool(FileSystems.match([FileSystems.join(folder, "*")])[0].metadata_list)
