"""Which functions of a source only look: read from the code, which is never run here.

The rule errs on one side. A function looks only if neither it nor what it calls in the same file
assigns to anything but names and to containers it has just made itself, and calls no method that
changes one. What is found is tried out afterwards.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

_CHANGERS: Final = frozenset(
    """append extend insert remove pop popitem clear update setdefault add discard sort reverse
    appendleft popleft rotate difference_update intersection_update write writelines unlink mkdir
    rmdir load_scenario __setattr__ __setitem__ __delitem__ seed""".split()  # noqa: SIM905
)
_DRAWN_FROM: Final = frozenset({"random", "uuid", "secrets"})
_DRAWS: Final = frozenset({"uuid1", "uuid4", "randint", "choice", "shuffle", "sample", "uniform"})
_MAKERS: Final = frozenset(
    """list dict set sorted str int float tuple deepcopy copy model_dump items keys values split
    splitlines json loads dumps join format defaultdict Counter OrderedDict deque""".split()  # noqa: SIM905
)
_FRESH: Final = (
    ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Constant,
    ast.JoinedStr, ast.Compare,
)  # fmt: skip
_BINDERS: Final = (ast.AugAssign, ast.AnnAssign, ast.For, ast.NamedExpr, ast.comprehension)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Looks:
    """The functions and methods of one file, and whether each looks only."""

    def __init__(self, tree: ast.Module) -> None:
        self._functions: dict[str, list[_Function]] = {}
        for node in ast.walk(tree):
            if isinstance(node, _Function):
                self._functions.setdefault(node.name, []).append(node)
        self._known: dict[str, bool] = {}

    def only(self, name: str) -> bool:
        """Whether the function or method of that name, whichever class has it, looks only."""
        if name not in self._known:
            self._known[name] = True  # while it calls itself
            self._known[name] = all(self._looks(node) for node in self._functions.get(name, ()))
        return self._known[name]

    def _looks(self, function: _Function) -> bool:
        made = _made_here(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Global | ast.Nonlocal):
                return False
            if any(not _is_own(target, made) for target in _targets(node)):
                return False
            if isinstance(node, ast.Call) and not self._harmless(node, made):
                return False
        return True

    def _harmless(self, call: ast.Call, made: set[str]) -> bool:
        function = call.func
        if isinstance(function, ast.Name):
            forbidden = ("setattr", "delattr", "exec", "eval", *_DRAWS)
            return function.id not in forbidden and (
                function.id not in self._functions or self.only(function.id)
            )
        if not isinstance(function, ast.Attribute):
            return False
        if _name(function.value) in _DRAWN_FROM or function.attr in _DRAWS:
            return False  # what is drawn next is another: that is a change, too
        if function.attr in _CHANGERS and _name(function.value) not in made:
            return False
        return function.attr not in self._functions or self.only(function.attr)


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement assigns to or deletes."""
    found: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        found = list(node.targets)
    elif isinstance(node, _BINDERS):
        found = [node.target]
    while found:
        target = found.pop()
        if isinstance(target, ast.Tuple | ast.List):
            found.extend(target.elts)
        elif isinstance(target, ast.Starred):
            found.append(target.value)
        else:
            yield target


def _is_own(target: ast.expr, made: set[str]) -> bool:
    if isinstance(target, ast.Name):
        return True
    return isinstance(target, ast.Subscript) and _name(target.value) in made


def _name(node: ast.expr) -> str:
    """Of what is a name and no more: what a container made here holds may be another's."""
    return node.id if isinstance(node, ast.Name) else ""


def _made_here(function: _Function) -> set[str]:
    """Local names that only ever stand for what this function has made."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    made: set[str] = set()
    given = {argument.arg for argument in named}
    for node in ast.walk(function):
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and value is not None:
            fresh = _is_fresh(value)
        elif isinstance(node, ast.For | ast.comprehension | ast.NamedExpr):
            fresh = False
        else:
            continue
        for target in _targets(node):
            if isinstance(target, ast.Name):
                (made if fresh else given).add(target.id)
    return made - given


def _is_fresh(value: ast.expr) -> bool:
    if isinstance(value, _FRESH):
        return True
    if isinstance(value, ast.IfExp):
        return _is_fresh(value.body) and _is_fresh(value.orelse)
    if isinstance(value, ast.Call):
        function = value.func
        name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        return name in _MAKERS
    return False
