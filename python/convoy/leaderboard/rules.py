"""The board's rules for a submission file, and this generator's own: checked on the text, without running it."""

import ast
import re

MOST_BYTES = 1_000_000
WORD = "str" + "eam"  # the letters that must not follow each other anywhere
ARCHES = ("80", "89", "90a", "100a")
_IMPORTS = {"warnings", "torch", "torch.nn.functional", "torch.utils.cpp_extension"}
_HEADERS = {"Python.h", "cuda.h", "cuda_runtime.h", "float.h", "limits.h", "math.h", "stddef.h", "stdint.h", "string.h"}
_NAMES = {"globals", "locals", "vars", "setattr", "delattr", "exec", "eval", "compile", "open", "__import__", "getattr"}
_ATTRIBUTES = {"benchmark", "deterministic", "allow_tf32", "backends", "use_deterministic_algorithms", "fp32_precision",
               "set_float32_matmul_precision", "_dict__", "__dict__", "__globals__", "modules", "_C", "ops"}


def _tree_faults(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name not in _IMPORTS:
                    yield f"it imports {name.name}"
        elif isinstance(node, ast.ImportFrom) and node.module not in _IMPORTS:
            yield f"it imports from {node.module}"
        elif isinstance(node, ast.Name) and node.id in _NAMES:
            yield f"it uses {node.id}"
        elif isinstance(node, ast.Attribute):
            if node.attr in _ATTRIBUTES:
                yield f"it touches .{node.attr}, which is the checker's"
            if not isinstance(node.ctx, ast.Load):
                yield f"it sets the attribute .{node.attr}"
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            yield "it keeps state between calls (global or nonlocal)"
        elif isinstance(node, (ast.Subscript,)) and not isinstance(node.ctx, ast.Load):
            yield "it stores into a container or a tensor by index"
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.decorator_list:
            yield f"{node.name} is decorated (no caches)"


def _build_faults(tree):
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", getattr(n.func, "attr", "")) == "load_inline"]
    if len(calls) != 1:
        yield f"it calls load_inline {len(calls)} times: expected once"
        return
    given = {k.arg: k.value for k in calls[0].keywords}
    if not (isinstance(given.get("no_implicit_headers"), ast.Constant) and given["no_implicit_headers"].value is True):
        yield "load_inline is not called with no_implicit_headers=True"
    flags = given.get("extra_cuda_cflags")
    texts = [e.value for e in getattr(flags, "elts", []) if isinstance(e, ast.Constant)]
    wanted = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHES]
    found = [t for t in texts if "gencode" in t or "arch" in t]
    if len(found) != 1 or found[0] not in wanted:
        yield f"its -gencode flags are {found}: expected one of {wanted}"
    if any("fast" in t and "math" in t for t in texts):
        yield "it is compiled with fast-math"


def faults(data):
    """Every rule that the bytes of a file break, in words; an empty list when none."""
    out = []
    if len(data) > MOST_BYTES:
        out.append(f"it has {len(data)} bytes: expected at most {MOST_BYTES}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return out + [f"it is not UTF-8: {error}"]
    lines = text.splitlines()
    if not lines or lines[0] != "#!POPCORN leaderboard conv2d_v2":
        out.append("its first line is not '#!POPCORN leaderboard conv2d_v2'")
    if len(lines) < 2 or not re.fullmatch(r"#!POPCORN gpu [A-Z0-9]+", lines[1]):
        out.append("its second line is not '#!POPCORN gpu NAME'")
    for number, line in enumerate(lines, 1):
        if WORD in line.lower():
            out.append(f"line {number} has the letters that the board forbids")
    if WORD in re.sub(r"\s", "", text).lower() and not any("letters" in o for o in out):
        out.append("the forbidden letters follow each other across white space")
    for header in re.findall(r"#\s*include\s*[<\"]([^>\"]+)[>\"]", text):
        if header not in _HEADERS:
            out.append(f"it includes {header}")
    if re.search(r"\bpip\b", text):
        out.append("it names pip")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return out + [f"it is not Python: {error}"]
    entry = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "custom_kernel"]
    if len(entry) != 1 or len(entry[0].args.args) != 1:
        out.append("it has no custom_kernel(data)")
    return out + list(dict.fromkeys(list(_tree_faults(tree)) + list(_build_faults(tree))))
