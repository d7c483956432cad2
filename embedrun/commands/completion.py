"""Shell completion script for bash or zsh: commands, presets, choices, options, tables, flags, values."""

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

from embedrun import commands, reference
from embedrun.commands.command_line import Parser
from embedrun.config import presets
from embedrun.config.safety import LAUNCHERS

TABLES = ("table", "reproduce")  # commands that take tables of papers
LAUNCHED = ("train", "evaluate")  # commands with jobs for one of Hydra's launchers
_EXAMPLES = """The script asks embedrun at each press of Tab, so that it needs no update.

examples:
  embedrun completion bash > ~/.local/share/bash-completion/completions/embedrun
  embedrun completion zsh > ~/.zfunc/_embedrun   # of $fpath, before compinit"""


def parser() -> Parser:
    """The parser of `embedrun completion`."""
    made = Parser("embedrun completion", description=__doc__, examples=_EXAMPLES)
    made.add_argument("shell", choices=("bash", "zsh"), help="for which shell")
    made.add_argument("--line", metavar="TEXT", help="print what may end this command line, for the script")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun completion`."""
    arguments = parser().read(argv)
    if arguments.line is None:
        print(_BASH if arguments.shell == "bash" else _ZSH, end="")
    else:
        print("\n".join(answers(arguments.line)))
    return 0


def answers(line: str) -> list[str]:
    """The words that may stand at the end of a command line; none where a file may."""
    *before, current = [*line.split(), *([""] if line[-1:].isspace() else [])]
    words = _with_parser() if len(before) < 2 else _after(*before[1:], current=current)
    return [word for word in dict.fromkeys(words) if word.startswith(current)]


def _after(command: str, *typed: str, current: str) -> list[str]:
    if command not in _with_parser():
        return []
    made = import_module(f"embedrun.commands.{command.replace('-', '_')}").parser()
    values = {**made.values(), **dict.fromkeys(("-h", "--help"), _groups_of(made))}
    if "--scale" in values:
        values["--scale"] = presets.groups().get("scale", [])
    flag, equals, _ = current.partition("=")
    if equals and flag.startswith("--"):
        return [f"{flag}={word}" for word in values.get(flag, ())]
    if typed and typed[-1] in values:
        return values[typed[-1]]
    if current.startswith("-"):
        return [*made.flags(), "--help", "--debug"]
    return _shortened(_words(command, made), current)


def _with_parser() -> list[str]:
    """The commands: every module of theirs but the one for all of them."""
    names = (module.name for module in iter_modules(commands.__path__))
    return [name.replace("_", "-") for name in names if name != "command_line"]


def _groups_of(made: Parser) -> list[str]:
    return [] if made.root is None else [*reference.groups_of(made.root)]


def _words(command: str, made: Parser) -> list[str]:
    arguments = [action for action in made.actions if not action.option_strings]
    words = [*made.parsers, *(str(choice) for action in arguments for choice in action.choices or ())]
    words += _tables() if command in TABLES else []
    words += _choices(made)
    words += [f"hydra/launcher={name}" for name in LAUNCHERS] if command in LAUNCHED else []
    return words + ([] if made.root is None else _options(made.root))


def _tables() -> list[str]:
    words = [f"{group}/{name}" for group, names in presets.groups().items() for name in names]
    return [word.removeprefix("table/") for word in words if word.startswith("table/")]


def _choices(made: Parser) -> list[str]:
    groups = presets.groups()
    words = [f"{group}={choice}" for group in _groups_of(made) for choice in groups[group]]
    if made.root == "train":
        words += [f"{sign}experiment={name}" for sign in ("+", "") for name in groups["experiment"]]
    return words


def _options(root: str) -> list[str]:
    options = [option for option in reference.every_option(root) if "[]" not in option.name]
    return [f"{option.name}={value}" for option in options for value in option.values or ("",)]


def _shortened(words: Sequence[str], current: str) -> list[str]:
    """The words up to what is to be typed next: `training.`, then `training.lr=`, then a value."""
    if "=" in current:
        return [word for word in words if not word.endswith("=")]
    heads = [word.partition("=")[0] + "=" if "=" in word else word for word in words]
    return [f"{head.partition('.')[0]}." if "." in head and "." not in current else head for head in heads]


# Bash takes `=` for the end of a word, so that what stands before it must not be in the answers.
_BASH = r"""# bash completion for embedrun
_embedrun() {
  local line="${COMP_LINE:0:COMP_POINT}" current
  current="${line##* }"
  mapfile -t COMPREPLY < <("$1" completion bash --line="$line" 2> /dev/null)
  [[ -z ${COMPREPLY[0]} ]] && COMPREPLY=()
  [[ ${COMPREPLY[0]} == *[=.] ]] && compopt -o nospace 2> /dev/null
  [[ $current == *=* && $COMP_WORDBREAKS == *=* ]] && COMPREPLY=("${COMPREPLY[@]#"${current%=*}="}")
  return 0
}
complete -o default -F _embedrun embedrun
"""

_ZSH = r"""#compdef embedrun
_embedrun() {
  local -a answers
  answers=(${(f)"$($words[1] completion zsh --line="${words[1,CURRENT-1]} $PREFIX" 2> /dev/null)"})
  if (( ${#answers} == 0 )); then
    _files
  else
    compadd -S '' -- ${(M)answers:#*[=.]}
    compadd -- ${answers:#*[=.]}
  fi
}
if [[ $funcstack[1] == _embedrun ]]; then _embedrun "$@"; else compdef _embedrun embedrun; fi
"""
