"""Helpers for tests that build the tree again: with the same options as the current build and in a folder of the same
depth, so that ccache has the objects."""
import json
import shlex
import pathlib


def folder(source, build):
    """The build folder of a copy of the tree, relative to its root."""
    source, build = pathlib.Path(source).resolve(), pathlib.Path(build).resolve()
    return build.relative_to(source) if build.is_relative_to(source) else pathlib.Path("build")


def options(build):
    """The options for `meson setup` that appear in the commands of the compiler."""
    rows = json.loads(pathlib.Path(build, "meson-info/intro-buildoptions.json").read_text())
    values = {row["name"]: row["value"] for row in rows}
    return [f"-Doptimization={values['optimization']}", f"-Ddebug={str(values['debug']).lower()}", f"-Dwerror={str(values['werror']).lower()}",
            f"-Dc_args={shlex.join(values['c_args'])}"]
