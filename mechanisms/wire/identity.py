"""A report's id: one for all reports of a user, a window and a metric, and nobody else's.

The shuffler keeps one report of each id, so who reports again, from another file or with another
value, counts once. Ids are made under a secret of the device, or of whoever holds the log: without
it nobody can tell whose an id is, compute another's, or see that two ids of different metrics or
windows are of one user.

The function is AES-128 of the user's digest, under a key that HMAC-SHA256 makes of the secret and
of all that an id is of (Krawczyk, Bellare, Canetti, RFC 2104; Krawczyk, Eronen, RFC 5869, section
2.3, for the step from one secret to many keys).
"""

import hashlib
import hmac
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import require_integer
from mechanisms.wire import fingerprint as plans
from mechanisms.wire.report import MOST_METRICS

SECRET = 32  # bytes

# Other words for other uses of one secret: no two of its keys may ever meet.
_OF_DEVICE, _OF_USERS = b"hushbeam id of a device 1", b"hushbeam ids of users 1"
_DIGESTS, _DRAW = b"hushbeam user digests 1", b"hushbeam draw of a metric 1"


def require_sender(secret: bytes, fingerprint: bytes, metric: int) -> None:
    """Refuse what cannot be a sender's secret, or what that is used for.

    Args:
        secret: 32 bytes.
        fingerprint: of a plan, 16 bytes.
        metric: its place in the plan.

    Raises:
        ValueError: one of them is of another length, or out of range. The message holds none.
    """
    if not len(secret) == SECRET:
        raise ValueError(f"secret must have {SECRET} bytes, not {len(secret)}")
    if not len(fingerprint) == plans.SIZE:
        raise ValueError(f"fingerprint must have {plans.SIZE} bytes, not {len(fingerprint)}")
    require_integer("metric", metric, 0, MOST_METRICS - 1)


@dataclass(frozen=True)
class ReportIds:
    """The ids of one metric's reports in one window.

    Attributes:
        secret: 32 random bytes that stay where reports are made.
        fingerprint: that the reports carry, 16 bytes.
        metric: its place in the plan, 0 .. 65,535.
        window: its name; what a report is of, if one fingerprint serves many windows.

    >>> ids = ReportIds(bytes(32), bytes(16), 0, "2026-11-20")
    >>> bool((ids.of_device() == ids.of_device()).all()), ids.of_users([5, 6, 5]).shape
    (True, (3, 2))
    """

    secret: bytes = field(repr=False)
    fingerprint: bytes
    metric: int
    window: str

    def __post_init__(self) -> None:
        require_sender(self.secret, self.fingerprint, self.metric)

    @property
    def user_key(self) -> int:
        """The key of users' digests, 0 .. 2^64 - 1: the same for all metrics and windows."""
        return int.from_bytes(hmac.digest(self.secret, _DIGESTS, hashlib.sha256)[:8], "little")

    def of_device(self) -> NDArray[np.uint64]:
        """(1, 2) the id of the one user whose secret it is."""
        return self._encrypted(_OF_DEVICE, np.zeros(1, np.uint64))

    def draw(self) -> int:
        """0 .. 2^64 - 1, the same for all metrics: by it a device is asked for one of them."""
        context = _DRAW + self.fingerprint + self.window.encode()
        return int.from_bytes(hmac.digest(self.secret, context, hashlib.sha256)[:8], "little")

    def of_users(self, digests: ArrayLike) -> NDArray[np.uint64]:
        """(n, 2) the ids of users of a log.

        Args:
            digests: (n,) uint64, of users under `user_key`; equal ones get equal ids, and different
                ones never do.
        """
        return self._encrypted(_OF_USERS, np.asarray(digests, np.uint64))

    def _encrypted(self, purpose: bytes, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        # All parts but the last have one length for their purpose: no two contexts spell alike.
        context = purpose + self.fingerprint + self.metric.to_bytes(2, "little")
        key = hmac.digest(self.secret, context + self.window.encode(), hashlib.sha256)[:16]
        blocks = np.zeros((words.size, 2), "<u8")
        blocks[:, 0] = words
        cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # each block by itself
        return np.frombuffer(cipher.update(blocks.tobytes()), "<u8").reshape(-1, 2)
