"""The registry: what plugins offer, and how their mistakes stay their own."""

import importlib
import signal
import subprocess
import sys
import time
import types

import pytest

from slideseek.errors import PluginError
from slideseek.hookspecs import hookimpl
from slideseek.plugins import (
    COMPONENT_KINDS,
    LIMIT_VARIABLE,
    Registry,
    import_limit,
    load_registry,
    needs_application,
    output_aside,
)


def plugin(**hooks):
    module = types.SimpleNamespace()
    for name, function in hooks.items():
        setattr(module, name, hookimpl(function))
    return module


def offers(name, target="slideseek_components.encoders.mean:Mean"):
    def register_encoders(register):
        register(name, target, "a test encoder")

    return plugin(register_encoders=register_encoders)


def test_every_bundled_component_loads_and_honours_its_kind():
    registry = load_registry()
    assert registry.broken == ()
    for kind in COMPONENT_KINDS:
        entries = registry.registrations(kind)
        assert entries
        for entry in entries:
            assert registry.load(kind, entry.name)


def test_listing_is_sorted_and_complete():
    names = [e.name for e in load_registry().registrations("encoder")]
    assert names == sorted(names)
    assert {"yottixel", "mean"} <= set(names)


def test_unknown_name_shows_the_nearest():
    with pytest.raises(PluginError, match=r"no encoder named 'yotixel': did you mean 'yottixel'\?"):
        load_registry().find("encoder", "yotixel")


def test_unknown_name_far_from_all_lists_them():
    with pytest.raises(PluginError, match=r"available: .*hamming"):
        load_registry().find("index", "zzzz")


def test_duplicate_name_is_an_error_when_used_naming_both_owners():
    registry = load_registry(extra=[("one", offers("same")), ("two", offers("same"))])
    assert len([e for e in registry.registrations("encoder") if e.name == "same"]) == 2
    with pytest.raises(PluginError, match="registered twice, by one - and by two -: write 'one:same' or 'two:same'"):
        registry.find("encoder", "same")
    with pytest.raises(PluginError, match=r"disable it: SLIDESEEK_DISABLED_PLUGINS=one$"):
        registry.find("encoder", "same")
    with pytest.raises(PluginError, match=r"no encoder named 'tow:same': did you mean 'two:same'\?"):
        registry.find("encoder", "tow:same")
    with pytest.raises(PluginError, match=r"available: one:same, two:same$"):
        registry.find("encoder", "another-distribution:same")


def test_a_broken_plugin_is_the_fix_of_a_name_that_is_missing():
    registry = load_registry(extra=[("bad", plugin(register_encoders=raising))])
    with pytest.raises(PluginError) as caught:
        registry.find("encoder", "zzzz")
    shown = "plugin 'bad' of bad -: RuntimeError: boom second line (1 broken: see 'slideseek plugins list')"
    assert caught.value.fix == shown, "and no list of all names"


def leaving(register):
    sys.exit("no licence found")


def wrong_argument(registrar):
    registrar("x", "y:Z", "s")


def raising(register):
    register("half", "a.b:C", "registered before the crash")
    raise RuntimeError("boom\nsecond line")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (
            plugin(register_encoder=lambda register: None),
            "unknown hook register_encoder, not used: did you mean",
        ),
        (plugin(register_encoders=wrong_argument), "registrar"),
        (plugin(register_encoders=raising), "RuntimeError: boom"),
        (plugin(register_encoders=lambda register: register("x", "", "s")), "import string must be a non-empty string"),
        (types.SimpleNamespace(), "it registers nothing: put @hookimpl on each hook"),
        (
            plugin(register_encoders=lambda register: register("x", "y:Z")),
            "TypeError: register() missing 1 required positional argument: 'summary'",
        ),
        (plugin(register_encoders=leaving), "SystemExit: no licence found"),
    ],
    ids=["misspelt hook", "wrong argument", "crash", "empty import string", "no hook", "no summary", "sys.exit"],
)
def test_a_broken_plugin_is_one_line_and_the_rest_works(broken, reason):
    registry = load_registry(extra=[("bad", broken), ("good", offers("fine"))])
    assert [b.plugin for b in registry.broken] == ["bad"]
    assert reason in registry.broken[0].reason
    assert "\n" not in registry.broken[0].reason
    assert registry.find("encoder", "fine").name == "fine"
    assert not any(e.plugin == "bad" for e in registry.entries), "nothing of a broken plugin is kept"


@pytest.mark.parametrize(
    ("target", "message", "fix"),
    [
        ("no_such_module_here:X", "cannot be imported", "correct the import string in register_encoders()"),
        ("slideseek_components.encoders.mean:Nope", "cannot be imported", "correct the import string"),
        ("slideseek_components.encoders.mean", "not 'package.module:Name'", "correct the import string"),
        ("slideseek.plugins:load_registry", "is not a dataclass", "put @dataclass on it"),
        ("slideseek_components.indexes.hamming:Hamming", "lacks encode, spec", "fix the class"),
    ],
)
def test_a_bad_import_string_names_the_owner(target, message, fix):
    registry = load_registry(extra=[("odd", offers("odd-one", target))])
    with pytest.raises(PluginError, match="encoder 'odd-one' of odd -") as caught:
        registry.load("encoder", "odd-one")
    assert message in caught.value.cause
    assert caught.value.fix.startswith(fix)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A function that writes a module with some code and returns its name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(code, name="module_of_a_plugin"):
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    return write


def test_a_component_that_exits_at_import_names_its_owner(module):
    name = module("import sys\nsys.exit(3)\n")
    registry = load_registry(extra=[("odd", offers("leaver", f"{name}:X"))])
    with pytest.raises(PluginError, match=r"encoder 'leaver' of odd - cannot be imported .*SystemExit"):
        registry.load("encoder", "leaver")


@pytest.mark.parametrize(
    ("code", "fix"),
    [
        ("import no_such_library", "install what it needs"),
        ("from dataclasses import dataclass\n@dataclass\nclass X:\n    options: list = []", "fix the module"),
        ("class X(", "fix the module"),
        ("raise AttributeError('of something else')", "fix the module"),
    ],
    ids=["missing library", "mutable default", "syntax", "attribute of something else"],
)
def test_the_fix_of_an_import_says_whose_fault_it_is(module, code, fix):
    registry = load_registry(extra=[("odd", offers("odd-one", f"{module(code)}:X"))])
    with pytest.raises(PluginError, match="encoder 'odd-one' of odd - cannot be imported") as caught:
        registry.load("encoder", "odd-one")
    assert caught.value.fix.startswith(fix)


def test_a_person_who_stops_the_import_is_obeyed(module):
    name = module("raise KeyboardInterrupt\n")
    registry = load_registry(extra=[("odd", offers("stopped", f"{name}:X"))])
    with pytest.raises(KeyboardInterrupt):
        registry.load("encoder", "stopped")


def test_what_plugins_print_does_not_mix_with_results(module, capsys):
    name = module("print('hello from the component')\nfrom slideseek_components.encoders.mean import Mean\n")

    def register_encoders(register):
        print("hello from the plugin")
        register("chatty", f"{name}:Mean", "prints")

    registry = load_registry(extra=[("chatty", plugin(register_encoders=register_encoders))])
    registry.load("encoder", "chatty")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "hello from the plugin\nhello from the component\n"


def test_an_unknown_name_may_be_of_a_disabled_plugin():
    registry = load_registry(extra=[("mine", offers("my-enc"))], disabled=["mine"])
    with pytest.raises(PluginError, match="no encoder named 'my-enc'") as caught:
        registry.find("encoder", "my-enc")
    assert "SLIDESEEK_DISABLED_PLUGINS, which disables mine" in caught.value.fix


def test_disabled_plugins(monkeypatch):
    monkeypatch.setenv("SLIDESEEK_DISABLED_PLUGINS", "other, components")
    registry = load_registry()
    assert registry.entries == ()
    assert registry.disabled == ("components",)


def test_no_global_registry():
    assert load_registry() is not load_registry()
    assert load_registry(extra=[("one", offers("extra"))]) != load_registry()
    assert isinstance(load_registry(), Registry)


@pytest.mark.parametrize("arguments", [["--help"], ["plugins", "list"], ["--version"], ["build", "--help"]])
def test_light_commands_import_nothing_heavy(arguments):
    program = (
        "import sys; from slideseek.cli import cli; cli.main(sys.argv[1:], standalone_mode=False);"
        "heavy = {'numpy', 'torch', 'sklearn', 'scipy', 'pydantic', 'h5py', 'openslide', 'PIL'} & set(sys.modules);"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_only_the_missing_application_is_reported_as_missing():
    missing = "a page needs the application 'gone', which is not installed"
    with pytest.raises(PluginError, match=missing), needs_application("gone", "a page"):
        importlib.import_module("slideseek_apps.gone.page")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"), needs_application("gone", "a page"):
        importlib.import_module("no_such_library")


def test_output_is_restored_by_the_last_of_several_threads():
    before = sys.stdout
    first, second = output_aside(), output_aside()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.stdout is sys.stderr
    second.__exit__(None, None, None)
    assert sys.stdout is before


def test_a_hanging_import_ends_where_a_shell_ignores_the_signal(monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "0.1")
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(PluginError, match=r"'slow' did not finish importing in 0\.1 s"), import_limit("'slow'"):
            time.sleep(20)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, former)
