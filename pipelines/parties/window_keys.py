"""A party's keys of windows: seeds in a folder of its own, and the signed list for all devices."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mechanisms.randomness import SecureRandom
from mechanisms.wire.oblivious import SEED, STRINGS, Evaluator
from mechanisms.wire.tokens import Issuer
from pipelines.errors import DONE, RequestError, because, reason
from pipelines.parties.command import ForgetRequest, WindowKeysRequest
from pipelines.plan.job import window_of
from pipelines.plan.loading import load
from pipelines.plan.split import Split, split
from pipelines.releases.key_list import KeyList, Role, WindowKey, signed, verified
from pipelines.request import answers
from pipelines.storage.paths import flush, make_folders, new_file
from pipelines.views.console import Screen
from pipelines.wording import number_of

LIST, SIGNER = "keys.json", "signing.public.pem"
_SIGNING = "signing.private.pem"


def most(parted: Split, role: Role) -> int:
    """How many elements a party evaluates for a device or token of a window; 0 if for none.

    Args:
        parted: the window.
        role: "issuer" and "queries", tokens that a device is given, one for each metric of strings;
            "strings", those that a token pays for: the slots of a report that has most.
    """
    if role == "issuer":
        return parted.job.plan.tokens or 0
    slots = [metric.crowds.strings for metric in parted.metrics if metric.crowds is not None]
    return len(slots) if role == "queries" else max(slots, default=0)


class KeyFolder:
    """A folder that its party alone can read.

    What belongs to a window has a name that begins with its fingerprint: its seeds, and whatever
    else the party keeps of it. All of that ends with the window.

    Args:
        path: local; it need not be there.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def of_window(self, fingerprint: bytes, name: str) -> Path:
        """A file of one window."""
        return self.path / f"{fingerprint.hex()}.{name}"

    def evaluator(self, fingerprint: bytes, role: Role) -> Evaluator:
        """A window's secret key.

        Raises:
            RequestError: it is not there.
        """
        path = self.of_window(fingerprint, f"{role}.seed")
        try:
            seed = path.read_bytes()
            return Evaluator(seed, STRINGS) if role == "strings" else Issuer(seed)
        except (OSError, ValueError) as error:
            command = "strings" if role == "strings" else "issuer"
            raise RequestError(
                f"{path} holds no seed{because(error)}: `hushbeam parties keys {command}` "
                "makes it, whoever issues tokens gives a copy of theirs, and a window that was "
                "forgotten has none"
            ) from None

    def published(self) -> KeyList:
        """The list as it stands; empty if there is none.

        Raises:
            RequestError: it is not this folder's own.
        """
        path = self.path / LIST
        if not path.exists():
            return KeyList()
        return verified(path.read_bytes(), self._signer().public_key(), str(path))

    def make(self, window: str, fingerprint: bytes, role: Role) -> None:
        """A window's key, in the list; nothing where it has one.

        Raises:
            RequestError: it had one, which is forgotten: another one would not be the same for all
                devices.
            OSError: the folder cannot be written.
        """
        keys = self.published()
        if any(k.window == window and k.fingerprint != fingerprint.hex() for k in keys.keys):
            raise RequestError(
                f"--folder: {self.path} has keys of window {window} of another plan: a folder is "
                "of one plan, and a new version of it needs a new folder"
            )
        path = self.of_window(fingerprint, f"{role}.seed")
        known = keys.of(fingerprint, role)
        if known is not None and not path.exists():
            raise RequestError(
                f"--windows: the {role} key of {window} was published and is forgotten: a window "
                "has one key, ever"
            )
        if not path.exists():
            self._write(path, SecureRandom().words(SEED // 8).tobytes(), secret=True)
        if known is None:  # also where a power cut came between seed and list
            public = self.evaluator(fingerprint, role).public.hex()
            key = WindowKey(window=window, fingerprint=fingerprint.hex(), role=role, public=public)
            listed = KeyList(keys=(*keys.keys, key))
            self._write(self.path / LIST, signed(listed, self._signer()), secret=False)

    def forget(self, window: str) -> int:
        """Destroy all that is kept of a window; the number of files.

        Raises:
            RequestError: the list has no such window.
            OSError: a file cannot be removed.
        """
        marks = {key.fingerprint for key in self.published().keys if key.window == window}
        if not marks:
            raise RequestError(f"{self.path / LIST} has no window {window}: name one that it has")
        files = [path for mark in marks for path in self.path.glob(f"{mark}.*")]
        for path in files:
            path.unlink()
        flush(str(self.path))
        return len(files)

    def _signer(self) -> Ed25519PrivateKey:
        """The key that the list is signed with; made on first use, with its public half beside."""
        path = self.path / _SIGNING
        if not path.exists():
            key = Ed25519PrivateKey.generate()
            form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
            public = key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            private = key.private_bytes(*form, serialization.NoEncryption())
            self._write(self.path / SIGNER, public, secret=False)
            self._write(path, private, secret=True)
        read: object = None
        with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
            read = serialization.load_pem_private_key(path.read_bytes(), None)
        if not isinstance(read, Ed25519PrivateKey):
            raise RequestError(f"{path} holds no Ed25519 private key: restore it from a copy")
        return read

    def _write(self, path: Path, content: bytes, secret: bool) -> None:
        for changed in reversed(make_folders(str(self.path.absolute()), 0o700)):
            flush(changed)
        with new_file(str(path), secret=secret) as stream:
            stream.write(content)


def issuer(request: WindowKeysRequest) -> int:
    """Make the issuer's keys of some windows; the exit code.

    Raises:
        RequestError: the plan asks for no tokens, or the folder cannot be written.
    """
    plan = load(request.plan)
    roles: list[Role] = ["issuer"] * (plan.tokens is not None)
    # Who asks for strings pays with tokens of another kind, or its report would be known by them.
    roles += ["queries"] * split(plan, request.windows[0]).strings
    if not roles:
        raise RequestError(
            f"{plan.where()}no party takes tokens by this plan: say how many reports a user may "
            "send in a window (tokens: 1)"
        )
    return _made(request, roles)


def strings(request: WindowKeysRequest) -> int:
    """Make the keys under which strings of some windows are sealed alike; the exit code.

    Raises:
        RequestError: the plan seals no strings, or the folder cannot be written.
    """
    if not split(load(request.plan), request.windows[0]).strings:
        raise RequestError("no metric of this plan seals strings whole: it needs no such key")
    return _made(request, ["strings"])


def _made(request: WindowKeysRequest, roles: list[Role]) -> int:
    plan, folder = load(request.plan), KeyFolder(request.folder)
    try:
        for window in request.windows:
            fingerprint = split(plan, window_of(plan, window)).fingerprint
            for role in roles:
                folder.make(window, fingerprint, role)
    except OSError as error:
        raise RequestError(f"--folder: cannot write in {folder.path}: {reason(error)}") from None
    listed, signer = (os.path.join(request.folder, name) for name in (LIST, SIGNER))
    answers.tell(keys=listed, signer=signer, windows=list(request.windows))
    screen = Screen()
    screen.say(f"{listed} goes to all devices, with {signer}, before the windows begin")
    screen.say(f"what else is in {request.folder} stays there: who has a seed can do all it does")
    return DONE


def forget(request: ForgetRequest) -> int:
    """Destroy the keys of a window, and all that was kept with them; the exit code.

    Raises:
        RequestError: there is no such window, or a file cannot be removed.
    """
    try:
        files = KeyFolder(request.folder).forget(request.window)
    except OSError as error:
        raise RequestError(f"--folder: {request.folder}: {reason(error)}") from None
    answers.tell(window=request.window, files=files)
    destroyed = f"{number_of(files, 'file')} destroyed here"
    Screen().say(f"{request.window}: {destroyed}; destroy copies and backups, too")
    return DONE
