"""A test that builds the tree once more does so as the build that runs it, in a folder as deep: ccache has those objects."""
import json
import pathlib


def folder(source, build):
    """Where a copy of the tree is built, from its root."""
    source, build = pathlib.Path(source).resolve(), pathlib.Path(build).resolve()
    return build.relative_to(source) if build.is_relative_to(source) else pathlib.Path("build")


def options(build):
    """For `meson setup`: what is in the command of a compiler."""
    rows = json.loads(pathlib.Path(build, "meson-info/intro-buildoptions.json").read_text())
    values = {row["name"]: row["value"] for row in rows}
    return [f"-Doptimization={values['optimization']}", f"-Ddebug={str(values['debug']).lower()}", f"-Dwerror={str(values['werror']).lower()}",
            f"-Dc_args={','.join(values['c_args'])}"]
