-- Times are UTC text, e.g. 2026-03-09T08:30:00Z, so that they sort as they read.

CREATE TABLE teams (
    id      TEXT NOT NULL PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE,
    purpose TEXT NOT NULL
);

CREATE TABLE agents (
    id       TEXT NOT NULL PRIMARY KEY,
    name     TEXT NOT NULL,
    email    TEXT NOT NULL UNIQUE,
    team_id  TEXT NOT NULL REFERENCES teams (id),
    role     TEXT NOT NULL CHECK (role IN ('analyst', 'senior', 'deputy', 'lead', 'manager')),
    status   TEXT NOT NULL CHECK (status IN ('available', 'on_leave', 'off_shift')),
    back_at  TEXT CHECK (back_at IS NULL OR status <> 'available'),
    capacity INTEGER NOT NULL CHECK (capacity >= 0)  -- open tickets held at once
);
CREATE INDEX agents_team ON agents (team_id);

CREATE TABLE agent_skills (
    agent_id TEXT NOT NULL REFERENCES agents (id),
    skill    TEXT NOT NULL,
    PRIMARY KEY (agent_id, skill)
);

CREATE TABLE categories (
    id             TEXT NOT NULL PRIMARY KEY,
    name           TEXT NOT NULL UNIQUE,
    team_id        TEXT NOT NULL REFERENCES teams (id),
    skill          TEXT NOT NULL,
    asset_required INTEGER NOT NULL DEFAULT 0 CHECK (asset_required IN (0, 1)),
    priority_floor TEXT NOT NULL DEFAULT 'P4' CHECK (priority_floor IN ('P1', 'P2', 'P3', 'P4'))
);

CREATE TABLE service_levels (
    priority           TEXT NOT NULL PRIMARY KEY CHECK (priority IN ('P1', 'P2', 'P3', 'P4')),
    meaning            TEXT NOT NULL,
    response_minutes   INTEGER NOT NULL CHECK (response_minutes > 0),
    resolution_minutes INTEGER NOT NULL CHECK (resolution_minutes > response_minutes)
);

CREATE TABLE requesters (
    id         TEXT NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL,
    email      TEXT NOT NULL UNIQUE,
    department TEXT NOT NULL,
    site       TEXT NOT NULL CHECK (site IN ('Bristol', 'Leeds', 'Rotterdam', 'Lisbon')),
    job_title  TEXT NOT NULL,
    manager_id TEXT REFERENCES requesters (id),
    vip        INTEGER NOT NULL DEFAULT 0 CHECK (vip IN (0, 1)),
    active     INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1))
);
CREATE INDEX requesters_name ON requesters (name);

CREATE TABLE assets (
    id             TEXT NOT NULL PRIMARY KEY,
    kind           TEXT NOT NULL CHECK (kind IN
                   ('laptop', 'phone', 'monitor', 'dock', 'printer', 'room_kit', 'scanner')),
    model          TEXT NOT NULL,
    serial         TEXT NOT NULL UNIQUE,
    site           TEXT NOT NULL CHECK (site IN ('Bristol', 'Leeds', 'Rotterdam', 'Lisbon')),
    location       TEXT,
    status         TEXT NOT NULL CHECK (status IN
                   ('in_use', 'in_stock', 'in_repair', 'retired', 'lost')),
    holder_id      TEXT REFERENCES requesters (id),
    purchased_on   TEXT NOT NULL,
    warranty_until TEXT NOT NULL CHECK (warranty_until > purchased_on),
    cost_gbp       REAL NOT NULL CHECK (cost_gbp > 0),
    CHECK (holder_id IS NULL OR status = 'in_use')
);
CREATE INDEX assets_holder ON assets (holder_id);

CREATE TABLE articles (
    id          TEXT NOT NULL PRIMARY KEY,
    title       TEXT NOT NULL,
    category_id TEXT NOT NULL REFERENCES categories (id),
    status      TEXT NOT NULL CHECK (status IN ('draft', 'published', 'archived')),
    author_id   TEXT NOT NULL REFERENCES agents (id),
    body        TEXT NOT NULL,
    updated_at  TEXT NOT NULL
);
CREATE INDEX articles_category ON articles (category_id);

CREATE TABLE macros (
    id          TEXT NOT NULL PRIMARY KEY,
    title       TEXT NOT NULL,
    category_id TEXT REFERENCES categories (id),  -- NULL: for tickets of any category
    body        TEXT NOT NULL,                    -- {first_name} and {ticket} are filled in
    add_tag     TEXT,
    set_status  TEXT CHECK (set_status IN ('pending', 'on_hold'))
);

CREATE TABLE tickets (
    id                 TEXT NOT NULL PRIMARY KEY,
    subject            TEXT NOT NULL CHECK (length(subject) > 0),
    description        TEXT NOT NULL,
    requester_id       TEXT NOT NULL REFERENCES requesters (id),
    category_id        TEXT NOT NULL REFERENCES categories (id),
    priority           TEXT NOT NULL REFERENCES service_levels (priority),
    status             TEXT NOT NULL CHECK (status IN
                       ('new', 'open', 'pending', 'on_hold', 'resolved', 'closed')),
    assignee_id        TEXT REFERENCES agents (id),
    asset_id           TEXT REFERENCES assets (id),
    escalation_level   INTEGER NOT NULL DEFAULT 0 CHECK (escalation_level BETWEEN 0 AND 2),
    created_at         TEXT NOT NULL,
    updated_at         TEXT NOT NULL CHECK (updated_at >= created_at),
    response_due       TEXT NOT NULL,
    resolution_due     TEXT NOT NULL,
    first_responded_at TEXT,
    resolved_at        TEXT,
    resolution_code    TEXT CHECK (resolution_code IN ('fixed', 'workaround', 'advice_given',
                       'not_reproducible', 'declined')),
    resolution         TEXT,
    closed_at          TEXT,
    merged_into        TEXT REFERENCES tickets (id),
    CHECK (status <> 'new' OR assignee_id IS NULL),
    CHECK ((status = 'closed') = (closed_at IS NOT NULL)),
    CHECK (status <> 'resolved' OR (resolved_at IS NOT NULL AND resolution IS NOT NULL))
);
CREATE INDEX tickets_requester ON tickets (requester_id);
CREATE INDEX tickets_assignee ON tickets (assignee_id, status);
CREATE INDEX tickets_category ON tickets (category_id, status);
CREATE INDEX tickets_created ON tickets (created_at);

CREATE TABLE comments (
    id          INTEGER NOT NULL PRIMARY KEY,
    ticket_id   TEXT NOT NULL REFERENCES tickets (id),
    author_kind TEXT NOT NULL CHECK (author_kind IN ('requester', 'agent', 'dispatch', 'system')),
    author_id   TEXT,                             -- agents or requesters; NULL for the other kinds
    visibility  TEXT NOT NULL CHECK (visibility IN ('public', 'internal')),
    body        TEXT NOT NULL CHECK (length(body) > 0),
    created_at  TEXT NOT NULL
);
CREATE INDEX comments_ticket ON comments (ticket_id);

CREATE TABLE ticket_history (
    id        INTEGER NOT NULL PRIMARY KEY,
    ticket_id TEXT NOT NULL REFERENCES tickets (id),
    actor     TEXT NOT NULL,                      -- an agent's id, dispatch or system
    field     TEXT NOT NULL,
    old_value TEXT,
    new_value TEXT,
    note      TEXT,
    at        TEXT NOT NULL
);
CREATE INDEX ticket_history_ticket ON ticket_history (ticket_id);

CREATE TABLE ticket_tags (
    ticket_id TEXT NOT NULL REFERENCES tickets (id),
    tag       TEXT NOT NULL,
    PRIMARY KEY (ticket_id, tag)
);

CREATE TABLE ticket_links (
    ticket_id TEXT NOT NULL REFERENCES tickets (id),
    other_id  TEXT NOT NULL REFERENCES tickets (id),
    kind      TEXT NOT NULL CHECK (kind IN
              ('child_of', 'duplicate_of', 'follow_up_of', 'related_to')),
    PRIMARY KEY (ticket_id, other_id),
    CHECK (ticket_id <> other_id)
);
CREATE INDEX ticket_links_other ON ticket_links (other_id);

CREATE TABLE ticket_articles (
    ticket_id  TEXT NOT NULL REFERENCES tickets (id),
    article_id TEXT NOT NULL REFERENCES articles (id),
    PRIMARY KEY (ticket_id, article_id)
);

CREATE TABLE escalations (
    id        INTEGER NOT NULL PRIMARY KEY,
    ticket_id TEXT NOT NULL REFERENCES tickets (id),
    level     INTEGER NOT NULL CHECK (level IN (1, 2)),
    agent_id  TEXT NOT NULL REFERENCES agents (id),
    reason    TEXT NOT NULL,
    at        TEXT NOT NULL,
    UNIQUE (ticket_id, level)
);

CREATE TABLE asset_moves (
    id          INTEGER NOT NULL PRIMARY KEY,
    asset_id    TEXT NOT NULL REFERENCES assets (id),
    ticket_id   TEXT NOT NULL REFERENCES tickets (id),
    from_status TEXT NOT NULL,
    to_status   TEXT NOT NULL,
    from_holder TEXT REFERENCES requesters (id),
    to_holder   TEXT REFERENCES requesters (id),
    at          TEXT NOT NULL
);
CREATE INDEX asset_moves_asset ON asset_moves (asset_id);
