"""The answer key of the toy data set: how alike two statements are, and what one says of the other."""

from embedrun.dataset.toy_grammar import SLOTS, Meaning, Scene, Statement

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2
TOP_SCORE = 5.0

# How much each slot counts. Who and to whom weigh most, so that a pair with swapped roles, which agrees
# in every word, loses more than half of its score.
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
    r"""Similarity of two statements from 0 (nothing shared) to 5 (the same but for voice and word order).

    .. math:: 5 \, \frac{\sum_k w_k a_k}{\sum_k w_k}

    over the slots *k* that either statement fills, with :math:`w_k` from `WEIGHTS` and the agreement
    :math:`a_k`: 1 for one meaning in the same words, 0.95 for synonyms, 0.5 where one meaning is the
    more general, else 0. Rounded to hundredths; symmetric.
    """
    gained, possible = 0.0, 0
    for place, slot in enumerate(SLOTS):
        one, other = getattr(first.scene, slot), getattr(second.scene, slot)
        if one is None and other is None:
            continue
        possible += WEIGHTS[slot]
        if one is None or other is None:
            continue
        if one == other:
            ways = one.words[first.wording.choices[place]], one.words[second.wording.choices[place]]
            gained += WEIGHTS[slot] * (1.0 if ways[0] == ways[1] else SYNONYM)
        elif other in (one.broader,) or one == other.broader:
            gained += WEIGHTS[slot] * BROADER
    return round(TOP_SCORE * gained / possible, 2)


def label(premise: Scene, hypothesis: Scene) -> int:
    """What the premise says of the hypothesis, as an NLI label.

    Both are taken to tell of one event. One incompatible slot (another agent, another action, another
    place) makes a contradiction; else a slot that the hypothesis fills more exactly, or alone, makes it
    neutral; else it is entailed.
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
