"""The build of the wheel: meson-python's, with a tag that says what is true.

Libraries that Python never imports make meson-python tag the wheel for one version of Python; ours fits each.
"""
import base64
import hashlib
import pathlib
import re
import zipfile

import mesonpy
from mesonpy import build_editable, build_sdist, get_requires_for_build_sdist, get_requires_for_build_wheel  # noqa: F401

VERSION_TAG = re.compile(r"-cp\d+-\w+?-(?=[^-]+\.whl$)")


def retagged(text):
    """The file WHEEL, for every Python 3."""
    return re.sub(r"^Tag: cp\d+-\w+-", "Tag: py3-none-", text, flags=re.MULTILINE)


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def retag(old):
    """Write the wheel again, all but two files of it as they were; returns its new path."""
    new = old.with_name(VERSION_TAG.sub("-py3-none-", old.name))
    if new == old:
        return new
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as target:
        line = ""
        for item in source.infolist():
            data = source.read(item)
            if item.filename.endswith(".dist-info/WHEEL"):
                data = retagged(data.decode()).encode()
                line = record_line(item.filename, data)
            elif item.filename.endswith(".dist-info/RECORD"):  # the last one
                name = item.filename.replace("/RECORD", "/WHEEL")
                data = re.sub(rf"^{re.escape(name)},.*$", line, data.decode(), flags=re.MULTILINE).encode()
            target.writestr(item, data)
    old.unlink()
    return new


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)
    return retag(pathlib.Path(wheel_directory, name)).name
