"""Completions of the command, for one shell.

    completions.py CUSHIM bash|zsh|fish FILE
"""
import pathlib
import sys

import pages

CUSHIM, SHELL, FILE = sys.argv[1:4]
COMMANDS, TOPICS, OPTIONS = pages.commands(CUSHIM), pages.topics(CUSHIM), pages.options(CUSHIM)
RUN = {f"--{name}": (words, pages.NEEDS if needs else pages.MAY_HAVE, sentence) for name, words, needs, _variable, _preset, sentence, _values in OPTIONS}
STARTERS = {"run", "record"}  # they take the options of `cushim run`, and a program
PROGRAMS = STARTERS | {"sim", "doctor"}
READERS = {"report", "replay", "merge", "diff"}  # what they take is a file
FILES = {"--stats", "--trace", "--file", "--shared", "-o"}  # whose value is the name of one


def options_of(command):
    """{option: (its words or None, whether it has a value, what it does)}."""
    own = {name: (words, value, "") for name, (words, value) in pages.flags(CUSHIM, command).items() if name != "--markdown"}
    more = RUN if command == "run" else {name: row for name, row in RUN.items() if name != "--trace"}  # record has -o for that
    return {**({name: row for name, row in own.items() if name not in RUN}), **more} if command in STARTERS else own


TABLE = {name: options_of(name) for name in COMMANDS if name != "help"}


def is_long(name):
    return name.startswith("--")


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def bash():
    """Words with = are split there by readline: what stands behind it is completed alone."""
    def names(command):
        return " ".join(f"{name}{'=' if value == pages.NEEDS and is_long(name) else ''}" for name, (_, value, _) in TABLE[command].items())

    values = sorted({f"    {command}{name}) words='{' '.join(words)}' ;;" for command in TABLE for name, (words, *_) in TABLE[command].items() if words})
    needing = "|".join(f"{command}{name}" for command in TABLE for name, (_, value, _) in TABLE[command].items() if value == pages.NEEDS)
    return f"""# bash completion of cushim: written from `cushim help`, as the manual is
_cushim_values() {{ # COMMAND--OPTION VALUE
    local words=
    case $1 in
{chr(10).join(values)}
    *{' | *'.join(sorted(FILES))}) COMPREPLY=($(compgen -f -- "$2")) && return ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$2"))
}}

_cushim_needs_value() {{
    case $1 in {needing}) ;; *) return 1 ;; esac
}}

_cushim() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command=${{COMP_WORDS[1]}} names= others=c i
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W '{' '.join(COMMANDS)} --version --help' -- "$word"))
        return
    fi
    case $command in
    help) COMPREPLY=($(compgen -W '{' '.join(TOPICS)}' -- "$word")) && return ;;
{chr(10).join(f"    {command}) names='{names(command)} --help' ;;" for command in TABLE)}
    *) return ;;
    esac
    case $command in {' | '.join(sorted(READERS))}) others=f ;; esac
    if [ "$word" = = ]; then
        _cushim_values "$command$before" ''
        return
    elif [ "$before" = = ]; then
        _cushim_values "$command${{COMP_WORDS[COMP_CWORD - 2]}}" "$word"
        return
    elif _cushim_needs_value "$command$before"; then
        _cushim_values "$command$before" "$word"
        return
    fi
    case $command in
    {' | '.join(sorted(PROGRAMS))})
        for ((i = 2; i < COMP_CWORD; i++)); do # behind the program all is the program's
            case ${{COMP_WORDS[i]}} in
            --) [ $((i + 1)) = "$COMP_CWORD" ] && COMPREPLY=($(compgen -c -- "$word")) || compopt -o default
                return ;;
            -* | =) ;;
            *) [ "${{COMP_WORDS[i - 1]}}" = = ] || _cushim_needs_value "$command${{COMP_WORDS[i - 1]}}" || {{ compopt -o default; return; }} ;;
            esac
        done ;;
    esac
    case $word in
    -*) COMPREPLY=($(compgen -W "$names" -- "$word"))
        case ${{COMPREPLY[0]}} in *=) compopt -o nospace ;; esac ;;
    *) COMPREPLY=($(compgen -$others -- "$word")) ;;
    esac
}}
complete -F _cushim cushim
"""


def zsh():
    def spec(name, words, value, sentence):
        said = sentence.replace("[", "(").replace("]", ")").replace(":", "\\:")
        values = f"({' '.join(words)})" if words else "_files" if name in FILES else " "
        said = f"[{said}]" if said else ""
        given = {pages.NO_VALUE: said, pages.MAY_HAVE: f"=-{said}::value:{values}", pages.NEEDS: f"{'=' if is_long(name) else ''}{said}:value:{values}"}
        return "    " + quoted(name + given[value])

    def case(command):
        rest = (["'(-):program: _command_names -e'", "'*::arguments: _normal'"] if command in PROGRAMS else ["'*:recording:_files'"] if command in READERS else [])
        specs = [spec(name, *row) for name, row in TABLE[command].items()] + [f"    {one}" for one in rest]
        return f"{command})\n  shift words\n  ((CURRENT--))\n  _arguments {'-S ' if command in PROGRAMS else ''}\\\n" + " \\\n".join(specs) + "\n  ;;"

    rows = "\n".join("    " + quoted(f"{name}:{said}") for name, said in COMMANDS.items())
    return f"""#compdef cushim
# zsh completion of cushim: written from `cushim help`, as the manual is
local -a own_commands # zsh's own array of programs is called commands
own_commands=(
{rows}
)
if ((CURRENT == 2)); then
  _describe command own_commands
  return
fi
case $words[2] in
help) compadd {' '.join(TOPICS)} ;;
{chr(10).join(case(command) for command in TABLE)}
esac
"""


def fish():
    lines = ["# fish completion of cushim: written from `cushim help`, as the manual is", "complete -c cushim -f"]
    for name, said in COMMANDS.items():
        lines.append(f"complete -c cushim -n __fish_use_subcommand -a {name} -d {quoted(said)}")
    lines.append(f"complete -c cushim -n '__fish_seen_subcommand_from help' -a '{' '.join(TOPICS)}'")
    lines.append(f"complete -c cushim -n '__fish_seen_subcommand_from {' '.join(sorted(PROGRAMS))}' -a '(__fish_complete_command)'")
    lines.append(f"complete -c cushim -n '__fish_seen_subcommand_from {' '.join(sorted(READERS))}' -F")
    for command in TABLE:
        for name, (words, value, sentence) in TABLE[command].items():
            needs = value == pages.NEEDS
            values = (" -x" if needs else "") + f" -a '{' '.join(words)}'" if words else (" -r" if needs else "") + (" -F" if name in FILES else "")
            said = f" -d {quoted(sentence)}" if sentence else ""
            lines.append(f"complete -c cushim -n '__fish_seen_subcommand_from {command}' {f'-l {name[2:]}' if is_long(name) else f'-s {name[1:]}'}{values}{said}")
    return "\n".join(lines) + "\n"


pathlib.Path(FILE).write_text({"bash": bash, "zsh": zsh, "fish": fish}[SHELL]())
