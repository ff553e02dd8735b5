-- Twenty tables of 100 rows: about 400 KiB.
CREATE TABLE t0 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t0_status ON t0(status);
INSERT INTO t0 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 0/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t1 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t1_status ON t1(status);
INSERT INTO t1 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 1/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t2 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t2_status ON t2(status);
INSERT INTO t2 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 2/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t3 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t3_status ON t3(status);
INSERT INTO t3 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 3/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t4 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t4_status ON t4(status);
INSERT INTO t4 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 4/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t5 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t5_status ON t5(status);
INSERT INTO t5 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 5/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t6 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t6_status ON t6(status);
INSERT INTO t6 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 6/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t7 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t7_status ON t7(status);
INSERT INTO t7 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 7/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t8 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t8_status ON t8(status);
INSERT INTO t8 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 8/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t9 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t9_status ON t9(status);
INSERT INTO t9 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 9/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t10 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t10_status ON t10(status);
INSERT INTO t10 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 10/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t11 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t11_status ON t11(status);
INSERT INTO t11 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 11/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t12 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t12_status ON t12(status);
INSERT INTO t12 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 12/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t13 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t13_status ON t13(status);
INSERT INTO t13 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 13/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t14 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t14_status ON t14(status);
INSERT INTO t14 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 14/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t15 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t15_status ON t15(status);
INSERT INTO t15 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 15/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t16 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t16_status ON t16(status);
INSERT INTO t16 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 16/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t17 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t17_status ON t17(status);
INSERT INTO t17 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 17/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t18 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t18_status ON t18(status);
INSERT INTO t18 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 18/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
CREATE TABLE t19 (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, quantity INTEGER NOT NULL,
  status TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX t19_status ON t19(status);
INSERT INTO t19 WITH RECURSIVE keys(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM keys WHERE id < 100)
  SELECT id, printf('article 19/%d %s', id, hex(zeroblob(24))), id * 1.5, id % 7,
         iif(id % 3, 'open', 'closed'), '2026-01-05T09:00:00Z' FROM keys;
