"""What a run was, in short, and what it was made with: pairs of a name and a text."""

from collections.abc import Mapping
from typing import Any

from embedrun.console import duration, number, numbers, short, size
from embedrun.report.metrics import Speed

Entries = list[tuple[str, str]]


def at(tree: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    value: Any = tree
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def is_training(config: Mapping[str, Any]) -> bool:
    """Whether the configuration is that of `embedrun train`."""
    return isinstance(config.get("training"), Mapping)


def summary(
    config: Mapping[str, Any], results: Mapping[str, Any], environment: Mapping[str, Any], speed: Speed
) -> Entries:
    """What a reader asks first; what the run does not say is left out."""
    own = _training(config, results) if is_training(config) else _evaluation(config)
    seed = config.get("seed")
    found = [*own, ("seed", "" if seed is None else str(seed)), ("machine", _machine(config, environment))]
    found += [("speed", _speed(speed)), ("time", _time(results))]
    return [(name, text) for name, text in found if text]


def environment_entries(environment: Mapping[str, Any]) -> Entries:
    """Versions and machine, without what the page says elsewhere."""
    code = environment.get("code")
    found = [("command as typed", str(environment.get("command") or ""))]
    if isinstance(code, Mapping) and code.get("commit"):
        dirty = ", with changes that are not in it" if code.get("dirty") else ""
        found.append(("code", f"commit {code['commit']}{dirty}"))
    found += [(name, str(environment.get(name) or "")) for name in ("python", "platform")]
    found += [("processor", _listed(environment.get("cpu"))), ("CUDA", str(environment.get("cuda") or ""))]
    gpu = environment.get("gpu")
    found.append(("GPU", ", ".join(map(str, gpu)) if isinstance(gpu, list) else ""))
    found.append(("variables", _listed(environment.get("variables"))))
    return [(name, text) for name, text in found if text]


def pairs(values: Any) -> Entries:
    """The entries of a mapping as text; of anything else none."""
    return (
        [(str(name), _text(value)) for name, value in values.items()] if isinstance(values, Mapping) else []
    )


def _training(config: Mapping[str, Any], results: Mapping[str, Any]) -> Entries:
    scratch = at(config, "backbone.scratch")
    backbone = at(config, "backbone.name")
    if backbone is None and isinstance(scratch, Mapping):
        backbone = f"from nothing: {scratch.get('layers')} layers, width {scratch.get('width')}"
    rows = number(at(results, "counts.train_rows"))
    data = str(at(config, "dataset.name") or "")
    terms = at(config, "loss.terms")
    return [
        (
            "loss",
            " + ".join(_term(key, own) for key, own in terms.items()) if isinstance(terms, Mapping) else "",
        ),
        ("backbone", str(backbone or "")),
        ("pooling", str(at(config, "pooling.name") or "")),
        ("training data", data if rows is None else f"{data}, {rows:,.0f} rows"),
        ("steps", _steps(config, results)),
        ("learning rate", _rate(config)),
    ]


def _evaluation(config: Mapping[str, Any]) -> Entries:
    tasks = at(config, "evaluation.tasks")
    return [
        ("model", str(config.get("model") or "")),
        ("revision", str(config.get("revision") or "")),
        ("pooling", str(at(config, "pooling.name") or "")),
        ("evaluation", ", ".join(map(str, tasks)) if isinstance(tasks, Mapping) else ""),
        ("precision", str(at(config, "evaluation.precision") or "")),
    ]


def _term(key: str, options: Any) -> str:
    weight = number(options.get("weight", 1.0)) if isinstance(options, Mapping) else None
    return key if weight in (None, 1.0) else f"{short(weight)} × {key}"


def _steps(config: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    batch, accumulate = number(at(config, "training.batch_size")), number(at(config, "training.accumulate"))
    steps, best = number(at(results, "counts.steps")), number(at(results, "counts.best_step"))
    rows = (
        ""
        if batch is None
        else f"{batch:,.0f}" + (f" × {accumulate:.0f}" if accumulate and accumulate > 1 else "")
    )
    if steps is None:
        return f"of {rows} rows each" if rows else ""
    said = f"{steps:,.0f}" + (f" of {rows} rows" if rows else "")
    return said if best is None or best == steps else f"{said}; the weights are those of step {best:,.0f}"


def _rate(config: Mapping[str, Any]) -> str:
    rate, schedule = number(at(config, "training.lr")), at(config, "training.schedule")
    return "" if rate is None else short(rate) + (f", {schedule}" if schedule else "")


def _machine(config: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    gpu = environment.get("gpu")
    precision, asked = at(config, "gpu.precision"), at(config, "gpu.device")
    if isinstance(gpu, list) and gpu and asked != "cpu":
        name = f"{len(gpu)} × {gpu[0]}" if len(gpu) > 1 else str(gpu[0])
    else:
        threads = number(at(environment, "cpu.threads"))
        if threads is None:
            return ""
        name = f"processor, {threads:.0f} thread{'s' if threads != 1 else ''}"
    return name if precision in (None, "auto") else f"{name}, {precision}"


def _time(results: Mapping[str, Any]) -> str:
    each = numbers(results.get("seconds"))
    parts = ", ".join(f"{name} {duration(found)}" for name, found in each.items())
    return f"{duration(sum(each.values()))}: {parts}" if len(each) > 1 else parts


def _speed(speed: Speed) -> str:
    rate = "" if speed.rows_per_second is None else f"{speed.rows_per_second:,.0f} rows/s"
    memory = "" if speed.memory is None else f"{size(speed.memory)} on the device at most"
    return ", ".join(part for part in (rate, memory) if part)


def _listed(values: Any) -> str:
    return ", ".join(f"{name} {text}" for name, text in pairs(values))


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) < 10**15 else "a very large number"
    return str(value)
