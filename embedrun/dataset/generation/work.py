"""Ask, and make parts of the answers."""

from collections.abc import Callable, Mapping, Sequence

from embedrun.dataset.generation.asking import ask_all
from embedrun.dataset.generation.llm import Llm
from embedrun.dataset.generation.parts import Parts
from embedrun.dataset.generation.prompt import TEMPLATES, prompt
from embedrun.dataset.generation.responses import Responses
from embedrun.dataset.generation.sift import sift


def fill(
    blocks: Mapping[int, Sequence[str]],
    llms: Sequence[Llm],
    responses: Responses,
    parts: Parts,
    *,
    size: int,
    words: int | None,
    answered: Callable[[str, int], None],
) -> None:
    """Write the parts of the blocks.

    One language model answers everything before the next is loaded, since two may not fit in memory; the
    parts are made of the stored answers at the end. What is interrupted loses no answer.

    Args:
        blocks: sentences by number of their block.
        llms: in the order of the output.
        responses: where answers are.
        parts: where parts go.
        size: sentences to ask for.
        words: of `embedrun.dataset.generation.filter`; None keeps every negative.
        answered: called with a language model's label and the number of its new answers.

    Raises:
        DataError: if an answer is not to be had.
    """
    for llm in llms:
        try:
            for block in blocks.values():
                prompts = [prompt(kind, text, size) for text in block for kind in TEMPLATES]
                ask_all(llm, prompts, responses, lambda count, label=llm.label: answered(label, count))
        finally:
            llm.close()
    for number, block in blocks.items():
        sifted = []
        for text in block:
            answers = [
                (llm.label, {kind: responses.get(llm, prompt(kind, text, size)) for kind in TEMPLATES})
                for llm in llms
            ]
            sifted.append(sift(text, answers, size=size, words=words))
        parts.write(number, sifted)
