"""Time and memory from a Parquet file of pairs to the first training step, beside the `datasets` library.

Run by `make bench-data`; EMBEDRUN_DATA=DIR has the NLI samples, MINILM=DIR the model. The pairs are made of
the halves of real sentences, as long as those of NLI and hardly two alike. Ours is `embedrun train` for one
step of 16 pairs, on one thread and with three dev pairs, so that only the number of rows differs; it counts
until the loss of the step is in `metrics.jsonl`, with the start of Python, the model and the untrained dev
score. `datasets` reads the file, maps the bare tokenizer over it and gives a batch: ids of both texts, score.

Each measurement is a process of its own, in turn ours and theirs. Cold is with an empty cache folder, warm
with that of the cold process; the file itself is in the system's cache in both. Seconds of the processor are
those of user and system. Memory is the most anonymous memory of the process and its children, looked up every
20 ms: pages of a mapped file, which the system may drop, are not in it.
"""

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

FEWEST = 1000  # rows; the others are compared with it
ROWS = (10_000, 100_000, 1_000_000)  # --rows 10000000 takes half an hour, and 10 GB of disk
BLOCK = 50_000  # rows made at a time, a row group
REPEATED = 0.05  # share of texts that are whole sentences, which other rows may have too
BATCH = 16
EVERY = 0.02  # seconds between two looks at a process
DEV = "text1\ttext2\tscore\nA cat sleeps.\tA dog barks.\t1\nIt rains.\tSnow falls.\t2\nA house.\tA home.\t3\n"


def sentences(store: Path) -> list[str]:
    """The distinct sentences of the NLI samples that have two halves, in their order."""
    found: dict[str, None] = {}
    for name in ("snli_train_sample", "mnli_train_sample"):
        with gzip.open(store / "nli" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            for row in map(json.loads, file):
                found |= {row["premise"].strip(): None, row["hypothesis"].strip(): None}
    return [text for text in found if " " in text]


def blocks(pool: Sequence[str], rows: int) -> Iterator[dict[str, list]]:
    """The first rows of one and the same endless file, a block at a time."""
    import numpy as np

    halves = [(words[: len(words) // 2], words[len(words) // 2 :]) for words in map(str.split, pool)]
    heads, tails = ([" ".join(half) for half in each] for each in zip(*halves, strict=True))

    def texts(random: np.random.Generator) -> list[str]:
        first, second = random.integers(len(pool), size=(2, BLOCK))  # (rows,) each
        second = np.where(random.random(BLOCK) < REPEATED, first, second)  # (rows,)
        return [f"{heads[a]} {tails[b]}" for a, b in zip(first.tolist(), second.tolist(), strict=True)]

    for begin in range(0, rows, BLOCK):
        random = np.random.default_rng([7, begin])
        block = {"text1": texts(random), "text2": texts(random), "score": random.random(BLOCK).round(3) * 5}
        yield {name: values[: rows - begin] for name, values in block.items()}


def write(path: Path, pool: Sequence[str], rows: int) -> None:
    """A Parquet file of pairs with a score."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for block in blocks(pool, rows):
        table = pa.table(block)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def theirs(file: str, model: str) -> None:
    """What a program on `datasets` alone would do; runs in a process of its own."""
    from datasets import Features, List, Value, load_dataset
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{model}/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)  # as MiniLM's own files say

    def ids(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {
            to: [one.ids for one in tokenizer.encode_batch(batch[text])]
            for to, text in (("ids1", "text1"), ("ids2", "text2"))
        }

    number = List(Value("int32"))
    pairs = load_dataset("parquet", data_files=file, split="train").map(
        ids,
        batched=True,
        remove_columns=["text1", "text2"],
        features=Features({"score": Value("float64"), "ids1": number, "ids2": number}),
    )
    assert len(pairs[:BATCH]["ids1"]) == BATCH


@dataclass(frozen=True)
class Spent:
    """What a process took, or the median of several."""

    seconds: float
    processor: float  # seconds of user and system
    memory: float  # MiB, anonymous, at most


def watched(command: Sequence[str], folder: Path, cache: Path, done: Callable[[], bool]) -> Spent:
    """Run a command to its end; what it took counts until `done`, or the end."""
    one = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"XDG_CACHE_HOME": str(cache), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment |= dict.fromkeys(one, "1")
    folder.mkdir()
    start = time.perf_counter()
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=said)
        seconds = processor = memory = 0.0
        counts = True
        while process.poll() is None:
            if counts:
                times, pages = zip(*map(_of_process, _with_children(process.pid)), strict=True)
                seconds = time.perf_counter() - start
                processor, memory = max(processor, sum(times)), max(memory, sum(pages))
                counts = not done()
            time.sleep(EVERY)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{' '.join(command)} failed:\n{said.read()}")
    shutil.rmtree(folder)
    return Spent(seconds, processor, memory)


def _with_children(process: int) -> list[int]:
    try:
        listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return [process]
    return [process, *(one for child in listed for one in _with_children(int(child)))]


def _of_process(process: int) -> tuple[float, float]:
    """Seconds of the processor, of children that have ended too, and MiB of anonymous memory now."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:  # it has just ended
        return 0.0, 0.0
    pages = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")]
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK"), int(pages[0]) / 1024 if pages else 0.0


def measure(folder: Path, file: Path, model: str) -> dict[tuple[str, str], Spent]:
    """Both ways, cold and warm, by who and how."""
    dev, run = folder / "dev.tsv", folder / "run"
    dev.write_text(DEV)
    ours = [sys.executable, "-P", "-m", "embedrun", "train", "dataset=pairs", f"dataset.path={file}"]
    ours += [f"dataset.dev={dev}", f"backbone.name={model}", "loss=cosent", "evaluation=none", "gpu=cpu"]
    ours += ["gpu.threads=1", f"training.batch_size={BATCH}", "training.max_steps=1"]
    commands = {"ours": ours, "datasets": [sys.executable, __file__, "--datasets", str(file), model]}

    def step_is_done() -> bool:
        return any('"name": "loss"' in path.read_text() for path in run.glob("outputs/*/*/metrics.jsonl"))

    found = {}
    for how in ("cold", "warm"):
        for who, command in commands.items():
            done = step_is_done if who == "ours" else lambda: False
            found[who, how] = watched(command, run, folder / f"cache-{who}", done)
            print(f"{file.stem} rows, {who}, {how}: {found[who, how]}", file=sys.stderr, flush=True)
    for who in commands:
        shutil.rmtree(folder / f"cache-{who}")
    return found


Measured = dict[tuple[int, str, str], Spent]  # by rows, who and how


def table(found: Measured) -> Iterator[str]:
    """The measurements in Markdown."""
    kinds = [f"{how} {what}" for how in ("cold", "warm") for what in ("s", "CPU s", "MiB")]
    yield f"| rows | | {' | '.join(kinds)} | warm, more CPU s | warm, more MiB |"
    yield "| ---: | --- |" + " ---: |" * (len(kinds) + 2)
    for rows, who in dict.fromkeys((rows, who) for rows, who, _ in found):
        each = [found[rows, who, how] for how in ("cold", "warm")]
        cells = [
            text
            for one in each
            for text in (f"{one.seconds:.1f}", f"{one.processor:.1f}", f"{one.memory:.0f}")
        ]
        least = found[FEWEST, who, "warm"]
        more = (f"{each[1].processor - least.processor:+.1f}", f"{each[1].memory - least.memory:+.0f}")
        yield f"| {rows:,} | {who} | {' | '.join((*cells, *more))} |"
    for rows in dict.fromkeys(rows for rows, *_ in found):
        cold, warm = (
            found[rows, "ours", how].processor / found[rows, "datasets", how].processor
            for how in ("cold", "warm")
        )
        yield f"| {rows:,} | ours / datasets | | {cold:.2f} | | | {warm:.2f} | | | |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help=f"beside {FEWEST:,}")
    parser.add_argument("--times", type=int, default=1, help="each is measured; the median counts")
    parser.add_argument("--datasets", nargs=2, metavar=("FILE", "MODEL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.datasets:
        theirs(*arguments.datasets)
        return 0
    pool = sentences(Path(os.environ["EMBEDRUN_DATA"]))
    every: dict[tuple[int, str, str], list[Spent]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for rows in dict.fromkeys((FEWEST, *arguments.rows)):
            file = folder / f"{rows}.parquet"
            write(file, pool, rows)
            for _ in range(arguments.times):
                for (who, how), spent in measure(folder, file, os.environ["MINILM"]).items():
                    every.setdefault((rows, who, how), []).append(spent)
            file.unlink()
    found = {
        key: Spent(
            *(median(getattr(one, name) for one in all_) for name in ("seconds", "processor", "memory"))
        )
        for key, all_ in every.items()
    }
    print("\n".join(table(found)), "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
