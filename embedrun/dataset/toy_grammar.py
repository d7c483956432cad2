"""How the scenes of the toy data set become English sentences.

A scene says who does what to whom, with what, where, when and how many. What it means (`Scene`) and
how that is said (`Wording`) are apart, so that two sentences can share all their meaning and no content
word, or all their words and little meaning. The words themselves are in `toy_lexicon`.
"""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Meaning:
    """One value of a slot.

    Args:
        words: two ways to say it, equal if there is but one. A slash parts two forms of a word:
            singular and plural of a noun, past tense and participle of a verb.
        broader: the more general value that it implies; None if there is none.
    """

    words: tuple[str, str]
    broader: "Meaning | None" = None

    def form(self, choice: int, index: int = 0) -> str:
        """Form ``index`` (0 or 1) of way ``choice`` (0 or 1); a word without a slash is its own second form."""
        forms = self.words[choice].split("/")
        return forms[min(index, len(forms) - 1)]


@dataclass(frozen=True)
class Scene:
    """What a sentence says; a slot is None where it says nothing."""

    agent: Meaning
    agent_count: Meaning
    action: Meaning
    patient: Meaning
    patient_count: Meaning
    tool: Meaning | None = None
    place: Meaning | None = None
    time: Meaning | None = None


SLOTS = tuple(slot.name for slot in fields(Scene))
OPTIONAL_SLOTS = ("tool", "place", "time")
SINGULAR = ("a", "one")  # the words of the only count that takes a singular noun


@dataclass(frozen=True)
class Wording:
    """How a scene is said.

    Args:
        choices: which of the two ways (0 or 1) to say each slot, in the order of `SLOTS`.
        passive: the patient is the subject and the agent follows "by".
        time_first: the time opens the sentence; else it closes it.
    """

    choices: tuple[int, ...] = (0,) * len(SLOTS)
    passive: bool = False
    time_first: bool = False


@dataclass(frozen=True)
class Statement:
    """A scene and the way it is said."""

    scene: Scene
    wording: Wording

    def text(self) -> str:
        """One English sentence."""
        return sentence(self.scene, self.wording)


def sentence(scene: Scene, wording: Wording) -> str:
    """The scene as one English sentence in the past tense, with a capital and a full stop."""
    choice = dict(zip(SLOTS, wording.choices, strict=True))
    agent = _noun_phrase(scene.agent, choice["agent"], scene.agent_count, choice["agent_count"])
    patient = _noun_phrase(scene.patient, choice["patient"], scene.patient_count, choice["patient_count"])
    if wording.passive:
        was = "was" if scene.patient_count.words == SINGULAR else "were"
        parts = [patient, was, scene.action.form(choice["action"], 1), "by", agent]
    else:
        parts = [agent, scene.action.form(choice["action"], 0), patient]
    if scene.tool is not None:
        parts += ["with", _with_article(scene.tool.form(choice["tool"]))]
    if scene.place is not None:
        parts.append(scene.place.form(choice["place"]))
    if scene.time is not None:
        time = scene.time.form(choice["time"])
        parts = [time, *parts] if wording.time_first else [*parts, time]
    text = " ".join(parts)
    return text[0].upper() + text[1:] + "."


def _noun_phrase(noun: Meaning, choice: int, count: Meaning, count_choice: int) -> str:
    if count.words != SINGULAR:
        return f"{count.form(count_choice)} {noun.form(choice, 1)}"
    word = noun.form(choice, 0)
    return f"one {word}" if count.form(count_choice) == "one" else _with_article(word)


def _with_article(word: str) -> str:
    """A vowel letter stands for a vowel sound in every word of the lexicon."""
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
