"""What a collector was given: files of shuffled reports, each batch and each report once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apache_beam.io.filesystems import FileSystems

from pipelines.errors import RequestError
from pipelines.parties.batches import PREFIX, BatchFiles, distinct, require_disjoint
from pipelines.parties.report_files import find
from pipelines.parties.summary import Summary, beside, read
from pipelines.plan.metrics import mark
from pipelines.plan.split import Split


def chosen_of(inputs: Sequence[str], parted: Split, sealed: bool) -> BatchFiles:
    """The files of shuffled reports, each once; of folders, those of this window that are done.

    Raises:
        RequestError: a folder holds another shuffle, or one that did not finish; or two were made
            of the same reports.
    """
    summaries: dict[str, Summary] = {}
    patterns = []
    for name in inputs:
        summary = read(name)
        patterns.append(name if summary is None else FileSystems.join(name, f"{PREFIX}*"))
        if summary is not None:
            _require_same(name, summary, parted, sealed)
            summaries[summary.shuffle_id] = summary
    chosen = distinct(find(patterns).files)
    if parted.counters:
        _require_one(chosen, summaries)
        return chosen
    for batch, summary in summaries.items():
        _require_all(summary, chosen.reports.get(batch, 0))
    for batch, file in chosen.batches.items():
        if batch not in summaries:
            summary = beside(file)
            summaries |= {} if summary is None else {summary.shuffle_id: summary}
    require_disjoint(chosen.batches, summaries)
    return chosen


def _require_one(chosen: BatchFiles, summaries: Mapping[str, Summary]) -> None:
    """Refuse all but one whole batch: of noisy counters a window has one, drawn once.

    Two would tell the words of reports, which are in both, from dummies, which are in one. What is
    said holds no number.
    """
    if len(summaries) != 1 or set(chosen.reports) != set(summaries):
        raise RequestError(
            "--input: dummies are drawn once for a window, into one batch: name the folder of its "
            "one shuffle, and nothing else"
        )
    ((batch, summary),) = summaries.items()
    if chosen.reports[batch] != summary.words:
        raise RequestError(
            f"--input: the files of shuffle {batch} do not hold all of its words: hand over all "
            "that the shuffle has left"
        )


def _require_all(summary: Summary, reports: int) -> None:
    """Refuse a folder in which not all is left of what its shuffle has sent on."""
    sent_on = sum(metric.sent_on for metric in summary.metrics.values())
    if reports != sent_on:
        raise RequestError(
            f"--input: shuffle {summary.shuffle_id} sent on {sent_on:,} reports, and the files in "
            f"its folder hold {reports:,}: hand over all that the shuffle has left"
        )


def _require_same(folder: str, summary: Summary, parted: Split, sealed: bool) -> None:
    """Refuse a shuffle of something else, for its reports would all be dropped."""
    job = parted.job
    if summary.window != job.window:
        raise RequestError(f"--input: {folder} holds another window of the plan: {summary.window}")
    if summary.fingerprint != parted.fingerprint.hex():
        # The same plan with another fingerprint: only the version that resolved it can differ.
        if summary.plan == mark(job.plan).hex():
            raise RequestError(
                f"--input: {folder} was shuffled by a hushbeam that resolves the same plan to "
                f"design {summary.design}, and this one comes to {job.design.hex()}: clients, "
                "shuffler and collector need versions that agree (`hushbeam check` prints it)"
            )
        raise RequestError(f"--input: {folder} was shuffled for another plan, or another version")
    if summary.sealed and not sealed:
        raise RequestError(f"--key is missing: the reports in {folder} are sealed")
    if sealed and not summary.sealed:
        raise RequestError(f"--key: the reports in {folder} are not sealed; leave it out")
