"""`hushbeam parties client`: values in, randomised reports of them out, where the values are."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from mechanisms.channel import Guarantee
from mechanisms.randomness import SecureRandom
from mechanisms.wire import binary
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.sealing import public_key
from pipelines.errors import DONE, RequestError, reason
from pipelines.jobs.publishing import require_able, require_nothing_lost
from pipelines.jobs.run import beam_options, run_beam
from pipelines.logs import inputs
from pipelines.metrics.metric import Metric, enrolled, slots, viewed
from pipelines.metrics.permanent import Permanent
from pipelines.parties import values
from pipelines.parties.batches import remove
from pipelines.parties.command import ClientRequest
from pipelines.parties.device import ClientReports
from pipelines.parties.keys import read_public
from pipelines.parties.report_files import is_parquet, require_new, sink_of
from pipelines.parties.spending import seen_place
from pipelines.parties.string_keys import FLAG, PAID, StringKeys
from pipelines.parties.submit import SubmitReports, sealed, unfinished
from pipelines.parties.window_keys import KeyFolder, most
from pipelines.plan.document import PlanDocument
from pipelines.plan.job import window_of
from pipelines.plan.loading import load
from pipelines.plan.metrics import resolve
from pipelines.plan.split import Split, require_counters, require_sealable, require_twice, split
from pipelines.releases.key_list import published_key, read_list
from pipelines.request import answers
from pipelines.request.requests import no_more
from pipelines.storage import secrets
from pipelines.views.console import Screen, rejects
from pipelines.wording import number_of, upward
from transforms.elements.conservation import fail_lost
from transforms.elements.progress import REPORTS, ROWS
from transforms.files.kinds import DisagreeError
from transforms.files.partitions import shown
from transforms.files.source import UnreadableError
from transforms.files.source import tables as read
from transforms.units.enrolled import UNKNOWN, listed

_STANDARD_INPUT = "-"


def client(request: ClientRequest, beam_arguments: Sequence[str]) -> int:
    """Write the reports of some values.

    Returns:
        The exit code.

    Raises:
        RequestError: the plan or its input is wrong, or the output is there already.
        FailedError: the job failed elsewhere.
    """
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    plan = load(request.plan)
    window = window_of(plan, request.window)
    parted = split(plan, window)
    places = [parted.place(name) for name in request.metric] or list(range(len(parted.metrics)))
    pem = None if request.seal is None else read_public(request.seal)
    second = None if request.second is None else read_public(request.second, "--second")
    if second is not None:
        require_twice(parted, pem is not None, "--second")
        if second == pem:
            raise RequestError(
                "--second: it is the collector's key: whoever has both keys knows the whole order; "
                "name the second shuffler's own"
            )
    if parted.counters:
        require_counters(parted, [name for name in [request.seal] if name], "--seal")
        _require_one_width(parted, places, request.output)
    elif pem is not None:
        require_sealable(parted)
    _require_whole_rows(parted, places)
    strings = _string_keys(request, parted)
    devices = _enrolled(request, parted, places)
    require_new(request.output)
    if _STANDARD_INPUT in request.input or request.user_secret is not None:
        no_more(beam_arguments)
        return _one_user(request, parted, places, (pem, second), strings)
    if plan.permanent is not None:
        raise RequestError(
            f"{plan.where('noise')}noise: permanent noise is drawn by each user's own client: name "
            "that user's --user-secret, and the values of that user alone"
        )
    # A log without rows is handed in like any other where it is hidden whether anybody takes part.
    hidden = devices > 0 or all(parted.metrics[place].counters is not None for place in places)
    telemetry = inputs.open_telemetry(request.input, hidden, plan.reading, absent=hidden)
    ready = _checked_against(parted, places, telemetry)
    named = _naming(request, plan), request.devices or "", strings
    job = SubmitReports(parted, ready, telemetry, request.output, pem, *named, second)
    try:
        counted = run_beam(job, for_beam, Screen(), telemetry.rows * len(ready), job.work)
        if counted is not None:
            form = parted.form(pem is not None, [0], second is not None)
            _require_written(request.output, counted.get(REPORTS), parted, form, devices)
    except Exception as error:
        _take_back(request.output)
        require_nothing_lost()
        require_able(request.output, error)
        raise
    if counted is not None:
        _tidy(request.output)
        sizes = {name: size for name, size in counted.items() if name != ROWS}
        _say(request.output, sizes, parted)
    return DONE


def _require_one_width(parted: Split, places: Sequence[int], output: str) -> None:
    widths = {slots(parted.metrics[place]) for place in places}
    if is_parquet(output) and len(widths) > 1:
        raise RequestError(
            "--output: a Parquet file has room for reports of one width, and these metrics differ "
            "in how many messages they have: name one --metric, or another file than .parquet"
        )


def _string_keys(request: ClientRequest, parted: Split) -> StringKeys | None:
    """Where strings are evaluated; None where none are sealed whole."""
    words = {FLAG: request.strings, PAID: request.query_tokens, "--keys": request.keys}
    words |= {"--signer": request.signer, "--seen-keys": request.seen_keys}
    typed = [flag for flag, word in words.items() if word is not None]
    if not parted.strings:
        if typed:
            raise RequestError(f"{typed[0]}: no metric here seals strings whole: leave it out")
        return None
    party, window, mark = request.strings, parted.job.window, parted.fingerprint
    if party is None:
        raise RequestError(
            f"{FLAG} is missing: equal strings are sealed alike by what a party of its own makes "
            "of them, unseen: name its address"
        )
    if "://" not in party:
        if typed != [FLAG]:
            raise RequestError(f"{typed[1]}: {FLAG} is a folder, for a trial: leave it out")
        KeyFolder(party).evaluator(mark, "strings")  # refused before anything is read
        return StringKeys(party, window, mark, b"", "", most(parted, "strings"))
    if None in (request.query_tokens, request.keys, request.signer):
        raise RequestError(f"{FLAG}: name {PAID}, --keys and --signer, too")
    published = read_list(str(request.keys), str(request.signer), seen_place(request.seen_keys))
    public = published_key(published, mark, "strings", window)
    paid = str(request.query_tokens)
    return StringKeys(party, window, mark, public, paid, most(parted, "strings"))


def _enrolled(request: ClientRequest, parted: Split, places: Sequence[int]) -> int:
    """How many reports must come of devices that all send; 0 if nobody can know."""
    one = _STANDARD_INPUT in request.input
    most = [m for place in places if (m := enrolled(parted.metrics[place])) is not None]
    if not most or one:
        if request.devices is not None:
            why = "one device sends what it has" if one else "no metric here says drawn_by: devices"
            raise RequestError(f"--devices: {why}: leave it out")
        return 0
    if request.devices is None:
        raise RequestError(
            "--devices is missing: where devices draw the dummies every enrolled one sends, with "
            "rows or without, or it would be seen which have some: name a list of the users whose "
            "rows these are, a text file with one user a line (a single device: --input -)"
        )
    try:
        names = {name for part in listed(request.devices) for name in part}
    except (OSError, BeamIOError) as error:
        raise RequestError(f"--devices: {request.devices}: {reason(error)}") from None
    if not 0 < len(names) <= min(most):
        raise RequestError(
            f"--devices: {request.devices} lists {number_of(len(names), 'device')}, and the plan "
            f"has {min(most):,} enrolled in all"
        )
    return len(names) * (len(most) == len(places)) * len(places)


def _require_written(
    output: str, reports: int | None, parted: Split, form: Form, devices: int
) -> None:
    if reports is None:  # a runner that cannot be asked
        return
    # As it is, and as it was written: whatever it is called, it is not compressed.
    with FileSystems.open(output, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
        if is_parquet(output):
            written = pq.ParquetFile(stream).metadata.num_rows
        else:
            expected = parted.expected(form)
            written = sum(len(screened.reports) for screened in binary.read(stream, expected))
    if written != reports or (devices and written != devices):
        fail_lost()


def _take_back(output: str) -> None:
    """Remove what a job that failed has left: reports that lack some are not to be sent."""
    with contextlib.suppress(OSError, BeamIOError, ValueError):
        if FileSystems.exists(output):
            FileSystems.delete([output])
    _tidy(output)


def _tidy(output: str) -> None:
    """Remove what attempts at a file have left; none is a folder where there are but objects."""
    place = unfinished(output)
    with contextlib.suppress(OSError, BeamIOError, ValueError):
        if "://" in place or FileSystems.exists(place):
            remove(place)


def _require_whole_rows(parted: Split, places: Sequence[int]) -> None:
    """Refuse to ask rows for one metric of several in a run that knows of some alone.

    Users' own draws are the same in every run; a row's is forgotten with its run.
    """
    divided = {place for place, metric in enumerate(parted.metrics) if metric.part is not None}
    if parted.job.plan.user_column is None and divided and not divided <= {*places}:
        raise RequestError(
            "--metric: each row answers one metric of several, by a draw that the next run would "
            "not know: report all of them at once, or name a user_column"
        )


def _checked_against(
    parted: Split, places: Sequence[int], telemetry: inputs.Telemetry
) -> dict[int, Metric]:
    """The metrics, prepared once more with the files in sight."""
    job = parted.job
    seen = resolve(job.plan, job.window, telemetry, clients=True)
    for place in places:
        # Reports of another mechanism would carry the plan's fingerprint and be decoded as
        # nonsense.
        if seen[place].mechanism != parted.mechanisms[place]:
            raise RequestError(
                f"metric {seen[place].name}: the column's type asks for another mechanism than the "
                "plan's, and the collector sees no columns: say in the plan what the values are "
                "made of (alphabet, max_length)"
            )
    return {place: seen[place] for place in places}


def _naming(request: ClientRequest, plan: PlanDocument) -> str | None:
    """The file of the secret under which reports are named; None where rows are the unit."""
    if plan.user_column is not None:
        return secrets.made_once(secrets.REPORTS, request.report_secret)
    if request.report_secret is not None:
        raise RequestError(
            f"{secrets.REPORTS.flag}: the plan names no user_column: each row is reported by "
            "itself, and no two are known to be of one user"
        )
    return None


def _one_user(
    request: ClientRequest,
    parted: Split,
    places: Sequence[int],
    pems: tuple[bytes | None, bytes | None],
    strings: StringKeys | None,
) -> int:
    """The reports of one user, whose values are few."""
    file = request.user_secret
    secret = None if file is None else secrets.read(secrets.USER, file)
    if secret is not None and request.report_secret is not None:
        raise RequestError(
            f"{secrets.REPORTS.flag}: the reports of --user-secret are named under that; leave it "
            "out"
        )
    naming = _naming(request, parted.job.plan) if secret is None else None
    own = None if naming is None else secrets.read(secrets.REPORTS.flag, naming)
    one = parted.job.plan.user_column is not None
    lot = int(SecureRandom().words(1)[0])
    sent, counted, blocks = [Form().empty(0)], Counter[str](), list[Reports]()
    if _STANDARD_INPUT in request.input and not (len(places) == len(request.input) == 1):
        raise RequestError("--input: the standard input holds the values of one --metric: name it")
    for place in places:
        device = ClientReports(parted, place, secret, one, own=own, lot=lot)
        if (permanent := parted.job.plan.permanent) is not None:
            _say_over_time(device, permanent)
        tables = _tables(request.input, device.metric, parted.job.plan)
        if parted.counters and pems[0] is not None:
            reports, tallies = device.sealed(tables, public_key(pems[0]), strings)
            blocks.append(reports)
        else:
            reports, tallies = device.report(tables)
            sent.append(reports.records)
        counted.update(tallies)
    if not blocks:
        whole = Reports(parted.fingerprint, Form(), np.concatenate(sent))
        blocks = [sealed(whole, *pems)]
    _write(request.output, blocks)
    rows = {name: size for name, size in counted.items() if name != ROWS}
    _say(request.output, rows | {"reports": sum(map(len, blocks))}, parted)
    return DONE


def _tables(files: tuple[str, ...], metric: Metric, plan: PlanDocument) -> Iterator[pa.Table]:
    if files == (_STANDARD_INPUT,):
        if metric.options.view:
            raise RequestError(
                "--input: the standard input holds values, and the plan derives some of columns, "
                "or says what must hold of them: name a file"
            )
        yield from values.tables(metric)
        return
    telemetry = inputs.open_telemetry(files, reading=plan.reading)
    telemetry.seen(metric.options.view)
    columns = sorted(viewed(metric).columns)  # not the user's: all rows are of one
    for column in columns:
        telemetry.column_type(column, "--input")
    try:
        for file in telemetry.files:
            for table in read(file, columns, plan.reading):
                yield telemetry.agreed.read(table, columns)
    except UnreadableError as error:
        raise RequestError(f"--input: {error}") from None
    except DisagreeError as error:
        raise RequestError(f"--input: {shown(file)}: {error}") from None


def _say_over_time(device: ClientReports, permanent: Permanent) -> None:
    """What a metric costs however long it is reported."""
    once, whole = device.over_time(1), device.over_time(permanent.distinct)
    line = f"{device.metric.name}: a value that never changes costs {_loss(once)} for ever; "
    line += f"{permanent.distinct:,} different ones, as the plan allows, {_loss(whole)}"
    Screen().say(line)


def _loss(guarantee: Guarantee) -> str:
    lost = f"epsilon {upward(guarantee.epsilon, 4):g}"
    return lost + (f" and delta {upward(guarantee.delta, 4):g}" if guarantee.delta else "")


def _write(path: str, blocks: Sequence[Reports]) -> None:
    """A file of reports, whole or not at all."""
    # Renamed when it is whole: what reads it must not meet half a file.
    partial = f"{path}.partial"
    sink = sink_of(path, blocks[0].form, blocks[0].fingerprint)
    with FileSystems.create(partial) as stream:
        sink.open(stream)
        for block in blocks:
            sink.write(block)
        sink.flush()
    FileSystems.rename([partial], [path])


def _say(output: str, counted: Mapping[str, int], parted: Split) -> None:
    """How many reports there are, and how many rows could not be used."""
    made = counted.get("reports", 0)
    line = f"{number_of(made, 'report')} in {output}"
    line = line if made else "0 reports: there is nothing to send"
    lost = rejects(counted)
    strangers = lost.pop(UNKNOWN, 0)
    answers.tell(output=output)
    if not parted.counters:  # else the shuffler's noise hides how many take part: answers are kept
        answers.tell(reports=made, rejects=lost, left_out=strangers)
    line += "".join(f"; {number_of(size, 'row')}: {name}" for name, size in lost.items())
    line += f"; left out: {strangers:,} {UNKNOWN}" * bool(strangers)
    if parted.job.plan.tokens is not None:
        line += "; none has a token yet: `hushbeam parties tokens spend` posts each with one"
    Screen().say(line)
