"""Retrieval: 1,000 queries and 50,000 documents of MiniLM vectors, and sentence-transformers' evaluator.

Run by `make bench-ir`; EMBEDRUN_DATA=DIR has Wikipedia's sentences and NLI, MINILM=DIR the model. Documents
are distinct sentences, queries the first 1,000 without their first word; their own sentence is relevant, and
three drawn ones. The vectors are made once and kept in a file. Each arm is a process of its own; they take
turns. Time and memory are those of scoring alone.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from encode import sentences
from measure import arguments, finish, spread

from embedrun.encoder import Encoder
from embedrun.evaluation.ir import Ir
from embedrun.rows import Rows

QUERIES, DOCUMENTS = 1_000, 50_000
KEPT = Path("build/bench-ir.npz")
OTHER = "sentence-transformers"


def prepare(model: str) -> None:
    """Texts and their vectors, in a file."""
    # The model is uncased: two texts of one vector would be ranked by rounding.
    texts = list({text.lower(): text for text in sentences()}.values())[:DOCUMENTS]
    queries = [" ".join(text.split()[1:]) or text for text in texts[:QUERIES]]
    encoder = Encoder.load(model)
    vectors = {"documents": encoder.encode(texts), "queries": encoder.encode(queries)}
    KEPT.parent.mkdir(exist_ok=True)
    np.savez(KEPT, **vectors)


def relevant(many: int) -> list[list[int]]:
    """The documents of each query."""
    random = np.random.default_rng(0)
    return [list(dict.fromkeys([row, *random.integers(0, many, 3).tolist()])) for row in range(QUERIES)]


def arm(name: str) -> dict[str, Any]:
    """Seconds, bytes and nDCG@10 of one library."""
    kept = np.load(KEPT)
    documents, queries = torch.from_numpy(kept["documents"]), torch.from_numpy(kept["queries"])
    names = [f"document {row}" for row in range(len(documents))], [f"query {row}" for row in range(QUERIES)]
    places = {text: row for texts in names for row, text in enumerate(texts)}

    def encode(texts: list[str], /, *, role: str | None = None) -> torch.Tensor:
        side = documents if texts[0].startswith("document") else queries
        return side[[places[text] for text in texts]]

    judged = relevant(len(documents))
    score = ours(names, judged, encode) if name == "embedrun" else theirs(names, judged, encode)
    Path("/proc/self/clear_refs").write_text("5")  # from here on the most memory is counted anew
    before, started = _memory("VmRSS"), time.perf_counter()
    ndcg = score()
    seconds, held = time.perf_counter() - started, _memory("VmHWM") - before
    return {"seconds": seconds, "bytes": held, "ndcg@10": ndcg}


def _memory(name: str) -> int:
    """Bytes, as the kernel counts them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(name)))


def ours(names: Any, judged: Any, encode: Any) -> Any:
    """The task of `evaluation=ir`."""
    documents, queries = names
    pairs = [(query, document) for query, of_query in enumerate(judged) for document in of_query]
    texts = {
        "left": [queries[query] for query, _ in pairs],
        "right": [documents[document] for _, document in pairs],
    }
    query, document = np.array(pairs).T
    targets = {"score": np.ones(len(pairs)), "query": query, "document": document}
    rows = {
        "qrels": Rows("ir_qrels", "test", "pair", texts, targets),
        "corpus": Rows("ir_corpus", "test", "text", {"text": documents}),
    }
    return lambda: Ir(path="made").score(rows, encode).scores["ir/ndcg@10"] / 100


def _id(row: int) -> str:
    return f"{DOCUMENTS - row:06d}"


def theirs(names: Any, judged: Any, encode: Any) -> Any:
    """sentence-transformers' evaluator, with the same metrics."""
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
    from sentence_transformers.util import cos_sim

    class Model:
        similarity_fn_name, similarity = "cosine", staticmethod(cos_sim)
        model_card_data = type("Card", (), {"set_evaluation_metrics": lambda *_: None})()

        def encode(self, texts: list[str], **_: Any) -> torch.Tensor:
            return encode(texts)

    Model.encode_query = Model.encode_document = Model.encode
    # Of equal products the larger id comes first, here as there the earlier document.
    documents, queries = ({_id(row): text for row, text in enumerate(texts)} for texts in names)
    qrels = {_id(query): set(map(_id, of_query)) for query, of_query in enumerate(judged)}
    ranks = {"mrr_at_k": [10], "ndcg_at_k": [10], "map_at_k": [100], "accuracy_at_k": [10]}
    evaluator = InformationRetrievalEvaluator(
        queries, documents, qrels, precision_recall_at_k=[10, 100], write_csv=False, **ranks
    )
    return lambda: evaluator(Model())["cosine_ndcg@10"]


def main() -> int:
    """All arms in turns."""
    asked = arguments(__doc__, rounds=5)
    prepare(os.environ["MINILM"])
    found: dict[str, list[dict[str, Any]]] = {"embedrun": [], OTHER: []}
    for _ in range(asked.rounds):
        for library, results in found.items():
            command = [sys.executable, __file__, "--arm", library]
            made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            results.append(json.loads(made.splitlines()[-1]))
    results = {
        library: {
            "seconds": spread(np.array([each["seconds"] for each in every])),
            "MB": spread(np.array([each["bytes"] / 1e6 for each in every])),
            "ndcg@10": every[0]["ndcg@10"],
        }
        for library, every in found.items()
    }
    ours, theirs = results["embedrun"], results[OTHER]
    far = abs(ours["ndcg@10"] - theirs["ndcg@10"])
    verdicts = [
        (far < 1e-6, f"nDCG@10 within {far:.1g}"),
        (ours["MB"]["median"] < theirs["MB"]["median"], "less memory"),
    ]
    return finish(asked, {"queries": QUERIES, "documents": DOCUMENTS}, results, verdicts)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--arm"]:
        print(json.dumps(arm(sys.argv[2])))
        sys.exit()
    sys.exit(main())
