"""Asking a language model, over any OpenAI-compatible endpoint: for a structured answer, or for the
next message of a chat with tools.

A structured answer is decoded into a struct and nothing else comes back: text that does not fit is
asked for again with the reason. A busy or absent endpoint is tried again with growing pauses. What
cannot be had in the end is an infrastructure fault, never an answer that was made up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeVar

import anyio
import msgspec

from environments.errors import InfrastructureFault
from environments.trajectory import Record

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T", bound=msgspec.Struct)
Sleep = Callable[[float], Awaitable[None]]

_BUSY: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 that may be gone a moment later."""


class LlmUnavailable(InfrastructureFault):
    """The endpoint refused us, or stayed busy or out of reach over all attempts."""

    code = "LLM_UNAVAILABLE"


class LlmUnreadable(InfrastructureFault):
    """The model answered, but never with what it was asked for."""

    code = "LLM_UNREADABLE"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a model is asked, and how patiently."""

    base_url: str
    """Up to and with the version, ``http://127.0.0.1:8000/v1``."""
    model: str
    api_key: str = ""
    temperature: float | None = 0.0
    """``None`` leaves it out, for models that refuse it."""
    timeout_seconds: float = 120.0
    """For one attempt."""
    attempts: int = 5
    """Requests for one answer while the endpoint is busy; and, apart from these, answers asked
    for while none of them fits."""
    pause_seconds: float = 1.0
    """Before the second attempt; doubled before each further one, unless told otherwise."""
    longest_pause_seconds: float = 60.0
    concurrency: int = 8
    """How many requests may be in flight."""

    def __repr__(self) -> str:
        return f"Endpoint({self.model} at {self.base_url})"  # a key has no place in a log


class ChatMessage(msgspec.Struct, frozen=True):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class Usage(Record, frozen=True, kw_only=True):
    """What answers cost: requests that were answered, tokens, and seconds of waiting."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            requests=self.requests + other.requests,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            seconds=round(self.seconds + other.seconds, 3),
        )


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Said


class _Tokens(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(msgspec.Struct):
    """What we read of a chat completion; servers add and leave out the rest as they like."""

    choices: list[_Choice]
    usage: _Tokens | None = None

    @property
    def text(self) -> str:
        return (self.choices[0].message.content or "") if self.choices else ""


class _Turn(msgspec.Struct):
    message: dict[str, Any]


class _Chat(msgspec.Struct):
    """A chat completion whose message is taken as it is."""

    choices: Annotated[list[_Turn], msgspec.Meta(min_length=1)]
    usage: _Tokens | None = None


class Llm:
    """A model behind an endpoint: ``async with Llm(endpoint) as llm``. Holds one HTTP client."""

    def __init__(self, endpoint: Endpoint, *, sleep: Sleep = anyio.sleep) -> None:
        """Raises ``LlmUnavailable`` where the ``openai`` library is not installed."""
        self.endpoint = endpoint
        self._client = _client(endpoint)
        self._sleep = sleep
        self._takes_schema = True
        self._limiter = anyio.Semaphore(endpoint.concurrency)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connections. Closing twice is fine."""
        await self._client.close()

    async def ask(self, messages: Sequence[ChatMessage], kind: type[T]) -> tuple[T, Usage]:
        """The model's answer as a ``kind``, and what it cost.

        ``kind`` forbids unknown fields. Raises ``LlmUnavailable`` and ``LlmUnreadable``.
        """
        talk, usage, problem = list(messages), Usage(), ""
        for _ in range(self.endpoint.attempts):
            started = time.perf_counter()
            asked = self._wanted(msgspec.to_builtins(talk))
            completion = await self._completion(partial(self._posted, asked, kind), _Completion)
            usage += _usage(completion.usage, started)
            try:
                return msgspec.json.decode(json_in(completion.text), type=kind), usage
            except msgspec.DecodeError as error:  # of which a ValidationError is one
                problem = str(error)
            correction = f"That answer cannot be used: {problem}. Answer with the JSON alone."
            talk = [
                *messages,
                ChatMessage("assistant", completion.text[:4000]),
                ChatMessage("user", correction),
            ]
        raise LlmUnreadable(
            f"{self.endpoint.model} gave {self.endpoint.attempts} answers that cannot be used: "
            f"{problem}",
            hint="ask a model that keeps to a JSON schema",
        )

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[dict[str, Any], Usage]:
        """The model's next message, with the calls of ``tools`` it makes, and what it cost.

        Raises ``LlmUnavailable``.
        """
        wanted = self._wanted(list(messages))
        if tools:
            wanted["tools"] = list(tools)
        started = time.perf_counter()
        completion = await self._completion(partial(self._create, wanted), _Chat)
        return completion.choices[0].message, _usage(completion.usage, started)

    async def _completion(self, post: Callable[[], Awaitable[bytes]], kind: type[T]) -> T:
        """One completion, asked for again while the endpoint is busy or away."""
        import openai

        problem = ""
        for attempt in range(self.endpoint.attempts):
            pause = self.endpoint.pause_seconds * 2**attempt
            try:
                async with self._limiter:
                    content = await post()
                return msgspec.json.decode(content, type=kind)
            except openai.APIStatusError as error:
                problem = _words(error)
                if error.status_code < 500 and error.status_code not in _BUSY:
                    raise self._unavailable(f"refuses: {problem}") from error
                pause = _retry_after(error.response.headers) or pause
            except openai.APIConnectionError as error:  # of which a timeout is one
                problem = f"{error.message} {error.__cause__ or ''}".strip()
            except msgspec.DecodeError as error:
                problem = f"not a chat completion: {error}"
            if attempt + 1 < self.endpoint.attempts:
                await self._sleep(min(pause, self.endpoint.longest_pause_seconds))
        raise self._unavailable(f"gave nothing in {self.endpoint.attempts} attempts: {problem}")

    def _wanted(self, messages: list[Any]) -> dict[str, Any]:
        wanted: dict[str, Any] = {"model": self.endpoint.model, "messages": messages}
        if self.endpoint.temperature is not None:
            wanted["temperature"] = self.endpoint.temperature
        return wanted

    async def _create(self, wanted: dict[str, Any]) -> bytes:
        create = self._client.chat.completions.with_raw_response.create
        return bytes((await create(**wanted)).content)

    async def _posted(self, wanted: dict[str, Any], kind: type[msgspec.Struct]) -> bytes:
        """The body of the answer; without the schema once the endpoint has refused one."""
        import openai

        if self._takes_schema:
            try:
                return await self._create({**wanted, "response_format": _format(kind)})
            except (openai.BadRequestError, openai.UnprocessableEntityError):
                self._takes_schema = False  # many servers know no schemas; the prompt has it too
        return await self._create(wanted)

    def _unavailable(self, what: str) -> LlmUnavailable:
        return LlmUnavailable(
            f"{self.endpoint.model} at {self.endpoint.base_url} {what}",
            hint="check the endpoint's address, key and model, or try again later",
        )


def _usage(tokens: _Tokens | None, started: float) -> Usage:
    tokens = tokens or _Tokens()
    return Usage(
        requests=1,
        prompt_tokens=tokens.prompt_tokens or 0,
        completion_tokens=tokens.completion_tokens or 0,
        seconds=time.perf_counter() - started,
    )


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a struct, an object at its root."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    root: dict[str, Any] = components.pop(str(schema["$ref"]).rsplit("/", 1)[-1])
    return {**root, "$defs": components} if components else root


def json_in(text: str) -> str:
    """The JSON object in a model's answer, from under what it thought aloud or fenced it with."""
    text = text.rsplit("</think>", 1)[-1].strip()
    first, last = text.find("{"), text.rfind("}")
    return text[first : last + 1] if 0 <= first < last else text


def _format(kind: type[msgspec.Struct]) -> Any:
    schema = {"name": kind.__name__.strip("_"), "schema": schema_of(kind), "strict": True}
    return {"type": "json_schema", "json_schema": schema}


def _client(endpoint: Endpoint) -> AsyncOpenAI:
    try:
        from openai import AsyncOpenAI  # over a second to import, and an extra
    except ImportError as error:
        raise LlmUnavailable(
            "the openai library is not installed", hint="pip install 'mcp-env-hub[judge]'"
        ) from error
    return AsyncOpenAI(
        base_url=endpoint.base_url,
        api_key=endpoint.api_key or "none",
        timeout=endpoint.timeout_seconds,
        max_retries=0,
    )


def _words(error: Any) -> str:
    return f"{error.status_code} {str(error.message)[:200]}"


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds the endpoint asks us to wait; 0 where it does not say."""
    try:
        seconds = float(headers.get("retry-after", 0))
    except ValueError:  # a date: rare, and our own pause will do
        return 0.0
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0
