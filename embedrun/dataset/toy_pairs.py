"""How pairs and triples of statements are drawn for the toy data set.

A word count should not solve the task: pairs that mean the same are mostly said in other words, and
pairs that do not (roles swapped, action turned into its opposite) mostly in the same words.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from embedrun.dataset.toy_grammar import OPTIONAL_SLOTS, SLOTS, Meaning, Scene, Statement, Wording
from embedrun.dataset.toy_lexicon import ACTIONS, BEINGS, COUNTS, OPPOSITES, PLACES, TIMES, TOOLS

T = TypeVar("T")
import os
FILL=float(os.environ.get('FILL','.35'))
PASSIVE=float(os.environ.get("PASSIVE",".25")); TIME_FIRST=float(os.environ.get("TF",".25"))


def _chance(rng: np.random.Generator, probability: float) -> bool:
    return rng.random() < probability


def _pick(rng: np.random.Generator, values: Sequence[T]) -> T:
    return values[int(rng.random() * len(values))]


def _pick_other(rng: np.random.Generator, values: Sequence[T], *taken: T | None) -> T:
    return _pick(rng, [value for value in values if value not in taken])


def draw_scene(rng: np.random.Generator) -> Scene:
    """A random scene of two different beings; each optional slot is filled in half of the scenes."""
    agent, action = _pick(rng, BEINGS), _pick(rng, ACTIONS)
    return Scene(
        agent=agent,
        agent_count=_draw_count(rng),
        action=action,
        patient=_pick_other(rng, BEINGS, agent),
        patient_count=_draw_count(rng),
        tool=_pick(rng, TOOLS[action]) if _chance(rng, FILL) else None,
        place=_pick(rng, PLACES) if _chance(rng, FILL) else None,
        time=_pick(rng, TIMES) if _chance(rng, FILL) else None,
    )


def _draw_count(rng: np.random.Generator) -> Meaning:
    return COUNTS[0] if _chance(rng, 0.5) else _pick(rng, COUNTS[1:])


def _generalise(rng: np.random.Generator, scene: Scene) -> Scene:
    """One to three slots become more general: the broader meaning, or nothing."""
    values = {slot: getattr(scene, slot) for slot in SLOTS}
    for slot in rng.permutation([slot for slot, value in values.items() if _can_widen(slot, value)])[
        : 1 + int(rng.random() * 3)
    ]:
        broader = values[slot].broader
        drop = slot in OPTIONAL_SLOTS and (broader is None or _chance(rng, 0.5))
        values[slot] = None if drop else broader
    return Scene(**values)


def _can_widen(slot: str, value: Meaning | None) -> bool:
    return value is not None and (slot in OPTIONAL_SLOTS or value.broader is not None)


def _swap(rng: np.random.Generator, scene: Scene) -> Scene:
    """Agent and patient change roles; with their numbers, or the numbers stay."""
    swapped = replace(scene, agent=scene.patient, patient=scene.agent)
    if _chance(rng, 0.5):
        swapped = replace(swapped, agent_count=scene.patient_count, patient_count=scene.agent_count)
    return swapped


def _oppose(rng: np.random.Generator, scene: Scene) -> Scene:
    """The action becomes its opposite."""
    return replace(scene, action=OPPOSITES[scene.action])


def _alter(rng: np.random.Generator, scene: Scene) -> Scene:
    """One to three slots take another value."""
    for _ in range(1 + int(rng.random() * 4)):
        slot = _pick(rng, [slot for slot in SLOTS if getattr(scene, slot) is not None])
        taken = (getattr(scene, slot), scene.agent, scene.patient)
        scene = replace(scene, **{slot: _pick_other(rng, _values(slot, scene), *taken)})
    return scene


def _values(slot: str, scene: Scene) -> Sequence[Meaning]:
    if slot == "tool":
        return TOOLS[scene.action]
    if slot == "action":  # the tool must suit the new action too
        return [action for action in ACTIONS if scene.tool is None or scene.tool in TOOLS[action]]
    return {"place": PLACES, "time": TIMES, "agent": BEINGS, "patient": BEINGS}.get(slot, COUNTS)


def _unrelated(rng: np.random.Generator, scene: Scene) -> Scene:
    """Another scene, mostly at the same place and time."""
    other = draw_scene(rng)
    keep = _chance(rng, 0.7)
    return replace(other, place=scene.place, time=scene.time) if keep else other


def _same(rng: np.random.Generator, scene: Scene) -> Scene:
    return scene


# What becomes of a scene: share of pairs, the change, and the chance that a slot is said in other words.
_Change = Callable[[np.random.Generator, Scene], Scene]
_PAIRS: tuple[tuple[float, _Change, float], ...] = (
    (0.15, _same, 0.6),
    (0.20, _generalise, 0.5),
    (0.12, _swap, 0.2),
    (0.08, _oppose, 0.2),
    (0.27, _alter, 0.3),
    (0.18, _unrelated, 0.0),
)
_ENTAILED = ((0.6, _same, 0.8), (0.4, _generalise, 0.8))
_CONTRADICTED = ((0.6, _swap, 0.1), (0.2, _oppose, 0.1), (0.2, _alter, 0.1))


def _change(rng, changes, scene, wording):
    shares = [share for share, _, _ in changes]
    point, index = rng.random() * sum(shares), 0
    while point >= shares[index] and index < len(shares) - 1:
        point -= shares[index]
        index += 1
    _, change, reword = changes[index]
    return Statement(change(rng, scene), _reword(rng, wording, reword))


def _draw_wording(rng: np.random.Generator) -> Wording:
    coins = rng.random(len(SLOTS) + 2) < 0.5
    return Wording(
        choices=tuple(int(coin) for coin in coins[2:]), passive=_chance(rng, PASSIVE), time_first=_chance(rng, TIME_FIRST)
    )


def _reword(rng: np.random.Generator, wording: Wording, probability: float) -> Wording:
    flips = rng.random(len(SLOTS)) < probability
    return Wording(
        choices=tuple(choice ^ int(flip) for choice, flip in zip(wording.choices, flips, strict=True)),
        passive=_chance(rng, PASSIVE),
        time_first=_chance(rng, TIME_FIRST),
    )


def draw_pair(rng: np.random.Generator) -> tuple[Statement, Statement]:
    """Two statements on one scene and what became of it, in random order."""
    first = Statement(draw_scene(rng), _draw_wording(rng))
    second = _change(rng, _PAIRS, first.scene, first.wording)
    return (first, second) if _chance(rng, 0.5) else (second, first)


def draw_triple(rng: np.random.Generator) -> tuple[Statement, Statement, Statement]:
    """A statement, one that it entails and one that contradicts it."""
    anchor = Statement(draw_scene(rng), _draw_wording(rng))
    positive = _change(rng, _ENTAILED, anchor.scene, anchor.wording)
    negative = _change(rng, _CONTRADICTED, anchor.scene, anchor.wording)
    return anchor, positive, negative
