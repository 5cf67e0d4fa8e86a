"""What the page libcushim(3) says, from the public headers: the blocks that tools/api-pages makes pages of."""
import importlib.machinery
import importlib.util
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST = ["library", "version", "device", "context", "memory", "memory_copy", "host", "stream", "event", "module", "function", "pool",
         "arena", "graph", "client", "mapped", "preload", "status"]


def api_pages():
    loader = importlib.machinery.SourceFileLoader("api_pages", str(ROOT / "tools/api-pages"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("api_pages", loader))
    loader.exec_module(module)
    return module


def functions(api, header):
    """(prototype, what it does) of each block of a header."""
    for comment, code in api.pieces(header):
        if comment and comment.startswith("/**"):
            documented, _ = api.statements(code)
            if documented:
                yield api.prototypes_of("\n".join(documented)), " ".join(api.block_of(comment)[0].split())


def body(plain):
    api = api_pages()
    out = [".SH NAME", plain("libcushim - CUDA memory, streams, modules and graphs on the driver API"),
           ".SH SYNOPSIS", ".nf", plain("#include <cushim/cushim.h>"), "", plain("cc program.c $(pkg-config --cflags --libs cushim)"), ".fi",
           ".SH DESCRIPTION",
           plain("Pools and arenas of CUDA memory by name, for programs that link this library. It loads the driver at the first use."),
           plain("What each parameter may be, which threads may call and in which stream order is in the headers.")]
    for name in FIRST:
        header = (ROOT / api.HEADERS / f"{name}.h").read_text()
        found = list(functions(api, header))
        if found:
            head = api.text_of(api.COMMENT.match(header).group()).split("\n\n")[0]
            out += [f".SS {plain(f'cushim/{name}.h')}", plain(" ".join(head.split()))]
        for prototypes, sentence in found:
            out += [".PP", ".nf", *map(plain, prototypes.splitlines()), ".fi", ".RS 4", plain(sentence), ".RE"]
    out += [".SH RETURN VALUE", plain("Most functions return an enum cushim_status: 0, or one of these. cushim_last_error has the text.")]
    rows = re.findall(r'^STATUS\((-?\d+), (\w+), \w+, "([^"]*)"\)', (ROOT / "src/base/status.def").read_text(), re.MULTILINE)
    for number, word, text in rows:
        out += [".TP", f"\\fB{plain('CUSHIM_' + word)}\\fR ({plain(number)})", plain(text)]
    return out
