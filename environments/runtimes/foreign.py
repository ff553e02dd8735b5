"""Functions that were written for another kit, as tools."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, get_type_hints

import pydantic

from environments.authoring import (
    arguments_model,
    input_schema_of,
    invalid_arguments,
    plain_result,
)
from environments.documents import BoundTool
from environments.errors import PackInvalid
from environments.spec import ToolSpec


class ForeignTool:
    """One function, or a method whose object is handed over with each call.

    What it does not say of itself may be missing, and arguments it does not know are passed over.
    Where the binding has an input schema it is called with the arguments as they are.
    """

    def __init__(
        self, bound: BoundTool, function: Callable[..., Any], *, method: bool = False
    ) -> None:
        self._bound = bound
        self._function = function
        self._method = method

    @cached_property
    def spec(self) -> ToolSpec:
        """Raises ``PackInvalid`` for a signature that is no schema."""
        bound = self._bound
        schema = bound.input_schema
        return ToolSpec(
            name=bound.name,
            title=bound.name.replace("_", " ").capitalize(),
            description=bound.description or inspect.getdoc(self._function) or bound.name,
            input_schema=input_schema_of(self._arguments) if schema is None else schema,
            read_only=bound.read_only,
        )

    @cached_property
    def _arguments(self) -> type[pydantic.BaseModel]:
        name = self._bound.name
        try:
            hints = get_type_hints(self._function, include_extras=True)
            parameters = list(inspect.signature(self._function).parameters.values())
            fields = {
                each.name: (
                    hints.get(each.name, Any),
                    ... if each.default is inspect.Parameter.empty else each.default,
                )
                for each in parameters[self._method :]
            }
            return arguments_model(name, fields, "ignore")
        except Exception as error:  # pydantic's, of many kinds; and what a stranger's types raise
            raise PackInvalid(f"the signature of tool {name} is no schema: {error}") from error

    def __call__(self, state: Any, arguments: Mapping[str, Any]) -> Any:
        """Run it; returns plain JSON values. See ``authoring.Tool``."""
        values: Mapping[str, Any] = arguments
        if self._bound.input_schema is None:
            model = self._arguments
            try:
                parsed = model.model_validate(arguments)
            except pydantic.ValidationError as error:
                raise invalid_arguments(self._bound.name, error) from None
            values = {name: getattr(parsed, name) for name in model.model_fields}
        first = (state,) if self._method else ()
        return plain_result(self._bound.name, self._function(*first, **values))
