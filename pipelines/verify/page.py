"""A page of what verification came to, for readers of a site: it loads and runs nothing."""

from __future__ import annotations

import html

from pipelines.verify.verdict import Check
from pipelines.verify.verify import Report
from pipelines.views.pages import styles

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Verification</title>
<style>
{style}  td {{ overflow-wrap: normal; }} td:last-child {{ overflow-wrap: anywhere; }}
  .fault {{ color: #b00020; font-weight: bold; }}
  .not-checked {{ color: #8a5a00; }}
  @media (prefers-color-scheme: dark) {{
    .fault {{ color: #ff8a80; }}
    .not-checked {{ color: #ffcc80; }}
  }}
</style>
</head>
<body>
<nav><a href="index.html">All releases</a></nav>
<main>
<h1>Verification</h1>
<p><strong>{limit}</strong></p>
<p>{counts}. Who made this page may have written anything here. Repeat it with the key that you have
from who publishes: <code>hushbeam verify RELEASES --key PUBLIC.pem --log LOG --head HEAD</code></p>
{releases}</main>
</body>
</html>
"""
_HEADS = (
    '<thead><tr><th scope="col">outcome</th><th scope="col">of</th><th scope="col">what</th></tr>'
    "</thead>\n"
)


def page(report: Report) -> bytes:
    """What holds of each release, what does not, and what nobody can tell."""
    releases = "".join(
        f"<h2>{html.escape(where)}</h2>\n<table>\n{_HEADS}<tbody>\n"
        + "".join(
            f'<tr class="{one.outcome.replace(" ", "-")}"><td>{one.outcome}</td>'
            f"<td>{html.escape(one.subject)}</td><td>{_said(one)}</td></tr>\n"
            for one in findings
        )
        + "</tbody>\n</table>\n"
        for where, findings in report.findings.items()
    )
    return _PAGE.format(
        style=styles(), limit=html.escape(report.limit), counts=report.counts, releases=releases
    ).encode()


def _said(one: Check) -> str:
    said = html.escape(one.said)
    if not one.lines:
        return said
    lines = "".join(f"<li>{html.escape(line)}</li>\n" for line in one.lines)
    return f"<details><summary>{said}</summary>\n<ul>\n{lines}</ul>\n</details>"
