"""From the name of a model to a folder on this machine."""

import contextlib
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from embedrun.backbone.declared import read_config, read_mapping
from embedrun.backbone.of_run import has_head, is_checkpoint, recipe, run_of, verify
from embedrun.config import nearest
from embedrun.errors import ConfigError, DataError
from embedrun.files import expanded
from embedrun.runs import sums
from embedrun.runs.reading import RunFiles
from embedrun.runs.search import FORMS, near_models, refuse_code, settle
from embedrun.store.hub import fetched

PATIENCE = 6.0  # seconds until the hub counts as out of reach
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_FILES = ["*.json", "*.safetensors", "*vocab.txt", "*merges.txt", "*.model", "*.jinja"]
_ADAPTER = "adapter_config.json"
_NEXT_STEPS = f"Name {FORMS}, or try `embedrun train +experiment=quickstart`, which downloads nothing"
_NO_NAME = "no run or folder here has this name"
# A tokenizer is whole with one of these, or with both of the others.
_TOKENIZER = ("tokenizer.json", "tekken.json", "byte_maps.json", "*vocab.txt", "*.model", "*.tiktoken")
_HALVES_OF_TOKENIZER = ("*vocab.json", "*merges.txt")


def locate(name: str, revision: str | None = None) -> Path:
    """The folder of a whole model, an adapter or a checkpoint, downloaded if need be.

    Args:
        name: a local folder, a finished run directory (its ``model/`` is meant), a checkpoint of a run,
            ``run:NAME`` for the newest finished run of that name, or a hub id. A local path takes precedence.
        revision: commit, branch or tag of a hub id; None: the newest.

    Raises:
        DataError: if there is no such model, it is not complete, or it is not in the hub's cache and the hub
            does not answer in `PATIENCE` seconds.
        ConfigError: for a revision of a local folder.
    """
    name = settle(name)
    if not is_here(name):
        _check_hub_id(name)
        return _checked(name, _from_hub(name, revision))
    folder = expanded(name)
    if revision is not None:
        raise ConfigError(
            f"revision: {revision!r} is for a hub id, and {name} is a folder here; leave revision null"
        )
    if (run := _run_of(folder)) is not None:
        refuse_code(run)
    if is_checkpoint(folder):
        verify(folder)
        _check_rest(folder)
        return folder
    return _checked(name, _model_of_run(folder) if run == folder else folder)


def require(name: str | None, revision: str | None) -> None:
    """Refuse as `locate` does, but download nothing: a model that only the hub can have is left to it."""
    from huggingface_hub import constants

    if name is not None and (is_here(name := settle(name)) or constants.HF_HUB_OFFLINE):
        locate(name, revision)
    elif name is not None:
        _check_hub_id(name)


def is_here(name: str) -> bool:
    """Whether a name is that of a file or folder here; a very long one, for example, is not."""
    try:
        return expanded(name).exists()
    except (OSError, ValueError):  # too long; with a character of no path
        return False


def _run_of(folder: Path) -> Path | None:
    """The run directory that a folder is, or that it is the model or a checkpoint of; None for any other."""
    if is_checkpoint(folder):
        return run_of(folder)
    for place in (folder, *([folder.parent] if folder.name == "model" else [])):
        if (place / "status.json").is_file() or (place / "results.json").is_file():
            return place
    return None


def commit_of(folder: Path) -> str | None:
    """The commit that a folder of the hub's cache holds; None for any other folder."""
    return folder.name if folder.parent.name == "snapshots" else None


def _model_of_run(run: Path) -> Path:
    if (run / "model").is_dir():
        return run / "model"
    state = RunFiles(run).status.get("state", "unknown")
    raise DataError(
        f"model {str(run)!r}: a run directory without model/ (state: {state}). A training run writes it when "
        f"it finishes; name a finished run"
    )


def _check_rest(checkpoint: Path) -> None:
    run = run_of(checkpoint)
    made = recipe(run)
    if has_head(checkpoint) and not made.drops_head:
        raise DataError(
            f"model {str(checkpoint)!r}: its pooling ends in a trained layer, and only a finished run has it "
            f"in usable form; name {run} once it has finished"
        )
    if (run / "model").is_dir():
        _checked(str(run), run / "model")
    elif made.backbone.name is None:
        raise DataError(
            f"model {str(checkpoint)!r}: its backbone is trained from scratch, and the vocabulary is written "
            f"when the run finishes; finish it first: embedrun resume {run}"
        )
    else:
        with _needed_by(f"{checkpoint}: the model that its run started from is needed"):
            locate(made.backbone.name, made.backbone.revision)


@contextlib.contextmanager
def _needed_by(what: str) -> Iterator[None]:
    try:
        yield
    except DataError as fault:
        raise DataError([f"{what}: {problem}" for problem in fault.problems]) from fault


def _check_hub_id(name: str) -> None:
    folder = Path(name)
    if folder.parts[:1] == ("outputs",) and Path("outputs").is_dir():  # no owner on the hub
        raise _unknown(name, _NO_NAME, near_models(name))
    is_path = name.startswith((".", "/", "~")) or name.endswith("/") or name.count("/") > 1
    if is_path or not _HUB_ID.fullmatch(name):
        siblings = [path.name for path in folder.parent.iterdir()] if is_here(str(folder.parent)) else []
        raise _unknown(name, "no such folder" if is_path else _NO_NAME, nearest(folder.name, siblings))


def _unknown(name: str, reason: str, hint: str) -> DataError:
    return DataError(f"model {name!r}: {reason}{hint}{'' if hint.endswith('?') else '.'} {_NEXT_STEPS}")


def base_of(folder: Path) -> Path | None:
    """The folder of the model that the adapter in a folder belongs to; None: the folder has a whole model."""
    if not _is_adapter(folder):
        return None
    config = read_mapping(folder / _ADAPTER)
    name = config.get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise DataError(f"{folder / _ADAPTER}: names no base model (base_model_name_or_path)")
    here = is_here(name)
    if here and _is_adapter(expanded(name)):
        raise DataError(f"{folder / _ADAPTER}: its base, {name}, is an adapter itself; merge that one first")
    with _needed_by(f"{folder} holds an adapter, and its base is needed"):
        return locate(name, None if here else config.get("revision"))


def _is_adapter(folder: Path) -> bool:
    return (folder / _ADAPTER).is_file() and not (folder / "config.json").is_file()


def _checked(name: str, folder: Path) -> Path:
    sums.verify(folder)
    if _is_adapter(folder):
        base_of(folder)
        has_tokenizer = (folder / "tokenizer_config.json").is_file()  # its own, in place of the base's
        problem = lacking(folder) if has_tokenizer else None
        if not (folder / "adapter_model.safetensors").is_file():
            problem = f"{folder} holds an adapter without adapter_model.safetensors"
    elif not (folder / "config.json").is_file():
        problem = f"{folder} is not a model folder: it has no config.json. {_NEXT_STEPS}"
    elif not has_weights(folder):
        problem = (
            f"{folder} holds no weights (*.safetensors; torch's own files can hold code, and are not read). "
            f"{_NEXT_STEPS}"
        )
    else:
        read_config(folder)
        problem = lacking(folder)
    if problem is not None:
        raise DataError(f"model {name!r}: {problem}")
    return folder


def has_weights(folder: Path) -> bool:
    """Whether the weights of a whole model are in a folder."""
    return any(folder.glob("*.safetensors"))


def lacking(folder: Path) -> str | None:
    """Which files of a tokenizer a model folder lacks, as a sentence; None: they are there."""

    def there(pattern: str) -> bool:
        # An interrupted copy can leave an empty file.
        return any(path.is_file() and path.stat().st_size for path in folder.glob(pattern))

    if any(map(there, _TOKENIZER)) or all(map(there, _HALVES_OF_TOKENIZER)):
        return None
    return (
        f"{folder} has no tokenizer, or half of one: it needs tokenizer.json, or vocab.txt, or vocab.json "
        "with merges.txt, or a SentencePiece file (*.model); copy or download the folder again, or name "
        "another"
    )


def _from_hub(name: str, revision: str | None) -> Path:
    from huggingface_hub import HfApi

    get = partial(fetched, name, revision=revision, allow_patterns=_FILES)
    try:
        # First, or the hub would be waited for with each file.
        HfApi().model_info(name, revision=revision, timeout=PATIENCE)
        return get()
    except Exception as fault:  # network failures have no common exception class
        with contextlib.suppress(OSError, ValueError):
            return get(local_files_only=True)
        reason = f"{_NO_NAME}, nor has the hub's cache, and the hub {_why(fault)}"
        raise _unknown(name, reason, near_models(name)) from fault


def _why(fault: Exception) -> str:
    from huggingface_hub import errors

    match fault:
        case errors.GatedRepoError():
            return "lets only approved users load it: ask on its page, then `hf auth login`"
        case errors.RepositoryNotFoundError():
            return "has no model of this name, or it is private"
        case errors.RevisionNotFoundError():
            return "has no such revision of it"
        case errors.OfflineModeIsEnabled():
            return "cannot be reached (offline mode: HF_HUB_OFFLINE is set)"
    line = (str(fault).strip() or "no answer").splitlines()[0]
    return f"cannot be reached ({type(fault).__name__}: {line})"
