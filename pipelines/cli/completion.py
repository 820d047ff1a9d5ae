"""`hushbeam completion`: what a shell offers where a command or an option is typed.

A script of all words is written, once: to ask hushbeam at every key would take half a second.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from typing import Any

from pipelines.errors import DONE
from pipelines.request import answers
from pipelines.request.commands import deferred

_DOC = """\
Print a script by which a shell completes commands and options. For good:

  bash   hushbeam completion bash >> ~/.bashrc
  zsh    hushbeam completion zsh >> ~/.zshrc
  fish   hushbeam completion fish > ~/.config/fish/completions/hushbeam.fish
"""

_BASH = """\
_hushbeam() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{commands}"
  else
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    case "$current" in
      -*) ;;
      *) if [ "$COMP_CWORD" -gt 2 ] || [[ "$words" == -* ]]; then
           COMPREPLY=($(compgen -f -- "$current")); return
         fi ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o filenames -F _hushbeam hushbeam
"""


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("completion", description=_DOC)
    parser.add_argument("shell", choices=[*_SCRIPTS])
    parser.set_defaults(command=deferred(run))


def run(arguments: argparse.Namespace) -> int:
    """Print the script of a shell."""
    from pipelines.cli.cli import parser_of
    from pipelines.cli.commands import names

    words = {name: [*_words(parser_of([name]), name)] for name in names()}
    script = _SCRIPTS[arguments.shell](words)
    answers.tell(shell=arguments.shell, script=script)
    print(script, end="")
    return DONE


def _words(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """What may follow a command: the parts that it has, and then its options."""
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    waiting = [commands.choices[name]]
    flags: dict[str, None] = {}
    for one in waiting:
        for action in one._actions:
            flags.update(dict.fromkeys(f for f in action.option_strings if f.startswith("--")))
            if isinstance(action, argparse._SubParsersAction):
                yield from action.choices
                waiting += action.choices.values()
    yield from flags


def _bash(words: dict[str, list[str]]) -> str:
    cases = (f'      {name}) words="{" ".join(known)}" ;;' for name, known in words.items())
    return _BASH.format(commands=" ".join(words), cases="\n".join(cases))


def _zsh(words: dict[str, list[str]]) -> str:
    return f"autoload -Uz bashcompinit && bashcompinit\n{_bash(words)}"


def _fish(words: dict[str, list[str]]) -> str:
    first = f"-n __fish_use_subcommand -f -a {shlex.quote(' '.join(words))}"
    lines = [f"complete -c hushbeam {first}"]
    for name, known in words.items():
        seen = f"complete -c hushbeam -n '__fish_seen_subcommand_from {name}'"
        parts = [word for word in known if not word.startswith("--")]
        lines += [f"{seen} -f -a {shlex.quote(' '.join(parts))}"] * bool(parts)
        lines += [f"{seen} -l {word[2:]}" for word in known if word.startswith("--")]
    return "\n".join(lines) + "\n"


_SCRIPTS: dict[str, Callable[[dict[str, list[str]]], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
