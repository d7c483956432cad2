"""The page of one run: what it says of itself, as one HTML file that needs nothing else.

`gather` takes what a run directory holds apart into facts, `render` puts them on the page.
"""

from embedrun.report.facts import Facts, gather
from embedrun.report.page import render
from embedrun.report.scores import ScoredPairs

__all__ = ["Facts", "ScoredPairs", "gather", "render"]
