"""A release: a folder that is written whole or not at all."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import RequestError, reason
from pipelines.releases.signature import SIGNATURE, signed, signed_again
from pipelines.storage.claims import TAKEN, Claim, TakenError, claims, refusal
from pipelines.storage.formats import numbered
from pipelines.storage.paths import flush, make_folders, new_file
from transforms.elements.progress import tally
from transforms.files.systems import FileSystems, escaped

# How the counter begins that says why a folder could not be written.
UNWRITTEN = "output not written: "

# Readers take a folder without a statement for no release, so it is written last.
STATEMENT = "statement.json"
STATEMENT_VERSION = 1
REPORT = "report.html"


def require_vacant(folder: str) -> None:
    """Refuse a folder in which something has been published, or that is no place to publish.

    Raises:
        RequestError: the folder holds files, or its name is a file's, or it cannot be written.
    """
    try:
        local = _is_local(folder)
        taken = _is_taken(folder) if local else bool(_objects(folder))
        content = "a release" if taken and holds_release(folder) else "files"
        if local and not taken:
            _try_to_make(folder)
    except (OSError, ValueError, ImportError) as error:
        raise RequestError(f"--output: cannot publish in {folder}: {reason(error)}") from None
    if taken and not local and content == "files" and any(claims(folder)):
        raise RequestError(refusal(folder))
    if taken:
        raise RequestError(
            f"--output: {folder} already holds {content}; name a new folder (a release is never "
            "overwritten: publishing the same data twice spends its privacy twice)"
        )


def newest(patterns: Sequence[str], most: int | None, file: str = STATEMENT) -> list[str]:
    """Folders that hold a release, the newest first.

    Args:
        patterns: globs of folders.
        most: at most so many.
        file: that such a folder holds.
    """
    matches = FileSystems.match([_join(pattern, file) for pattern in patterns])
    files = {entry.path: entry for match in matches for entry in match.metadata_list}
    # Beam's `*` takes hidden folders, too: those are not released yet, or never.
    shown = [path for path in files if not _is_hidden(path)]
    by_time = sorted(shown, key=lambda path: -(files[path].last_updated_in_seconds or 0))
    return [path[: -len(file)].rstrip("/") for path in by_time[:most]]


def _is_hidden(statement: str) -> bool:
    return statement.split("/")[-2].startswith(".")


def _is_taken(folder: str) -> bool:
    """Whether a local name is a file's, or that of a folder with something in it."""
    return os.path.lexists(folder) and (not os.path.isdir(folder) or bool(os.listdir(folder)))


def _objects(folder: str) -> list[Any]:
    return list(FileSystems.match([_join(folder, "*")])[0].metadata_list)


def _try_to_make(folder: str) -> None:
    """Fail now rather than after the work, if a local folder cannot be made or replaced."""
    if os.path.isdir(folder) and (os.path.ismount(folder) or os.path.samefile(folder, os.curdir)):
        raise OSError("it is in use and cannot be replaced whole; name a new folder inside it")
    parent, name = os.path.split(os.path.realpath(folder))
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    os.rmdir(tempfile.mkdtemp(prefix=_partial(name), dir=parent))


def _partial(name: str) -> str:
    """How the names of folders begin that are to become a release."""
    return f".{name}.partial-"


def holds_release(folder: str) -> bool:
    """Whether a complete release stands in a folder."""
    return bool(FileSystems.exists(_join(folder, STATEMENT)))


def publish(folder: str, files: Mapping[str, bytes], statement: Mapping[str, Any]) -> None:
    """Write a release so that no reader ever sees a part of it, and no two runs mix theirs.

    Locally the folder is filled under another name and renamed. In an object store, which has no
    renaming of folders, the folder is claimed first, and the statement comes last and makes the
    rest a release. A worker that is retried after it had published finds its own statement and
    stops; one that had begun finds its own claim and goes on.

    Args:
        folder: where; must be vacant.
        files: name -> content, statement and signature not among them.
        statement: becomes statement.json; its "release_id" tells releases apart.

    Raises:
        TakenError: someone else published there meanwhile, or is about to; it is counted, too.
    """
    said = written({"statement_version": STATEMENT_VERSION, **statement})
    signature = signed({**files, STATEMENT: said})
    content = {**files, SIGNATURE: signature, STATEMENT: said}
    release_id = statement["release_id"]
    try:
        if _is_local(folder):
            _publish_local(folder, content, release_id)
        else:
            paid = statement.get("ledger") is not None
            _publish_objects(folder, content, Claim(folder, release_id), paid)
    except TakenError:
        tally(TAKEN, 1)
        raise
    except OSError as error:
        tally(UNWRITTEN + reason(error), 1)
        raise


def sign_again(folder: str, changed: Mapping[str, bytes]) -> None:
    """Sign a local release that has grown.

    Args:
        folder: where it stands.
        changed: name -> content of the files that are others than were signed.
    """
    whole = signed_again(read(folder, SIGNATURE), changed)
    with new_file(os.path.join(folder, SIGNATURE)) as stream:
        stream.write(whole)


def written(statement: Mapping[str, Any]) -> bytes:
    """A statement as a file."""
    return (json.dumps(statement, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read(folder: str, name: str) -> bytes:
    """The content of one file of a release."""
    with FileSystems.open(_join(folder, name)) as stream:
        return bytes(stream.read())


def statement_of(folder: str) -> dict[str, Any]:
    """What a release of ours says of itself.

    Raises:
        RequestError: it is of another format, or no statement.
    """
    return read_statement(folder, read(folder, STATEMENT))


def read_statement(folder: str, content: bytes) -> dict[str, Any]:
    """The same, of what stands in its file."""
    why, name = "a release is not made again: that would be another draw", "statement_version"
    return numbered(_join(folder, STATEMENT), content, STATEMENT_VERSION, why, name)


def size(folder: str, name: str) -> int:
    """How many bytes a file of a release has.

    Raises:
        FileNotFoundError: it is not there.
    """
    path = _join(folder, name)
    if _is_local(folder):
        return os.path.getsize(path)
    entries = FileSystems.match([path])[0].metadata_list
    if not entries:
        raise FileNotFoundError(f"there is no {path}")
    return int(entries[0].size_in_bytes)


def read_table(folder: str, name: str) -> pa.Table:
    """One table of a release."""
    # Tables are small, and handing their columns to threads takes longer than reading them.
    return pq.ParquetFile(io.BytesIO(read(folder, name))).read(use_threads=False)


def table_names(folder: str) -> list[str]:
    """The files of a release that are tables, in alphabetical order."""
    entries = FileSystems.match([_join(escaped(folder), "*.parquet")])[0].metadata_list
    return sorted(os.path.basename(entry.path) for entry in entries)


def _published_id(folder: str) -> str | None:
    return json.loads(read(folder, STATEMENT)).get("release_id")


def _require_mine(folder: str) -> None:
    """`require_vacant`, of a folder that was vacant when the run began."""
    try:
        require_vacant(folder)
    except RequestError as error:
        raise TakenError(str(error)) from None


def _publish_local(folder: str, content: Mapping[str, bytes], release_id: str) -> None:
    if holds_release(folder) and _published_id(folder) == release_id:
        return
    _require_mine(folder)
    target = os.path.realpath(folder)  # behind a link, it is the folder itself that is replaced
    parent, name = os.path.split(target)
    changed = make_folders(parent)
    partial = tempfile.mkdtemp(prefix=_partial(name), dir=parent)
    try:
        for file, data in content.items():
            _write_through(os.path.join(partial, file), data)
        _flush_all(partial)
        try:
            os.rename(partial, target)  # fails if someone put files there meanwhile
        except OSError:
            # Someone was faster, or has brought this very folder to its end.
            if completed(folder, release_id):
                return
            _require_mine(folder)
            raise
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    # What the ledger will call published must not be gone after a power cut.
    for outside in changed:
        flush(outside)
    # Killed attempts have left folders of other draws, which nobody is to see.
    for left in os.listdir(parent):
        if left.startswith(_partial(name)):
            shutil.rmtree(os.path.join(parent, left), ignore_errors=True)


def _write_through(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def completed(folder: str, release_id: str) -> bool:
    """Whether a release stands, after all: one that a run had begun is brought to its end.

    Args:
        folder: where.
        release_id: of the release.
    """
    if not _is_local(folder):
        claim = Claim(folder, release_id)
        files = claim.files()
        if files is not None:
            _publish_objects(folder, files, claim)
    elif not holds_release(folder):
        _complete_local(folder, release_id)
    return holds_release(folder) and _published_id(folder) == release_id


def _complete_local(folder: str, release_id: str) -> None:
    """Put a whole release in its place that a run was killed beside."""
    target = os.path.realpath(folder)
    parent, name = os.path.split(target)
    for left in os.listdir(parent) if os.path.isdir(parent) else ():
        partial = os.path.join(parent, left)
        # The statement is written last, so a folder that has one has all.
        if left.startswith(_partial(name)) and _statement_of(partial) == release_id:
            _flush_all(partial)
            with contextlib.suppress(OSError):  # another run does the same
                os.rename(partial, target)
            flush(parent)


def _statement_of(partial: str) -> str | None:
    """The id of the release that a hidden folder holds, if it is whole."""
    try:
        with open(os.path.join(partial, STATEMENT), encoding="utf-8") as stream:
            return json.load(stream).get("release_id")
    except (OSError, ValueError):
        return None


def _flush_all(partial: str) -> None:
    """The folders of a release, that others may read from now on, to the disk."""
    os.chmod(partial, 0o755)  # mkdtemp keeps others out
    for inside, _, _ in os.walk(partial):
        flush(inside)


def _publish_objects(
    folder: str, content: Mapping[str, bytes], claim: Claim, paid: bool = True
) -> None:
    if _is_published(folder, claim):
        return
    files = claim.files()
    if files is None:
        _require_mine(folder)
    content, written = claim.take(content), list[str]()
    try:
        # Between the look and the claim another run may have come to its end, this release's, too.
        if _is_published(folder, claim):
            return
        _require_own(folder, claim, content if files is not None else {})
        for file, data in content.items():
            written.append(_join(folder, file))
            with FileSystems.create(written[-1]) as stream:
                stream.write(data)
    except BaseException:
        # What was begun and paid for stays for the next run to end: it is not drawn again.
        if not paid:
            FileSystems.delete([path for path in written if FileSystems.exists(path)])
            claim.give_back()
        raise
    # It is out: a claim that cannot be taken down is not worth a failure, for the statement beside
    # it tells every later run the same. Clouds' clients raise exceptions of many families.
    with contextlib.suppress(Exception):
        claim.give_back()


def _is_published(folder: str, claim: Claim) -> bool:
    """Whether a release stands already; what is left of its claim is taken down."""
    if not (holds_release(folder) and _published_id(folder) == claim.release_id):
        return False
    with contextlib.suppress(Exception):
        if claim.files() is not None:
            claim.give_back()
    return True


def _require_own(folder: str, claim: Claim, begun: Mapping[str, bytes]) -> None:
    own = {claim.path, *(_join(folder, file) for file in begun if file != STATEMENT)}
    if not own.issuperset(entry.path for entry in _objects(folder)):
        raise TakenError(f"--output: {folder} holds files of another run; name a new folder")


def _is_local(folder: str) -> bool:
    return FileSystems.get_scheme(folder) is None


def _join(folder: str, name: str) -> str:
    return FileSystems.join(folder, name)
