"""`dlbuild completion`: what a shell reads once, so that Tab completes verbs and options."""

import argparse
from collections.abc import Mapping
from importlib import import_module

from dlbuild.cli.arguments import Parser, parser_of
from dlbuild.cli.verbs import VALUE_OPTIONS, VERBS, Verb

SHELLS = ("bash", "zsh", "fish")


def arguments(parser: Parser) -> None:
    """Add its options."""
    parser.add_argument("shell", choices=SHELLS)


def run(given: argparse.Namespace) -> int:
    """Print the script; to complete costs no start of dlbuild."""
    known = {name: _options(verb) for name, verb in VERBS.items()}
    scripts = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    print(scripts[given.shell](known), end="")
    return 0


def _options(verb: Verb) -> tuple[str, ...]:
    parser = parser_of(verb.name, verb.summary)
    # The table names modules; each says its own options.
    import_module(verb.module).arguments(parser)
    return tuple(parser.options)


def _bash(known: Mapping[str, tuple[str, ...]]) -> str:
    cases = "\n".join(
        f"    {verb}) words='{' '.join(options)}' ;;" for verb, options in known.items()
    )
    return f"""\
# dlbuild completion bash >> ~/.bash_completion
_dlbuild() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} verb= words= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
    {" | ".join(VALUE_OPTIONS)}) i=$((i + 1)) ;;
    -*) ;;
    *) verb=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  case $verb in
    '') words='{" ".join(known)}' ;;
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _dlbuild dlbuild
"""


def _zsh(known: Mapping[str, tuple[str, ...]]) -> str:
    verbs = "\n".join(f"    '{name}:{VERBS[name].summary}'" for name in known)
    cases = "\n".join(
        f"  {verb}) compadd -- {' '.join(options)}; _files ;;" for verb, options in known.items()
    )
    return f"""\
#compdef dlbuild
# dlbuild completion zsh > "${{fpath[1]}}/_dlbuild"
_dlbuild() {{
  local -a verbs=(
{verbs}
  )
  if ((CURRENT == 2)); then
    _describe verb verbs
    return
  fi
  case ${{words[2]}} in
{cases}
  esac
}}
_dlbuild "$@"
"""


def _fish(known: Mapping[str, tuple[str, ...]]) -> str:
    lines = ["# dlbuild completion fish > ~/.config/fish/completions/dlbuild.fish"]
    for name, options in known.items():
        summary = VERBS[name].summary.replace("'", "\\'")
        lines.append(f"complete -c dlbuild -n __fish_use_subcommand -a {name} -d '{summary}'")
        for option in options:
            form = "-l" if option.startswith("--") else "-s"
            seen = f"'__fish_seen_subcommand_from {name}'"
            lines.append(f"complete -c dlbuild -n {seen} {form} {option.lstrip('-')}")
    return "\n".join(lines) + "\n"
