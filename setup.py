"""For Beam's `--setup_file`: cloud runners pack the project by calling this file.

All that there is to say about the project is said once, in pyproject.toml, which setuptools reads.
"""

from setuptools import setup

setup()
