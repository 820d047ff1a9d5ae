"""The folder of a site: pages that need nothing but themselves, and files to take away."""

from __future__ import annotations

import hashlib
import html
import json
import math
import os
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pipelines.compare.series import History, gaps, histories, rounded, table_now
from pipelines.errors import RequestError, reason
from pipelines.releases import release, schema, statements
from pipelines.releases.history import Published
from pipelines.releases.release import REPORT
from pipelines.storage.table_files import harmless
from pipelines.views.drawing import drawn
from pipelines.views.headline import TRIANGLE, chosen, head, title, unit_of
from pipelines.views.pages import styles
from pipelines.views.pictures import heat
from pipelines.watch.alarms import facts_of

MARK = ".hushbeam-site"  # of a folder that may be made again
VERIFICATION = "verification.html"
ALONE = "commands of their own"
_FAULTY = "this release does not verify"

_ASSETS = resources.files("pipelines.site")


def build(
    published: Sequence[Published],
    output: str,
    accounts: Sequence[Mapping[str, Any]] = (),
    verification: bytes | None = None,
    faulty: Collection[str] = (),
) -> int:
    """Write a site, whole, in the place of the one that was there.

    Args:
        published: what it shows, the oldest first.
        output: a local folder: new, empty, or a site.
        accounts: budgets, as a ledger explains them.
        verification: the page of what verification came to, if there is one.
        faulty: the folders of releases that do not verify.

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
            pages = _write(Site(published, accounts, verification, faulty), partial)
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
        alarms: page -> those of its metric.
        wholes: collection -> the statements of its releases, the oldest first.
        written: release -> its statement, as it stands there.
        verification: as of `build`.
        faulty: the ids of releases that do not verify.
    """

    def __init__(
        self,
        published: Sequence[Published],
        accounts: Sequence[Mapping[str, Any]],
        verification: bytes | None = None,
        faulty: Collection[str] = (),
    ):
        self.verification = verification
        inside = tuple(f"{folder}/" for folder in faulty)
        self.faulty = {
            one.whole["release_id"] for one in published if f"{one.folder}/".startswith(inside)
        }
        self.histories = histories(published)
        self.alarms: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for history in self.histories:
            self.alarms[_page_of(history)] = facts_of([history])
        self.accounts = accounts
        self.wholes: dict[str, dict[str, Mapping[str, Any]]] = {}
        for one in published:
            collection = one.statement.get("collection") or ""
            self.wholes.setdefault(collection, {})[one.whole["release_id"]] = one.whole
        self.written = {one.whole["release_id"]: one.whole_written for one in published}

    def index(self) -> dict[str, Any]:
        """What the first page shows."""
        return {
            "collections": [self._collection(name) for name in self.wholes],
            "accounts": _populations(self.accounts),
            "verification": None if self.verification is None else VERIFICATION,
        }

    def _collection(self, name: str) -> dict[str, Any]:
        own = [history for history in self.histories if history.collection == name]
        wholes = [*self.wholes[name].values()]
        # In the order of the plan, and what it names no more behind.
        named = {metric: place for place, metric in enumerate(wholes[-1].get("metrics", ()))}
        own.sort(key=lambda history: named.get(history.metric, len(named)))
        windows = max((history.windows for history in own), key=len)
        begun = min(whole["created"] for whole in wholes)
        return {
            "name": name or ALONE,
            "metrics": [_summary(h, self._warnings(h)) for h in own],
            "releases": [
                _release(whole, begun) | {"faulty": whole["release_id"] in self.faulty}
                for whole in wholes
            ],
            "missing": gaps(windows),
        }

    def _warnings(self, history: History) -> list[str]:
        """What to know of the newest release of a metric."""
        last = len(history.windows) - 1
        lines = [one["line"] for one in self.alarms[_page_of(history)] if one["place"] == last]
        return [_FAULTY] * (history.windows[last]["release"] in self.faulty) + lines

    def search(self) -> list[list[str]]:
        """(words, what they are, page) of all that can be found."""
        entries = []
        for history in self.histories:
            page = _page_of(history)
            entries.append([history.metric, f"metric of {history.collection or ALONE}", page])
            for series in history.series:
                if len(series.names) > 1:
                    entries += [
                        [name, history.metric, f"{page}#{_fragment(name)}"] for name in series.names
                    ]
        return entries


def _summary(history: History, warnings: Sequence[str]) -> dict[str, Any]:
    """A metric on the first page: its newest figure, and how the first of them went."""
    return {
        "alarms": warnings,
        "name": history.metric,
        "title": title(history.newest.statement),
        **_first(history),
        "page": _page_of(history),
        "windows": len(history.windows),
        **history.course(),
    }


def _first(history: History) -> dict[str, Any]:
    """The figures that come first, in words, and how the first of them has changed beyond noise."""
    headline = history.headline
    return {
        "lines": [[line.number, line.unit, line.label] for line in headline.lines],
        "which": headline.which,
        "change": history.change(),
    }


_PATIENCE = timedelta(days=2)  # after which a window that a schedule was to publish is late


def _release(whole: Mapping[str, Any], begun: str) -> dict[str, Any]:
    """A release on the first page.

    Args:
        whole: its statement.
        begun: when the first of its collection was published.
    """
    plan, promised = whole.get("plan") or {}, whole["guarantees"]["release"]
    return {
        "id": whole["release_id"],
        "window": plan.get("window") or whole["created"][:10],
        "day": (plan.get("from") or whole["created"])[:10],
        "late": _late(whole, begun),
        "created": whole["created"],
        **rounded(promised),
        "metrics": list(whole.get("metrics", [whole["release"]])),
        "withheld": _withheld(whole),
    }


def _late(whole: Mapping[str, Any], begun: str) -> int:
    """How many days after its end a window was published, where it ought to have been before.

    That is said of a plan with a schedule alone, and of windows that ended when it was at work: one
    that was published afterwards, with all those of before the plan, was never due.
    """
    plan = whole.get("plan") or {}
    until = (whole.get("stream") or plan).get("until")
    if until is None or not ("stream" in whole or plan.get("schedule")):
        return 0
    end, made = datetime.fromisoformat(until), datetime.fromisoformat(whole["created"])
    due = datetime.fromisoformat(begun) <= end and made - end > _PATIENCE
    return (made - end).days if due else 0


def _populations(accounts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The budget of each population, of many windows that of the one in which most is spent.

    A ledger's paths and entries stay in the ledger.
    """
    accounts_of: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for account in accounts:
        key = (account["population"], account["scope"], account["unit"])
        accounts_of.setdefault(key, []).append(account)
    names = ("population", "scope", "unit", "budget", "total")
    fullest = {key: max(own, key=_spent) for key, own in accounts_of.items()}
    return [
        {name: fullest[key][name] for name in names}
        | {
            "spent": rounded(fullest[key]["total"])["epsilon"],
            "windows": len(own) if fullest[key]["window"] is not None else 0,
            "further": fullest[key]["further_like_the_last"],
        }
        for key, own in accounts_of.items()
    ]


def _spent(account: Mapping[str, Any]) -> float:
    """The epsilon of an account; none is no bound."""
    epsilon = account["total"]["epsilon"]
    return math.inf if epsilon is None else float(epsilon)


def _withheld(whole: Mapping[str, Any]) -> list[str]:
    """The metrics that a release lacks: a command's own, where its statement says why."""
    said = whole.get("withheld", ())
    return [whole["release"]] if isinstance(said, str) else list(said)


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
    _page(folder / "index.html", "Releases", site.index(), search, "index")
    for history in site.histories:
        path = folder / _page_of(history)
        path.parent.mkdir(exist_ok=True)
        _takeaways(history, path.with_suffix(""))
        named = f"{history.metric} · {history.collection or ALONE}"
        shown = _metric(history) | {"alarms": site.alarms[_page_of(history)]}
        _page(path, named, shown, search, "metric", _shown(history), up="../")
        for one in history.releases:
            id = one.statement["release_id"]
            place = folder / "releases" / id / _slug(history.metric)
            _copies(one, place, f"{named} · {_FAULTY}" if id in site.faulty else named)
    # The bytes that stand in the release are those that its signature is about.
    for id, written in site.written.items():
        place = folder / "releases" / id
        place.mkdir(parents=True, exist_ok=True)
        (place / release.STATEMENT).write_bytes(written)
    if site.verification is not None:
        (folder / VERIFICATION).write_bytes(site.verification)
    return 1 + len(site.histories) + (site.verification is not None)


def _metric(history: History) -> dict[str, Any]:
    windows = [
        window | {"place": f"../releases/{window['release']}/{_slug(history.metric)}/"}
        for window in history.windows
    ]
    return {
        "collection": history.collection or ALONE,
        "metric": history.metric,
        "windows": windows,
        "missing": gaps(windows),
        "files": _slug(history.metric),
        "tables": [
            {
                "name": series.name,
                "figure": series.figure,
                "unit": unit_of(series.figure),
                "confidence": series.confidence,
                "now": table_now(series, history.newest.statement),
                "drawn": series.drawn() if series.labels else None,
                "changes": [*series.changes(windows)],
            }
            for series in history.series
        ],
    }


def _page(
    path: Path, title: str, data: Any, search: Any, view: str, shown: Any = ("", ""), up: str = ""
) -> None:
    """One page, with all that it needs inside: it works from a disk, and nothing is loaded."""
    parts = {
        "title": html.escape(title),
        "style": styles() + _asset("site.css"),
        "charts": _asset("vendor/uPlot.min.css"),
        "plot": _asset("vendor/uPlot.iife.min.js"),
        "app": _asset("app.js"),
        "head": shown[0],
        "picture": shown[1],
        "data": in_script({"view": view, "up": up, "search": search, **data}),
    }
    path.write_text(_template("page.html").substitute(parts), "utf-8")


def _shown(history: History) -> tuple[str, str]:
    """How the page of a metric begins, as the newest release's own does; and its picture."""
    said, kept = history.newest.statement, ""
    if chosen(said).get("picture") == TRIANGLE:
        kept = "".join(retention(series.drawn(), history.windows) for series in history.series[:1])
    last = history.windows[-1]
    place = html.escape(f"../releases/{last['release']}/{_slug(history.metric)}/")
    words = [history.collection or ALONE, f"window {last['name']}", history.metric]
    links = {"its page": REPORT, "its statement": release.STATEMENT}
    parts = [f'<a href="{place}{file}">{name}</a>' for name, file in links.items()]
    nav = f'<nav aria-label="place">{" · ".join([*map(html.escape, words), *parts])}</nav>'
    begun = head(history.first_table, said).body.replace("<p class", f"{nav}\n<p class", 1)
    return begun, kept + drawn({series.name: series.plain for series in history.series}, said)


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

    rows = schema.joined([
        (table, history.releases[place].statement, history.releases[place].figures[name])
        for name, windows in history.tables.items()
        for place, table in windows.items()
    ]).sort_by([("window_start", "ascending")])  # fmt: skip
    pq.write_table(rows, f"{path}.parquet", compression="zstd")
    csv.write_csv(harmless(rows), f"{path}.csv")


def _copies(one: Published, place: Path, title: str) -> None:
    """The statement and the page of a metric's release, one click away."""
    place.mkdir(parents=True, exist_ok=True)
    (place / release.STATEMENT).write_bytes(one.written)
    # The frame loads nothing, and its own bar leads to the statement.
    page = re.sub(r'<p class="files">.*</p>\n', "", statements.read_page(one.folder))
    # The release's own first page is not here; the site's is, around it.
    parts = {"title": html.escape(title), "page": html.escape(page)}
    (place / REPORT).write_text(_template("release.html").substitute(parts), "utf-8")


@cache
def _asset(name: str) -> str:
    return _ASSETS.joinpath(name).read_text("utf-8")


@cache
def _template(name: str) -> Template:
    return Template(_asset(name))


_AGO = re.compile(r"new (\d+) (day|week)s? ago")
_DAYS = {"day": 1, "week": 7}
_MOST = 28  # windows


def retention(drawn: Mapping[str, Any], windows: Sequence[Mapping[str, Any]]) -> str:
    """A triangle: a row for each window in which users were new, a column for each later one.

    What no release says is left blank; what noise may explain is grey.

    Args:
        drawn: what is drawn over time, as of `Series`.
        windows: of the releases.
    """
    values = [str(value) for _, value in drawn["labels"]]
    ages = [(_AGO.fullmatch(value), place) for place, value in enumerate(values)]
    kept = sorted((int(age[1]), age[2], place) for age, place in ages if age)
    if "new" not in values or not kept or not all(window["start"] for window in windows):
        return ""
    starts = [datetime.fromisoformat(window["start"]) for window in windows]
    at, born = {start: place for place, start in enumerate(starts)}, values.index("new")
    estimate, lower, upper = (
        np.array(drawn[name], np.float64) for name in ("estimate", "lower", "upper")
    )
    cohorts = [place for place, start in enumerate(starts) if np.isfinite(estimate[born, place])]
    cohorts = [place for place in cohorts if starts[place] < max(starts)][-_MOST:]
    if not cohorts:
        return ""
    shares = np.full((len(cohorts), len(kept)), np.nan)
    noise = np.ones(shares.shape, bool)
    for row, place in enumerate(cohorts):
        number = estimate[born, place]
        known = number > (upper[born, place] - lower[born, place]) / 2
        for column, (count, unit, figure) in enumerate(kept):
            later = at.get(starts[place] + timedelta(days=count * _DAYS[unit]))
            if later is not None and np.isfinite(estimate[figure, later]):
                share = estimate[figure, later] / number if number > 0 else 0.0
                shares[row, column] = round(100 * min(max(share, 0.0), 1.0))
                noise[row, column] = not (known and lower[figure, later] > 0)
    unit = kept[0][1]
    rows = [str(windows[place]["name"]) for place in cohorts]
    columns = [f"+{count}" for count, *_ in kept]
    note = (
        f"Of those who were new, the share in % that was active so many {unit}s later. Blank where "
        "a release is missing; in italics on grey where noise alone may explain it."
    )
    return heat("Retention", rows, columns, shares, noise) + (
        f'\n<p class="note">{html.escape(note)}</p>\n'
    )
