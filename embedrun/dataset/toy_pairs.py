"""How pairs and triples of statements are drawn for the toy data set.

A word count should not solve the task: pairs that mean the same are mostly said in other words, and pairs
that do not (roles swapped, action turned into its opposite) mostly in the same words.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple, TypeVar

from numpy.random import Generator

from embedrun.dataset.toy_grammar import ONE, OPTIONAL_SLOTS, SLOTS, Meaning, Scene, Statement, Wording
from embedrun.dataset.toy_lexicon import ACTIONS, BEINGS, COUNTS, OPPOSITES, PLACES, TIMES, TOOLS

T = TypeVar("T")

SINGULAR_SHARE = 0.5  # of agents and of patients
FILLED_SHARE = 0.3  # of scenes, for each optional slot
# As in English, the exception; still in so many pairs that word order alone does not tell who did what.
PASSIVE_SHARE = 0.2
TIME_FIRST_SHARE = 0.2


class Recipe(NamedTuple):
    """One way to make a second statement out of a first.

    Args:
        share: percent of the pairs.
        change: what becomes of the scene.
        reword: probability, for each slot, that it is said in the other way.
    """

    share: int
    change: Callable[[Generator, Scene], Scene]
    reword: float


def draw_pair(rng: Generator) -> tuple[Statement, Statement]:
    """Two statements, one made out of the other; either may come first."""
    first = _draw_statement(rng)
    second = _follow(rng, first, PAIR_RECIPES)
    return (first, second) if _chance(rng, 0.5) else (second, first)


def draw_triple(rng: Generator) -> tuple[Statement, Statement, Statement]:
    """A statement, one that follows from it and one that contradicts it."""
    anchor = _draw_statement(rng)
    return anchor, _follow(rng, anchor, ENTAILED_RECIPES), _follow(rng, anchor, CONTRADICTED_RECIPES)


def _draw_statement(rng: Generator) -> Statement:
    return Statement(_draw_scene(rng), _reword(rng, Wording(), 0.5))


def _follow(rng: Generator, first: Statement, recipes: Sequence[Recipe]) -> Statement:
    bounds = list(accumulate(recipe.share for recipe in recipes))
    recipe = recipes[bisect_right(bounds, rng.random() * bounds[-1])]
    return Statement(recipe.change(rng, first.scene), _reword(rng, first.wording, recipe.reword))


def _reword(rng: Generator, wording: Wording, probability: float) -> Wording:
    flips = (rng.random(len(SLOTS)) < probability).tolist()
    return Wording(
        ways=tuple(way ^ flip for way, flip in zip(wording.ways, flips, strict=True)),
        passive=_chance(rng, PASSIVE_SHARE),
        time_first=_chance(rng, TIME_FIRST_SHARE),
    )


def _draw_scene(rng: Generator) -> Scene:
    agent, action = _pick(rng, BEINGS), _pick(rng, ACTIONS)
    return Scene(
        agent=agent,
        agent_count=_draw_count(rng),
        action=action,
        patient=_pick(rng, [being for being in BEINGS if being != agent]),
        patient_count=_draw_count(rng),
        tool=_pick(rng, TOOLS[action]) if _chance(rng, FILLED_SHARE) else None,
        place=_pick(rng, PLACES) if _chance(rng, FILLED_SHARE) else None,
        time=_pick(rng, TIMES) if _chance(rng, FILLED_SHARE) else None,
    )


def _draw_count(rng: Generator) -> Meaning:
    return ONE if _chance(rng, SINGULAR_SHARE) else _pick(rng, COUNTS[1:])


def _keep(rng: Generator, scene: Scene) -> Scene:
    return scene


def _generalise(rng: Generator, scene: Scene) -> Scene:
    """Up to three times, a slot takes its broader meaning or, if it may, says nothing."""
    for _ in range(_pick(rng, (1, 2, 3))):
        values = {slot: getattr(scene, slot) for slot in SLOTS}
        choices: list[tuple[str, Meaning | None]] = [
            (slot, value.broader)
            for slot, value in values.items()
            if value is not None and value.broader is not None
        ]
        choices += [(slot, None) for slot in OPTIONAL_SLOTS if values[slot] is not None]
        if choices:
            scene = replace(scene, **dict([_pick(rng, choices)]))
    return scene


def _swap(rng: Generator, scene: Scene) -> Scene:
    """Agent and patient change roles; in half of the cases with their numbers."""
    swapped = replace(scene, agent=scene.patient, patient=scene.agent)
    if _chance(rng, 0.5):
        return swapped
    return replace(swapped, agent_count=scene.patient_count, patient_count=scene.agent_count)


def _oppose(rng: Generator, scene: Scene) -> Scene:
    return replace(scene, action=OPPOSITES[scene.action])


def _alter(rng: Generator, scene: Scene) -> Scene:
    """One to four filled slots, all different, take another value."""
    slots = [slot for slot in SLOTS if getattr(scene, slot) is not None]
    for _ in range(_pick(rng, (1, 2, 3, 4))):
        slot = slots.pop(_pick(rng, range(len(slots))))
        taken = (getattr(scene, slot), scene.agent, scene.patient)
        others = [value for value in _values(slot, scene) if value not in taken]
        scene = replace(scene, **{slot: _pick(rng, others)})
    return scene


def _values(slot: str, scene: Scene) -> Sequence[Meaning]:
    if slot == "tool":
        return TOOLS[scene.action]
    if slot == "action":  # the tool stays, so it must suit the new action
        return [action for action in ACTIONS if scene.tool is None or scene.tool in TOOLS[action]]
    return {"agent": BEINGS, "patient": BEINGS, "place": PLACES, "time": TIMES}.get(slot, COUNTS)


def _replace_all(rng: Generator, scene: Scene) -> Scene:
    """Another scene, mostly at the same place and time, so that something is shared."""
    other = _draw_scene(rng)
    return replace(other, place=scene.place, time=scene.time) if _chance(rng, 0.7) else other


def _chance(rng: Generator, probability: float) -> bool:
    return rng.random() < probability


def _pick(rng: Generator, values: Sequence[T]) -> T:
    # Several times as fast as rng.choice, which makes an array of the values.
    return values[int(rng.random() * len(values))]


PAIR_RECIPES = (
    Recipe(16, _keep, 0.5),
    Recipe(20, _generalise, 0.5),
    Recipe(10, _swap, 0.0),
    Recipe(7, _oppose, 0.2),
    Recipe(27, _alter, 0.4),
    Recipe(20, _replace_all, 0.0),
)
ENTAILED_RECIPES = (Recipe(60, _keep, 0.8), Recipe(40, _generalise, 0.5))
CONTRADICTED_RECIPES = (Recipe(50, _swap, 0.0), Recipe(20, _oppose, 0.2), Recipe(30, _alter, 0.2))
