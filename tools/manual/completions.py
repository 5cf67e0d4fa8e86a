"""Completions of the command, for one shell.

    completions.py CUSHIM bash|zsh|fish FILE
"""
import pathlib
import sys

import pages

CUSHIM, SHELL, FILE = sys.argv[1:4]
COMMANDS, TOPICS, OPTIONS = pages.commands(CUSHIM), pages.topics(CUSHIM), pages.options(CUSHIM)
FLAGS = {name: pages.flags(CUSHIM, name) for name in COMMANDS if name not in ("run", "record", "help")}
# Commands that take a file, where others take a program.
READERS = {"report", "replay", "merge", "diff"}
# Whose value is a name of a file.
FILES = {"stats"}


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def bash():
    """Words with = are split there by readline: what stands behind it is completed alone."""
    cases = "\n".join(f"    {name}) words='{' '.join(words)}' ;;" for name, words, *_ in OPTIONS if words)
    others = "\n".join(f"""    {name})
        case $word in
        -*) COMPREPLY=($(compgen -W '{' '.join(flags)} --help' -- "$word")) ;;
        *) COMPREPLY=($(compgen -{'f' if name in READERS else 'c'} -- "$word")) ;;
        esac
        ;;""" for name, flags in FLAGS.items())
    names = " ".join(f"--{name}{'=' if needs else ''}" for name, _, needs, *_ in OPTIONS)
    return f"""# bash completion of cushim: written from `cushim help`, as the manual is
_cushim_values() {{
    local words=
    case $1 in
{cases}
    {'|'.join(sorted(FILES))}) COMPREPLY=($(compgen -f -- "$2")) && return ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$2"))
}}

_cushim() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} i
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W '{' '.join(COMMANDS)} --version --help' -- "$word"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
    help) COMPREPLY=($(compgen -W '{' '.join(TOPICS)}' -- "$word")) ;;
{others}
    run | record)
        if [ "$word" = = ]; then
            _cushim_values "${{before#--}}" ''
        elif [ "$before" = = ]; then
            before=${{COMP_WORDS[COMP_CWORD - 2]}}
            _cushim_values "${{before#--}}" "$word"
        else
            for ((i = 2; i < COMP_CWORD; i++)); do # behind the program all is the program's
                case ${{COMP_WORDS[i]}} in
                --) [ $((i + 1)) = "$COMP_CWORD" ] && COMPREPLY=($(compgen -c -- "$word")) || compopt -o default
                    return ;;
                --* | =) ;;
                *) [ "${{COMP_WORDS[i - 1]}}" = = ] || {{ compopt -o default; return; }} ;;
                esac
            done
            case $word in
            -*) compopt -o nospace
                COMPREPLY=($(compgen -W '{names} --help' -- "$word")) ;;
            *) COMPREPLY=($(compgen -c -- "$word")) ;;
            esac
        fi
        ;;
    esac
}}
complete -F _cushim cushim
"""


def zsh():
    def spec(name, words, needs, _variable, _preset, sentence):
        said = sentence.replace("[", "(").replace("]", ")").replace(":", "\\:")
        values = f"({' '.join(words)})" if words else "_files" if name in FILES else " "
        return "    " + quoted(f"--{name}=-[{said}]{':' if needs else '::'}value:{values}")

    others = "\n".join(f"{name}) shift words; ((CURRENT--)); _arguments {' '.join(flags)} '*::{'recording:_files' if name in READERS else 'program:_normal'}' ;;" for name, flags in FLAGS.items())
    rows = "\n".join("    " + quoted(f"{name}:{said}") for name, said in COMMANDS.items())
    options = " \\\n".join(spec(*row) for row in OPTIONS)
    return f"""#compdef cushim
# zsh completion of cushim: written from `cushim help`, as the manual is
local -a commands
commands=(
{rows}
)
if ((CURRENT == 2)); then
  _describe command commands
  return
fi
case $words[2] in
help) compadd {' '.join(TOPICS)} ;;
{others}
run|record)
  shift words
  ((CURRENT--))
  _arguments -S \\
{options} \\
    '(-):program: _command_names -e' '*::arguments: _normal'
  ;;
esac
"""


def fish():
    lines = ["# fish completion of cushim: written from `cushim help`, as the manual is", "complete -c cushim -f"]
    for name, said in COMMANDS.items():
        lines.append(f"complete -c cushim -n __fish_use_subcommand -a {name} -d {quoted(said)}")
    lines.append(f"complete -c cushim -n '__fish_seen_subcommand_from help' -a '{' '.join(TOPICS)}'")
    for name, flags in FLAGS.items():
        lines += [f"complete -c cushim -n '__fish_seen_subcommand_from {name}' -l {flag[2:]}" for flag in flags]
    lines.append("complete -c cushim -n '__fish_seen_subcommand_from run record doctor' -a '(__fish_complete_command)'")
    lines += [f"complete -c cushim -n '__fish_seen_subcommand_from {name}' -F" for name in sorted(READERS)]
    for name, words, needs, _variable, _preset, sentence in OPTIONS:
        values = f" -a '{' '.join(words)}'" if words else " -F" if name in FILES else ""
        lines.append(f"complete -c cushim -n '__fish_seen_subcommand_from run record' -l {name}{'' if not needs else ' -x' if words else ' -r'}{values} -d {quoted(sentence)}")
    return "\n".join(lines) + "\n"


pathlib.Path(FILE).write_text({"bash": bash, "zsh": zsh, "fish": fish}[SHELL]())
