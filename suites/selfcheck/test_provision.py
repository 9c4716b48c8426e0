"""Provisioning: from wheels made here, with pip kept off the network, to ready environments or one clear sentence."""

from __future__ import annotations

import importlib.util
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from harness.provision import (
    Alias,
    EmulatedSite,
    EmulatedWheel,
    Environment,
    ProvisionError,
    Sysroot,
    Venv,
    WheelMember,
    build,
    cache,
    check,
    emulated,
    find,
    installed,
    pip,
    provision,
    remove,
    sysroot,
    wheel,
)

NONE = "ERROR: Could not find a version that satisfies the requirement"
TOOL = "#!/bin/sh\necho gadget {version}\n"


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str], requires: tuple[str, ...] = ()) -> Path:
    stem = f"{name}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {one}\n" for one in requires)
    contents = {
        **files,
        f"{stem}.dist-info/METADATA": metadata,
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    contents[f"{stem}.dist-info/RECORD"] = "".join(f"{path},,\n" for path in (*contents, f"{stem}.dist-info/RECORD"))
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in contents.items():
            archive.writestr(member, text)
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of two versions of one project and something unwanted, and a cache of our own."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        files = {"gadget/__init__.py": f"version = {version!r}\n", "gadget/tool": TOOL.format(version=version)}
        make_wheel(folder, "gadget", version, files, ("nuisance",))
    make_wheel(folder, "nuisance", "0.1", {"nuisance.py": "raise RuntimeError\n"})
    monkeypatch.setenv("AFERE_CACHE", str(tmp_path / "cache"))
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(folder), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return folder


def member(version: str = "2.0", **changes: Any) -> WheelMember:
    recipe = WheelMember(project="gadget", version=version, member="gadget/tool", probe=(), disk_bytes=0)
    return msgspec.structs.replace(recipe, **changes)


def test_one_file_of_a_wheel(index: Path) -> None:
    steps: list[str] = []
    made = provision(member(), "gadget@2.0", progress=steps.append)
    assert made.program is not None
    assert Path(made.program).read_text() == TOOL.format(version="2.0")
    assert made.versions == {"gadget": "2.0"}
    assert 0 < made.bytes < 1_000_000
    assert not list(Path(made.path).rglob("*.whl"))
    assert any("fetching gadget==2.0" in step for step in steps)
    assert installed() == [made]


def test_a_second_time_is_instant_and_a_new_recipe_is_not(index: Path) -> None:
    first = provision(member(), "gadget@2.0")
    for path in index.iterdir():
        path.unlink()
    steps: list[str] = []
    assert provision(member(), "gadget@2.0", progress=steps.append) == first
    assert steps == []
    with pytest.raises(ProvisionError):  # it tries, and finds no wheel any more
        provision(member(probe=("--help",)), "gadget@2.0")


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (member("1.7"), "there is no gadget==1.7; the nearest are 1.0, 2.0"),
        (member(project="gizmo"), "the package index has nothing that fits gizmo==2.0"),
        (member(member="gadget/engine"), "the wheel of gadget==2.0 has no file 'gadget/engine'"),
        (member(disk_bytes=1 << 60), "GB left; free some, or set AFERE_CACHE"),
        (Venv(("gadget",), imports=("nuisance",), disk_bytes=0), "import nuisance failed(?s:.*)RuntimeError"),
        (Venv(("gadget==3",), disk_bytes=0), "there is no gadget==3; the nearest are 1.0, 2.0"),
        (Venv(("gadget",), aliases=(Alias("gizmo", of="widget"),), disk_bytes=0), "'widget' was not installed"),
    ],
)
def test_what_was_not_found_is_named_and_nothing_is_left(recipe: Any, said: str, index: Path) -> None:
    with pytest.raises(ProvisionError, match=f"(?s)^gadget@x.*{said}"):
        provision(recipe, "gadget@x")
    assert installed() == []
    assert not cache.folder("gadget@x").exists()


def test_a_program_that_does_not_start_is_not_ready(index: Path) -> None:
    make_wheel(index, "broken", "1.0", {"broken/tool": "#!/bin/sh\necho wrong libc; exit 1\n"})
    with pytest.raises(ProvisionError, match=r"exited with status 1(?s:.*)wrong libc"):
        provision(member("1.0", project="broken", member="broken/tool"), "broken@1.0")


def test_a_virtual_environment(index: Path) -> None:
    recipe = Venv(
        requirements=("gadget==1.0",),
        remove=("nuisance", "never-there"),
        aliases=(Alias("gizmo", of="gadget"), Alias("widget", of="gadget", local="cpu")),
        imports=("gadget",),
        disk_bytes=0,
    )
    made = provision(recipe, "gadget@1.0")
    assert made.versions == {"gadget": "1.0", "gizmo": "1.0", "widget": "1.0+cpu"}
    assert check("gadget@1.0").ok
    assert Path(made.script("python")).exists()
    with pytest.raises(ProvisionError, match=r"has no command 'gadget'"):
        made.script("gadget")


def test_the_added_metadata_is_what_a_program_finds(index: Path, tmp_path: Path) -> None:
    recipe = Venv(("gadget==1.0",), aliases=(Alias("gizmo", of="gadget"),), disk_bytes=0)
    made = provision(recipe, "gadget@1.0")
    changed = msgspec.structs.replace(
        made, probe=("-c", "import importlib.metadata as m; assert m.version('gizmo') == '1.0'")
    )
    cache.write_marker(changed)
    assert check("gadget@1.0").ok


def test_what_was_interrupted_is_built_again(index: Path) -> None:
    half = cache.folder("gadget@2.0")
    (half / "bin").mkdir(parents=True)
    (half / "bin" / "tool").write_text("half of i")
    (half / "ready.part").write_text("{")
    assert find("gadget@2.0") is None
    assert installed() == []
    made = provision(member(), "gadget@2.0")
    assert made.program is not None
    assert Path(made.program).read_text() == TOOL.format(version="2.0")


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interruption_leaves_nothing_that_looks_ready(
    interruption: BaseException, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_environment: object) -> None:
        raise interruption

    with monkeypatch.context() as patch:
        patch.setattr(cache, "write_marker", interrupt)
        with pytest.raises((KeyboardInterrupt, ProvisionError), match=r"No space left on device|^$"):
            provision(member(), "gadget@2.0")
    assert find("gadget@2.0") is None
    assert not cache.folder("gadget@2.0").exists()
    assert provision(member(), "gadget@2.0").program


def test_two_runs_at_once_build_once(index: Path) -> None:
    waiting = threading.Event()
    made: list[Any] = []

    def other() -> None:
        made.append(
            provision(member(), "gadget@2.0", progress=lambda said: waiting.set() if "waiting" in said else None)
        )

    with cache.locked("gadget@2.0", lambda _: None):
        thread = threading.Thread(target=other)
        thread.start()
        assert waiting.wait(60)
        assert find("gadget@2.0") is None
    thread.join()
    assert made == installed()


def fake(name: str, **fields: Any) -> Environment:
    """An environment that nothing had to be fetched for."""
    path = cache.folder(name)
    path.mkdir(parents=True)
    (path / "data").write_bytes(bytes(10_000))
    made = Environment(name, "wheel-member", str(path), bytes=cache.disk_use(path), **fields)
    cache.write_marker(made)
    return made


def test_remove_frees_and_takes_along_what_only_it_needed(index: Path) -> None:
    shared, own, top = fake("base@1.0", internal=True), fake("own@1.0"), fake("top@2.0")
    for name in ("first@1", "second@1"):
        fake(name, needs=("base@1.0", "own@1.0"))
    with pytest.raises(ProvisionError, match="needed by first@1, second@1"):
        remove("base@1.0")
    remove("first@1")
    assert find("base@1.0") == shared
    assert remove("second@1") >= 2 * shared.bytes
    assert installed() == [own, top]
    with pytest.raises(ProvisionError, match=r"'nothing@1' is not installed; installed are: own@1\.0, top@2\.0"):
        remove("nothing@1")


def test_check_tells_what_is_wrong(index: Path) -> None:
    made = provision(member(probe=("x",)), "gadget@2.0")
    assert made.program is not None
    assert check("gadget@2.0").ok
    Path(made.program).write_text("#!/bin/sh\necho a library is gone; exit 127\n")
    wrong = check("gadget@2.0")
    assert not wrong.ok
    assert "a library is gone" in wrong.says
    Path(made.program).unlink()
    assert "is gone" in check("gadget@2.0").says
    assert "not installed" in check("gadget@9").says


@pytest.mark.parametrize("name", ["gadget", "gadget@", "@1", "../x@1", "a/b@1", "gadget@1:x:y", "gadget@1 2", ""])
def test_a_name_that_is_none_is_refused(name: str, index: Path) -> None:
    with pytest.raises(ProvisionError, match="must be NAME@VERSION"):
        provision(member(), name)


def test_a_cache_folder_that_search_paths_cannot_carry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFERE_CACHE", "/tmp/a:b")
    with pytest.raises(ProvisionError, match="set AFERE_CACHE to a path without it"):
        cache.root()


def test_a_marker_in_a_moved_cache_does_not_count(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provision(member(), "gadget@2.0")
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    monkeypatch.setenv("AFERE_CACHE", str(tmp_path / "elsewhere"))
    assert installed() == []


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("ERROR: [Errno 28] No space left on device", "the disk is full"),
        (
            f"WARNING: Retrying after 'NewConnectionError: refused'\n{NONE} gadget (from versions: none)",
            "cannot be reached",
        ),
        (
            f"{NONE} part==2.0+cpu (from gadget) (from versions: 1.0, 2.0)",
            r"there is no part==2.0\+cpu; the nearest are 1.0, 2.0; builds marked '\+cpu' lie on part's own index",
        ),
        ("ERROR: ResolutionImpossible: for help visit", "pip failed: ResolutionImpossible"),
        ("Traceback\nValueError: bad", "pip failed: Traceback ValueError: bad"),
    ],
)
def test_pips_complaints_in_one_sentence(printed: str, said: str) -> None:
    with pytest.raises(ProvisionError, match=f"doing: .*{said}"):
        raise pip.explain("doing", printed.splitlines())


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, unique=True),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_the_nearest_versions_are_around_the_one_asked_for(
    known: list[tuple[int, int]], major: int, minor: int
) -> None:
    versions = [f"{a}.{b}" for a, b in known]
    asked = Version(f"{major}.{minor}")
    near = [Version(v) for v in pip.nearest(f"gadget=={asked}", versions)]
    assert near == sorted(near)
    assert len(near) == min(pip.NEAREST, len(versions))
    below = [v for v in map(Version, versions) if v < asked]
    above = [v for v in map(Version, versions) if v >= asked]
    assert not below or max(below) in near
    assert not above or min(above) in near


def test_no_pip_is_said_and_not_stumbled_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ProvisionError, match="has no pip"):
        pip.command()


@pytest.mark.parametrize(
    "recipe",
    [
        Sysroot(disk_bytes=0),
        EmulatedSite(("x==1",), disk_bytes=0),
        EmulatedWheel("x", "1", ("*",), pinned="y", disk_bytes=0),
    ],
)
def test_missing_host_tools_are_all_named_with_the_line_that_installs_them(
    recipe: Any, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysroot, "first_on_path", lambda *_names: None)
    with pytest.raises(ProvisionError) as caught:
        provision(recipe, "x@1")
    said = str(caught.value)
    for tool in ("qemu-aarch64-static", "debootstrap", "aarch64-linux-gnu-ld"):
        assert tool in said
    assert "apt-get install --no-install-recommends qemu-user-static debootstrap binutils-aarch64-linux-gnu" in said


def test_the_pin_is_read_for_the_machine_it_is_for(tmp_path: Path) -> None:
    requires = (
        'Part==2.0+cpu; platform_machine == "x86_64"',
        'part==2.1; platform_machine == "aarch64"',
        "other>=1",
    )
    made = make_wheel(tmp_path, "gadget", "1.0", {}, requires)
    assert wheel.pinned(made, "part", {"platform_machine": "aarch64"}) == "2.1"
    assert wheel.pinned(made, "part", {"platform_machine": "x86_64"}) == "2.0+cpu"
    assert wheel.pinned(made, "other", {}) is None


def test_a_wheel_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    made = make_wheel(tmp_path, "gadget", "1.0", {"../evil": "x"})
    with pytest.raises(ProvisionError, match="unsafe path"):
        wheel.unpack(made, tmp_path / "into")


def test_the_launcher_keeps_awkward_paths_together(tmp_path: Path) -> None:
    home = tmp_path / "it's a cache"
    home.mkdir()
    launcher = emulated._launcher(EmulatedSite(("x==1",)), home, home / "root", "/usr/bin/python3")
    text = launcher.read_text()
    assert text.startswith("#!/bin/sh\nexec ")
    import shlex

    words = shlex.split(text.splitlines()[1])
    assert f"PYTHONPATH={home / 'site'}" in words
    assert words[-2:] == ["/usr/bin/python3", "$@"]


@pytest.mark.real_target
@pytest.mark.skipif(bool(sysroot.missing_tools("aarch64")), reason="the emulator and its tools are not installed")
def test_an_emulated_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFERE_CACHE", str(tmp_path / "cache"))
    made = provision(EmulatedSite(("markupsafe",), imports=("markupsafe._speedups",), disk_bytes=0), "arm@1")
    probe = ("-c", "import platform; assert platform.machine() == 'aarch64'")
    cache.write_marker(msgspec.structs.replace(made, probe=probe))
    assert check("arm@1").ok
    assert [e.name for e in installed()] == ["arm@1", "sysroot-aarch64@bookworm"]
    remove("arm@1")
    assert installed() == []


def test_every_recipe_has_a_builder() -> None:
    table: Callable[[Any], Any] = build._builder
    for recipe in (member(), Venv(()), Sysroot(), EmulatedSite(()), EmulatedWheel("x", "1", (), pinned="y")):
        assert callable(table(recipe))
