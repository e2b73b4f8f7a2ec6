"""The house: who may import whom, and what must stay out of the wire languages."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAYERS = [  # each may import what stands above it
    ["gateway.core"],
    ["gateway.compression"],
    ["gateway.dialects"],
    ["gateway.backends.interface", "gateway.backends.wall"],
    ["gateway.net"],
    ["gateway.backends"],
    ["gateway.admin"],
    ["gateway.running"],
    ["gateway.capture"],
    ["gateway.configuration", "gateway.service", "gateway.held", "gateway.logging", "gateway.notify"],
    ["gateway.conformance", "gateway.pipeline", "gateway.bench"],
    ["gateway.cli"],
]
PURE = {"gateway.core", "gateway.compression", "gateway.dialects"}
NOT_PURE = {"twisted", "zope", "socket", "asyncio", "threading", "time", "random", "secrets", "os"}
CONSTRUCT_IN = "spec"


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((ROOT / "gateway").rglob("*.py"))
    }


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def layer(module: str) -> int:
    """The most specific entry wins; -1 = the package itself, which everybody may ask for its version."""
    found = [
        (len(name), at) for at, names in enumerate(LAYERS) for name in names if f"{module}.".startswith(f"{name}.")
    ]
    return max(found)[1] if found else -1


def test_imports_only_go_up() -> None:
    for name, path in modules().items():
        for imported in imports(path):
            if imported.startswith("gateway"):
                assert layer(imported) <= layer(name), f"{name} imports {imported}"


def test_the_wire_languages_know_no_clock_and_no_socket() -> None:
    for name, path in modules().items():
        if any(name.startswith(pure) for pure in PURE):
            roots = {imported.partition(".")[0] for imported in imports(path)}
            assert not roots & NOT_PURE, f"{name} imports {roots & NOT_PURE}"
            assert "construct" not in roots or name.endswith(f".{CONSTRUCT_IN}"), f"{name} imports construct"


def test_nothing_but_tests_and_the_fuzz_stage_loads_a_specification() -> None:
    loading = {
        name
        for name, path in modules().items()
        if any(imported.endswith(f".{CONSTRUCT_IN}") for imported in imports(path))
        or f'.{CONSTRUCT_IN}"' in path.read_text()  # by its name
    }
    assert loading == {"gateway.conformance.grammars"}


def test_loading_every_dialect_leaves_twisted_and_construct_out() -> None:
    code = (
        "import sys; from gateway import dialects; [dialects.load(n) for n in dialects.names()];"
        "sys.exit(' '.join({'twisted', 'construct'} & {m.partition('.')[0] for m in sys.modules}) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_twisted_folder_stays_no_package() -> None:
    assert not (ROOT / "twisted/__init__.py").exists()
    assert not (ROOT / "twisted/plugins/__init__.py").exists()
