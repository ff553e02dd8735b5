"""Domains that environments are generated from; each file beside this one declares ``BLUEPRINT``.

Writing one
-----------

Copy the file that is nearest to what you have in mind and keep to this:

- **Five to seven entities** in the base, at least eight features. An environment takes two to four
  features (all sets that fit together occur), so each must work alone and with any other; what only
  makes sense with another one says ``needs``, two ways of keeping the same thing ``excludes``.
  A feature adds tables, columns, actions, rules to actions (``extends``) or several of these. Up to
  half of them may be shared ones (``blueprints.features``: notes, tags, reminders, documents, staff,
  reviews, charges, inspections, groups, complaints, depots); the rest is of this business alone.
- **Rules of a kind of their own.** Ask what this business forbids that others do not: capacities,
  windows of time, exclusive use, order of steps, balances that must cover something, quotas per
  person, four eyes, compatibility of two things. Each ``need`` has its own code and a message with
  the values that decided.
- **Names.** ``name`` of an entity is an English noun in the singular and no keyword of Python
  (``class``, ``return``) or SQL (``order`` is fine for an entity, not as a column). Columns are not
  called ``id``, ``text``, ``sort``, ``page``, ``limit`` or like a table. A ``ref("member")`` called
  ``owner`` is the column ``owner_id``. A list of constants is in capitals.
- **Words.** Every entity that people name has a ``label`` (a unique name, title or code; make the
  patterns rich enough for all rows, or fewer rows come of it). All others need ways to be told
  apart: ``before=True`` on a choice whose values are adjectives (*an open loan*; not *under way*),
  ``after="of {}"`` on refs and what else one says behind the noun, ``least`` and ``most`` on days
  and numbers (*oldest*, *cheapest*). Give labelled entities some too: tasks compare by them.
- **Actions** are imperative clauses in ``asks``, rather two than one, without a full stop;
  ``{row}`` stands for a noun phrase that may be long (so *of {member}*, never *{member}'s*), and
  each argument must occur. *a* and a plural beside a hole agree with what fills it. Rules (``need``, ``let``, ``find``) come before the first change. ``put`` of a row's own
  column plus or minus something becomes an increment. Five to eleven actions in the base.
- **Data.** Rows are random by kind, then ``settle`` makes them agree (plain SQL; ``random()`` is
  seeded; never read the clock in it), and ``invariants`` list what must never be: they are tried at
  the start and after every oracle. Leave some rows on either side of every rule: a few full, a few
  blocked, most fine. 200 to 400 rows in all, at most 80 a table.
- **Policy.** One sentence an action on what its rules are; constants in braces.

``python -m tests.environments.synthesis.sample DOMAIN`` makes some environments of a domain and
prints their tasks: read these, they are what counts.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from environments.synthesis.blueprint import Blueprint


@cache
def blueprints() -> dict[str, Blueprint]:
    """All blueprints by domain, in the order of their names."""
    files = sorted(Path(__file__).parent.glob("[a-z]*.py"))
    found = [import_module(f"{__name__}.{file.stem}").BLUEPRINT for file in files]
    return {blueprint.domain: blueprint for blueprint in found}
