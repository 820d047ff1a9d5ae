"""Earlier shuffles of the same reports, as far as the shuffler can see them: beside its output.

A window is shuffled once. Two shuffles that share reports show by their difference what the others
held: of one that holds a single report more, the collector learns that report's message, whatever
min_reports is.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from pipelines.errors import Caution, RequestError
from pipelines.parties.samples import MOST_SHARED, shared
from pipelines.parties.summary import SUMMARY, Summary, beside
from pipelines.storage.formats import OtherFormatError

_READERS = 16


class SharedError(RequestError):
    """What was shuffled now was shuffled before; it must not be handed on."""


def require_unshared(folder: str, own: Summary) -> None:
    """Refuse a shuffle of reports that another shuffle of the same window has sent on.

    Args:
        folder: of the shuffle, in whose neighbourhood others are looked for.
        own: its summary.

    Raises:
        SharedError: more of its reports than a few clients send twice are in another one.
    """
    for other, summary in _others(folder, own):
        if summary.sample_key != own.sample_key:
            raise SharedError(
                f"--input: {other} is a shuffle of the same window under another --shuffle-secret, "
                "so nobody can tell whether these reports are in it, too: name that secret, or, if "
                f"nobody was handed {other}, remove it and shuffle everything"
            )
        share = max(shared({"": own.sample, other: summary.sample}).values(), default=0.0)
        line = f"about {max(1, round(100 * share))} % of these reports were shuffled into {other}"
        if share > MOST_SHARED:
            raise SharedError(
                f"--input: {line} before: two shuffles that share reports show by their difference "
                "what the others held; shuffle only what is new, or, if nobody was handed "
                f"{other}, remove it and shuffle everything"
            )
        if share:
            warnings.warn(f"--input: {line}, too: they came twice", Caution, stacklevel=2)


def _others(folder: str, own: Summary) -> Iterator[tuple[str, Summary]]:
    """Folders beside one, of finished shuffles of the same plan and window."""
    parent = FileSystems.split(folder.rstrip("/"))[0]
    try:
        pattern = FileSystems.join(parent, "*", SUMMARY) if parent else f"*/{SUMMARY}"
        paths = [file.path for file in FileSystems.match([pattern])[0].metadata_list]
    except (OSError, BeamIOError, ValueError):
        return  # a place that cannot be listed holds nothing that could be known
    with ThreadPoolExecutor(_READERS) as pool:
        try:
            summaries = [*pool.map(beside, paths)]
        except OtherFormatError as error:
            raise SharedError(str(error)) from None  # nobody can tell what is in that one
    for file, summary in zip(paths, summaries, strict=True):
        # Its own summary lies in that folder as well.
        if summary is None or summary.shuffle_id == own.shuffle_id:
            continue
        if summary.fingerprint == own.fingerprint:
            yield FileSystems.split(file)[0], summary
