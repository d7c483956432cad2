"""What the runs of a table were made with beside their rows, and whether that is compared with the paper."""

from dataclasses import dataclass
from pathlib import Path

from embedrun.table.scale import Scale

# Options that say where and in how much memory a run computes, or where its files are.
_WHERE = (
    "data_dir",
    "dataset.path",
    "evaluation.batch_tokens",
    "evaluation.precision",
    "training.gradient_checkpointing",
    "training.micro_batch_size",
    "training.resume",
)
_GROUPS = ("gpu", "tracking")  # all of whose options are such
_MODELS = ("backbone.name", "model")


@dataclass(frozen=True)
class Setting:
    """Beside the overrides of each row.

    Args:
        scale: the reduced setting; None for none.
        extra: overrides of every run.
    """

    scale: Scale | None = None
    extra: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the reduced setting; empty for none."""
        return "" if self.scale is None else self.scale.name

    @property
    def changes(self) -> tuple[str, ...]:
        """The overrides that make other runs than the paper's."""
        return tuple(one for one in self.extra if _changes(one))


def _changes(override: str) -> bool:
    key, _, value = override.lstrip("+~").partition("=")
    if key in _MODELS:  # a folder is taken for a copy of the model that the row names
        return not Path(value.strip("'\"")).expanduser().is_dir()
    return key not in _WHERE and key.partition(".")[0] not in _GROUPS
