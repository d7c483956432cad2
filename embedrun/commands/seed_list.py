"""The seeds that `table` and `reproduce` are told."""

from collections.abc import Sequence

from embedrun.errors import ConfigError


def seed_list(text: str | None, command: str) -> tuple[int, ...] | None:
    """The value of `--seeds`, taken apart; None of none.

    Args:
        text: as `1,2,3`.
        command: that was given it, for the message.

    Raises:
        ConfigError: for anything but different whole numbers.
    """
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and word.isascii() for word in words) or len(set(words)) < len(words):
        raise ConfigError(
            f"embedrun {command}: --seeds: expected different whole numbers, as 1,2,3, got {text!r}"
        )
    return tuple(int(word) for word in words)


def misplaced(overrides: Sequence[str], command: str) -> list[str]:
    """Problems with overrides that the command has options for.

    Args:
        overrides: of every run.
        command: that was given them, for the message.
    """
    options = {"seed": "--seeds 1,2,3", "scale": "--scale NAME"}
    keys = [override.lstrip("+~").partition("=")[0] for override in overrides]
    return [f"{key}: embedrun {command} takes {options[key]}" for key in keys if key in options]
