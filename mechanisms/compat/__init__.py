"""What reaches into scipy and dp-accounting: each piece saves a tenth of a CPU second and more.

With another version a test fails, and asks to look at each piece again; `HUSHBEAM_COMPAT=off` goes
without them.
"""

SCIPY, DP_ACCOUNTING = "1.17", "0.6"
