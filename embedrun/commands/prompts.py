"""The prompts of a configuration: whether they are templates, and for views that the rows have."""

from collections.abc import Mapping
from typing import Any

from embedrun.config import Checker, nearest
from embedrun.prompt import EDITS, PLACE, edit_problem, problem
from embedrun.rows import views_of


def check_prompts(checker: Checker, plain: Mapping[str, Any], dataset: Any) -> None:
    """Note what is wrong with `backbone.prompt`, `evaluation.prompt` and `dataset.prompts`.

    Args:
        checker: collects the faults.
        plain: the composed configuration.
        dataset: of the rows, or None where there is none or it is faulty itself.
    """
    for group in ("backbone", "evaluation"):
        options = plain.get(group)
        _template(checker, f"{group}.prompt", options.get("prompt") if isinstance(options, Mapping) else None)
    if (edit := _edit_without_prompt(plain)) is not None:
        checker.problems.append(edit_problem(edit))
    options = plain.get("dataset")
    own = options.get("prompts") if isinstance(options, Mapping) else None
    if own is None:
        return
    if not isinstance(own, Mapping):
        checker.problems.append(
            f"dataset.prompts: expected templates by view, {{left: ..., right: ...}}, got {own!r}"
        )
        return
    for view, template in own.items():
        path = f"dataset.prompts.{view}"
        if dataset is not None and view not in views_of(dataset):
            known = views_of(dataset)
            hint = nearest(str(view), known)
            checker.problems.append(
                f"{path}: the rows have no such view{hint} (they have: {', '.join(known)})"
            )
        elif template is not None and not isinstance(template, str):
            checker.problems.append(f"{path}: expected a template or null, got {template!r}")
        else:
            _template(checker, path, template)


def _edit_without_prompt(plain: Mapping[str, Any]) -> str | None:
    """The edit that there is certainly no prompt for, whatever the files of the model say; else None."""
    backbone, evaluation = plain.get("backbone"), plain.get("evaluation")
    if not isinstance(evaluation, Mapping) or evaluation.get("text_edit") not in EDITS:
        return None
    template = evaluation.get("prompt")
    if template is None and isinstance(backbone, Mapping):
        template = backbone.get("prompt") or (PLACE if backbone.get("name") is None else None)
    return evaluation["text_edit"] if template == PLACE else None


def _template(checker: Checker, path: str, template: Any) -> None:
    # What is no text the schema has refused.
    if isinstance(template, str) and (fault := problem(template)):
        checker.problems.append(f"{path}: {fault}")
