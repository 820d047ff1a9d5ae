"""The ids of what was sent on, enciphered: kept, and put among the reports of a later shuffle."""

from __future__ import annotations

import hashlib
import hmac
import uuid
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import GlobalWindow, WindowedValue
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from mechanisms.wire.report import Form, Reports
from pipelines.errors import RequestError, because
from pipelines.parties.memory import MEMORY, WHY, EarlierShuffle, Sent, ShufflerMemory
from pipelines.storage import secrets
from pipelines.storage.formats import require_known
from pipelines.storage.paths import flush
from transforms.elements.conservation import Batches

_HEAD, _VERSION = b"hushbeam sent ids ", 1  # how a file begins: a line of 20 bytes
_ROW = np.dtype([("metric", "<u2"), ("batch", "<u8"), ("id", "<u8", (2,))])
_PURPOSE = b"hushbeam shuffle memory 1"
_ROWS = 1 << 20  # in a file


def _cipher(secret: str, fingerprint: bytes) -> Cipher[modes.ECB]:
    """A permutation of ids, another one for each window."""
    key = secrets.read(secrets.SHUFFLE.flag, secret)
    # Ids are of one block and all differ, so equal blocks tell nothing that there is to tell.
    return Cipher(
        algorithms.AES(hmac.digest(key, _PURPOSE + fingerprint, hashlib.sha256)), modes.ECB()
    )


@typehints.with_input_types(Reports)
@typehints.with_output_types(str)
class KeepIdsDoFn(beam.DoFn):
    """Reports in; names of files out, which hold their ids enciphered, and their batches.

    Args:
        memory: of the window.
        shuffle: the id of the shuffle.
        groups: (metrics,) the batches of each.
    """

    def __init__(self, memory: ShufflerMemory, shuffle: str, groups: tuple[Batches, ...]) -> None:
        self._memory, self._shuffle, self._groups = memory, shuffle, groups

    def setup(self) -> None:
        self._cipher = _cipher(self._memory.secret, self._memory.fingerprint)

    def start_bundle(self) -> None:
        self._waiting: list[NDArray[np.void]] = []

    def process(self, reports: Reports) -> Iterator[str]:
        self._waiting.append(self._rows(reports))
        if sum(rows.size for rows in self._waiting) >= _ROWS:
            yield self._written()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._waiting:
            end = GlobalWindow().max_timestamp()
            yield WindowedValue(self._written(), end, [GlobalWindow()])

    def _rows(self, reports: Reports) -> NDArray[np.void]:
        records = reports.records
        rows = np.empty(records.size, _ROW)
        rows["metric"] = records["metric"]
        rows["batch"] = batches_of(reports, self._groups)
        ids = self._cipher.encryptor().update(records["report_id"].tobytes())
        rows["id"] = np.frombuffer(ids, "<u8").reshape(-1, 2)
        return rows

    def _written(self) -> str:
        """What has waited, in a file of its own."""
        name = f"{uuid.uuid4().hex}.ids"
        path = FileSystems.join(self._memory.of(self._shuffle), name)
        with FileSystems.create(path) as stream:
            stream.write(b"%b%d\n" % (_HEAD, _VERSION))
            stream.write(np.concatenate(self._waiting).tobytes())
        if "://" not in path:
            flush(path)
        self._waiting = []
        return name


def batches_of(reports: Reports, groups: tuple[Batches, ...]) -> NDArray[np.uint64]:
    """(n,) the batch of each report among its metric's: of a key, or of a public group."""
    records = reports.records
    if reports.form.sealed:
        return np.asarray(records["key_id"], np.uint64)
    batches = np.zeros(records.size, np.uint64)
    for place, group in enumerate(groups):
        mine = records["metric"] == place
        batches[mine] = group.of(records["message"][mine])
    return batches


def require_readable(earlier: Iterable[EarlierShuffle]) -> None:
    """Refuse to begin a shuffle that could not read what earlier ones have sent on.

    Raises:
        RequestError: a file of ids cannot be read, is of another format, or no such file.
    """
    for one in earlier:
        for name in one.sent.files:
            _content(FileSystems.join(one.folder, name), 0)


def _content(path: str, most: int = -1) -> bytes:
    """The rows of a file of ids, or so many bytes of them."""
    try:
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
            head, rows = stream.read(len(_HEAD) + 2), stream.read(most)
    except (OSError, BeamIOError) as error:
        raise RequestError(f"{MEMORY.flag}: {path} cannot be read{because(error)}") from None
    number = head.removeprefix(_HEAD).removesuffix(b"\n")
    known = int(number) if number.isdigit() and head.startswith(_HEAD) else None
    require_known(f"{MEMORY.flag}: {path}", known, _VERSION, WHY)
    return bytes(rows)


@typehints.with_input_types(tuple[str, str])
@typehints.with_output_types(Reports)
class EchoesDoFn(beam.DoFn):
    """A file of ids and the `Sent` that it is of in; their echoes out, records of no length."""

    def __init__(self, memory: ShufflerMemory, form: Form) -> None:
        self._memory, self._form = memory, form

    def process(self, file: tuple[str, str]) -> Iterator[Reports]:
        # As text: half of all keys' numbers are larger than an integer that Beam carries.
        path, batches = file[0], Sent.model_validate_json(file[1]).batches
        rows = np.frombuffer(_content(path), _ROW)
        sent = np.zeros(rows.size, np.bool_)
        for metric, numbers in batches.items():
            known = np.isin(rows["batch"], np.array(numbers, np.uint64))
            sent |= (rows["metric"] == metric) & known
        cipher = _cipher(self._memory.secret, self._memory.fingerprint).decryptor()
        ids = np.frombuffer(cipher.update(rows["id"][sent].tobytes()), "<u8").reshape(-1, 2)
        records = np.zeros(len(ids), self._form.dtype)
        records["report_id"] = ids
        yield Reports(self._memory.fingerprint, self._form, records)
