"""What README, CONTRIBUTING and docs/ show is there: commands, options, choices, files, links, targets."""

import contextlib
import io
import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from embedrun import errors
from embedrun.cli import COMMANDS
from embedrun.commands import reproduce, table, tune
from embedrun.commands.command_line import Parser
from embedrun.config import Checker, EvaluateConfig, presets
from embedrun.config.compose import composed, sweep
from embedrun.config.request import Request
from embedrun.curation.annotate import plan_annotate
from embedrun.curation.collect import plan_collect
from embedrun.curation.generate import plan_generate
from embedrun.evaluation.mteb import Mteb
from embedrun.experiment.plan import plan_evaluate, plan_train
from embedrun.launch.stages import stages_of

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}


def plan_evaluation(config: dict[str, Any]) -> None:
    """As `plan_evaluate`; of MTEB, only the signature, since the package takes ten seconds to import."""
    options = config["evaluation"]["tasks"].pop("mteb", None)
    checker = Checker()
    if options is None:
        plan_evaluate(config)
        return
    checker.build(EvaluateConfig, config)
    checker.signature(Mteb, options, "evaluation.tasks.mteb")
    if checker.problems:
        raise errors.ConfigError(checker.problems)


PLANS = {
    "train": plan_train,
    "check": plan_train,
    "evaluate": plan_evaluation,
    "annotate": plan_annotate,
    "generate": plan_generate,
    "collect": lambda config: plan_collect(config, None),
}
# Words that stand for something; those of folders are made as folders.
STANDS_FOR = {"WORD": "train", "TABLE": "angle/table4", "LABEL": "cls"}
FOLDERS = ("DIR", "RUN_DIR", "RUN_A", "RUN_B", "MODEL", "MINILM", "outputs/angle_stsb", "scored")
_ENDS = {"&&", "|", ";", ">"}


def commands(text: str) -> set[str]:
    """Every command line of ours in the bash blocks of a page and between its backticks."""
    blocks = [block.replace("\\\n", " ") for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL)]
    plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", plain)]
    return {found for line in lines if (found := ours(line))}


def ours(line: str) -> str | None:
    """The part of a line behind `embedrun`, up to a comment, pipe or further command."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # not a command line, such as "AnglE's"
        return None
    place = next((place for place, word in enumerate(words) if Path(word).name == "embedrun"), None)
    if place is None or any("=" not in word and word not in ("./setup", "&&") for word in words[:place]):
        return None
    own = words[place + 1 :]
    end = next((place for place, word in enumerate(own) if word in _ENDS), len(own))
    return shlex.join(STANDS_FOR.get(word, word) for word in own[:end]) or None


SHOWN = sorted({command for text in TEXTS.values() for command in commands(text)})


class Understood(Exception):  # noqa: N818 - no error
    """The command line has been parsed; what comes next is its work."""


@pytest.fixture
def _stops_when_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FOLDERS:
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "my.yaml").write_text("loss: cosent\ntraining: {lr: 2e-5}\n", encoding="utf-8")
    own = re.search(r"```yaml\n(title: .+?)```", TEXTS["docs/tables.md"], re.DOTALL)
    assert own is not None
    (tmp_path / "my_table.yaml").write_text(own[1], encoding="utf-8")


def understand(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse a command line; of one that composes, check the configuration.

    Raises:
        ConfigError: if it is refused.
    """
    word, *argv = shlex.split(command)
    assert word in COMMANDS, f"embedrun has no command {word!r}"
    if all(flag.startswith("-") for flag in argv):  # the command is spoken of, not shown
        assert set(argv) <= set(re.findall(r"-[\w-]+", helped(word)))
    elif word in PLANS:
        request = import_module(f"embedrun.commands.{word.replace('-', '_')}").parser().request(argv)
        stages = stages_of(request) if word in ("train", "check") else []
        for stage in stages:
            PLANS[stage.command](stage.job.config)  # type: ignore[arg-type]
        for job in jobs_of(request) if not stages else ():
            PLANS[word](composed(request, job).config)  # type: ignore[arg-type]
    elif word == "table":
        table.arguments_of(argv)
    elif word == "reproduce":
        reproduce.arguments_of(argv)
    elif word == "tune":
        monkeypatch.setattr("embedrun.study.tune.marks", stop)  # what reads data and models
        with pytest.raises(Understood):
            tune.main(argv)
    else:
        read = Parser.read
        monkeypatch.setattr(Parser, "read", lambda parser, argv: stop(read(parser, argv)))
        with pytest.raises(Understood):
            import_module(f"embedrun.commands.{word.replace('-', '_')}").main(argv)


def helped(word: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        import_module(f"embedrun.commands.{word.replace('-', '_')}").main(["--help"])
    return out.getvalue()


def jobs_of(request: Request) -> list[list[str]]:
    """The overrides of the one job, or of the first and the last of several."""
    several = request.multirun or composed(request).multirun
    jobs = sweep(request) if several else [list(request.overrides)]
    return [jobs[0], *jobs[1:][-1:]]


def stop(*_: object, **__: object) -> None:
    raise Understood


def test_the_commands_are_found():
    text = (
        'Say `embedrun resume RUN_DIR` or "it\'s" `embedrun/cli.py`.\n```bash\n./setup && .venv/bin/embedrun '
    )
    text += "train a=1 \\\n    b=2   # c\nzcat x | embedrun encode\nA=B embedrun runs | less\n```\n"
    assert commands(text) == {"resume RUN_DIR", "train a=1 b=2", "runs"}
    assert len(SHOWN) > 40


@pytest.mark.parametrize("first", range(0, len(SHOWN), 2))
@pytest.mark.usefixtures("_stops_when_understood")
def test_a_command_that_is_shown_is_accepted(first, monkeypatch):
    for command in SHOWN[first : first + 2]:
        with monkeypatch.context() as patch, contextlib.suppress(SystemExit):  # --help has been printed
            understand(command, patch)


@pytest.mark.usefixtures("_stops_when_understood")
def test_a_command_with_a_mistake_would_be_seen(monkeypatch):
    for command in [
        "train +experiment=angle_brt",
        "check training.learning_rate=1",
        "evaluate model=MODEL evaluation=mteb evaluation.tasks.mteb.folders=DIR",
        "runs --dif A B",
        "table angle/table44",
        "tune +experiment=quickstart 'training.l=loguniform(1e-4,1e-2)' --trials 2",
    ]:
        with monkeypatch.context() as patch, pytest.raises(errors.ConfigError):
            understand(command, patch)


def spans(text: str) -> set[str]:
    plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return {span.strip("'") for span in re.findall(r"`([^`]+)`", plain)}


def test_a_choice_between_backticks_is_one():
    for page in TEXTS:
        groups = presets.groups()
        named = [re.fullmatch(r"\+?(\w+)=([a-z]\w*)", span) for span in spans(TEXTS[page])]
        assert [one[0] for one in named if one and one[2] not in groups.get(one[1], [one[2]])] == []


def test_a_file_that_is_named_is_there():
    for page in TEXTS:
        named = re.findall(r"(?<![\w./-])((?:embedrun|conf|tests|scripts|docs)/[\w./-]*)", TEXTS[page])
        assert [name for name in named if not (ROOT / name.rstrip(".")).exists()] == []


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", plain, re.MULTILINE)}


def test_a_link_leads_somewhere():
    for page in TEXTS:
        plain = re.sub(r"```.*?```", "", TEXTS[page], flags=re.DOTALL)
        broken = []
        for link in re.findall(r"\]\(([^)\s]+)\)|\bsrc=\"([^\"]+)\"", plain):
            target = link[0] or link[1]
            if re.match(r"\w+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (ROOT / page).parent / name if name else ROOT / page
            if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
                broken.append(target)
        assert broken == []


def test_no_page_has_a_path_of_a_machine():
    assert [page for page, text in TEXTS.items() if re.search(r"/(?:home|root|tmp|work|Users)/", text)] == []


def test_contributing_has_every_target_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", TEXTS["CONTRIBUTING.md"]))
    assert targets - {"help", "setup"} <= named
    for page, text in TEXTS.items():
        assert set(re.findall(r"`make ([a-z-]+)", text)) <= targets, page


def test_the_exit_codes_are_those_of_the_code():
    section = TEXTS["docs/commands.md"].split("## Exit codes")[1]
    shown = {
        int(code) for row in re.findall(r"^\| ([\d, ]+) \|", section, re.MULTILINE) for code in row.split(",")
    }
    own = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
    assert shown == {0, *own}
