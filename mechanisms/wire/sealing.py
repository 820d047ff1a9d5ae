"""Reports sealed to the collector's key, so that the shuffler cannot read what it shuffles.

Each message is sealed on its own by HPKE. What the shuffler may see but not change (format, plan,
metric, key) goes into `info`, where RFC 9180, section 8.1, wants it for messages that are sealed
one by one: a seal opens for no other plan.
"""

import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Messages
from mechanisms.wire import screening
from mechanisms.wire.hpke import KEY, TAG, Context
from mechanisms.wire.report import SEALED, VERSION, Form, Reports
from mechanisms.wire.screening import Screened, tallied

_AGAIN = b"hushbeam second"
_INFO, _SLOT_INFO = struct.Struct("<15sHH8s16s"), struct.Struct("<13sHHH8s16s")


def key_id(key: X25519PublicKey) -> bytes:
    """The name of a key: the first 8 bytes of the SHA-256 of its 32."""
    return hashlib.sha256(key.public_bytes_raw()).digest()[:8]


def info(fingerprint: bytes, metric: int, key: bytes, what: bytes = b"hushbeam report") -> bytes:
    """What a seal is bound to.

    Args:
        fingerprint: of the plan, 16 bytes.
        metric: 0 .. 65,535.
        key: a key's id, 8 bytes.
        what: is sealed, in 15 bytes.

    Returns:
        43 bytes: what it is, then version, metric, key id and fingerprint.
    """
    return _INFO.pack(what, VERSION, metric, key, fingerprint)


def slot_info(fingerprint: bytes, metric: int, level: int, key: bytes) -> bytes:
    """What the seal of a word in a slot of some level is bound to, in addition to its level.

    Returns:
        43 bytes: "hushbeam slot", then version, metric, level, key id and fingerprint.
    """
    return _SLOT_INFO.pack(b"hushbeam slot", VERSION, metric, level, key, fingerprint)


def seal(reports: Reports, key: X25519PublicKey) -> Reports:
    """Reports whose messages only the holder of a private key can read.

    Args:
        reports: n plain ones.
        key: the collector's.

    Returns:
        n sealed ones, in the same order and with the same report ids, if they have any.
    """
    sealed, name = reports.recast(replace(reports.form, sealed=True)), key_id(key)
    sealed.records["key_id"] = int.from_bytes(name, "little")
    metrics = reports.records["metric"].tolist()
    contexts = {m: Context(key, info(reports.fingerprint, m, name)) for m in {*metrics}}
    sealed.records["sealed"] = _boxes(_words(reports.records["message"]), metrics, contexts)
    return sealed


def seal_again(reports: Reports, key: X25519PublicKey) -> Reports:
    """Sealed reports, with their key id and seal sealed to a second shuffler's key; as `seal`."""
    twice, name = reports.recast(replace(reports.form, twice=True)), key_id(key)
    twice.records["key_id"] = int.from_bytes(name, "little")
    metrics = reports.records["metric"].tolist()
    contexts = {m: Context(key, info(reports.fingerprint, m, name, _AGAIN)) for m in {*metrics}}
    inside = np.hstack([_words(reports.records["key_id"]), reports.records["sealed"]])
    twice.records["sealed"] = _boxes(inside, metrics, contexts)
    return twice


def seal_slots(
    fingerprint: bytes,
    metric: int,
    types: ArrayLike,
    words: Messages,
    ids: ArrayLike,
    key: X25519PublicKey,
) -> Reports:
    """Reports to noisy counters.

    Args:
        fingerprint: that they carry.
        metric: its place in the plan.
        types: (F,) the level of each slot.
        words: (n, F) uint64 codes, one for each slot.
        ids: (n, 2) uint64 report ids.
        key: the collector's.

    Returns:
        n sealed reports of F slots.
    """
    n, slots = words.shape
    levels = np.tile(np.asarray(types), n)
    loose = seal_words(fingerprint, metric, levels, words.ravel(), key).records
    form = Form(sealed=True, slots=slots)
    records = form.empty(n)
    records["metric"], records["report_id"] = metric, ids
    records["key_id"] = int.from_bytes(key_id(key), "little")
    records["sealed"] = loose["sealed"].reshape(n, slots, SEALED)
    return Reports(fingerprint, form, records)


def seal_words(
    fingerprint: bytes, metric: int, levels: ArrayLike, words: Messages, key: X25519PublicKey
) -> Reports:
    """Words in slots, as the shuffler sends them on: its dummies, for nobody to tell from reports.

    Args:
        fingerprint: as in `seal_slots`.
        metric: as in `seal_slots`.
        levels: (n,) of the slots.
        words: (n,) uint64 codes.
        key: as in `seal_slots`.

    Returns:
        n sealed words, in the same order.
    """
    name, form = key_id(key), Form(sealed=True, shuffled=True, slots=1)
    records = form.empty(words.size)
    records["metric"], records["level"] = metric, levels
    records["key_id"] = int.from_bytes(name, "little")
    own = records["level"].tolist()
    contexts = {lv: Context(key, slot_info(fingerprint, metric, lv, name)) for lv in {*own}}
    records["sealed"] = _boxes(_words(words), own, contexts)
    return Reports(fingerprint, form, records)


def _words(words: ArrayLike) -> NDArray[np.uint8]:
    """(n, 8) the bytes of some words."""
    return np.asarray(words).astype("<u8").view(np.uint8).reshape(-1, 8)


def _boxes(
    inside: NDArray[np.uint8], kinds: Sequence[int], contexts: Mapping[int, Context]
) -> NDArray[np.uint8]:
    """(n, size + 48) of (n, size) bytes, each row sealed in the context of its kind."""
    # One by one, since the shuffler parts a user's messages from each other.
    boxes = [contexts[kind].seal(row.tobytes()) for row, kind in zip(inside, kinds, strict=True)]
    size = inside.shape[1] + KEY + TAG
    return np.frombuffer(b"".join(boxes), np.uint8).reshape(-1, size)


class KeyRing:
    """The collector's private keys by id: new clients use the newest, late ones an older.

    Args:
        keys: one or more.

    >>> key = X25519PrivateKey.generate()
    >>> sealed = seal(Reports.shuffled(bytes(16), metric=0, messages=[7]), key.public_key())
    >>> KeyRing([key]).open(sealed).reports.records["message"].tolist()
    [7]
    """

    def __init__(self, keys: Iterable[X25519PrivateKey]) -> None:
        self._keys = {key_id(key.public_key()): key for key in keys}
        if not self._keys:
            raise ValueError("a key ring needs at least one private key")

    @classmethod
    def of(cls, files: Iterable[bytes]) -> "KeyRing":
        """The ring of some PEM files' contents.

        Raises:
            ValueError: one of them is not an unencrypted X25519 private key.
        """
        return cls(map(_private, files))

    @classmethod
    def read(cls, folder: Path) -> "KeyRing":
        """The ring of all private keys that `create_key` left in a folder."""
        return cls.of(path.read_bytes() for path in sorted(folder.glob("*.private.pem")))

    @property
    def ids(self) -> list[bytes]:
        """The ids of the keys."""
        return list(self._keys)

    def open(self, reports: Reports) -> Screened:
        """The messages inside the seals; of those sealed twice, the reports inside the outer one.

        Args:
            reports: n sealed ones.

        Returns:
            Plain reports of the same shuffling, in the same order, less what does not open; or
            sealed ones, whose ids are random words of the seal: a copy has the same.
        """
        twice = reports.form.twice
        form = replace(reports.form, sealed=twice, twice=False)
        plain = reports.recast(replace(form, shuffled=False) if twice else form)
        opened, unknown = np.zeros(len(reports), np.bool_), 0
        for name, metric, level, mine in groups(reports):
            if name not in self._keys:
                unknown += mine.size
                continue
            plan, slots = reports.fingerprint, reports.form.slots
            context = slot_info(plan, metric, level, name) if slots else info(plan, metric, name)
            context = info(plan, metric, name, _AGAIN) if twice else context
            opened[mine], inside = self.decrypt(name, reports.records["sealed"][mine], context)
            words = inside.view("<u8")
            plain.records["key_id" if twice else "message"][mine] = words[:, 0]
            if twice:
                plain.records["sealed"][mine] = inside[:, 8:]
                plain.records["report_id"][mine] = words[:, 1:3]
        unopened = len(reports) - unknown - int(np.count_nonzero(opened))
        dropped = tallied({screening.UNKNOWN_KEY: unknown, screening.UNOPENED: unopened})
        return Screened(plain.where(opened), dropped)

    def decrypt(
        self, name: bytes, boxes: NDArray[np.uint8], context: bytes
    ) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
        """What seals hold.

        Args:
            name: the id of the key that they are sealed to.
            boxes: (n, size) the seals.
            context: what they are bound to.

        Returns:
            (n,) which open, and (n, size - 48) the bytes in them; zeros in those that do not.
        """
        key, (n, size) = self._keys.get(name), boxes.shape
        opened, inside = np.zeros(n, np.bool_), np.zeros((n, size - KEY - TAG), np.uint8)
        if key is not None:
            opener, data = Context(key.public_key(), context), boxes.tobytes()
            plains = [opener.open(data[i : i + size], key) for i in range(0, len(data), size)]
            opened[:] = [plain is not None for plain in plains]
            joined = b"".join(plain for plain in plains if plain is not None)
            inside[opened] = np.frombuffer(joined, np.uint8).reshape(-1, inside.shape[1])
        return opened, inside

    def __reduce__(self) -> NoReturn:
        raise TypeError("a KeyRing must not be pickled or copied: read it where it is used")


def create_key(folder: Path) -> bytes:
    """A new pair of keys as two PEM files, `<key id>.private.pem` and `<key id>.public.pem`.

    Args:
        folder: where; the private file can be read by its owner alone.

    Returns:
        The key id.
    """
    key = X25519PrivateKey.generate()
    name = key_id(key.public_key())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    # Created closed: between creating and closing it, others could open it.
    secret = os.open(
        folder / f"{name.hex()}.private.pem", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600
    )
    with os.fdopen(secret, "wb") as file:
        file.write(private)
    (folder / f"{name.hex()}.public.pem").write_bytes(public)
    return name


def public_key(pem: bytes) -> X25519PublicKey:
    """The key of a `.public.pem` file.

    Raises:
        ValueError: it is not an X25519 public key, or is one of small order, with which all private
            keys have zero in common: nothing can be sealed to it.
    """
    if b"PRIVATE KEY" in pem:
        raise ValueError(
            "the file holds a private key, which stays with the collector: name the .public.pem"
        )
    key = _parsed(serialization.load_pem_public_key, pem)
    if not isinstance(key, X25519PublicKey):
        raise ValueError("the file does not hold an X25519 public key (-----BEGIN PUBLIC KEY-----)")
    try:
        X25519PrivateKey.generate().exchange(key)
    except ValueError:
        raise ValueError(
            "the file holds a public key of small order, which is nobody's: "
            "`hushbeam parties keys new` makes one"
        ) from None
    return key


def _private(pem: bytes) -> X25519PrivateKey:
    """The key of a `.private.pem` file."""
    key = _parsed(lambda data: serialization.load_pem_private_key(data, None), pem)
    if not isinstance(key, X25519PrivateKey):
        raise ValueError(
            "the file does not hold an unencrypted X25519 private key (-----BEGIN PRIVATE KEY-----)"
        )
    return key


def _parsed(load: Callable[[bytes], object], pem: bytes) -> object:
    """What a file holds, or None; what the parser says may quote it, so it is not passed on."""
    try:
        return load(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def groups(reports: Reports) -> Iterator[tuple[bytes, int, int, NDArray[np.intp]]]:
    """Sealed reports by what their seals are bound to.

    Args:
        reports: n sealed ones.

    Yields:
        Key id, metric, level (0 where a record has none), and the places of the reports so.
    """
    records = reports.records
    leveled = "level" in (reports.form.dtype.names or ())
    levels = records["level"] if leveled else np.zeros(len(reports), np.uint16)
    names = np.stack([records["key_id"], records["metric"], levels])
    distinct, which, sizes = np.unique(names, axis=1, return_inverse=True, return_counts=True)
    places = np.split(np.argsort(which.ravel(), kind="stable"), np.cumsum(sizes)[:-1])
    for (number, metric, level), mine in zip(distinct.T.tolist(), places, strict=False):
        yield number.to_bytes(8, "little"), metric, level, mine
