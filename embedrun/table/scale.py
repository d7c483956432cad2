"""A reduced setting of `conf/scale`: what makes the runs of a table small enough for a small machine.

```yaml
title: MiniLM, a tenth of the rows, 100 steps   # what is reduced, in words
train: [training.max_steps=100]                 # overrides of train rows, after their own
evaluate: []                                    # of evaluate rows
seeds: [1]                                      # in place of those of the table
```
"""

from dataclasses import dataclass
from pathlib import Path

from embedrun.config import presets
from embedrun.config.check import nearest
from embedrun.config.options import option
from embedrun.errors import ConfigError
from embedrun.table.checked_file import checked

KEY = "scale"  # of a configuration: the name of the setting; null in a run as the paper has it


@dataclass(frozen=True)
class Scale:
    """One reduced setting; a table of it is no reproduction.

    Args:
        name: of the file.
        title: what is reduced, in words.
        train: overrides of `train` rows, after their own.
        evaluate: overrides of `evaluate` rows, after their own.
        seeds: of the runs; empty: those of the table.
    """

    name: str
    title: str
    train: tuple[str, ...] = ()
    evaluate: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()


@dataclass
class _File:
    title: str = option(unit="what is reduced, in words")
    train: list[str] | None = option(None, unit="overrides")
    evaluate: list[str] | None = option(None, unit="overrides")
    seeds: list[int] | None = option(None, unit="of the runs; null: those of the table")


def scales(conf: Path | None = None) -> list[str]:
    """The reduced settings that there are, sorted.

    Args:
        conf: the preset folder; None for ours.
    """
    return sorted(path.stem for path in ((conf or presets.folder()) / "scale").glob("*.yaml"))


def load_scale(name: str, conf: Path | None = None) -> Scale:
    """The reduced setting of a name, checked.

    Args:
        name: as `scales` has it.
        conf: the preset folder; None for ours.

    Raises:
        ConfigError: if there is none of that name, or with every fault of its file.
    """
    known = scales(conf)
    if name not in known:
        there = ", ".join(known) or "none"
        raise ConfigError(f"--scale: no reduced setting {name!r}{nearest(name, known)} (there are: {there})")
    where = f"scale/{name}.yaml"
    file, problems = checked(_File, (conf or presets.folder()) / where, where)
    if file is None:
        raise ConfigError([f"{where}: {problem}" for problem in problems])
    return Scale(
        name, file.title, tuple(file.train or ()), tuple(file.evaluate or ()), tuple(file.seeds or ())
    )
