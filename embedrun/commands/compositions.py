"""Many configurations of the presets in little time: Hydra composes each choice of groups once."""

import copy
from collections.abc import Sequence
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from embedrun import presets
from embedrun.errors import ConfigError


class Compositions:
    """Configurations of the presets, to be looked at, not to be run: nobody's safety rules are asked.

    Overrides of values are applied to a composition of the same choices by Hydra's own function, which is
    what Hydra does last; the result is that of composing it all.
    """

    def __init__(self) -> None:
        self._choices: dict[tuple[str, ...], Any] = {}
        self._groups = set(presets.groups())
        self._parser = OverridesParser.create()

    def config(self, command: str, overrides: Sequence[str]) -> dict[str, Any]:
        """The resolved configuration, as plain data.

        Args:
            command: name of the root, `train` or `evaluate`.
            overrides: in Hydra's grammar.

        Raises:
            ConfigError: if they do not compose.
        """
        try:
            parsed = self._parser.parse_overrides(list(overrides))
            chosen = [one for one in parsed if self._is_choice(one)]
            config = copy.deepcopy(self._base(command, [str(one.input_line) for one in chosen]))
            rest = [one for one in parsed if not self._is_choice(one)]
            ConfigLoaderImpl._apply_overrides_to_config(rest, config)
            with open_dict(config):
                config.pop("hydra", None)
            return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]
        except (HydraException, OmegaConfBaseException) as fault:
            said = " ".join(str(fault).split()).removesuffix(".")
            raise ConfigError(f"{command} {' '.join(overrides)}: does not compose ({said})") from None

    def keys(self, command: str) -> dict[str, Any]:
        """The configuration of the command's root, without an override."""
        return self.config(command, ())

    def _is_choice(self, override: Override) -> bool:
        return override.get_key_element().lstrip("+~").partition("@")[0] in self._groups

    def _base(self, command: str, choices: list[str]) -> Any:
        if (key := (command, *choices)) not in self._choices:
            GlobalHydra.instance().clear()
            try:
                with initialize_config_dir(str(presets.folder()), version_base=None):
                    self._choices[key] = compose(command, overrides=choices)
            finally:
                GlobalHydra.instance().clear()
        return self._choices[key]
