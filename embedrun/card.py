"""The model card: what a model is, how it is used, what it scores, what it was made of."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from embedrun.console import before_training, clean, decimals, numbers, score_text
from embedrun.export import NEAREST
from embedrun.files import Plain, read_json

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

_TAGS = ("sentence-transformers", "sentence-similarity", "feature-extraction", "embedrun")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_SPLITS = {"dev": "validation", "test": "test"}  # as the hub calls them
_OF_SPLIT = re.compile(r"(.*)_(dev|test)")
_CORRELATIONS = ("spearman", "pearson")
_TASKS = {
    **dict.fromkeys(_CORRELATIONS, "sentence-similarity"),
    **dict.fromkeys(("accuracy", "f1"), "text-classification"),
}
_ADAPTER = "adapter_config.json"
_MOST_ROWS = 40  # scores of one suite; of one with more the averages alone are shown
_SCORES = "Suite, task and metric; correlations and accuracies times 100."
_BY_HAND = (
    "embedrun does it by itself, and cuts a long text, not the prompt. sentence-transformers knows only "
    "words before a text, so that there it is done by hand, and a long text loses the end of the prompt."
)
_TRANSFORMERS = (
    "transformers loads the folder with `AutoModel` and `AutoTokenizer`; pooling and normalisation are then "
    "yours to do, as `embedrun.json` says."
)


class Source(NamedTuple):
    """A data set that was trained on; `about` says what it is, `hub` is its id on the hub."""

    name: str
    about: str
    licence: str
    hub: str | None = None


def card_text(
    folder: Path,
    *,
    title: str,
    base_model: str | None,
    dataset: str,
    scores: Mapping[str, float],
    config_yaml: str,
    base_is_local: bool | None = None,
    citations: Sequence[str] = (),
    bibtex: Sequence[str] = (),
    hub_ids: Mapping[str, str] = {},
    license: str | None = None,
    baseline: Mapping[str, float] = {},
    sources: Sequence[Source] = (),
    facts: Sequence[str] = (),
    contamination: Sequence[str] = (),
    repo_id: str | None = None,
) -> str:
    """The model card, for `README.md`.

    Args:
        base_model: hub id or folder of the model that training started from; None: none. Of a folder only
            the last part of its name is written.
        dataset: what it was trained on; empty, as `config_yaml`, where that is not known.
        scores: by the key of `results.json`, ``"sts/avg/spearman"``; `baseline` are those before training.
        base_is_local: whether `base_model` is a folder; None: as its name looks.
        hub_ids: ids on the hub of evaluation data sets, by the name that the scores have.
        facts: sentences on the training, and `contamination` on evaluation rows that the model has seen.
    """
    from huggingface_hub import ModelCardData

    settings = _read(folder / "embedrun.json")
    local = is_local(base_model or "") if base_is_local is None else base_is_local
    scores = _shown(scores)
    head = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=[*_TAGS, *(["peft", "lora"] if (folder / _ADAPTER).is_file() else [])],
        base_model=None if local else base_model,
        license=license,
        datasets=list(dict.fromkeys(source.hub for source in sources if source.hub)) or None,
        eval_results=_eval_results(scores, hub_ids) or None,
        model_name=_line(title),
    )
    data = [[source.name, source.about, source.licence] for source in sources]
    parts = [
        f"---\n{head.to_yaml()}\n---",
        f"# {_line(title)}",
        _about(settings, base_model, local, dataset),
        _section("## Use", *_use(folder, settings, repo_id or "FOLDER")),
        _scores(scores, baseline, settings.get("pooling")),
        _section("## Evaluation rows in the training data", _list(contamination)),
        _section(
            "## Training",
            " ".join(facts),
            _table(["data", "what it is", "licence"], data, "---"),
            _code("yaml", config_yaml.rstrip()),
        ),
        _section("## Citation", _list(citations)),
        _code("bibtex", "\n\n".join(bibtex)),
    ]
    # Names, prompts and options come from files of others.
    return clean("\n\n".join(filter(None, parts))) + "\n"


def _shown(scores: Mapping[str, float]) -> dict[str, float]:
    sizes = Counter(key.partition("/")[0] for key in scores)
    return {
        key: score
        for key, score in scores.items()
        if sizes[key.partition("/")[0]] <= _MOST_ROWS or key.partition("/")[2].startswith("avg/")
    }


def _scores(scores: Mapping[str, float], baseline: Mapping[str, float], pooling: object) -> str:
    if not scores:
        return ""
    columns = {before_training(pooling): baseline, "trained": scores} if baseline else {"value": scores}
    rows = [[key, *(score_text(key, column.get(key)) for column in columns.values())] for key in scores]
    return _section("## Scores", _SCORES, _table(["score", *columns], rows, "---:"))


def _section(heading: str, *parts: str) -> str:
    return "\n\n".join([heading, *filter(None, parts)]) if any(parts) else ""


def _eval_results(scores: Mapping[str, float], hub_ids: Mapping[str, str]) -> "list[EvalResult]":
    from huggingface_hub import EvalResult

    results = []
    for key, value in numbers(scores).items():
        *names, metric = key.split("/")
        if not names:
            continue
        # stsb_dev/spearman and sts/stsb/spearman are both of STS-B.
        of_split = _OF_SPLIT.fullmatch(names[-1])
        name, split = (of_split[1], _SPLITS[of_split[2]]) if of_split else (names[-1], None)
        kind, of_cosine, rest = metric.partition("_")
        results.append(
            EvalResult(
                task_type=_TASKS.get(kind if kind in _CORRELATIONS else metric, "feature-extraction"),
                dataset_type=hub_ids.get(name, "-".join(names)),
                dataset_name=" ".join(names),
                dataset_split=split,
                metric_type=f"{kind}_cosine{of_cosine}{rest}" if kind in _CORRELATIONS else metric,
                metric_name=f"{metric}, times 100" if decimals(key) == 2 else metric,
                metric_value=round(value, 4),
            )
        )
    return results


def is_local(name: str) -> bool:
    """Whether a model's name is a place on this machine and not its id on the hub."""
    return not _HUB_ID.fullmatch(name) or name.startswith(".") or Path(name).exists()


def _about(settings: Plain, base_model: str | None, local: bool, dataset: str) -> str:
    sentences = ["A sentence-embedding model."]
    if dataset:
        sentences.append(f"Training started from {_origin(base_model, local)}, on {_line(dataset)}.")
    elif base_model:
        sentences.append(f"It comes from {_origin(base_model, local)}.")
    if settings:
        pooling = f"`{settings['pooling']}`{', scaled to length 1' if settings.get('normalize') else ''}"
        sentences.append(f"Pooling {pooling}; texts are cut to {settings['max_length']} tokens.")
    return " ".join(sentences)


def _origin(base_model: str | None, local: bool) -> str:
    if not base_model:
        return "random weights"
    folder = f"a model of the folder `{Path(base_model).resolve().name}`"
    return _line(folder if local else f"`{base_model}`")


def _use(folder: Path, settings: Plain, name: str) -> list[str]:
    prompt = settings.get("prompt")
    plain = prompt is None or (folder / "config_sentence_transformers.json").is_file()
    texts = '["a sentence", "another one"]'
    filled = texts if plain else f"[prompt.replace('{{text}}', text) for text in {texts}]"
    setup = "" if plain else f"prompt = {prompt!r}\n"
    parts = [
        f'```python\nfrom embedrun import Encoder\n\nvectors = Encoder.load("{name}").encode({texts})\n```',
        "```python\nfrom sentence_transformers import SentenceTransformer\n\n"
        f'{setup}vectors = SentenceTransformer("{name}").encode({filled})\n```',
        _TRANSFORMERS,
    ]
    if prompt is not None:
        # A blank line would end the code, and what follows it would be read as Markdown and HTML.
        tick = _longer_than_any(prompt, 1)
        does = "Both libraries do it by themselves." if plain else _BY_HAND
        edit = settings.get("text_edit")
        edited = f" embedrun also edits the text before (`{edit}`)." if edit else ""
        parts.append(f"Every text is put into the prompt {tick} {_line(prompt)} {tick}. {does}{edited}")
    return [*parts, *_other_notes(folder, settings)]


def _other_notes(folder: Path, settings: Plain) -> list[str]:
    notes = []
    if settings.get("pooling") in NEAREST:
        pooling = settings["pooling"]
        notes.append(
            f"The scores were made with the pooling `{pooling}`, which averages over padding, up to "
            f"{settings['padded_to']} tokens a text. sentence-transformers has no such pooling: there the "
            f"model has `{NEAREST[pooling]}`, and other vectors."
        )
    kind = str(_read(folder / "config.json").get("model_type"))
    if kind.startswith("embedrun_"):
        module = f"embedrun.backbone.{kind.removeprefix('embedrun_')}"
        notes.append(f"Its architecture comes with embedrun: `import {module}` before any other loads it.")
    if base := _read(folder / _ADAPTER).get("base_model_name_or_path"):
        name = _line(Path(base).name if is_local(base) else base)
        notes.append(f"The folder holds a LoRA adapter; loading it needs peft and its base model, `{name}`.")
    return notes


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    if not rows:
        return ""
    lines = [head, ["---", *[align] * (len(head) - 1)]]
    lines += [[_line(text).replace("|", "\\|") for text in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code(language: str, text: str) -> str:
    fence = _longer_than_any(text, 3)
    return f"{fence}{language}\n{text}\n{fence}" if text else ""


def _read(path: Path) -> Plain:
    return read_json(path) if path.is_file() else {}


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_line(line)}" for line in lines)


def _longer_than_any(text: str, least: int) -> str:
    """Backticks, more than any run of them in a text, so that they cannot be closed from inside."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))


def _line(text: str) -> str:
    return " ".join(text.split())
