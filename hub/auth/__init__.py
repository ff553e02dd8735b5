"""Who may do what: principals, the tokens they show, and what each may take."""

from hub.auth.principal import (
    KEY,
    LOCAL,
    LOCAL_TENANT,
    SCOPES,
    Access,
    Demand,
    Nobody,
    Principal,
    admitted,
    principal_of,
)

__all__ = [
    "KEY",
    "LOCAL",
    "LOCAL_TENANT",
    "SCOPES",
    "Access",
    "Demand",
    "Nobody",
    "Principal",
    "admitted",
    "principal_of",
]
