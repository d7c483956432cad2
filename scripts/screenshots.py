"""The pictures of the pages in docs/images/, light and dark, from the pages of real runs; needs chromium.

embedrun train +experiment=quickstart
embedrun report outputs
python scripts/screenshots.py RUN_DIR/report.html outputs/index.html
"""

import argparse
import subprocess
from pathlib import Path

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SIZES = {
    "report": (660, 680),
    "overview": (1280, 860),
}  # of the window; the file has twice as many pixels
SCHEMES = {"": 1, "-dark": 0}  # the end of the name: what Blink calls the reader's preference


def shoot(page: Path, name: str) -> None:
    """Take the top of one page in both schemes."""
    width, height = SIZES[name]
    for end, scheme in SCHEMES.items():
        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--force-device-scale-factor=2", f"--window-size={width},{height}",
            f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={IMAGES / f'{name}{end}.png'}",
        ]  # fmt: skip
        subprocess.run(["chromium", *options, page.resolve().as_uri()], check=True, capture_output=True)


def main() -> None:
    """Take the pictures that the command line names pages for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path, help="report.html of a run")
    parser.add_argument("overview", type=Path, help="the page over several runs")
    pages = parser.parse_args()
    shoot(pages.report, "report")
    shoot(pages.overview, "overview")


if __name__ == "__main__":
    main()
