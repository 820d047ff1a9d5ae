"""The folder of a site: pages that need nothing but themselves, and files to take away."""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import release, statements
from pipelines.errors import RequestError, reason
from pipelines.history import Published
from pipelines.metrics import registry, schema
from pipelines.site.series import History, gaps, histories, table_now
from pipelines.table_files import harmless
from pipelines.views.pages import REPORT

MARK = ".hushbeam-site"  # of a folder that may be made again
ALONE = "commands of their own"

_ASSETS = resources.files("pipelines.site")


def build(
    published: Sequence[Published], output: str, accounts: Sequence[Mapping[str, Any]] = ()
) -> int:
    """Write a site, whole, in the place of the one that was there.

    Args:
        published: what it shows, the oldest first.
        output: a local folder: new, empty, or a site.
        accounts: budgets, as a ledger explains them.

    Returns:
        How many pages it has.

    Raises:
        RequestError: the folder holds something else, or cannot be written.
    """
    _require_replaceable(output)
    target = Path(os.path.realpath(output))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            pages = _write(Site(published, accounts), partial)
            partial.chmod(0o755)
            if target.exists():
                shutil.rmtree(target)
            partial.rename(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except OSError as error:
        raise RequestError(f"--output: {output} cannot be written: {reason(error)}") from None
    return pages


def _require_replaceable(output: str) -> None:
    if "://" in output:
        raise RequestError(
            f"--output: {output}: a site is made in a local folder; copy it to the bucket"
        )
    if os.path.lexists(output) and not (
        os.path.isdir(output) and (not os.listdir(output) or os.path.exists(f"{output}/{MARK}"))
    ):
        raise RequestError(
            f"--output: {output} holds something else than a site; name a new folder"
        )


class Site:
    """What all pages of a site are made of.

    Attributes:
        histories: of all metrics.
        accounts: of the budgets.
        wholes: collection -> the statements of its releases, the oldest first.
    """

    def __init__(self, published: Sequence[Published], accounts: Sequence[Mapping[str, Any]]):
        self.histories = histories(published)
        self.accounts = accounts
        self.wholes: dict[str, dict[str, Mapping[str, Any]]] = {}
        for one in published:
            collection = one.statement.get("collection") or ""
            self.wholes.setdefault(collection, {})[one.whole["release_id"]] = one.whole

    def index(self) -> dict[str, Any]:
        """What the first page shows."""
        return {
            "collections": [self._collection(name) for name in self.wholes],
            "accounts": [_account(account) for account in self.accounts],
        }

    def _collection(self, name: str) -> dict[str, Any]:
        own = [history for history in self.histories if history.collection == name]
        wholes = [*self.wholes[name].values()]
        windows = max((history.windows for history in own), key=len)
        return {
            "name": name or ALONE,
            "metrics": [_summary(history) for history in own],
            "releases": [_release(whole) for whole in wholes],
            "missing": gaps(windows),
        }

    def search(self) -> list[list[str]]:
        """(words, what they are, page) of all that can be found."""
        found = []
        for history in self.histories:
            page = _page_of(history)
            found.append([history.metric, f"metric of {history.collection or ALONE}", page])
            for series in history.series:
                for group, value in series.labels:
                    label = " · ".join(part for part in (group, value) if part is not None)
                    if label:
                        found.append([label, history.metric, f"{page}#{_fragment(label)}"])
        return found


def _summary(history: History) -> dict[str, Any]:
    """A metric on the first page: its newest figure, and how the first of them went."""
    drawn = next((series.drawn() for series in history.series if series.labels), None)
    first = drawn if drawn and drawn["labels"] else None
    return {
        "name": history.metric,
        "kind": history.kind,
        "page": _page_of(history),
        "window": history.windows[-1]["name"],
        "windows": len(history.windows),
        "figure": history.series[0].figure if history.series else "",
        "label": first["labels"][0] if first else None,
        "trend": first["estimate"][0] if first else [],
        "lower": first["lower"][0] if first else [],
        "upper": first["upper"][0] if first else [],
    }


def _release(whole: Mapping[str, Any]) -> dict[str, Any]:
    """A release on the first page."""
    plan, promised = whole.get("plan") or {}, whole["guarantees"]["release"]
    return {
        "id": whole["release_id"],
        "window": plan.get("window") or whole["created"][:10],
        "until": (whole.get("stream") or plan).get("until"),
        "created": whole["created"],
        "epsilon": promised["epsilon"],
        "delta": promised["delta"],
        "metrics": list(whole.get("metrics", [whole["release"]])),
        "withheld": list(whole.get("withheld", ())),
    }


def _account(account: Mapping[str, Any]) -> dict[str, Any]:
    """A budget on the first page; a ledger's paths and entries stay in the ledger."""
    names = ("population", "scope", "window", "unit", "budget", "releases", "total")
    chosen = {name: account[name] for name in names}
    return {**chosen, "further": account["further_like_the_last"]}


def _page_of(history: History) -> str:
    return f"{_slug(history.collection or ALONE)}/{_slug(history.metric)}.html"


def _slug(name: str) -> str:
    """A name of a file for any name of a metric; equal for equal ones alone.

    >>> _slug("cities"), _slug("../etc")
    ('cities', 'etc-f7f912')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _fragment(label: str) -> str:
    from urllib.parse import quote

    return f"value={quote(label, safe='')}"


def _write(site: Site, folder: Path) -> int:
    """All files; returns how many pages there are."""
    (folder / MARK).write_text("made by hushbeam site; it is made again whole\n")
    search = site.search()
    _page(folder / "index.html", "Releases", site.index(), search, "index", ())
    for history in site.histories:
        path = folder / _page_of(history)
        path.parent.mkdir(exist_ok=True)
        _takeaways(history, path.with_suffix(""))
        title = f"{history.metric} · {history.collection or ALONE}"
        _page(path, title, _metric(history), search, "metric", (history.kind,), up="../")
        for one in history.releases:
            place = folder / "releases" / one.statement["release_id"] / _slug(history.metric)
            _copies(one, place, title)
    for wholes in site.wholes.values():
        for id, whole in wholes.items():
            place = folder / "releases" / id
            place.mkdir(parents=True, exist_ok=True)
            (place / release.STATEMENT).write_bytes(release.written(whole))
    return 1 + len(site.histories)


def _metric(history: History) -> dict[str, Any]:
    """What a metric's page shows."""
    windows = [
        window | {"place": f"../releases/{window['release']}/{_slug(history.metric)}/"}
        for window in history.windows
    ]
    return {
        "collection": history.collection or ALONE,
        "metric": history.metric,
        "kind": history.kind,
        "windows": windows,
        "missing": gaps(windows),
        "files": _slug(history.metric),
        "words": history.newest.statement["in_words"],
        "tables": [
            {
                "name": series.name,
                "figure": series.figure,
                "confidence": series.confidence,
                "now": table_now(series),
                "drawn": series.drawn() if series.labels else None,
                "changes": [*series.changes(windows)],
            }
            for series in history.series
        ],
    }


def _page(
    path: Path, title: str, data: Any, search: Any, view: str, kinds: Sequence[str], up: str = ""
) -> None:
    """One page, with all that it needs inside: it works from a disk, and nothing is loaded."""
    pictures = "".join(f"<script>{text}</script>\n" for kind in kinds for text in _pictures(kind))
    parts = {
        "title": html.escape(title),
        "style": _asset("site.css"),
        "charts": _asset("vendor/uPlot.min.css"),
        "plot": _asset("vendor/uPlot.iife.min.js"),
        "app": _asset("app.js"),
        "pictures": pictures,
        "data": in_script({"view": view, "up": up, "search": search, **data}),
    }
    path.write_text(Template(_asset("page.html")).substitute(parts), "utf-8")


def _pictures(kind: str) -> Iterator[str]:
    """The picture that a kind brings, if it brings one, beside its options."""
    try:
        package = registry.options(kind).__module__.rpartition(".")[0]
    except RequestError:  # of a distribution that is not installed here
        return
    own = resources.files(package).joinpath("picture.js")
    if own.is_file():
        yield own.read_text("utf-8")


def in_script(data: Any) -> str:
    """JSON that can stand in a script element: no text of a client's ends it, or begins another.

    >>> in_script(["</script><!--"])
    '["\\\\u003c/script\\\\u003e\\\\u003c!--"]'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _takeaways(history: History, path: Path) -> None:
    """All windows as one table, in Parquet and CSV."""
    from pyarrow import csv

    tables = (table for windows in history.tables.values() for table in windows.values())
    rows = pa.concat_tables([schema.LONG.empty_table(), *map(schema.long, tables)])
    rows = rows.sort_by([("window_start", "ascending")])
    pq.write_table(rows, f"{path}.parquet", compression="zstd")
    csv.write_csv(harmless(rows), f"{path}.csv")


def _copies(one: Published, place: Path, title: str) -> None:
    """The statement and the page of a metric's release, one click away."""
    place.mkdir(parents=True, exist_ok=True)
    (place / release.STATEMENT).write_bytes(one.written)
    page = statements.read_page(one.folder)
    # The release's own first page is not here; the site's is, around it.
    parts = {"title": html.escape(title), "page": html.escape(page)}
    framed = Template(_asset("release.html")).substitute(parts)
    (place / REPORT).write_text(framed, "utf-8")


def _asset(name: str) -> str:
    return _ASSETS.joinpath(name).read_text("utf-8")
