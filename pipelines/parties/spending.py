"""`hushbeam parties tokens`: devices fetch tokens of a window, and post reports with them."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from mechanisms.randomness import SecureRandom
from mechanisms.wire import binary
from mechanisms.wire.report import Reports
from mechanisms.wire.tokens import TOKEN, TokenRequest
from pipelines.errors import DONE, RequestError, because, reason
from pipelines.parties.asking_parties import WHY, Refused, Web, answered
from pipelines.parties.command import DeviceRequest, FetchRequest, SpendRequest
from pipelines.parties.report_files import require_new
from pipelines.parties.string_keys import encoded
from pipelines.parties.window_keys import most
from pipelines.plan.job import window_of
from pipelines.plan.loading import load
from pipelines.plan.split import Split, split
from pipelines.releases.key_list import Role, published_key, read_list
from pipelines.request import answers
from pipelines.storage import secrets
from pipelines.storage.paths import new_file
from pipelines.views.console import Screen
from pipelines.wording import number_of
from transforms.reports.reports import read

SEEN = "seen-keys.json"
_KEPT = 204  # as HTTP answers for a report
_DIGEST = 32  # bytes, of SHA-256


def fetch(request: FetchRequest) -> int:
    """Fetch a device's tokens of a window.

    Returns:
        The exit code.

    Raises:
        RequestError: the plan asks for none, the issuer refuses, or its answer is not of the
            published key.
        FailedError: the issuer does not answer.
    """
    parted = _window(request.plan, request.window)
    role: Role = "queries" if request.queries else "issuer"
    count = most(parted, role)
    if not count:
        what = "seals no strings" if request.queries else "asks for no tokens"
        raise RequestError(f"the plan {what}: there is nothing to fetch")
    require_new(request.output)
    keys = read_list(request.keys, request.signer, seen_place(request.seen_keys))
    name = parted.job.window
    public = published_key(keys, parted.fingerprint, role, name)
    place = secrets.made_once(secrets.DEVICE, request.device_secret)
    secret = secrets.read(secrets.DEVICE.flag, place)
    drawn = TokenRequest.drawn(count, SecureRandom())
    headers = {"Authorization": f"Bearer {secret.hex()}"}
    answer = Web(request.issuer, "--issuer").post(
        f"tokens/{name}", b"".join(drawn.elements), headers
    )
    try:
        tokens = drawn.tokens(*answered(answer), public)
    except ValueError as error:
        raise RequestError(f"--issuer: {request.issuer}: {error}") from None
    try:
        with new_file(request.output, secret=True, over=False) as stream:
            stream.write(b"".join(tokens))
    except OSError as error:
        raise RequestError(f"--output: cannot write {request.output}: {reason(error)}") from None
    answers.tell(output=request.output, tokens=count)
    Screen().say(f"{number_of(count, 'token')} of window {name} in {request.output}")
    return DONE


def spend(request: SpendRequest) -> int:
    """Post reports one by one, each with a token of its own: the same one each time.

    So a command that was cut off is run again, in any order of files, and posts nothing twice. One
    that is refused does not stop the others.

    Returns:
        The exit code.

    Raises:
        RequestError: there are fewer tokens than reports, or the endpoint refuses some.
        FailedError: the endpoint does not answer.
    """
    parted = _window(request.plan, request.window)
    expected = parted.expected(parted.form(request.seal is not None, [0]))
    bodies: list[bytes] = []
    for file in request.input:
        try:
            with FileSystems.open(file, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
                screened = [*read(stream, expected)]
        except (OSError, BeamIOError, ValueError) as error:
            raise RequestError(f"--input: {file} cannot be read{because(error)}") from None
        if any(part.dropped for part in screened):
            raise RequestError(f"--input: {file} holds what are no reports of this window")
        for part in screened:
            bodies += _alone(part.reports)
    tokens = _paired(request.tokens, bodies)
    endpoint = Web(request.to, "--to")
    refused: Counter[int] = Counter()
    for body, token in zip(bodies, tokens, strict=True):
        try:
            endpoint.post("reports", body, {"Hushbeam-Token": encoded(token)}, _KEPT)
        except Refused as error:
            refused[error.status] += 1
    posted = len(bodies) - refused.total()
    answers.tell(posted=posted, refused={str(status): n for status, n in refused.items()})
    if refused:
        kinds = "; ".join(
            f"{n:,} answered {status}: {WHY.get(status, 'ask who runs it')}"
            for status, n in sorted(refused.items())
        )
        raise RequestError(f"--to: {request.to}: {posted:,} of {len(bodies):,} posted; {kinds}")
    Screen().say(f"{number_of(posted, 'report')} posted, each with a token")
    return DONE


def device(request: DeviceRequest) -> int:
    """Make a device's secret, and print what the issuer enrols, alone on a line; the exit code.

    Raises:
        RequestError: it cannot be written, or holds another thing.
    """
    place = secrets.made_once(secrets.DEVICE, request.secret)
    # As it is sent: a digest of that tells an issuer's list nothing that could be sent.
    sent = secrets.read(secrets.DEVICE.flag, place).hex()
    digest = hashlib.sha256(sent.encode()).hexdigest()
    answers.tell(secret=place, enrol=digest)
    Screen().say(digest)
    Screen(stderr=True).say(f"the issuer enrols that line; {place} stays on this device")
    return DONE


def read_tokens(flag: str, file: str) -> list[bytes]:
    """The tokens of a file.

    Raises:
        RequestError: it cannot be read, or holds another thing.
    """
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise RequestError(f"{flag}: {file} cannot be read{because(error)}") from None
    if len(content) % TOKEN:
        raise RequestError(f"{flag}: {file} holds no tokens, which have {TOKEN} bytes each")
    return [content[i : i + TOKEN] for i in range(0, len(content), TOKEN)]


def seen_place(file: str | None) -> str:
    """Where the keys are kept that this device has seen."""
    if file is not None:
        return file
    folder = secrets.state_folder("--seen-keys")
    os.makedirs(folder, 0o700, exist_ok=True)
    return os.path.join(folder, SEEN)


def _paired(file: str, bodies: Sequence[bytes]) -> list[bytes]:
    """The token of each body, which a file beside the tokens' keeps before anything is posted.

    By their order alone a report would have another token where another file is named before it;
    that token is refused, and the report that has come is taken for lost.
    """
    tokens = read_tokens("--tokens", file)
    digests = [hashlib.sha256(body).digest() for body in bodies]
    place = f"{file}.spent"
    try:
        with open(file, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = Path(place).read_bytes() if os.path.exists(place) else b""
            pairs = dict.fromkeys(before[i : i + _DIGEST] for i in range(0, len(before), _DIGEST))
            fresh = [digest for digest in dict.fromkeys(digests) if digest not in pairs]
            left = len(tokens) - len(pairs)
            if left < len(fresh):
                raise RequestError(
                    f"--tokens: {file} has {left:,} left for {number_of(len(fresh), 'report')}, "
                    "one each: fetch those of more devices, or hand the file on without "
                    "(`shuffle --tokens none` says so)"
                )
            if fresh:
                with new_file(place, secret=True) as stream:
                    stream.write(b"".join([*pairs, *fresh]))
    except OSError as error:
        raise RequestError(f"--tokens: {place} cannot be written{because(error)}") from None
    taken = dict(zip([*pairs, *fresh], tokens, strict=False))
    return [taken[digest] for digest in digests]


def _window(plan: str, window: str | None) -> Split:
    loaded = load(plan)
    return split(loaded, window_of(loaded, window))


def _alone(reports: Reports) -> list[bytes]:
    """Each report as a file of its own."""
    head = binary.header(reports.form, reports.fingerprint)
    return [head + record.tobytes() for record in reports.records]
