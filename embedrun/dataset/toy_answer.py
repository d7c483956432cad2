"""The answer key of the toy data set: how alike two statements are, and whether one implies the other."""

from embedrun.dataset.toy_grammar import SLOTS, Meaning, Scene, Statement

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2

TOP_SCORE = 5.0
# How much each slot counts. Who and to whom weigh most: a pair with swapped roles can agree in every word,
# and still loses at least half of its score.
WEIGHTS = {
    "agent": 8,
    "agent_count": 1,
    "action": 6,
    "patient": 8,
    "patient_count": 1,
    "tool": 2,
    "place": 2,
    "time": 2,
}
SYNONYM = 0.95  # agreement of one meaning said in two ways
BROADER = 0.5  # agreement of a meaning and the more general one that it implies


def score(first: Statement, second: Statement) -> float:
    r"""Similarity of two statements, from 0 for nothing shared to 5 for the same but for voice and order.

    .. math:: 5 \, \frac{\sum_k w_k a_k}{\sum_k w_k}

    over the slots *k* that either statement fills, with :math:`w_k` from `WEIGHTS` and the agreement
    :math:`a_k`: 1 for one meaning in the same words, 0.95 for synonyms, 0.5 where one meaning is the
    more general one, else 0. Symmetric; rounded to hundredths.
    """
    gained, possible = 0.0, 0
    for index, slot in enumerate(SLOTS):
        one, other = getattr(first.scene, slot), getattr(second.scene, slot)
        if one is None and other is None:
            continue
        possible += WEIGHTS[slot]
        if one is None or other is None:
            continue
        if one == other:
            same_words = one.words[first.wording.ways[index]] == one.words[second.wording.ways[index]]
            gained += WEIGHTS[slot] * (1.0 if same_words else SYNONYM)
        elif _implies(one, other) or _implies(other, one):
            gained += WEIGHTS[slot] * BROADER
    return round(TOP_SCORE * gained / possible, 2)


def label(premise: Scene, hypothesis: Scene) -> int:
    """Whether the hypothesis follows from the premise, as an NLI label.

    Both are taken to tell of one event. One incompatible slot (another agent, action, place) makes a
    contradiction; else a slot that the hypothesis alone fills, or fills more exactly, makes it neutral;
    else it is entailed.
    """
    answer = ENTAILMENT
    for slot in SLOTS:
        known, claimed = getattr(premise, slot), getattr(hypothesis, slot)
        if known == claimed or _implies(known, claimed):
            continue
        if not _implies(claimed, known):
            return CONTRADICTION
        answer = NEUTRAL
    return answer


def _implies(exact: Meaning | None, general: Meaning | None) -> bool:
    return exact is not None and (general is None or exact.broader == general)
