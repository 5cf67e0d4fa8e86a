"""`python -m cushim ...` is `cushim ...`: this process becomes the command."""
import os
import sys

from ._files import command_path


def main() -> int:
    program = command_path()
    try:
        os.execv(program, ["cushim", *sys.argv[1:]])
    except OSError as error:
        print(f"cushim: {program} cannot be started: {error.strerror}", file=sys.stderr)
    return 125


if __name__ == "__main__":
    sys.exit(main())
