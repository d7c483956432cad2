"""The rows of conf/table: every table whole, and every run of a row composed and planned without data."""

import importlib.util
import json
import shlex
from collections import Counter
from functools import cache
from typing import Any

import pytest

from embedrun.config import presets
from embedrun.config.compose import composed
from embedrun.config.request import Request
from embedrun.curation.generate import plan_generate
from embedrun.experiment.plan import plan_evaluate, plan_train
from embedrun.runs.directory import config_hash
from embedrun.table import Cell, load, names

# Rows of each kind: train, evaluate, quoted, statistics.
ROWS = {
    "angle/few_labels": (15, 0, 0, 0),  # 3 objectives, 5 parts
    "angle/figure1": (0, 4, 0, 0),  # the printed figure is a function; ours are BERT, SBERT, SimCSE and AnglE
    "angle/figure3": (0, 0, 0, 1),  # shares of long texts
    "angle/figure5": (0, 3, 0, 0),  # AnglE, SimCSE, SBERT
    "angle/isp": (1, 0, 0, 0),  # with and without, Sec. 4.4, and their difference
    "angle/retrieval": (0, 3, 0, 0),  # AnglE, SimCSE, SBERT, Sec. 4.5
    "angle/table1": (0, 0, 0, 3),
    "angle/table2": (15, 8, 7, 0),  # 18 of the newest version, 1 and 6 of the two before it, 4 batch sizes
    "angle/table3": (4, 0, 0, 0),  # of five runs each
    "angle/table4": (11, 0, 0, 0),  # 6 objectives, 5 poolings
    "angle/table5": (5, 1, 1, 0),
    "angle/table6": (0, 6, 2, 0),
    "arccse/batch_size": (6, 0, 0, 0),  # 8, 16, 32 in two readings
    "arccse/figure1": (0, 3, 0, 0),  # BERT, SimCSE, ArcCSE
    "arccse/figure4": (11, 0, 0, 0),  # 0 to 20 degrees by 2
    "arccse/figure5": (10, 0, 0, 0),  # 0.01 to 0.1 by 0.01
    "arccse/figure6": (24, 0, 0, 0),  # r1 of 10 to 25 %, rd of 10 to 35 %, each by 5
    "arccse/figure7": (13, 0, 0, 0),  # 0 to 1.2 by 0.1
    "arccse/geometry": (0, 5, 0, 0),  # BERT, SimCSE, ArcCSE and its two terms
    "arccse/searched": (2, 0, 0, 0),  # the best of three batch sizes
    "arccse/table1": (10, 5, 5, 0),  # 11 base, 3 large, 3 and 3 SBERT
    "arccse/table2": (0, 7, 2, 0),  # 6 base, 3 large
    "arccse/table3": (3, 0, 0, 0),
    "raoe/figure1": (0, 0, 0, 7),
    "raoe/geometry": (0, 5, 0, 0),  # both stages, two ablations, SimCSE
    "raoe/table1": (17, 3, 3, 0),  # 4 others, BERT 7 and 3, ModernBERT 3 and 3, Qwen 3
    "raoe/table10": (0, 20, 1, 0),  # BERT 9 and 3, ModernBERT 3 and 3, Qwen 3
    "raoe/table11": (0, 12, 0, 0),  # 4 backbones of 3
    "raoe/table2": (0, 8, 0, 0),  # BERT 4 and 2, Qwen 2
    "raoe/table3": (0, 8, 0, 0),  # 4 backbones of 2
    "raoe/table4": (5, 0, 0, 0),
    "raoe/table5": (6, 0, 0, 0),  # 2 backbones of 3
    "raoe/table6": (3, 0, 0, 0),
    "raoe/table7": (3, 0, 0, 0),  # of two runs each
    "raoe/table8": (3, 0, 0, 0),
    "raoe/table9": (3, 0, 0, 0),  # of two runs each
    "study/sick": (7, 0, 0, 0),
    "study/cut": (10, 0, 0, 0),
    "study/stages": (4, 0, 0, 0),
}
GROUPS = presets.groups()
GEOMETRY = ("alignment", "uniformity", "anisotropy", "saturation", "gradient", "wasserstein")
HAS_MTEB = importlib.util.find_spec("mteb") is not None


def cells(name: str) -> list[Cell]:
    """The runs of a table, each once."""
    found = (cell for row in load(name).rows for cell in row.cells if cell.not_runnable is None)
    return list(dict.fromkeys(found))


@cache
def configuration(command: str, overrides: tuple[str, ...]) -> dict[str, Any]:
    """What is composed, not to be changed."""
    return dict(composed(Request(command, overrides), strict=True).config)


def test_every_table_has_all_its_rows():
    found = {}
    for name in names():
        kinds = Counter(row.kind for row in load(name).rows)
        found[name] = tuple(kinds[kind] for kind in ("train", "evaluate", "quoted", "statistics"))
        print(f"{name}: {len(load(name).rows)} rows, {dict(kinds)}")
    assert found == ROWS


def test_a_row_that_starts_from_a_run_names_an_experiment():
    overrides = {one for name in names() for cell in cells(name) for one in cell.overrides}
    runs = {one.partition("=run:")[2] for one in overrides if "=run:" in one}
    assert runs - {*GROUPS["experiment"]} == set()


@pytest.mark.parametrize("name", ROWS)
def test_rows_name_columns_of_their_table_and_stand_there_once(name: str):
    table = load(name)
    columns = {column.heading for column in table.columns}
    named = [part for column in table.columns for part in column.parts]
    for row in table.rows:
        named += [*row.published, *row.parts, *row.keys]
        assert bool(row.keys) == (row.kind == "statistics"), row.id
        assert (row.x is not None) == (table.figure is not None), row.id
        assert all(cell.overrides or cell.not_runnable for cell in row.cells), row.id
    assert columns >= {*named}
    assert (table.kind == "figure") == (table.figure is not None)
    assert len({row.id for row in table.rows}) == len(table.rows)


# One of each form by default: a figure, a difference, parts and evaluations, and speed.
BY_DEFAULT = ("angle/figure5", "angle/isp", "raoe/table2", "raoe/table4")


@pytest.mark.parametrize(
    "name", [name if name in BY_DEFAULT else pytest.param(name, marks=pytest.mark.slow) for name in ROWS]
)
def test_every_run_is_planned_and_gives_the_numbers_of_its_columns(name: str):
    columns = {column.heading: column for column in load(name).columns}
    planned: dict[str, set[str]] = {}
    for cell in cells(name):
        config = configuration(cell.command, cell.overrides)
        if "mteb" in config["evaluation"]["tasks"] and not HAS_MTEB:
            continue
        # Evaluations of one table differ in little but the model, of which a plan asks nothing.
        like = json.dumps({key: value for key, value in config.items() if key != "model"})
        if like not in planned:
            planned[like] = keys(plan_train(config) if cell.command == "train" else plan_evaluate(config))
        given = planned[like]
        for heading in cell.headings:
            assert columns[heading].speed or columns[heading].key.removesuffix("_clean") in given, (
                cell.overrides,
                heading,
            )


def keys(plan: Any) -> set[str]:
    """Keys of the scores of a run that the tables read."""
    found = set()
    for task in plan.tasks.values():
        match type(task).__name__:
            case "Sts":
                found |= {f"sts/{name}/spearman" for name in task.sets}
                found |= {"sts/avg/spearman"} if len(task.sets) == 7 else set()
            case "Senteval":
                found |= {f"senteval/{name}/accuracy_{task.protocol}" for name in (*task.tasks, "avg")}
            case "Retrieval":
                found |= {f"retrieval/{name}/strict_accuracy" for name in task.sets}
            case "Geometry":
                found |= {
                    f"geometry/{name}"
                    for name in (*GEOMETRY, *(("triplet_order",) if task.triplet_order else ()))
                }
            case "Mteb":
                kinds = {choice.category for choice in task._choices}
                found |= {"mteb/avg/score"} | {f"mteb/avg.{kind}/score" for kind in kinds}
            case "Heldout":
                found.add(f"{plan.dataset.name}_{task.split}/spearman")
    return found | ({f"{plan.dev.name}_dev/spearman"} if hasattr(plan, "dev") else set())


@pytest.mark.slow
def test_a_model_behind_angles_prompt_gets_the_edit_of_its_texts():
    prompted = [
        config
        for cell in cells("angle/table2")
        if (config := configuration(cell.command, cell.overrides))["evaluation"]["prompt"]
    ]
    assert [config["evaluation"]["text_edit"] for config in prompted] == ["angle_llm"]


@pytest.mark.parametrize(
    "tables", [("angle/table4", "raoe/table6"), pytest.param(names(), marks=pytest.mark.slow)], ids=len
)
def test_runs_of_one_name_are_one_configuration(tables):
    # `run:NAME` takes the newest run of a name: no variant may go by the name of an experiment.
    found: dict[str, set[str]] = {}
    for name in tables:
        for cell in cells(name):
            if cell.command == "train":
                config = configuration(cell.command, cell.overrides)
                found.setdefault(config["name"], set()).add(config_hash(config))
    for experiment in set(found) & set(GROUPS["experiment"]):
        found[experiment].add(config_hash(configuration("train", (f"+experiment={experiment}",))))
    assert [name for name, hashes in found.items() if len(hashes) > 1] == []


def test_the_timed_rows_of_raoe_differ_in_their_objective_alone():
    found = []
    for cell in cells("raoe/table4"):
        config = configuration(cell.command, cell.overrides)
        training = config["training"]
        assert training["micro_batch_size"] is None, cell.overrides  # each text is encoded once
        same = {
            key: training[key] for key in ("batch_size", "accumulate", "gradient_checkpointing", "batching")
        }
        lengths = {group: config[group]["max_length"] for group in ("backbone", "evaluation")}
        passes = plan_train(config).losses[""].passes
        found.append((same | config["gpu"] | lengths, config["backbone"]["name"], len(passes)))
    assert found == [found[0]] * 5
    assert (found[0][0]["batch_size"], found[0][0]["backbone"], found[0][0]["evaluation"]) == (512, 64, 512)
    assert found[0][2] == 2  # texts of a row


def test_infonce_of_raoe_trains_on_the_rows_of_raoe_with_positives_by_label():
    infonce, *_, raoe = (configuration(cell.command, cell.overrides) for cell in cells("raoe/table4"))
    assert infonce["dataset"] == raoe["dataset"]
    assert infonce["loss"]["terms"]["in_batch_negatives"]["positive_by"] == "label"
    assert {key for key in infonce if infonce[key] != raoe[key]} == {"loss", "name"}


def test_simcse_with_and_without_neutral_pairs_differs_in_a_column_of_negatives_alone():
    _, simcse, _ = load("raoe/table9").rows
    both, without = (configuration(cell.command, cell.overrides) for cell in simcse.cells)
    assert both["dataset"] == without["dataset"] | {"neutral": "column"}
    assert {key for key in both if both[key] != without[key]} == {"dataset", "name"}


@pytest.mark.slow
def test_raoes_teachers_have_one_name_everywhere():
    teachers = configuration("annotate", ("output=x",))["teachers"]
    names = [one["name"] for one in teachers]
    assert names == ["Lajavaness/bilingual-embedding-large", "jinaai/jina-embeddings-v3-hf"]
    taught = [configuration("train", cell.overrides)["training"]["teachers"] for cell in cells("raoe/table4")]
    assert [one for one in taught if one] == [teachers, teachers]
    scored = [
        configuration("evaluate", cell.overrides)
        for cell in cells("raoe/table1")
        if cell.command == "evaluate"
    ]
    assert {*names} < {config["model"] for config in scored}
    for file in ("experiment/raoe_s1_bert", "loss/mse_teacher"):
        text = (presets.folder() / f"{file}.yaml").read_text(encoding="utf-8")
        assert all(name in text for name in names), file


def test_the_pairs_of_each_language_model_have_their_command():
    commands = {row.label: row.before for row in load("angle/table5").rows if row.before}
    found = {}
    for label, command in commands.items():
        words = shlex.split(command)
        assert words[:2] == ["embedrun", "generate"]
        config, _, _ = plan_generate(configuration("generate", tuple(words[2:])))
        found[label] = (config.output, [llm.kind for llm in config.llms], config.filter_small_differences)
    assert found == {
        "AnglE-BERT + ChatGPT": ("generated/chatgpt", ["http"], 5),
        "AnglE-BERT + LLaMA": ("generated/llama", ["local"], None),
        "AnglE-BERT + ChatGLM": ("generated/chatglm", ["http"], None),
        "AnglE-BERT + Ensemble": ("generated/ensemble", ["http", "local", "http"], 5),
    }
    for row in load("angle/table5").rows:
        paths = [one for cell in row.cells for one in cell.overrides if one.startswith("dataset.path=")]
        if row.label in found:
            assert paths == [f"dataset.path={found[row.label][0]}/pairs.jsonl.gz"]


def test_sbert_on_stsb_is_the_recipe_of_sbert():
    (row,) = load("angle/table3").find("SBERT")
    (cell,) = (cell for cell in row.cells if cell.headings == ("STS-B",))
    config = configuration(cell.command, cell.overrides)
    training = config["training"]
    assert config["loss"]["terms"] == {"mse": {"weight": 1.0, "source": "precomputed", "scores": [0, 5]}}
    assert config["backbone"]["name"] == "google-bert/bert-base-uncased"
    assert config["pooling"]["name"] == "mean"
    assert (training["batch_size"], training["lr"], training["warmup_ratio"]) == (16, 2e-5, 0.1)


def test_the_optimum_of_a_figure_is_one_of_its_points():
    for name in names():
        table = load(name)
        if table.figure is not None:
            points = {(row.x, row.line) for row in table.rows}
            assert len(points) == len(table.rows)
            assert (table.figure.best, table.figure.best_line) in points
            assert all(cell.headings and table.figure.y for row in table.rows for cell in row.cells)


@pytest.mark.slow
def test_the_run_of_a_figures_point_has_the_value_of_the_point():
    options = {
        "figure4": lambda config: config["loss"]["terms"]["arccon"]["margin"],
        "figure5": lambda config: config["loss"]["terms"]["arccon"]["temperature"],
        "figure6": lambda config: (
            config["dataset"]["masking"]["second"] - config["dataset"]["masking"]["first"]
        ),
        "figure7": lambda config: config["loss"]["terms"]["masked_triplet"]["weight"],
    }
    for name, value in options.items():
        for row in load(f"arccse/{name}").rows:
            config = configuration("train", row.cells[0].overrides)
            assert value(config) == pytest.approx(row.x)
            if row.line is not None:
                assert config["dataset"]["masking"]["first"] == row.line
