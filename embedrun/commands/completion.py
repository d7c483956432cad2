"""A script for the tab key of bash or zsh: commands, presets, choices, options, tables, flags and values."""

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from embedrun import commands, reference
from embedrun.commands.command_line import Parser
from embedrun.config import presets
from embedrun.config.safety import LAUNCHERS

_EVERY = ("--help", "--debug")  # the second is taken out before a command sees its arguments
_REFUSED = {"collect": ("--multirun",)}  # flags that are parsed to say why they are refused
SHELLS = ("bash", "zsh")
# What stands behind a command: the root whose groups it composes, the tables, words of its own; else files.
COMPOSED = {
    "train": "train",
    "check": "train",
    "tune": "train",
    "reproduce": "train",
    "evaluate": "evaluate",
    "annotate": "annotate",
    "generate": "generate",
    "collect": "collect",
}
TABLES = ("table", "reproduce")
WORDS = {"data": ("list", "get", "check", "audit", "clean"), "completion": SHELLS}
LAUNCHED = ("train", "evaluate", "reproduce")  # commands with jobs for one of Hydra's launchers
_NAME = re.compile(r"[\w./+=-]+", re.ASCII)  # of a file that may stand in a script
_EXAMPLES = """The script holds the names as they are now; write it again after an update.

examples:
  embedrun completion bash > ~/.local/share/bash-completion/completions/embedrun
  embedrun completion zsh > ~/.zfunc/_embedrun   # of $fpath, before compinit"""


def parser() -> Parser:
    """The parser of `embedrun completion`."""
    made = Parser("embedrun completion", description=__doc__, examples=_EXAMPLES)
    made.add_argument("shell", choices=SHELLS, help="for which shell")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun completion`."""
    arguments = parser().read(argv)
    if arguments is None:
        return 0
    print(script(arguments.shell), end="")
    return 0


def script(shell: str, conf: Path | None = None) -> str:
    """The script for one of `SHELLS`; `conf` is the preset folder, None for ours."""
    found = words(conf)
    taken = flags()
    cases = "".join(
        f"    {command}) names='{' '.join(found.get(command, []))}' flags='{' '.join(own)}' ;;\n"
        for command, own in taken.items()
    )
    behind = "".join(
        f"    '{command} {flag}') values='{' '.join(own)}' ;;\n"
        for (command, flag), own in values(conf).items()
    )
    text = (_BASH if shell == "bash" else _ZSH).replace("CASES\n", cases).replace("VALUES\n", behind)
    return text.replace("COMMANDS", " ".join(taken))


def values(conf: Path | None = None) -> dict[tuple[str, str], list[str]]:
    """What may stand behind a flag, by command and flag; `_files` where any file or number may.

    `conf` is the preset folder, None for ours.
    """
    found = {}
    for command, made in _parsers().items():
        for flag, own in made.values().items():
            if flag == "--scale":
                own = presets.groups(conf).get("scale", [])
            elif flag in ("-h", "--help"):
                own = [*reference.groups_of(made.root or "")]
            found[command, flag] = [word for word in own if _NAME.fullmatch(word)] or ["_files"]
    return found


def flags() -> dict[str, list[str]]:
    """The flags of each command: those of its parser, and what every command takes."""
    found = {}
    for command, made in _parsers().items():
        passed_over = (*_EVERY, *_REFUSED.get(command, ()))
        found[command] = [flag for flag in made.flags() if flag not in passed_over] + [*_EVERY]
    return found


def _parsers() -> dict[str, Parser]:
    found = {}
    for module in iter_modules(commands.__path__):
        made = getattr(import_module(f"{commands.__name__}.{module.name}"), "parser", None)
        if made is not None:
            found[module.name] = made()
    return found


def words(conf: Path | None = None) -> dict[str, list[str]]:
    """The words, other than flags, that each command takes; a choice as `group=choice`, an option as `key=`.

    An option whose values are known is there with each of them.

    `conf` is the preset folder, None for ours.
    """
    root = conf or presets.folder()
    groups = presets.groups(root)
    found: dict[str, list[str]] = {word: [*own] for word, own in WORDS.items()}
    tables = [
        f"{group.removeprefix('table/')}/{name}"
        for group, names in groups.items()
        if group.startswith("table/")
        for name in names
    ]
    for command in TABLES:
        found[command] = list(tables)
    for command, config in COMPOSED.items():
        own = [f"{group}={choice}" for group in _groups(root, config) for choice in groups.get(group, [])]
        experiments = groups.get("experiment", []) if config == "train" and command != "reproduce" else []
        own += [f"{sign}experiment={name}" for sign in ("+", "") for name in experiments]
        own += [f"hydra/launcher={name}" for name in LAUNCHERS if command in LAUNCHED]
        for option in reference.every_option(config):
            if "[]" not in option.name:
                own += [f"{option.name}={value}" for value in option.values or ("",)]
        found[command] = [*found.get(command, []), *own]
    return {command: [word for word in own if _NAME.fullmatch(word)] for command, own in found.items()}


def _groups(root: Path, config: str) -> list[str]:
    """The groups that a root composes."""
    return list(presets.read(root, config).choices) if (root / f"{config}.yaml").is_file() else []


# Bash takes `=` for the end of a word, so that what stands before it must not be in the answers. Of options,
# only the group is offered until its dot is typed. Without an answer, files are offered.
_BASH = r"""# bash completion for embedrun
_embedrun() {
  local line="${COMP_LINE:0:COMP_POINT}" names='' flags='' values='' current before typed word part=''
  current="${line##* }"
  read -ra typed <<< "$line"
  if [[ ${#typed[@]} -eq 1 || ( ${#typed[@]} -eq 2 && -n $current ) ]]; then
    COMPREPLY=($(compgen -W 'COMMANDS' -- "$current"))
    return
  fi
  case "${typed[1]}" in
CASES
  esac
  before="${line% *}"
  before="${before##* }"
  if [[ $current == --*=* ]]; then
    before="${current%%=*}"
    part="$before="
  fi
  case "${typed[1]} $before" in
VALUES
  esac
  if [[ -n $values ]]; then
    [[ $values == _files ]] && return
    COMPREPLY=($(compgen -W "$values" -- "${current#"$part"}"))
    [[ -n $part && $COMP_WORDBREAKS != *=* ]] && COMPREPLY=("${COMPREPLY[@]/#/$part}")
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  elif [[ $current == *=* ]]; then
    for word in $names; do
      [[ $word == *= ]] || part+="$word "
    done
    COMPREPLY=($(compgen -W "$part" -- "$current"))
    [[ $COMP_WORDBREAKS == *=* ]] && COMPREPLY=("${COMPREPLY[@]#"${current%=*}="}")
  else
    for word in $names; do
      if [[ $word == *=* ]]; then
        word="${word%%=*}="
        [[ $word == *.* && $current != *.* ]] && word="${word%%.*}."
      fi
      part+="$word "
    done
    COMPREPLY=($(compgen -W "$part" -- "$current" | sort -u))
    [[ ${COMPREPLY[0]} == *[=.] ]] && compopt -o nospace 2> /dev/null
  fi
}
complete -o default -F _embedrun embedrun
"""

_ZSH = r"""#compdef embedrun
_embedrun() {
  local names='' flags='' values='' before="${words[CURRENT-1]}"
  if (( CURRENT == 2 )); then
    compadd -- COMMANDS
    return
  fi
  case "${words[2]}" in
CASES
  esac
  if [[ $PREFIX == --*=* ]]; then
    before="${PREFIX%%\=*}"
    compset -P '*='
  fi
  case "${words[2]} $before" in
VALUES
  esac
  if [[ $values == _files ]]; then
    _files
  elif [[ -n $values ]]; then
    compadd -- ${=values}
  elif [[ $PREFIX == -* ]]; then
    compadd -- ${=flags}
  elif [[ -z $names ]]; then
    _files
  elif [[ $PREFIX == *=* ]]; then
    compadd -- ${${=names}:#*\=} || { compset -P '*=' && _files }
  else
    local -aU heads groups plain
    heads=(${${(M)${=names}:#*=*}%%\=*})
    plain=(${${=names}:#*=*})
    if [[ $PREFIX == *.* ]]; then
      compadd -S '=' -- ${(M)heads:#*.*}
    else
      groups=(${${(M)heads:#*.*}%%.*})
      compadd -S '=' -- ${heads:#*.*}
      compadd -S '.' -- $groups
      compadd -- $plain
    fi
  fi
}
if [[ $funcstack[1] == _embedrun ]]; then _embedrun "$@"; else compdef _embedrun embedrun; fi
"""
