"""Ask one language model many prompts, and keep each answer as soon as it is there."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from embedrun.dataset.generation.llm import Llm
from embedrun.dataset.generation.responses import Responses


def ask_all(llm: Llm, prompts: Sequence[str], responses: Responses, answered: Callable[[int], None]) -> None:
    """Get the answers that are not stored yet, and store them.

    Prompts go together in groups that depend on all prompts alone, and a group that lacks an answer is
    asked whole: what is decoded together can change the last bits of a local model's numbers, and a run
    that was interrupted must give what one that was not gives.

    Args:
        llm: asked.
        prompts: in any order; repeats are asked once.
        responses: where answers are.
        answered: called with the number of prompts that have just got an answer.

    Raises:
        DataError: if an answer is not to be had. What has been answered until then is kept.
    """
    # By length, so that what is padded to one length has nearly that length.
    ordered = sorted(dict.fromkeys(prompts), key=lambda prompt: (len(prompt), prompt))
    groups = [ordered[start : start + llm.together] for start in range(0, len(ordered), llm.together)]
    wanted = [group for group in groups if not all(responses.has(llm, prompt) for prompt in group)]
    answered(len(ordered) - sum(map(len, wanted)))

    def ask(group: list[str]) -> int:
        for prompt, answer in zip(group, llm.ask(group), strict=True):
            responses.keep(llm, prompt, answer)
        return len(group)

    if llm.parallel == 1:
        for group in wanted:
            answered(ask(group))
        return
    with ThreadPoolExecutor(llm.parallel) as pool:
        waiting = [pool.submit(ask, group) for group in wanted]
        try:
            for one in as_completed(waiting):
                answered(one.result())
        except BaseException:
            llm.stop()  # of the requests that are under way, those that get an answer still keep it
            pool.shutdown(wait=False, cancel_futures=True)
            raise
