"""Sites in a real browser: Debian's chromium, headless. `make test-site` runs it.

It is no `test_*.py`, for `make test` works where there is no browser; here the lack of one fails.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, Page

from pipelines.cli import cli
from pipelines.metrics.metric import PAGE, Content
from tests.browser.looks import (
    LOOKS,
    require_drawn_within,
    require_heads_whole,
    require_readable,
    require_short,
    unfold,
)
from tests.fakes.ledgers import begun_by
from tests.oracles.read_pages import require_plain, shown_as
from tests.pipelines.test_export import publish, publish_day, publish_week_day, statement
from tests.pipelines.watch.test_alarms import publish as publish_window
from tests.pipelines.watch.test_alarms import weeks

HOSTILE = '<img src=x onerror="alert(1)">'
VALUES = 42_178
# What a canvas says nobody can read off it: each text is kept as it is drawn.
WRITTEN = """
window.written = [];
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  window.written.push(text);
  return draw.call(this, text, ...place);
};
"""


def publish_large(folder: Path) -> None:
    """A histogram of many values, one of which no page may take for markup."""
    rng = np.random.default_rng(3)
    for day in (10, 11):
        share = rng.exponential(size=VALUES) / VALUES
        names = [HOSTILE, *(f"value {k}" for k in range(1, VALUES))]
        ends = {"lower": share - 1e-5, "upper": share + 1e-5}
        ends |= {f"{name}_simultaneous": column for name, column in ends.items()}
        columns = {"value": names, "estimate": share, "standard_error": [5e-6] * VALUES, **ends}
        files = {"histogram.parquet": pa.table(columns), PAGE: b""}
        said = statement("histogram", {"histogram.parquet": "share"}, n=10**6)
        publish(day, {"large": Content(files, said)}, folder)


def publish_once(folder: Path) -> None:
    """Three values of a single window: nothing goes over time."""
    share = np.array([0.5, 0.3, 0.2])
    ends = {"lower": share - 0.01, "upper": share + 0.01}
    columns = {"value": ["a", "b", "c"], "estimate": share, "standard_error": [0.005] * 3, **ends}
    columns |= {f"{name}_simultaneous": column for name, column in ends.items()}
    files = {"histogram.parquet": pa.table(columns), PAGE: b""}
    said = statement("histogram", {"histogram.parquet": "share"}, n=10**6)
    publish(10, {"once": Content(files, said)}, folder)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for day in (1, 2, 4):
        publish_day(day, folder / "releases")
    for day in range(14, 17):
        publish_week_day(day, folder / "releases")
    publish_large(folder / "more")
    publish_once(folder / "once")
    public = folder / "public"
    releases = [str(folder / name) for name in ("releases", "more", "once")]
    words = ["site", *releases, "--output", str(public)]
    assert cli.main(words) == 0
    return public


PLAN = """\
collection: days
version: 1
unit: user per window
user_column: user
input: "daily/{window}.parquet"
output: "days/{window}"
ledger: days.sqlite
budget: {epsilon: 4, delta: 1.0e-5}
epsilon: 2
metrics:
  - {name: all, kind: count}
  - {name: by-group, kind: mean, drawn_by: shuffler, column: real, bounds: "0,300", group_by: value,
     groups: values.txt}
  - {name: spread, kind: distribution, drawn_by: shuffler, column: real, bounds: "0,300", bins: 64}
  - {name: shares, kind: histogram, column: value, domain: values.txt, min_reports: 900}
"""


@pytest.fixture(scope="module")
def backfilled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of days with a ledger, published long after they ended; one withheld a part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("backfilled"))
        Path("daily").mkdir()
        Path("values.txt").write_text("a\nb\nc\n")
        Path("plan.yaml").write_text(PLAN)
        rng = np.random.default_rng(5)
        for day, users in ((1, 1000), (2, 300), (3, 1000)):
            rows = {
                "user": [f"u{k}" for k in range(users)],
                "value": rng.choice(["a", "b", "c"], users, p=[0.7, 0.29, 0.01]).tolist(),
                "real": rng.gamma(2, 40, users),
            }
            pq.write_table(pa.table(rows), f"daily/2026-10-0{day}.parquet")
        begun_by("plan.yaml")
        cli.main(["run", "plan.yaml", "--windows", "2026-10-01..2026-10-03"])
        words = ["site", "days", "--ledger", "days.sqlite", "--output", "public"]
        assert cli.main(words) == 0
        return Path("public").resolve()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_site_with_a_ledger_reads_as_it_should(page: Page, backfilled, width, scheme) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    for path in [backfilled / "index.html", *sorted(backfilled.glob("days/*.html"))]:
        page.goto(path.as_uri())
        page.wait_for_selector("h1")
        require_readable(page, scheme)
        require_plain(page.inner_text("main"), ["distribution", "quantiles"])
        require_drawn_within(page)
        if width == 1280:
            require_heads_whole(page)
            require_short(page)


def test_a_site_shows_what_its_releases_hold(page: Page, backfilled: Path) -> None:
    page.goto((backfilled / "index.html").as_uri())
    page.wait_for_selector("h1")
    assert page.locator("details:has(meter)").count() == 1  # of three windows
    assert "late" not in page.inner_text("main")
    assert "withheld: shares" in page.inner_text("main")
    quantiles = pq.read_table(backfilled.parent / "days/2026-10-03/spread/quantiles.parquet")
    (median,) = [row["estimate"] for row in quantiles.to_pylist() if row["p"] == 0.5]
    card = page.locator(".cards > li", has=page.get_by_role("link", name="spread", exact=True))
    shown = card.locator("strong").inner_text().partition(" (")[0]
    assert shown_as(shown, median), (shown, median)
    assert card.inner_text().count("median") == 1
    page.goto((backfilled / "days" / "spread.html").as_uri())
    page.wait_for_selector("h1")
    assert page.locator("main .headline strong").first.inner_text().startswith(shown)
    said = json.loads((backfilled.parent / "days/2026-10-03/spread/statement.json").read_text())
    assert said["in_words"][0].partition(". ")[0] in page.inner_text("main")
    unfold(page)
    assert said["in_words"][0] in page.inner_text("main")


def test_windows_are_filtered_by_metric_and_date(page: Page, backfilled: Path) -> None:
    page.goto((backfilled / "index.html").as_uri())
    rows = page.locator(".numbers tbody tr")
    assert rows.count() == 3
    page.get_by_label("From").fill("2026-10-02")
    assert rows.count() == 2
    page.get_by_label("Until").fill("2026-10-02")
    assert rows.count() == 1
    page.locator("select").select_option("shares")  # which that window withheld
    assert rows.count() == 0
    assert page.locator(".cards > li:visible").count() == 1
    page.goto((backfilled / "days" / "all.html").as_uri())
    page.get_by_label("From").fill("2026-10-03")
    assert page.get_by_role("region", name="Windows").locator("tbody tr").count() == 1


def test_alarms_are_words_in_picture_list_and_card(page: Page, tmp_path: Path) -> None:
    for number, figures in enumerate(weeks(40, 900, 39)):
        publish_window(tmp_path / "releases", number, figures)
    words = ["site", str(tmp_path / "releases"), "--output", str(tmp_path / "public")]
    assert cli.main(words) == 0
    page.add_init_script(WRITTEN)
    page.goto((tmp_path / "public" / "rides" / "cities.html").as_uri())
    page.wait_for_selector("h1")
    text = page.inner_text("main")
    assert "cities, Oslo: " in text
    assert "users more since 2026-10-10, seen in 2026-10-10." in text
    assert page.locator("tr:has-text('2026-10-10 alarm')").count() == 1
    assert "alarm \u25b8" in page.evaluate("window.written")
    page.goto((tmp_path / "public" / "index.html").as_uri())
    assert "Alarm: cities, Oslo: " in page.locator(".cards").inner_text()


def pages(public: Path) -> list[Path]:
    return [public / "index.html", *sorted(public.glob("rides/*.html"))]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_is_readable_on_every_screen(page: Page, site: Path, width, scheme) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    for path in pages(site):
        page.goto(path.as_uri())
        page.wait_for_selector("h1")
        require_readable(page, scheme)


def test_what_is_searched_for_is_found_and_drawn(page: Page, site: Path) -> None:
    page.goto((site / "index.html").as_uri())
    page.get_by_role("searchbox", name="Search").fill("oslo")
    page.get_by_role("link", name="Oslo").first.click()
    page.wait_for_selector(".chart canvas")
    assert page.url.endswith("rides/cities.html#value=Oslo")
    assert page.get_by_role("checkbox", name="Oslo").is_checked()
    assert not page.get_by_role("checkbox", name="Bergen").is_checked()
    assert "Oslo" in str(page.locator(".chart").get_attribute("aria-label"))
    page.get_by_role("searchbox", name="Search").fill("nowhere at all")
    assert page.get_by_text("nothing is called so").is_visible()


def test_all_of_it_can_be_done_by_keyboard(page: Page, site: Path) -> None:
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to the figures"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("delay")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('delay')")


def test_a_fall_beyond_noise_is_shown(page: Page, site: Path) -> None:
    page.goto((site / "rides" / "cities.html").as_uri())
    row = page.locator("tr:has-text('Oslo') .down")
    assert row.first.inner_text() == "−40.0"
    table = page.locator("table", has=row).first
    assert "difference, percentage points" in table.inner_text()
    sides = "(cells) => [...new Set(cells.map((cell) => getComputedStyle(cell).textAlign))]"
    windows = page.get_by_role("region", name="Windows")
    for column, side in ((2, "left"), (3, "right"), (5, "left")):
        assert windows.locator(f":is(th, td):nth-child({column})").evaluate_all(sides) == [side]
    shown = page.get_by_role("region", name="All figures")
    cells = shown.locator("tbody td:nth-child(2)").all_inner_texts()
    assert len({len(text) for text in cells}) == 1, cells  # point below point


def test_what_is_not_drawn_has_one_box_and_no_key(page: Page, site: Path) -> None:
    page.goto((site / "rides" / "cities.html").as_uri())
    page.wait_for_selector(".chart canvas")
    boxes, keys = page.locator(".choices input"), page.locator(".choices .key:visible")
    drawn = page.locator(".choices input:checked")
    assert drawn.count() == keys.count() == boxes.count() == 3
    boxes.first.uncheck()
    boxes.last.uncheck()
    assert drawn.count() == keys.count() == 1
    boxes.last.check()
    assert drawn.count() == keys.count() == 2


def test_many_values_are_found_without_being_drawn(page: Page, site: Path) -> None:
    page.goto((site / "rides" / "large.html").as_uri())
    page.wait_for_selector("section tbody tr")
    assert page.locator("section .numbers tbody tr").count() < 200
    assert page.get_by_text(f"50 of {VALUES:,}").is_visible()
    page.get_by_role("searchbox", name="Find a figure").fill("value 42177")
    assert page.get_by_role("rowheader", name="value 42177").is_visible()
    page.get_by_role("searchbox", name="Find a figure").fill("onerror")
    assert page.get_by_role("rowheader", name=HOSTILE).is_visible()


def test_a_pages_statement_is_one_click_away_and_leads_back(page: Page, site: Path) -> None:
    page.goto((site / "rides" / "delay.html").as_uri())
    page.get_by_role("link", name="its statement").click()
    assert '"release": "mean"' in page.content()


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
def test_a_trend_is_drawn_at_the_days_that_its_windows_are_named_for(
    browser: Browser, backfilled: Path, zone: str
) -> None:
    """Windows are days of UTC, wherever a reader is."""
    with browser.new_context(timezone_id=zone) as context:
        page = context.new_page()
        page.add_init_script(WRITTEN)
        page.goto((backfilled / "days" / "all.html").as_uri())
        page.wait_for_selector(".chart canvas")
        written = page.evaluate("window.written")
    ticks = [*dict.fromkeys(text for text in written if "-" in text)]  # it may be drawn twice
    assert ticks == ["10-01", "10-02", "10-03"]
    assert "2026" in written
