"""libcushim-kernels.so for Python: every function of the public headers, by its prototype.

A tensor is passed as its address, a sequence as a host array of the parameter's type.  The stream is added as the last
parameter.  A status other than 0 becomes an exception with the library's text.
"""
import ctypes
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADERS = ROOT / "include" / "cushim" / "kernels"
PROTOTYPE = re.compile(r"CUSHIM_API\s+(enum cushim_status|size_t)\s+cushim_(\w+)\(([^;]*)\);", re.DOTALL)
NUMBERS = {"int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t,
           "int": ctypes.c_int, "float": ctypes.c_float, "double": ctypes.c_double, "bool": ctypes.c_bool}


class Refused(Exception):
    pass


def parameters(text):
    """(C type or None for a pointer, type that a pointer points to) of each."""
    found = []
    for part in re.sub(r"\s+", " ", text).split(","):
        words = part.replace("const ", "").replace("struct ", "").strip()
        if words == "void":
            continue
        kind, star, _ = words.partition("*")
        found.append((None, kind.strip()) if star else (NUMBERS[words.split()[0]], None))
    return found


def prototypes():
    """The functions of all headers: name to (result, parameters)."""
    return {name: (result, parameters(text)) for header in sorted(HEADERS.glob("*.h"))
            for result, name, text in PROTOTYPE.findall(header.read_text())}


class Library:
    def __init__(self, path, companion=None):
        if companion:  # if it is not beside the library
            ctypes.CDLL(str(companion), mode=ctypes.RTLD_GLOBAL)
        self.dll = ctypes.CDLL(str(path))
        self.companion = ctypes.CDLL("libcushim.so.0")
        self.last_error = self.companion.cushim_last_error
        self.last_error.restype = ctypes.c_char_p
        self.prototypes = prototypes()
        self.stream = 0  # of the calls that follow

    def __getattr__(self, name):
        result, taken = self.prototypes[name]
        function = getattr(self.dll, f"cushim_{name}")
        function.argtypes = [kind or ctypes.c_void_p for kind, _ in taken]
        function.restype = ctypes.c_size_t if result == "size_t" else ctypes.c_int
        has_stream = bool(taken) and taken[-1][1] == "CUstream_st"

        def call(*given):
            values = [self.converted(value, target) for value, (_, target) in zip(given, taken)]
            if has_stream:
                values.append(self.stream or None)
            answer = function(*values)
            if result != "size_t" and answer != 0:
                raise Refused(self.last_error().decode())
            return answer

        setattr(self, name, call)  # later uses find it directly
        return call

    @staticmethod
    def converted(value, target):
        if hasattr(value, "data_ptr"):
            return value.data_ptr()
        if isinstance(value, (list, tuple)):
            # the call copies it before it returns
            return ctypes.cast((NUMBERS[target] * max(1, len(value)))(*value), ctypes.c_void_p)
        return ctypes.addressof(value) if isinstance(value, ctypes.Structure) else value


class KvStrides(ctypes.Structure):
    """struct cushim_kv_strides."""
    _fields_ = [("batch", ctypes.c_int64), ("head", ctypes.c_int64), ("position", ctypes.c_int64)]


class KvCache(ctypes.Structure):
    """struct cushim_kv_cache."""
    _fields_ = [("k", ctypes.c_void_p), ("v", ctypes.c_void_p), ("strides", KvStrides), ("kv_begin", ctypes.c_void_p),
                ("kv_len", ctypes.c_void_p), ("max_kv_len", ctypes.c_int64), ("blocks", ctypes.c_void_p),
                ("blocks_per_sequence", ctypes.c_int64), ("block_len", ctypes.c_int64), ("type", ctypes.c_int), ("is_of_pointers", ctypes.c_bool)]
