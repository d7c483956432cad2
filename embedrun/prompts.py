"""Words around a text, and whether those of a configuration are sound."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from embedrun.config import Checker
from embedrun.config.check import nearest
from embedrun.errors import ConfigError
from embedrun.files import Plain

PLACE = "{text}"
NO_EDIT = "none"


def _angle_llm(text: str) -> str:
    """The edits of AnglE's evaluation of language models, in their published order; no text stays none."""
    if not text:
        return text
    if text[-1] not in ".?\"'":
        text += "."
    text = text.replace('"', "'")
    return text[:-1] + "." if text.endswith("?") else text


EDITS: dict[str, Callable[[str], str]] = {"angle_llm": _angle_llm}


@dataclass(frozen=True)
class Prompt:
    r"""A template, and an edit of the texts that are put into it.

    ``angle_llm`` is the edit of AnglE's evaluation code for LLaMA: a full stop behind a text that ends in
    none of ``. ? " '``; then every ``"`` becomes ``'``, so that the quotation marks of the template
    ``Summarize sentence "{text}" in one word:"`` stay the only ones; then a question mark at the end becomes
    a full stop. It is made in use alone, not in training.

    Args:
        template: with ``{text}`` once, where the text goes; other braces are part of the words.
        text_edit: a key of `EDITS`; None: the text as it is.
    """

    template: str
    text_edit: str | None = None

    def __post_init__(self) -> None:
        if fault := _place_problem(self.template):
            raise ConfigError(f"prompt: {fault}")
        if self.text_edit is not None and self.text_edit not in EDITS:
            hint = nearest(self.text_edit, EDITS)
            raise ConfigError(f"text_edit: no edit {self.text_edit!r}{hint} (there are: {', '.join(EDITS)})")

    @property
    def before(self) -> str:
        """What stands before the text."""
        return self.template.partition(PLACE)[0]

    @property
    def after(self) -> str:
        """What stands behind it."""
        return self.template.partition(PLACE)[2]

    def edited(self, text: str) -> str:
        """The text as it is put into the template."""
        return text if self.text_edit is None else EDITS[self.text_edit](text)

    def filled(self, text: str) -> str:
        """The template with the edited text in it."""
        return self.before + self.edited(text) + self.after


def problem(template: object) -> str | None:
    """Why this is no valid template of a user, or None; None, no template, is valid."""
    if template is None:
        return None
    if not isinstance(template, str):
        return f"expected a template or null, got {template!r}"
    # More likely mistyped than meant; in the files of a model they are meant.
    others = [name for name in re.findall(r"\{\w*\}", template) if name != PLACE]
    if others and template.count(PLACE) == 1:
        return f"{others[0]} stands for nothing in {template!r}; {PLACE} alone is replaced"
    return _place_problem(template)


def _place_problem(template: str) -> str | None:
    count = template.count(PLACE)
    if count == 1:
        return None
    return f"expected a template with {PLACE} once, where the text goes, got {template!r}, with {count}"


def of(template: str | None) -> Prompt | None:
    """The prompt of a user's template; None for none, and for one that is the text alone."""
    if fault := problem(template):
        raise ConfigError(f"prompt: {fault}")
    return None if template in (None, PLACE) else Prompt(template)


def _edit_problem(text_edit: str) -> str:
    return (
        f"evaluation.text_edit: {text_edit} goes with a prompt, and there is none; give evaluation.prompt, "
        "or leave text_edit null"
    )


def in_use(trained: Prompt | None, template: str | None, text_edit: str | None) -> Prompt | None:
    """The prompt of use: evaluation, encoding, the saved model; a ConfigError for an edit without one.

    `template` and `text_edit` are those of the `trained` prompt where None; ``none`` is no edit.
    """
    prompt = trained if template is None else of(template)
    if prompt is None:
        if text_edit not in (None, NO_EDIT):
            raise ConfigError(_edit_problem(text_edit))
        return None
    of_trained = trained.text_edit if trained else None
    return replace(prompt, text_edit={None: of_trained, NO_EDIT: None}.get(text_edit, text_edit))


ROLES = ("query", "document")  # what a text may be


def by_role(
    given: Mapping[str, str | None], declared: Mapping[str, Prompt | None]
) -> dict[str, Prompt | None]:
    """The prompt of each role that has one: the given template, else what the model declares."""
    return {
        role: declared[role] if given.get(role) is None else of(given[role])
        for role in ROLES
        if given.get(role) is not None or role in declared
    }


def in_training(
    prompt: Prompt | None,
    prompts: Mapping[str, Prompt | None],
    roles: Mapping[str, str],
    views: Iterable[str],
) -> dict[str, Prompt | None]:
    """The prompt of each view of the training rows: that of its role in `prompts`, else `prompt`."""
    plain = None if prompt is None else replace(prompt, text_edit=None)
    return {view: prompts.get(roles.get(view, ""), plain) for view in views}


def check_prompts(checker: Checker, plain: Plain) -> None:
    """Note what is wrong with `backbone.prompt`, `evaluation.prompt` and the group `prompts`."""
    groups = {name: options for name, options in plain.items() if isinstance(options, Mapping)}
    backbone, evaluation = (groups.get(name, {}) for name in ("backbone", "evaluation"))
    prompts = {"backbone.prompt": backbone.get("prompt"), "evaluation.prompt": evaluation.get("prompt")}
    template = evaluation.get("prompt") or backbone.get("prompt")
    for path, given in prompts.items():
        if isinstance(given, str) and (fault := problem(given)):
            checker.problems.append(f"{path}: {fault}")
    checker.problems += prompt_problems(groups.get("prompts", {}), "prompts.")
    # Without a prompt and a model, whose files may have one, an edit certainly lacks it.
    template = template or (PLACE if backbone.get("name", "") is None else None)
    if template == PLACE and evaluation.get("text_edit") in EDITS:
        checker.problems.append(_edit_problem(evaluation["text_edit"]))


def prompt_problems(prompts: Mapping[str, object], path: str) -> list[str]:
    """What is wrong with the templates of queries and documents; `path` begins their names."""
    given = {role: one for role, one in prompts.items() if role in ROLES and isinstance(one, str)}
    return [f"{path}{role}: {fault}" for role, one in given.items() if (fault := problem(one))]


def role_problems(roles: object, columns: Sequence[str]) -> list[str]:
    """What is wrong with the roles of a data set, by its columns of texts."""
    if not isinstance(roles, Mapping):
        return [f"dataset.roles: expected roles by column, {{{columns[0]}: query}}, got {roles!r}"]
    return [
        f"dataset.roles.{column}: expected one of {', '.join(ROLES)}, got {role!r}"
        if column in columns
        else f"dataset.roles.{column}: the rows have no such text{nearest(str(column), columns)} (they have: "
        f"{', '.join(columns)})"
        for column, role in roles.items()
        if column not in columns or role not in ROLES
    ]
