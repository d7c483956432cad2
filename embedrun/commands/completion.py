"""A script for the tab key of bash or zsh: commands, presets, choices, options, tables, flags and values."""

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

from embedrun import commands, reference
from embedrun.commands.command_line import Parser
from embedrun.config import presets
from embedrun.config.safety import LAUNCHERS

SHELLS = ("bash", "zsh")
TABLES = ("table", "reproduce")  # commands that take tables of papers
LAUNCHED = ("train", "evaluate", "reproduce")  # commands with jobs for one of Hydra's launchers
_EXAMPLES = """The script asks embedrun at each tab key, so that it needs no update.

examples:
  embedrun completion bash > ~/.local/share/bash-completion/completions/embedrun
  embedrun completion zsh > ~/.zfunc/_embedrun   # of $fpath, before compinit"""


def parser() -> Parser:
    """The parser of `embedrun completion`."""
    made = Parser("embedrun completion", description=__doc__, examples=_EXAMPLES)
    made.add_argument("shell", choices=SHELLS, help="for which shell")
    made.add_argument("--line", metavar="TEXT", help="print what may end this command line, for the script")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun completion`."""
    arguments = parser().read(argv)
    if arguments is None:
        return 0
    if arguments.line is None:
        print(_BASH if arguments.shell == "bash" else _ZSH, end="")
    else:
        print("\n".join(answers(arguments.line)))
    return 0


def answers(line: str) -> list[str]:
    """The words that may stand at the end of a command line; none where a file may."""
    *before, current = [*line.split(), *([""] if line[-1:].isspace() else [])]
    if len(before) < 2:
        return [word for word in _with_parser() if word.startswith(current)]
    made = _parser(before[1])
    if made is None:
        return []
    flag, equals, _ = current.partition("=")
    values = made.values()
    if current.startswith("--") and equals:
        words = [f"{flag}={word}" for word in _values(made, flag, values)]
    elif before[-1] in values:
        words = _values(made, before[-1], values)
    elif current.startswith("-"):
        words = [*made.flags(), "--help", "--debug"]
    else:
        words = _shortened(_words(before[1], made), current)
    return [word for word in dict.fromkeys(words) if word.startswith(current)]


def _with_parser() -> list[str]:
    """The commands: every module of theirs but the one for all of them."""
    return [module.name for module in iter_modules(commands.__path__) if module.name != "command_line"]


def _parser(command: str) -> Parser | None:
    return import_module(f"embedrun.commands.{command}").parser() if command in _with_parser() else None


def _values(made: Parser, flag: str, values: dict[str, list[str]]) -> list[str]:
    """What may stand behind a flag."""
    if flag == "--scale":
        return presets.groups().get("scale", [])
    if flag in ("-h", "--help"):
        return [*reference.groups_of(made.root)] if made.root else []
    return values.get(flag, [])


def _words(command: str, made: Parser) -> list[str]:
    """What a command takes besides flags: a choice as `group=choice`, an option as `key=` or `key=value`."""
    groups = presets.groups()
    words = [*made.parsers, *(SHELLS if command == "completion" else ())]
    if command in TABLES:
        tables = {group.removeprefix("table/"): group for group in groups if group.startswith("table/")}
        words += [f"{paper}/{name}" for paper, group in tables.items() for name in groups[group]]
    if made.root is None:
        return words
    words += [f"{group}={choice}" for group in reference.groups_of(made.root) for choice in groups[group]]
    if made.root == "train" and command != "reproduce":
        words += [f"{sign}experiment={name}" for sign in ("+", "") for name in groups["experiment"]]
    if command in LAUNCHED:
        words += [f"hydra/launcher={name}" for name in LAUNCHERS]
    for option in reference.every_option(made.root):
        if "[]" not in option.name:
            words += [f"{option.name}={value}" for value in option.values or ("",)]
    return words


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
