"""Where scripts parse their flags: argparse and its subclasses, click, typer, absl, hydra, tyro.

Each hook hands over the words of a parse and a way to parse others; see `Session.parse`.
"""

import functools
import importlib.util
import inspect
import os
import resource
import sys
from typing import Any, Dict, Iterator, List, Tuple

import deployer_wandb
from deployer_session import CPU_SECONDS, Session, Words, end_with

ARGPARSE = (
    *("parse_args", "parse_known_args", "parse_intermixed_args"),
    *("parse_known_intermixed_args", "parse_args_into_dataclasses"),
)
TYPES = {"integer": "int", "boolean": "bool", "text": "str", "FloatParser": "float"}
TYPES.update({"IntegerParser": "int", "BooleanParser": "bool", "choice": "str"})
# Packages that read flags of their own beside the script's.
OWN_PARSERS = ("hydra.", "fire.", "torch.distributed.")
SUPPRESSED = "==SUPPRESS=="
NO_PARAMETERS = ("--help", "--version", "--config", "--print_config", "--print_shtab")
Described = Tuple[List[Dict[str, Any]], List[str]]


def begin(folder: str) -> None:
    """Watch this process: its limits, its modules of parsers, its wandb."""
    open(os.path.join(folder, "seen"), "w").close()
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 30))
    end_with(folder)
    session = Session(folder)
    sys.meta_path.insert(0, deployer_wandb.Finder(session))
    sys.meta_path.insert(0, Watcher(session))


class Watcher:
    """Hooks into the modules of parsers as soon as they are imported."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._hooks = {
            "argparse": hook_argparse,
            "click.core": hook_click,
            "typer.core": hook_click,
            "typer._click.core": hook_click,
            "absl.flags._flagvalues": hook_absl,
            "hydra._internal.config_loader_impl": hook_hydra,
            "tyro._cli": hook_tyro,
            "fire.core": hook_fire,
        }
        for name in [name for name in self._hooks if name in sys.modules]:
            self._hooks.pop(name)(session, sys.modules[name])

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module as without us, and hook into it once it is there."""
        hook = self._hooks.pop(name, None)
        spec = importlib.util.find_spec(name) if hook else None
        if hook is None or spec is None or spec.loader is None:
            return spec
        execute = getattr(spec.loader, "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module: Any) -> None:
            execute(module)
            hook(self._session, module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def hook_argparse(session: Session, argparse: Any) -> None:
    """Take part in each parse of a parser, also where a class of the script's own overrides it."""

    def describe(parser: Any) -> Described:
        return list(describe_argparse(argparse, parser)), list_subcommands(argparse, parser)

    def wrap(owner: Any) -> None:
        for name in ARGPARSE:
            if name in vars(owner):
                setattr(owner, name, _wrap(session, vars(owner)[name], 1, "args", name, describe))
        if "error" in vars(owner):
            owner.error = wrap_error(vars(owner)["error"])

    def wrap_error(original: Any) -> Any:
        def error(self: Any, message: Any, *more: Any, **named: Any) -> Any:
            session.usage = str(message)
            return original(self, message, *more, **named)

        return error

    add = argparse._ActionsContainer.add_argument

    def add_argument(self: Any, *names: Any, **given: Any) -> Any:
        caller = sys._getframe(1).f_code.co_filename
        if caller != argparse.__file__ and not session.is_of_project(caller):
            session.foreign = True
        return add(self, *names, **given)

    argparse._ActionsContainer.add_argument = add_argument
    wrap(argparse.ArgumentParser)
    _watch_subclasses(argparse.ArgumentParser, wrap)


def hook_click(session: Session, module: Any) -> None:
    """Take part in each command line; a command that is about to be invoked has accepted it."""

    def wrap(owner: Any) -> None:
        if "main" in vars(owner):
            original = vars(owner)["main"]
            owner.main = _wrap(session, original, 1, "args", "main", describe_click)

    for one in list(vars(module).values()):
        if not isinstance(one, type) or one.__module__ != module.__name__:
            continue
        if "main" in vars(one) and hasattr(one, "make_context"):
            wrap(one)
            _watch_subclasses(one, wrap)
        if one.__name__ == "Command" and "invoke" in vars(one):
            one.invoke = _wrap_invoke(session, vars(one)["invoke"])  # type: ignore[attr-defined]


def _wrap_invoke(session: Session, original: Any) -> Any:
    def invoke(self: Any, context: Any) -> Any:
        if session.inside and context.invoked_subcommand is None:
            session.leave_over(context.args)
            session.accept()
        return original(self, context)

    return invoke


def hook_absl(session: Session, module: Any) -> None:
    """Take part where the flags are called with a command line, which app.run does."""
    owner = module.FlagValues
    owner.__call__ = _wrap(session, owner.__call__, 1, "argv", "absl", describe_absl)


def hook_hydra(session: Session, module: Any) -> None:
    """Take part where overrides are composed: what follows is the task."""
    owner = module.ConfigLoaderImpl
    original = owner.load_configuration

    def load_configuration(*args: Any, **named: Any) -> Any:
        session.composed = original(*args, **named)
        return session.composed

    def describe(_: Any) -> Described:
        session.style = "hydra"
        return list(describe_config(module.OmegaConf.to_container(session.composed))), []

    owner.load_configuration = _wrap(session, load_configuration, 2, "overrides", "hydra", describe)


def hook_tyro(session: Session, module: Any) -> None:
    """Take part in tyro.cli; a function is not called."""
    original = module.cli

    def cli(f: Any, *more: Any, **named: Any) -> Any:
        return original(_withhold(session, f), *more, **named)

    module.cli = _wrap(session, cli, 99, "args", "tyro", lambda _: ([], []))


def hook_fire(session: Session, module: Any) -> None:
    """Take part in fire.Fire; functions are not called: it complains of words after the call."""
    original = module.Fire

    def fire(component: Any = None, *more: Any, **named: Any) -> Any:
        if isinstance(component, dict):
            component = {name: _withhold(session, one) for name, one in component.items()}
        return original(_withhold(session, component), *more, **named)

    module.Fire = _wrap(session, fire, 1, "command", "fire", describe_function)


def _withhold(session: Session, function: Any) -> Any:
    """Return a function of the same signature that does nothing while a session parses."""
    if not hasattr(function, "__code__"):
        return function

    @functools.wraps(function)
    def withheld(*args: Any, **named: Any) -> Any:
        return None if session.inside else function(*args, **named)

    return withheld


def _watch_subclasses(owner: Any, wrap: Any) -> None:
    """Have each later subclass wrapped, too."""
    own = vars(owner).get("__init_subclass__")

    def __init_subclass__(cls: Any, **given: Any) -> None:
        if own is None:
            super(owner, cls).__init_subclass__(**given)
        else:
            own.__func__(cls, **given)
        wrap(cls)

    owner.__init_subclass__ = classmethod(__init_subclass__)  # type: ignore[arg-type]


def _wrap(session: Session, original: Any, at: int, name: str, kind: str, describe: Any) -> Any:
    """Return a function that has a session take part in a parse.

    The words are its argument number `at`, or the one called `name`; None stands for sys.argv.
    """
    head = 1 if kind == "absl" else 0  # absl gets the program's name, too

    @functools.wraps(original)
    def parse(*args: Any, **named: Any) -> Any:
        given = args[at] if len(args) > at else named.get(name)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        words = sys.argv[1:] if given is None else list(given)[head:]
        if session.inside:
            return original(*args, **named)
        if kind != "hydra" and str(caller).startswith(OWN_PARSERS):
            with session.unwatched():
                return original(*args, **named)

        def call(line: Any) -> Any:
            if line is None:
                result = original(*args, **named)
            elif given is None:
                sys.argv[1:] = line
                result = original(*args, **named)
            else:
                put = [*list(given)[:head], *line]
                more = {**named, name: put} if len(args) <= at else named
                result = original(*args[:at], *[put][: len(args) > at], *args[at + 1 :], **more)
            return result, _find_left(kind, result, named)

        if kind == "parse_args_into_dataclasses":
            call = _name_refusal(session, call)
        return session.parse(words, call, lambda: describe(args[0]))

    return parse


def _name_refusal(session: Session, call: Any) -> Any:
    """Return a call of HfArgumentParser, which refuses words with a ValueError."""

    def refuse(line: Any) -> Any:
        try:
            return call(line)
        except ValueError as error:
            session.usage = str(error)
            raise

    return refuse


def _find_left(kind: str, result: Any, named: Dict[str, Any]) -> Words:
    """Return the words that a parser left over."""
    if "known" in kind:
        return list(result[1])
    if kind == "absl":
        return list(result[1:])
    if named.get("return_remaining_strings") or named.get("return_unknown_args"):
        return list(result[-1])
    return []


def list_subcommands(argparse: Any, parser: Any) -> List[str]:
    """Return the names of a parser's subcommands."""
    groups = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    return list(dict.fromkeys(name for group in groups for name in group.choices))


def describe_argparse(argparse: Any, parser: Any) -> Iterator[Dict[str, Any]]:
    """Yield what is known of each flag, those of the subcommand on the command line included."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name in [word for word in sys.argv[1:] if word in action.choices][:1]:
                yield from describe_argparse(argparse, action.choices[name])
        kind = action.type if action.type is not None else getattr(action, "_typehint", None)
        names = sorted(action.option_strings, key=lambda name: not name.startswith("--"))
        if not names or set(names) & {*NO_PARAMETERS}:
            continue
        yield _flag(
            names,
            "" if kind is None else str(getattr(kind, "__name__", kind)),
            action.choices or [],
            action.default,
            bool(action.required),
            action.nargs != 0,
            action.help,
            many=action.nargs not in (None, 0, "?"),
            paired=type(action).__name__ == "BooleanOptionalAction",
            plain_bool=action.type is bool,
            inert=action.nargs == 0 and action.const is action.default in (True, False),
        )


def describe_function(function: Any) -> Described:
    """Return a function's arguments as flags; those of a dict are its subcommands."""
    if isinstance(function, dict):
        return [], list(function)
    found = []
    for one in inspect.signature(function).parameters.values():
        default = None if one.default is one.empty else one.default
        kind = "" if default is None else type(default).__name__
        required = one.default is one.empty
        found.append(_flag(["--" + one.name], kind, [], default, required, True, ""))
    return found, []


def describe_config(values: Any, above: str = "") -> Iterator[Dict[str, Any]]:
    """Yield what is known of each key of a composed configuration."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from describe_config(value, above + name + ".") if name != "hydra" else ()
        elif name != "hydra":
            needed = value == "???"
            default = None if needed else value
            many = isinstance(value, (list, dict))
            kind = "" if default is None else type(default).__name__
            yield _flag(["--" + above + name], kind, [], default, needed, True, "", many=many)


def describe_click(command: Any) -> Described:
    """Return what is known of each option, those of the subcommand on the command line included."""
    found = []
    inner = getattr(command, "commands", None) or {}
    for param in getattr(command, "params", []):
        options = [one for one in getattr(param, "opts", None) or [] if one.startswith("-")]
        kind = getattr(param, "type_descriptor", None) or getattr(param, "type", None)
        name = str(getattr(kind, "name", "") or "").partition(" ")[0]
        name = getattr(getattr(kind, "annotation", None), "__name__", TYPES.get(name, name))
        if not options or set(options) & {*NO_PARAMETERS}:
            continue
        secondary = getattr(param, "secondary_opts", None)
        found.append(
            _flag(
                sorted(options, key=len, reverse=True),
                name,
                [getattr(one, "value", one) for one in getattr(kind, "choices", None) or []],
                getattr(param, "default", None),
                bool(getattr(param, "required", False)),
                not getattr(param, "is_flag", False),
                getattr(param, "help", ""),
                many=bool(getattr(param, "multiple", False)),
                paired=bool(secondary),
            )
        )
    for word in [word for word in sys.argv[1:] if word in inner][:1]:
        found += describe_click(inner[word])[0]
    return found, list(inner)


def describe_absl(flags: Any) -> Described:
    """Return what is known of each flag that installed packages do not define."""
    found = []
    for module, owned in flags.flags_by_module_dict().items():
        file = getattr(sys.modules.get(module, sys.modules["__main__"]), "__file__", "") or ""
        for flag in [] if "site-packages" in file else owned:
            kind = TYPES.get(type(flag.parser).__name__, "str")
            choices = getattr(flag.parser, "enum_values", None) or []
            found.append(
                _flag(["--" + flag.name], kind, choices, flag.default, False, True, flag.help)
            )
    return found, []


def _flag(
    names: List[str],
    kind: str,
    choices: Any,
    default: Any,
    required: bool,
    takes_value: bool,
    help_text: Any,
    many: bool = False,
    paired: bool = False,
    plain_bool: bool = False,
    inert: bool = False,
) -> Dict[str, Any]:
    plain = (bool, int, float, str, type(None))
    default = None if default == SUPPRESSED else getattr(default, "value", default)
    help_text = str(help_text or "").replace(SUPPRESSED, "").replace("<__TEMP__>", "")
    try:
        listed = [one if isinstance(one, plain) else str(one) for one in choices][:1000]
    except TypeError:
        listed = []
    return {
        "names": names,
        "type": kind,
        "choices": listed,
        "default": default if isinstance(default, plain) else None,
        "required": required,
        "takes_value": takes_value,
        "many": many,
        "paired": paired,
        "plain_bool": plain_bool,
        "inert": inert,
        "help": help_text.replace("(default: %(default)s)", "").strip(),
    }
