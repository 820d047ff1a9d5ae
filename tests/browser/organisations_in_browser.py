"""Two organisations and real browsers: from a page through both services to a verified figure.

`make test-site` runs it: `make two-organisations ARGS=--stay`, as a stranger does, with chromium in
the stranger's place. It needs the TypeScript client: npm ci and npm run build in its folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from mechanisms.wire import binary
from mechanisms.wire.report import Reports
from mechanisms.wire.sealing import KeyRing
from pipelines.cli import cli
from pipelines.plan.loading import load
from pipelines.plan.split import Split, split
from tests.browser.looks import LOOKS, require_readable
from tests.fakes.devices import free_port
from tests.oracles.statistics import FALSE_ALARM

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "typescript" / "dist"
RUN = ROOT / "deploy" / "two-organisations" / "run.py"
WINDOW = "2026-11-20"
CROWD = 10  # browsers more, so that no noise passes for them
SLOW = 120_000  # milliseconds: moments of tokens are drawn within ten seconds, on a busy machine


class Staying:
    """`make two-organisations ARGS=--stay`, which waits for Enter.

    Attributes:
        page: the address that everybody may open.
        invited: the address with a device's secret.
        ports: of its services.
        said: all its output, once it has ended.
    """

    def __init__(self, folder: Path) -> None:
        names = ("page-endpoint", "issuer", "device-endpoint", "page")
        self.ports = {name: free_port() for name in names}
        self.said = ""
        words = [f"--{name}={port}" for name, port in self.ports.items()]
        self.process = subprocess.Popen(
            [sys.executable, "-u", str(RUN), "--stay", "--folder", str(folder), *words,
             "--window", WINDOW, "--devices=0", "--browsers=0"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def begun(self) -> None:
        """Wait until it says where to answer."""
        for line in self.process.stdout:
            self.said += line
            if found := re.match(r"Answer at (\S+/), or with a token at (\S+)$", line):
                self.page, self.invited = found.groups()
                return
        raise AssertionError(self.said[-2000:])

    def ended(self) -> None:
        """Press Enter, and wait for the release."""
        more, _ = self.process.communicate("\n", timeout=600)
        self.said += more
        assert self.process.returncode == 0, self.said[-2000:]


@contextlib.contextmanager
def staying(folder: Path) -> Iterator[Staying]:
    assert CLIENT.exists(), "no client: run (cd clients/typescript && npm ci && npm run build)"
    one = Staying(folder)
    try:
        one.begun()
        yield one
    finally:
        if one.process.poll() is None:
            one.process.communicate("\n", timeout=600)


def opened(context: BrowserContext, address: str) -> Page:
    """A page whose requests, and what its policy has stopped, are kept."""
    page = context.new_page()
    page.sent, page.stopped = [], []  # type: ignore[attr-defined]
    page.on("request", lambda one: page.sent.append((one.method, one.url)))
    page.on("console", lambda one: page.stopped.append(one.text))
    page.goto(address)
    return page


def posts(page: Any) -> list[str]:
    """Paths of what went to services."""
    own = urlsplit(page.url).netloc
    return [urlsplit(url).path for _, url in page.sent if urlsplit(url).netloc not in {own, ""}]


def said(page: Page, words: str) -> None:
    """Wait until the page says so."""
    page.wait_for_function(
        "(words) => document.querySelector('output').value.startsWith(words)", arg=words,
        timeout=SLOW,
    )  # fmt: skip


def answer(page: Page, lunch: str) -> None:
    """As a user does, who is asked for consent first."""
    page.wait_for_selector("form[data-ready]")
    page.get_by_label("Lunch").select_option(lunch)
    page.get_by_role("button", name="Send").click()
    assert posts(page) == []
    assert page.evaluate("async () => (await indexedDB.databases()).length") <= 1
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Send").click()


def require_policy(page: Page, elsewhere: str) -> None:
    """Neither script nor form sends anything but where the page's policy says."""
    before = posts(page)
    fetched = "(to) => fetch(to).then(() => 'fetched', () => 'stopped')"
    assert page.evaluate(fetched, elsewhere) == "stopped"
    page.evaluate("() => HTMLFormElement.prototype.submit.call(document.querySelector('form'))")
    page.evaluate("""() => {
      const script = document.createElement("script");
      script.textContent = "window.ran = true";
      document.body.append(script);
    }""")
    assert not page.evaluate("() => window.ran")
    stopped = " ".join(page.stopped)  # type: ignore[attr-defined]
    assert all(part in stopped for part in ("connect-src", "form-action", "script-src"))
    assert (posts(page), "?" in page.url) == (before, False)


def require_nothing_unscripted(browser: Browser, address: str) -> None:
    """Without its script the page sends nothing, and says so."""
    context = browser.new_context(java_script_enabled=False)
    page = opened(context, address)
    assert page.get_by_role("button", name="Send").is_disabled()
    assert "Without it nothing is sent" in page.inner_text("body")
    page.get_by_role("button", name="Send").click(force=True)
    assert posts(page) == []
    context.close()


def require_services(ports: dict[str, int]) -> None:
    """Health and metrics of each, which count nobody; and an answer to what is nobody's."""
    for name in ("page-endpoint", "issuer", "device-endpoint"):
        address = f"http://127.0.0.1:{ports[name]}"
        with urllib.request.urlopen(f"{address}/health") as health:
            assert (health.status, health.read()) == (200, b"")
        with urllib.request.urlopen(f"{address}/metrics") as metrics:
            lines = metrics.read().decode().splitlines()
        role = "tokens" if name == "issuer" else "reports"
        window = f'hushbeam_window_closed{{window="{WINDOW}",role="{role}"}} 0'
        assert lines == ["hushbeam_commit_failures 0", "hushbeam_unreadable_windows 0", window]


def planned(folder: Path, plan: str) -> Split:
    """The window of a plan, as the shuffler has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "shuffler")  # where the plan's list of values is
        return split(load(f"{plan}.yaml"), WINDOW)


def sealed_answers(folder: Path, plan: str) -> list[int]:
    """How many users have given each answer: what landed, opened by the collector's key."""
    parted = planned(folder, plan)
    expected = parted.expected(parted.form(True, [0]))
    (landed,) = (folder / "shuffler" / "landing" / plan).glob("*.reports")
    screened = binary.decode(landed.read_bytes(), expected)
    assert not screened.dropped
    layout = parted.counters[0].layout
    reports = Reports(parted.fingerprint, screened.reports.form, screened.reports.records)
    opening = KeyRing.read(folder / "collector" / "keys").open(reports.apart(layout.types))
    assert not opening.dropped
    records = opening.reports.records
    return layout.count(records["message"], records["level"]).tolist()


def require_figures(folder: Path, plan: str, answers: list[int]) -> float:
    """What is published is what was sent, but for noise; returns how far noise goes.

    Each figure's noise is beyond its bound with a probability of 1e-9 by its exact law.
    """
    (counters,) = planned(folder, plan).counters
    far = counters.error_law().isf(FALSE_ALARM / 2 / len(answers))
    released = folder / "collector" / "released" / WINDOW / plan / "lunch" / "count.parquet"
    table = pq.read_table(released)
    assert table["value"].to_pylist()[:4] == ["soup", "salad", "sandwich", "nothing"]
    for estimate, true in zip(table["estimate"].to_pylist(), answers, strict=True):
        assert abs(estimate - true) <= far, (plan, estimate, true)
    return float(far)


def require_looks(browser: Browser, addresses: list[str]) -> None:
    """Pages are readable on every screen."""
    for width, scheme in LOOKS:
        context = browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme=scheme, bypass_csp=True
        )  # or axe, which is a script of ours, would not run
        for address in addresses:
            page = context.new_page()
            page.goto(address)
            page.wait_for_load_state("networkidle")
            require_readable(page, scheme)
        context.close()


def test_browsers_answers_are_published_and_verified(browser: Browser, tmp_path: Path) -> None:
    """Answers of real browsers, by both organisations' commands, to a figure and its verifier."""
    folder = tmp_path / "two"
    with staying(folder) as two:
        invited = browser.new_context()
        device = opened(invited, two.invited)
        answer(device, "salad")
        assert "#" not in device.url
        said(device, "Your report is made")

        contexts = {lunch: browser.new_context() for lunch in ("soup", "salad")}
        pages = {lunch: opened(context, two.page) for lunch, context in contexts.items()}
        for lunch, page in pages.items():
            answer(page, lunch)
            said(page, "Thank you.")
            assert posts(page) == ["/reports"]
        # A browser that answers again is one user, and reports once.
        pages["soup"].get_by_role("button", name="Send").click()
        said(pages["soup"], "Thank you.")
        assert posts(pages["soup"]) == ["/reports"]
        require_policy(pages["salad"], f"http://localhost:{two.ports['issuer']}/metrics")
        for _ in range(CROWD):
            context = browser.new_context()
            page = opened(context, two.page)
            answer(page, "soup")
            said(page, "Thank you.")
            context.close()

        # Without a network a report waits, and goes by itself when there is one.
        away = browser.new_context()
        page = opened(away, two.page)
        page.wait_for_selector("form[data-ready]")
        away.set_offline(True)
        page.get_by_label("Lunch").select_option("sandwich")
        page.get_by_role("checkbox").check()
        page.get_by_role("button", name="Send").click()
        said(page, "The endpoint cannot be reached")
        with page.expect_response(lambda one: one.status == 204):
            away.set_offline(False)

        said(device, "Thank you.")
        assert posts(device) == [f"/tokens/{WINDOW}", "/reports"]
        device.get_by_role("button", name="Withdraw").click()
        said(device, "You have withdrawn.")

        # Who withdraws while a token's moment is waited for has withdrawn, now and later.
        leaving = browser.new_context()
        leaving.route("**/tokens/**", lambda route: route.abort())
        left = opened(leaving, two.invited)
        answer(left, "nothing")
        said(left, "Your report is made")
        left.get_by_role("button", name="Withdraw").click()
        said(left, "You have withdrawn.")

        # What goes wrong is said on the page, and nothing is sent.
        stranger = opened(browser.new_context(), two.invited.partition("#")[0])
        said(stranger, "This page cannot send anything: open the address that you were sent")
        assert (posts(stranger), stranger.locator("form").is_visible()) == ([], False)
        again = opened(browser.new_context(), two.invited)
        answer(again, "soup")  # of the same device, which has fetched its token
        said(again, "The endpoint has refused the report.")
        assert posts(again) == [f"/tokens/{WINDOW}"]
        require_nothing_unscripted(browser, two.page)
        broken = browser.new_context()
        broken.route("**/plan.json", lambda route: route.fulfill(status=404, body="Not Found"))
        page = opened(broken, two.page)
        said(page, "This page cannot send anything: the site has no plan.json.")
        assert not page.locator("form").is_visible()
        require_services(two.ports)
        require_looks(browser, [two.page])
        left.wait_for_timeout(5000)  # after which the page looks again
        assert (
            left.evaluate("() => document.querySelector('output').value") == "You have withdrawn."
        )
        two.ended()

    assert "0 faults" in two.said
    assert two.said.index("holds: signature") < two.said.index("0 faults")
    sent = {"page": [CROWD + 1, 1, 1, 0, 0], "devices": [0, 1, 0, 0, 0]}
    for plan, answers in sent.items():
        assert sealed_answers(folder, plan)[: len(answers)] == answers
        far = require_figures(folder, plan, answers)
        assert far < CROWD  # a crowd that was lost would be seen
    public, key = tmp_path / "public", str(folder / "exchange" / "publisher.pem")
    releases = [str(folder / "collector" / "released" / WINDOW / plan) for plan in sent]
    assert cli.main(["site", *releases, "--key", key, "--output", str(public)]) == 0
    require_looks(browser, [(public / "verification.html").as_uri()])
    index = opened(browser.new_context(), (public / "index.html").as_uri())
    assert re.findall(r"\b1 metrics?\b", index.inner_text("body")) == ["1 metric"] * len(sent)
