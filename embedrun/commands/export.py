"""A finished run as a folder that transformers and sentence-transformers load, with a model card."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from embedrun.commands.command_line import Parser
from embedrun.config.check import nearest
from embedrun.console import clean, say, size
from embedrun.errors import ConfigError, DataError, RunFailed, install_extra
from embedrun.files import as_written, expanded, only_writer, unwritable, whole_folder
from embedrun.runs import sums
from embedrun.runs.search import OF_MODEL, named

_EXAMPLES = """examples:
  embedrun export outputs/angle_bert/RUN my-model --repo-id NAME/my-model
  embedrun export outputs/angle_llama/RUN my-model --merge-lora
  embedrun export outputs/RUN my-model --onnx --int8 --check stsb
  embedrun export glove.6B.300d.txt glove
  HF_TOKEN=... embedrun export outputs/RUN my-model --push NAME/my-model"""
_REPO = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]*")
# Short, long enough to be cut, without letters, of other scripts, and with the marks that prompts contain.
_PROBES = [
    "A dog runs.",
    "Ein Hund läuft über die Straße, 狗在跑。",
    '"Really?"',
    "12:30",
    "one more word " * 600,
]
_CLOSE = 1e-6  # greatest difference of two vectors, times their largest number where that is over 1
_CLOSE_GRAPH = 1e-4  # of a graph, which computes in another order
_TEXTS = 200  # that a graph is held against
_CLOSE_MERGED = 1e-5  # of a sum that is rounded once more
_MAKES_CARD = (
    "a run whose config.yaml, results.json, environment.json and contamination.json make a model card"
)
_NO_CARD = "export a copy of its model folder, whose card does without"


def parser() -> Parser:
    """The parser of `embedrun export`."""
    made = Parser(
        "embedrun export",
        usage="%(prog)s RUN_DIR DEST [--merge-lora] [--license ID]\n"
        "                       [--onnx [--int8] [--check DATA]]\n"
        "                       [--repo-id OWNER/NAME] [--push OWNER/NAME [--public]]",
        description=__doc__,
        examples=_EXAMPLES,
    )
    add = made.add_argument
    what = "a finished run (directory, name, latest), a model folder, or a text file of word vectors (GloVe)"
    add("source", metavar="RUN_DIR", help=what)
    add("dest", metavar="DEST", help="the folder to make; must not exist")
    add("--merge-lora", action="store_true", help="add a LoRA adapter to its base model's weights")
    add("--onnx", action="store_true", help="also as a graph for onnxruntime (extra onnx)")
    add("--int8", action="store_true", help="with --onnx: also a graph with weights of 8 bits")
    add("--check", metavar="DATA", help="with --onnx: what a graph costs on a data set, stsb or stsb_dev")
    add("--license", metavar="ID", help="of the model, as the hub calls it: apache-2.0")
    add("--repo-id", metavar="OWNER/NAME", help="of the model on the hub, for the card")
    add("--push", metavar="OWNER/NAME", help="upload DEST there, private; the token is that of HF_TOKEN")
    add("--public", action="store_true", help="with --push: everyone sees it")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun export`; a model that gives other vectors is removed, one that the hub refuses stays."""
    given = parser().read(argv)
    from embedrun.backbone import locate

    source, target = expanded(named(given.source, OF_MODEL)), expanded(given.dest)
    _check(given, source, target)
    if source.is_file():
        return _of_vectors(given, source, target)
    folder = locate(str(source))
    sums.verify(folder, every_byte=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with only_writer(target):
        _check(given, source, target)  # another may have made it since
        with whole_folder(target) as aside:
            difference = _write(folder, aside, merge_lora=given.merge_lora, pushed=given.push is not None)
            _card(given, source, aside)
            lines = _graphs(given, aside) if given.onnx else []
    _tell(given, target, difference)
    for line in lines:
        say(line, sys.stdout)
    if given.push is not None:
        _push(given, target)
    return 0


def _check(given: argparse.Namespace, source: Path, target: Path) -> None:
    problems = _push_problems(given)
    for flag in ("int8", "check"):
        if getattr(given, flag) and not given.onnx:
            problems.append(f"--{flag}: is of the graph; add --onnx")
    if given.onnx:
        problems += [f"--onnx: {text}" for text in _lacking()] or _check_problems(given)
    if os.path.exists(target):
        again = "" if given.push is None else f"; an export that is there is uploaded by `{_upload(given)}`"
        problems.append(f"DEST: {str(target)!r} exists; an export is a new folder, name another{again}")
    elif why := unwritable(target):
        problems.append(f"DEST: {str(target)!r} cannot be made: {why}; name another")
    for flag, text, form, what in (
        ("--repo-id", given.repo_id, _REPO, "OWNER/NAME"),
        ("--push", given.push, _REPO, "OWNER/NAME"),
        ("--license", given.license, _LICENSE, "an identifier of the hub, such as apache-2.0"),
    ):
        if text is not None and not form.fullmatch(text):
            problems.append(f"{flag}: expected {what}, got {text!r}")
    if problems:
        raise ConfigError(problems)
    if not source.exists():
        near = nearest(source.name, [path.name for path in source.parent.glob("*")])
        raise DataError(
            f"no folder or file {str(source)!r}{near}; name a finished run, a model folder or a file of word "
            "vectors"
        )


def _of_vectors(given: argparse.Namespace, source: Path, target: Path) -> int:
    """Make a model folder of a file of word vectors, which takes no option."""
    from embedrun.backbone import static
    from embedrun.backbone.pretrained import quiet

    if options := [name for name, value in vars(given).items() if value and name not in ("source", "dest")]:
        told = f"is for a model, and {source.name} is a file of word vectors; leave it out"
        raise ConfigError([f"--{name.replace('_', '-')}: {told}" for name in options])
    target.parent.mkdir(parents=True, exist_ok=True)
    with only_writer(target), whole_folder(target) as aside, quiet():
        words, dim = static.convert(source, aside)
    say(f"{words:,} words of {dim} numbers: {target}", sys.stdout)
    say(f"next    embedrun evaluate model={shlex.quote(str(target))} evaluation=sts", sys.stdout)
    return 0


def _lacking() -> list[str]:
    """Packages of the extra that are not here."""
    lacks = [name for name in ("onnx", "onnxruntime", "onnxscript") if find_spec(name) is None]
    return [f"{', '.join(lacks)} cannot be imported; {install_extra('onnx')}"] if lacks else []


def _check_problems(given: argparse.Namespace) -> list[str]:
    """Why a graph cannot be held against the data set of --check."""
    from embedrun.dataset import graded
    from embedrun.dataset.named import data_split, unreadable
    from embedrun.store import Store

    if given.check is None:
        return []
    try:
        dataset, split = data_split(given.check, "test")
    except ValueError as fault:
        return [f"--check: {fault}"]
    if not graded(dataset, split):
        return [f"--check: {given.check} has no score to compare with; stsb has"]
    return unreadable([(dataset, split)], Store.find())


def _push_problems(given: argparse.Namespace) -> list[str]:
    if given.push is None:
        return ["--public: says who sees what is pushed; add --push OWNER/NAME"] if given.public else []
    from huggingface_hub import constants

    problems = []
    if given.repo_id not in (None, given.push):
        problems.append(f"--repo-id: {given.repo_id!r} is not where --push goes; leave it out")
    if not _token():
        problems.append(
            "--push: no token in the environment; make one that may write at "
            "https://huggingface.co/settings/tokens and set HF_TOKEN"
        )
    if constants.HF_HUB_OFFLINE:
        problems.append("--push: HF_HUB_OFFLINE is set, and the hub is needed; unset it")
    return problems


def _token() -> str:
    """That of the environment, and never the one that `hf auth login` keeps in a file."""
    return os.environ.get("HF_TOKEN", "").strip()


def _push(given: argparse.Namespace, target: Path) -> None:
    from embedrun.export import push

    try:
        print(clean(push(target, given.push, token=_token(), public=given.public)))
    except RunFailed as fault:
        again = f"{target} is whole and stays; to upload it: {_upload(given)}"
        raise RunFailed(f"{fault}; {again}", exit_code=fault.exit_code) from fault.__cause__


def _upload(given: argparse.Namespace) -> str:
    name, folder = given.push or given.repo_id or "OWNER/NAME", str(expanded(given.dest))
    private = " --private" if given.push and not given.public else ""
    return f"hf upload {name} {shlex.quote(folder)}{private}"


def _write(folder: Path, aside: Path, *, merge_lora: bool, pushed: bool) -> float:
    from embedrun.backbone import adapter
    from embedrun.config import BackboneConfig, PoolingConfig
    from embedrun.encoder import Encoder

    # Sums are rounded to the type of the weights, so that they are made in float32.
    config = BackboneConfig(name=str(folder), dtype="float32" if merge_lora else None)
    encoder = Encoder.build(config, PoolingConfig(), seed=0).eval()
    model = encoder.backbone.model
    if merge_lora and not adapter.has_adapter(model):
        raise ConfigError("--merge-lora: this model has no adapter; leave it out")
    before = encoder.encode(_PROBES)  # (texts, dim)
    if merge_lora:
        adapter.merge(model)
    elif adapter.has_adapter(model):
        _say_base(str(model.peft_config[adapter.NAME].base_model_name_or_path), pushed=pushed)
    encoder.save(aside)
    close = _CLOSE_MERGED if merge_lora else _CLOSE
    difference = float(abs(Encoder.load(aside).encode(_PROBES) - before).max())
    allowed = close * max(1.0, float(abs(before).max()))
    if not difference <= allowed:  # a difference that is no number is refused too
        raise RunFailed(
            f"the exported model gives other vectors: they differ by {difference:.2g}, and {allowed:.2g} is "
            "allowed; nothing was written"
        )
    return difference


def _graphs(given: argparse.Namespace, aside: Path) -> list[str]:
    """Write the graphs and hold each against the model; what to say of them."""
    from embedrun import serving
    from embedrun.dataset.named import data_split
    from embedrun.dataset.toy import Toy
    from embedrun.encoder import Encoder
    from embedrun.store import Store

    encoder, store, pairs = Encoder.load(aside), Store.find(), None
    if problems := serving.problems(encoder):
        raise ConfigError(problems)
    if given.check is not None:
        dataset, split = data_split(given.check, "test")
        pairs = dataset.read(split, store)
    serving.write(encoder, aside, int8=given.int8)
    texts = [*_PROBES, *dict.fromkeys(Toy().read("dev", store).sentences())][:_TEXTS]
    lines = []
    for name in (serving.GRAPH, serving.GRAPH_INT8)[: 1 + given.int8]:
        far, cosine = serving.farthest(encoder, aside / name, texts)
        if name == serving.GRAPH and not far <= _CLOSE_GRAPH:
            raise RunFailed(f"--onnx: the vectors of {len(texts)} texts differ by {far:.2g} from the model's")
        lines.append(
            f"{name}: {size((aside / name).stat().st_size)}; the vectors of {len(texts)} texts differ by at "
            f"most {far:.2g}, the least cosine is {cosine:.4f}"
        )
        if pairs is not None:
            before, after, change, faster = serving.cost(encoder, aside / name, pairs)
            lines.append(
                f"  {given.check}: Spearman {before:.2f} -> {after:.2f} ({change.difference:+.2f} ± "
                f"{(change.high - change.low) / 2:.2f}), {faster:.1f} times as fast as torch"
            )
    return lines


def _say_base(base: str, *, pushed: bool) -> None:
    from embedrun.card import is_local

    if not is_local(base):
        return
    problem = f"the adapter's base model is the folder {base} of this machine, which nobody else has"
    if pushed:
        raise ConfigError(f"--push: {problem}; add --merge-lora")
    say(f"note: {problem}; write its hub id into adapter_config.json, or export with --merge-lora")


def _card(given: argparse.Namespace, source: Path, aside: Path) -> None:
    from embedrun.card import card_text
    from embedrun.experiment.card import facts_of, run_of

    run = run_of(source.resolve())
    unknown = {"base_model": str(source), "dataset": "", "scores": {}, "config_yaml": ""}
    repo = given.push or given.repo_id
    title = (repo or Path(given.dest).name).rpartition("/")[2]
    with as_written(run or source, _MAKES_CARD, _NO_CARD):
        facts = unknown if run is None else facts_of(run)
        text = card_text(aside, title=title, license=given.license, repo_id=repo, **facts)
    (aside / "README.md").write_text(text, encoding="utf-8")


def _tell(given: argparse.Namespace, target: Path, difference: float) -> None:
    if given.license is None:
        say("note: the card states no licence; --license ID does, once data and base model allow it")
    files = [path for path in target.rglob("*") if path.is_file()]
    whole = f"{len(files)} files, {size(sum(path.stat().st_size for path in files))}"
    difference_text = f"the vectors of {len(_PROBES)} texts differ from the run's by at most {difference:.2g}"
    upload = "" if given.push else f"\n\n{_upload(given)}"
    say(f"{target}: {whole}; {difference_text}{upload}", sys.stdout)
