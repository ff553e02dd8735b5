"""What a hub is told when it starts. The only place that reads the process environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

Durability = Literal["step", "none"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "console"]

PREFIX = "ENVHUB_"
BARRIERS = ("oauth_issuer", "tls_certificate", "tls_key")
"""Settings under which whoever started a hub is not let in as a matter of course."""
SECRETS = ("token", "judge_key", "user_key", "model_key")
"""Settings that are shown to nobody."""


class SettingsInvalid(ValueError):
    """A setting cannot be read; the message names its variable and what it would take."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every field may be given as ``ENVHUB_<NAME>``; the command line wins over it."""

    host: str = "127.0.0.1"
    port: int = 8765
    """0 takes any free port."""
    tls_certificate: Path | None = None
    """A PEM file, its chain included; the hub then speaks https alone."""
    tls_key: Path | None = None
    """The certificate's key, without a password, unless it is in the same file."""
    data_dir: Path = Path(".envhub")
    """Snapshots, the ledger and the hub's secret. One hub at a time."""
    packs: tuple[Path, ...] = ()
    """Packs (folders or ``.tar.zst`` archives), or folders of packs, served beside the shipped
    ones; ``:`` between them."""
    shipped: bool = True
    """Whether the environments that come with envhub are served."""
    trusted_keys: tuple[str, ...] = ()
    """Public keys whose signed packs are trusted: base64 as minisign has it, or files; ``,``
    between them."""
    require_signed: bool = False
    """Serve no pack, beside the shipped ones, that is not an archive signed by a trusted key."""
    durability: Durability = "step"
    """``step``: a call is answered once its record is on disk. ``none``: memory only."""
    max_connections: int = 10_000
    """Connections at once, fewer where the process may open fewer files; 0: no limit."""
    max_connections_per_address: int = 5_000
    """Of those from one address (behind a proxy all are); 0: no limit."""
    max_url_bytes: int = 8 * 1024
    max_headers: int = 100
    max_head_bytes: int = 64 * 1024
    """Of a request: its address and its headers."""
    receive_seconds: float = 30.0
    """A request whose head and body have not come in full by then is cut off."""
    send_seconds: float = 30.0
    """A client that reads nothing of what waits for it for so long is cut off."""
    keep_alive_seconds: float = 75.0
    """How long a connection without a request stays open."""
    max_body_bytes: int = 4 * 1024 * 1024
    max_json_depth: int = 500
    """Levels of arrays and objects in one body; deeper is answered 400."""
    max_episodes: int = 0
    """Episodes held in memory at once; beyond, creating one is answered 429. 0: no limit."""
    lease_seconds: float = 900.0
    """An episode nobody was heard of for so long is parked in the ledger (durability ``none``:
    closed), until somebody asks for it again."""
    retention_seconds: float = 7 * 86_400.0
    """A parked episode nobody asked for is closed after so long."""
    max_workers: int = 0
    """Worker processes over all environments; 0 leaves it to the sandbox."""
    tenant_workers: int = 0
    """Worker processes that may be busy for one tenant at once, where there are tokens; 0: two for
    each core."""
    worker_memory_bytes: int = 0
    """What idle workers may hold together before some are ended; 0 leaves it to the sandbox."""
    require_sandbox: bool = False
    """Refuse to serve where a layer of the workers' confinement is missing."""
    log_level: LogLevel = "info"
    log_format: LogFormat = "json"
    allowed_hosts: tuple[str, ...] = ()
    """Names in ``Host`` and ``Origin`` that are answered beside loopback; ``*`` answers all."""

    token: str = ""
    """What client commands show to a hub that asks for tokens."""
    token_episodes: int = 0
    """Live episodes a tenant may hold where its token says nothing else; 0: no limit."""
    token_calls_per_second: float = 0.0
    """Requests a second, batch entries counted, where the token says nothing else; 0: no limit."""
    token_bytes_per_day: int = 0
    """Bytes sent, received and written in a day, where the token says nothing else; 0: no limit."""
    public_url: str = ""
    """The address clients reach this hub at; needed with an issuer."""
    oauth_issuer: str = ""
    """An OAuth 2.1 authorization server whose JWT access tokens are taken; empty: none."""
    oauth_audience: tuple[str, ...] = ()
    """What their ``aud`` may name, or be an URL below of; by default ``public_url``."""
    oauth_jwks_url: str = ""
    """Where the issuer's keys are; by default where its metadata says."""
    oauth_tenant_claim: str = "sub"
    """The claim that names the bearer's tenant."""

    judge_url: str = ""
    """An OpenAI-compatible endpoint that judges runs, up to and with ``/v1``; empty: no judge."""
    judge_model: str = ""
    judge_key: str = ""

    user_url: str = ""
    """An OpenAI-compatible endpoint that plays users with a persona; empty: they have a script."""
    user_model: str = ""
    user_key: str = ""

    model_url: str = ""
    """An OpenAI-compatible endpoint: its model plays in ``eval`` and ``rate``, writes in ``synth``;
    up to and with ``/v1``."""
    model_name: str = ""
    model_key: str = ""

    def __repr__(self) -> str:
        fields = msgspec.structs.asdict(self).items()
        said = {name: "..." if value and name in SECRETS else value for name, value in fields}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    def __post_init__(self) -> None:
        if self.tls_key is not None and self.tls_certificate is None:
            raise SettingsInvalid("tls_key is set without a tls_certificate")

    @property
    def address(self) -> str:
        """Where the hub of these settings is reached."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls_certificate else 'http'}://{host}:{self.port}"

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, **given: Any
    ) -> Settings:
        """Settings from ``ENVHUB_*`` variables, then from ``given`` where that is not ``None``.

        Raises ``SettingsInvalid`` for a value that does not fit or a variable that names nothing.
        """
        environment = os.environ if environment is None else environment
        fields = {field.name: field.type for field in msgspec.structs.fields(cls)}
        values: dict[str, Any] = {}
        for variable, text in environment.items():
            if variable.startswith(PREFIX):
                name = variable.removeprefix(PREFIX).lower()
                if name not in fields:
                    raise SettingsInvalid(
                        f"{variable} is no setting (there are: {', '.join(sorted(fields))})"
                    )
                values[name] = _parse(variable, text, fields[name])
        values.update({name: value for name, value in given.items() if value is not None})
        if "data_dir" not in values:
            values["data_dir"] = default_data_dir(environment)
        try:
            return msgspec.convert(values, cls, dec_hook=_as_it_is)
        except msgspec.ValidationError as error:
            raise SettingsInvalid(str(error).replace("$.", "")) from None


def environment_without_barriers() -> dict[str, str]:
    """The process environment for a hub of one's own, which is open and speaks http."""
    barriers = {PREFIX + name.upper() for name in BARRIERS}
    return {name: value for name, value in os.environ.items() if name not in barriers}


def default_data_dir(environment: Mapping[str, str]) -> Path:
    """``$XDG_DATA_HOME/envhub``, by default ``~/.local/share/envhub``.

    Raises ``SettingsInvalid`` for a user without a home, as containers have them.
    """
    base = environment.get("XDG_DATA_HOME", "")
    try:
        return (Path(base) if base else Path.home() / ".local" / "share") / "envhub"
    except RuntimeError as error:
        raise SettingsInvalid("there is no home directory: set ENVHUB_DATA_DIR") from error


def _as_it_is(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value


def _parse(variable: str, text: str, kind: Any) -> Any:
    separator = os.pathsep if "Path" in str(kind) else ","
    try:
        if kind == Path | None and not text:
            return None
        if kind in (Path, Path | None):
            return Path(text).expanduser()
        if kind == tuple[Path, ...]:
            return tuple(Path(part).expanduser() for part in text.split(separator) if part)
        if kind == tuple[str, ...]:
            return tuple(part.strip() for part in text.split(separator) if part.strip())
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsInvalid(f"{variable}={text!r}: {error}") from None
