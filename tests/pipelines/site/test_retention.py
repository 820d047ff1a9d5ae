"""Who stays, read across the windows of a site."""

from __future__ import annotations

import re

from pipelines.site.build import retention

GROUP = "active in the last day"
WINDOWS = [
    {"name": f"2026-11-0{day}", "start": f"2026-11-0{day}T00:00:00+00:00"} for day in (1, 2, 4)
]
DRAWN = {
    "labels": [[GROUP, "new"], [GROUP, "new 1 day ago"], [GROUP, "new 2 days ago"]],
    "estimate": [[100.0, 80.0, 60.0], [5.0, 50.0, 7.0], [1.0, 2.0, 1.0]],
    "lower": [[98.0, 78.0, 58.0], [3.0, 48.0, 5.0], [0.0, 0.0, -1.0]],
    "upper": [[102.0, 82.0, 62.0], [7.0, 52.0, 9.0], [3.0, 4.0, 3.0]],
}


def cells(drawn: dict, windows: list[dict]) -> list[tuple[str, list[str]]]:
    rows = re.findall(r"<tr><th>([\d-]+)</th>(.*?)</tr>", retention(drawn, windows))
    return [(name, re.findall(r"<td[^>]*>(.*?)</td>", row)) for name, row in rows]


def test_a_row_is_a_window_and_a_column_a_later_one() -> None:
    """Half of those of the first day were there on the second; nobody released the third."""
    assert cells(DRAWN, WINDOWS) == [("2026-11-01", ["50", ""]), ("2026-11-02", ["", "1"])]


def test_what_noise_may_explain_is_marked() -> None:
    made = retention(DRAWN, WINDOWS)
    assert '<td class="noise">1</td>' in made  # its interval begins below 0
    assert not re.search(r'class="noise">50<', made)
    assert ">+1</th>" in made


def test_without_windows_in_time_or_later_days_nothing_is_drawn() -> None:
    assert retention(DRAWN, [window | {"start": None} for window in WINDOWS]) == ""
    assert retention({**DRAWN, "labels": DRAWN["labels"][:1]}, WINDOWS) == ""
    assert retention({name: part[:1] for name, part in DRAWN.items()}, WINDOWS) == ""
