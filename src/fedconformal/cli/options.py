"""Options from fields: what --score, --guarantee and the like choose from brings its own options.

A command takes a family with `@taking(SCORES)` and gets what was typed in `**given`; `SCORES.chosen(name, given)`
builds the one that was named. The options follow from the parameters of every member when the command is called, so
those of other packages are among them. Each member has a panel of its own in --help.

Options that several commands share are fields of a dataclass: a command with a parameter of that type has them all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, Generic, TypeVar, cast, get_origin, get_type_hints

from typer.core import TyperCommand, TyperOption

from fedconformal._base import registry
from fedconformal._base.parameters import NEEDED, Parameter, parameters_of
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.scores import AnyScore, Score
from fedconformal.summaries import Summary

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., None])
Given = Mapping[str, Any]
"""What was typed, or None: by family, parameter and option, such as "score penalty --penalty"."""


@dataclass(frozen=True, kw_only=True)
class Family(Generic[T]):
    """What one option chooses from.

    Attributes:
        option: its name, such as score.
        base: what all of them derive from.
        maker: the method that takes the parameters, if it is not the class itself.
        spelled: the options of parameters that are not called as in Python.
        metavars: what stands for a value in --help, where the type says too little.
    """

    option: str
    base: Callable[..., T]
    maker: str = ""
    spelled: Mapping[str, str] = field(default_factory=dict)
    metavars: Mapping[str, str] = field(default_factory=dict)

    def members(self) -> dict[str, dict[str, Parameter]]:
        """Return the parameters of each by its name; one that is an object itself has no option."""
        found = {}
        for name, cls in self._classes().items():
            own = parameters_of(getattr(cls, self.maker) if self.maker else cls)
            found[name] = {key: one for key, one in own.items() if not any(map(is_dataclass, one.kinds))}
        return found

    def values(self, name: str, given: Given, chosen: str = "") -> dict[str, Any]:
        """Read what was typed for the member of this name, and refuse what is for others.

        `chosen` is how the member was named on the command line, if not by the family's option.
        """
        members = self.members()
        if name not in members:
            registry.find(name, self.base)  # which says what there is
        own, chosen, values = members[name], chosen or f"--{self.option} {name}", {}
        for key, (option, value) in self.typed(given).items():
            if key not in own:
                owners = " and ".join(one for one, parameters in members.items() if key in parameters)
                raise InputError(f"{option} does not go with {chosen}; it is for {owners}")
            values[key] = own[key].read(value, option)
        for key, parameter in own.items():
            if parameter.default is NEEDED and key not in values:
                raise InputError(f"{chosen} needs {self._spelled(key)} {self._metavar(parameter)}")
        return values

    def chosen(self, name: str, given: Given, chosen: str = "") -> T:
        """Build the one that was named."""
        values = self.values(name, given, chosen)
        made: T = self._classes()[name](**values)
        return made

    def typed(self, given: Given) -> dict[str, tuple[str, Any]]:
        """Return the option and the value of each parameter of this family that was typed."""
        parts = [(*place.split(" "), value) for place, value in given.items() if value is not None]
        return {key: (option, value) for family, key, option, value in parts if family == self.option}

    def anything(self, given: Given) -> dict[str, Any]:
        """Read all that was typed for this family, where the one that is chosen is not known yet."""
        every = list(self.members().values())
        return {
            key: _first_read([one[key] for one in every if key in one], value, option)
            for key, (option, value) in self.typed(given).items()
        }

    def fitting(self, name: str, given: Given) -> dict[str, Any]:
        """Return what was typed of the parameters that the member of this name has."""
        own = self.members()[name]
        typed = self.typed(given).items()
        return {f"{self.option} {key} {option}": value for key, (option, value) in typed if key in own}

    def options(self, taken: set[str]) -> list[TyperOption]:
        """Make the options of all members; one that the command has already gets the family's name before its own."""
        owners: dict[str, dict[str, Parameter]] = {}
        for name, parameters in self.members().items():
            for key, parameter in parameters.items():
                owners.setdefault(key, {})[name] = parameter
        return [self._option(key, having, taken) for key, having in owners.items()]

    def _option(self, key: str, owners: Mapping[str, Parameter], taken: set[str]) -> TyperOption:
        one, name = next(iter(owners.values())), self._spelled(key)
        if name in taken:
            name = f"--{self.option}-{name[2:]}"
        flag = all(parameter.kinds == (bool,) for parameter in owners.values())
        words = "; ".join(dict.fromkeys(one.help.rstrip(".") for one in owners.values() if one.help))
        defaults = [p.default for p in owners.values() if p.default is not NEEDED and p.default is not None]
        option = TyperOption(
            param_decls=[f"{name}/--no-{name[2:]}" if flag and one.default is True else name],
            type=bool if flag else str,
            is_flag=flag or None,
            metavar=None if flag else self._metavar(one),
            help=f"{words[:1].upper()}{words[1:]}." if words else "",
            show_default=(not flag and " or ".join(dict.fromkeys(map(str, defaults)))) or False,
            rich_help_panel=f"With --{self.option} {', '.join(owners)}",
        )
        option.name = f"{self.option} {key} {name}"  # by which the command gets its value
        return option

    def _classes(self) -> dict[str, Any]:
        return dict(sorted(registry.members(self.base).items()))

    def _spelled(self, key: str) -> str:
        return self.spelled.get(key, f"--{key.replace('_', '-')}")

    def _metavar(self, parameter: Parameter) -> str:
        return self.metavars.get(parameter.name, parameter.metavar)


def _first_read(parameters: Sequence[Parameter], value: Any, option: str) -> Any:
    """Read a value as the first of these can; where none can, say what the last expects."""
    for one in parameters[:-1]:
        with suppress(InputError):
            return one.read(value, option)
    return parameters[-1].read(value, option)


def taking(*families: Family[Any], also: Callable[[Any], Sequence[Family[Any]]] = lambda _: ()) -> Callable[[F], F]:
    """Give a command the options of these families; `also` returns more, which are slow to import, when it runs."""

    class WithFields(TyperCommand):
        """A command whose options are complete when it is called."""

        complete = False

        def get_params(self, ctx: Any) -> list[Any]:
            more = also(ctx)  # which may change this context, so at every call
            if not self.complete:
                self.complete = True
                taken = {name for one in self.params for name in one.opts}
                own: dict[str | None, Any] = {one.name: one for one in self.params}
                for family in (*families, *more):
                    if family.option in own:
                        own[family.option].help += f" {', '.join(family.members())}."
                    made = family.options(taken)
                    taken |= {name for one in made for name in one.opts}
                    self.params += made
            return super().get_params(ctx)

        def make_parser(self, ctx: Any) -> Any:
            parser = super().make_parser(ctx)
            parser.ignore_unknown_options = ctx.ignore_unknown_options  # which `also` may have set
            return parser

    def decorate(function: F) -> F:
        own = inspect.signature(function, eval_str=True)
        shared: dict[str, Any] = {
            one.name: one.annotation for one in own.parameters.values() if is_dataclass(one.annotation)
        }
        options = {name: _shared(kind, own.parameters[name].kind) for name, kind in shared.items()}

        @wraps(function)
        def call(**given: Any) -> None:
            for name, kind in shared.items():
                given[name] = kind(**{one.name: given.pop(one.name) for one in options[name]})
            function(**given)

        plain = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        expanded = [part for one in plain for part in options.get(one.name, [one])]
        vars(call).update(__signature__=own.replace(parameters=expanded), command=WithFields)
        return cast(F, call)

    return decorate


def _shared(kind: Any, place: Any) -> list[inspect.Parameter]:
    """Return the options of a dataclass: its fields that are annotated as such."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(one.name, place, default=one.default, annotation=hints[one.name])
        for one in fields(kind)
        if get_origin(hints[one.name]) is Annotated
    ]


SCORES = Family(option="score", base=Score)
ALL_SCORES = Family(option="score", base=AnyScore)
"""Also those of numbers."""
KINDS = Family(option="kind", base=Summary, maker="of_scores")
GUARANTEES = Family(
    option="guarantee",
    base=Guarantee,
    spelled={"liars": "--robust"},
    metavars={"liars": "F", "box": "LOW,HIGH", "site": "NAME", "shares": "CLASS=SHARE,..."},
)
