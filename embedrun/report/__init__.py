"""The page of one run, as one self-contained HTML file.

`gather` collects the contents of a run directory into facts, `render` puts them on the page.
"""

from embedrun.report.facts import Facts, gather
from embedrun.report.page import render
from embedrun.report.scores import ScoredPairs

__all__ = ["Facts", "ScoredPairs", "gather", "render"]
