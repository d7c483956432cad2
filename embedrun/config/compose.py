"""The one door to Hydra, which is imported only for what was not composed before."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from embedrun.config.kept import Kept
from embedrun.config.request import Composed, Request, is_hydra, may_ask_for_more
from embedrun.errors import ConfigError
from embedrun.files import Plain


def through_hydra():
    """What does it with Hydra. Its import also gives Hydra the words that presets refer to."""
    from embedrun.config import composition

    return composition


def composed(
    request: Request, overrides: Sequence[str] | None = None, *, job: int | None = None, strict: bool = False
) -> Composed:
    """Compose and hold the result against the safety rules.

    For one job of a multirun, `overrides` stand in place of the request's own and `job` is its number. An
    unknown key is refused here only if `strict`; by default it is let in, for the report of all faults.

    Raises:
        ConfigError: what Hydra rejects, in our words; and every key that names code to run.
    """
    wanted = request.overrides if overrides is None else overrides

    def made() -> Composed:
        return through_hydra().made(request, wanted, job, strict)

    # A user's own presets may, too.
    if request.config_dir is not None or may_ask_for_more(wanted):
        return made()
    asked = {"root": request.root, "overrides": list(wanted), "job": job, "strict": strict}

    def make() -> Plain:
        found = made()
        return asdict(found) | {"overrides": list(found.overrides), "added": list(found.added)}

    kept = Composed(**Kept().made(asked, make))
    return replace(kept, overrides=tuple(kept.overrides), added=tuple(kept.added))


def sweep(request: Request) -> list[list[str]]:
    """The overrides of each job of a multirun, in Hydra's order.

    Raises:
        ConfigError: for what is refused, and if there is no job.
    """
    fixed = through_hydra().fixed(request)
    found = through_hydra().jobs(request, composed(request, fixed).sweep)
    if not found:
        raise ConfigError("-m: no jobs; an option has no value left, such as a glob(...) that fits no choice")
    return [[*(one for one in fixed if is_hydra(one)), *job] for job in found]


class Compositions:
    """Configurations of presets that are only compared, never run: no safety rules are applied.

    Those that were composed before are kept.
    """

    def __init__(self) -> None:
        self._kept = Kept()

    def config(self, command: str, overrides: Sequence[str]) -> dict[str, Any]:
        """The resolved configuration of a root, such as `train`, as plain data.

        Raises:
            ConfigError: if the overrides do not compose.
        """
        return self._once("config", command, overrides, lambda: through_hydra().config(command, overrides))

    def choices(self, command: str, overrides: Sequence[str]) -> dict[str, str]:
        """The presets behind the same configuration, by group."""
        return self._once("choices", command, overrides, lambda: through_hydra().choices(command, overrides))

    def keys(self, command: str) -> Plain:
        """The configuration of the command's root, without an override."""
        return self.config(command, ())

    def _once(
        self,
        what: str,
        command: str,
        overrides: Sequence[str],
        make: Callable[[], dict[str, Any]],
    ) -> dict[str, Any]:
        if may_ask_for_more(overrides):
            return make()
        asked = {"what": what, "root": command, "overrides": list(overrides)}
        return dict(self._kept.made(asked, make))
