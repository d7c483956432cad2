"""What tells runs apart: the presets that were chosen, then options; columns and short names made of it."""

from collections.abc import Collection, Iterable, Sequence

from embedrun.config.decides import decides
from embedrun.files import Plain, to_json
from embedrun.runs.reading import RunFiles, as_text, flattened

_FIRST = "experiment"  # the group that chooses most of the others
_NAMED = 4  # options in a label
_WIDTH = 40  # characters of a value in a label

Columns = dict[str, list[object]]  # by group or option, a value for each run; None where a run has none


def columns(runs: Sequence[RunFiles]) -> Columns:
    """What differs between runs: choices first, then the options that no differing choice explains.

    A choice explains the options of its group, and that of an experiment all. An option is a column of its
    own where it differs between runs whose choices are equal, and where somebody has typed it.
    """
    chosen = choices(runs)
    typed = {key for run in runs for key in _typed(run)}
    config = {key for run in runs for key in run.config}
    kept: Columns = {}
    for option, values in options(runs).items():
        about = [own for group, own in chosen.items() if _covers(group, option, config)]
        if _is_typed(option, typed) or _varies(values, about):
            kept[option] = values
    return {**chosen, **kept}


def choices(runs: Sequence[RunFiles]) -> Columns:
    """The groups whose choices differ, `experiment` first.

    What a run has not written down yet is no difference. Nor is a choice that gives the same options as
    another: both have one name, that which was typed.
    """
    groups = dict.fromkeys(group for run in runs for group in run.choices if _decides(group) != "nothing")
    differing: Columns = {}
    decisive = [_decisive(run.config) for run in runs]
    for group in sorted(groups, key=_FIRST.__ne__):
        names = _one_name(group, runs, decisive)
        if len({name for name, run in zip(names, runs, strict=True) if run.config}) > 1:
            differing[group] = list(names)
    return differing


def _one_name(group: str, runs: Sequence[RunFiles], decisive: Sequence[Plain]) -> Sequence[str | None]:
    """Each run's choice of a group; of equal options that of the first run that typed it, else the first."""
    names = [run.choices.get(group) for run in runs]
    if len({*names} - {None}) < 2:
        return names
    keys = {key for run in runs for key in run.config}
    parts = [_part(group, name, own, keys) for name, own in zip(names, decisive, strict=True)]
    named: dict[str | None, str | None] = {}
    for place in sorted(range(len(runs)), key=lambda place: group not in _typed(runs[place])):
        named.setdefault(parts[place], names[place])
    return [named[part] for part in parts]


def _part(group: str, name: str | None, options: Plain, keys: set[str]) -> str | None:
    """The options that a group's choice may have set; its name where there are none to compare."""
    if name is None:
        return None
    own = {key: value for key, value in options.items() if _covers(group, key, keys)}
    return to_json(own) if own else name


def options(runs: Sequence[RunFiles]) -> Columns:
    """The options that differ, whatever explains it; what a run has not written down yet is no difference.

    Options of the evaluation come last, those that more runs have come first; else the order is that of the
    configuration.
    """
    own = [_decisive(run.config) for run in runs]
    keys = dict.fromkeys(key for each in own for key in each)
    begun = [each for each in own if each]
    differ = [key for key in keys if any(each.get(key) != begun[0].get(key) for each in begun)]
    differ.sort(key=lambda key: (key.startswith("evaluation."), -sum(key in each for each in own)))
    return {key: [each.get(key) for each in own] for key in differ}


def labels(
    runs: Sequence[RunFiles], told: Columns | None = None, *, without: Collection[str] = ()
) -> list[str]:
    """A short name for each run among these: `loss=cosent`; with a number where nothing tells it from others.

    By default made of `columns(runs)`: the choices that were typed or that tell apart what those before them
    do not, the run's `name` in the same way, and at most four options; but those in `without`. `told` are
    other columns, which are all in it. A run that differs from none has its `name`.
    """
    names = [_name(run) for run in runs]
    parts = _parts(runs, names, without) if told is None else told
    found = []
    for place, name in enumerate(names):
        words = [
            as_text(values[place], _WIDTH) if key == "name" else f"{key}={as_text(values[place], _WIDTH)}"
            for key, values in parts.items()
            if values[place] is not None
        ]
        found.append(", ".join(words) or name)
    return [
        f"{label} ({found[:place].count(label) + 1})" if found.count(label) > 1 else label
        for place, label in enumerate(found)
    ]


def title(run: RunFiles) -> str:
    """The name of a run on its own, with the choices that were typed beside its experiment."""
    own = [key for key in _typed(run) if key in run.choices and key != _FIRST]
    typed = [key for key in own if _decides(key) == "what"]
    return ", ".join([_name(run), *(f"{group}={run.choices[group]}" for group in typed)])


def _parts(runs: Sequence[RunFiles], names: Sequence[str], without: Collection[str]) -> Columns:
    found = columns(runs)
    chosen = choices(runs)
    typed = {key for run in runs for key in _typed(run)}
    parts: Columns = {}
    for group, values in chosen.items():
        if group in typed or _varies(values, parts.values()):
            parts[group] = values
    begun = [place for place, run in enumerate(runs) if run.config]  # any other has the name of its folder
    own, *others = ([values[place] for place in begun] for values in (names, *parts.values()))
    if _varies(own, others):
        parts = {"name": list(names), **parts}
    rest = [key for key in found if key not in chosen and key not in without]
    return parts | {key: found[key] for key in rest[:_NAMED]}


def _varies(values: Sequence[object], about: Iterable[Sequence[object]]) -> bool:
    """Whether values differ between runs that are equal in all other columns."""
    first: dict[tuple[object, ...], object] = {}
    others = zip(*about, strict=True)
    return any(first.setdefault(next(others, ()), value) != value for value in values)


def _covers(group: str, option: str, config: set[str]) -> bool:
    """Whether the preset of a group may set an option; one that is no group of the configuration sets any."""
    inside = group.partition("@")[0].replace("/", ".")
    return option.startswith(f"{inside}.") or inside.partition(".")[0] not in config


def _is_typed(option: str, typed: set[str]) -> bool:
    words = option.split(".")
    return any(
        ".".join(words[:count]) in typed for count in range(2 if len(words) > 1 else 1, len(words) + 1)
    )


def _typed(run: RunFiles) -> list[str]:
    """The groups and options that were typed."""
    return list(dict.fromkeys(one.lstrip("+~").partition("=")[0] for one in run.overrides))


def _name(run: RunFiles) -> str:
    return str(run.config.get("name") or run.path.resolve().name)


def _decides(group: str) -> str:
    return decides(group.partition("@")[0].replace("/", "."))


def _decisive(config: Plain) -> Plain:
    kept = {key: value for key, value in config.items() if key != "schema" and decides(key) != "nothing"}
    return flattened(kept)
