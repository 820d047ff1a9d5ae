"""Mechanisms of papers that no search takes: to be named, compared and measured.

Imported when one of them is named, or all are listed.
"""
