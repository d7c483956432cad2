"""Whether runs that are there have read the rows and models that they would read now."""

from collections.abc import Sequence

from embedrun.errors import ConfigError
from embedrun.experiment.data import Fingerprints
from embedrun.runs.search import configuration
from embedrun.table.cells import Measured


class RowsOfNow:
    """Looks at runs; each choice of data is read once.

    Args:
        overrides: of the command line; `data_dir=` among them says where the rows are now.
    """

    def __init__(self, overrides: Sequence[str]) -> None:
        given = [one.partition("=")[2] for one in overrides if one.startswith("data_dir=")]
        self._data_dir = given[-1:]
        self._fingerprints = Fingerprints()

    def agree(self, run: Measured) -> bool:
        """Whether a run has read the rows and models of now, as far as that can be told."""
        return not self.changed(run)

    def changed(self, run: Measured) -> list[str]:
        """The splits, by data set, and the models that are others now."""
        try:
            config = configuration(run.path)
        except ConfigError:
            return []  # nobody can say
        for folder in self._data_dir:
            config["data_dir"] = folder
        command = "train" if "training" in config else "evaluate"
        return self._fingerprints.changed(command, config, run.data)
