"""What SQL can reach besides rows."""

from tests.security.attacks.attack import STOPPED, attack

DENIED = (
    "^TOOL_CRASHED: (StatementForbidden|AuthError|SQLError|NotImplementedError|CantOpen|\\w*Forb)"
)

ATTACKS = (
    attack("attaching a file", DENIED, """
        db.rows("ATTACH ? AS other", aim["database"])
        breach(db.rows("SELECT token FROM other.t"))
    """),
    attack("attaching in other words", DENIED, """
        file = aim["database"]
        for sql in (f"attach database 'file:{file}?mode=ro' as x", "ATTACH ':memory:' AS m"):
            try:
                db.rows(sql)
            except Exception as error:
                failed = error
            else:
                breach(sql)
        raise failed
    """),
    attack("loading an extension", DENIED, """
        breach(db.rows("SELECT load_extension('libc.so.6')"))
    """),
    attack("copying into a file", DENIED, """
        db.run("COMMIT")
        db.rows("VACUUM INTO ?", aim["folder"] + "/copy.sqlite")
        breach("copied")
    """),
    attack("a writable schema", DENIED, """
        db.rows("PRAGMA writable_schema = on")
        db.run("UPDATE sqlite_schema SET sql = 'x'")
        breach("written")
    """),
    attack("pragmas that outlive the call", DENIED, """
        tried = ("locking_mode=exclusive", "query_only=1", "reverse_unordered_selects=1",
                 "journal_mode=wal", "temp_store_directory='/tmp'", "case_sensitive_like=1",
                 "recursive_triggers=1", "cell_size_check=0", "mmap_size=1", "schema_version=7")
        for pragma in tried:
            try:
                db.rows(f"PRAGMA {pragma}")
            except Exception as error:
                failed = error
            else:
                breach(pragma)
        raise failed
    """),
    attack("temporary objects", DENIED, """
        for sql in ("CREATE TEMP TABLE items (sku)", "CREATE TEMP VIEW log AS SELECT 1 AS id",
                    "CREATE TEMP TRIGGER t AFTER UPDATE ON main.items BEGIN SELECT 1; END"):
            try:
                db.run(sql)
            except Exception as error:
                failed = error
            else:
                breach(sql)
        raise failed
    """),
    attack("files as tables and functions", "TOOL_CRASHED", """
        for sql in (f"SELECT readfile('{aim['file']}')", f"SELECT * FROM fsdir('{aim['folder']}')",
                    f"SELECT writefile('{aim['folder']}/x', 'x')",
                    f"SELECT edit('x', 'touch {aim['folder']}/x')"):
            try:
                breach(db.rows(sql))
            except apsw.Error as error:
                failed = error
        raise failed
    """),
    attack("a count without end", STOPPED, """
        db.scalar("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                  "SELECT count(*) FROM n")
    """),
    attack("a join of a billion rows", STOPPED, """
        numbers = "WITH n(i) AS (SELECT value FROM json_each(?))"
        db.scalar(numbers + "SELECT count(*) FROM n a, n b, n c WHERE a.i + b.i + c.i = -1",
                  json.dumps(list(range(2000))))
    """),
    attack("a pattern without end", STOPPED, """
        db.scalar("SELECT ? LIKE ?", "a" * 40_000, "%a" * 16 + "%b%" + "_%" * 40)
        while True:
            db.scalar("SELECT glob('*a*a*a*a*a*a*a*a*b', ?)", "a" * 600)
    """),
    attack("its connection's other doors", "^returned 'closed'", """
        connection = db._connection
        doors = ("backup", "create_scalar_function", "load_extension", "enable_load_extension",
                 "set_authorizer", "filecontrol", "deserialize", "set_profile", "create_module",
                 "set_update_hook", "set_busy_timeout", "config", "wal_autocheckpoint", "close")
        for door in doors:
            method = getattr(connection, door, None)
            if method is None:
                continue
            try:
                method()
            except TypeError as error:
                breach(f"{door}: {error}")
            except Exception:
                pass
        return "closed"
    """),
    attack("writing past its transaction", "TOOL_CRASHED|BAD_RESULT|BusyError", """
        db.run("COMMIT")
        globals()["held"] = db._connection.blob_open("main", "items", "note", 2, True)
        held.write(b"!")
    """),
    attack("statements after the statement", "TOOL_CRASHED|HARMLESS|returned", """
        db.rows("SELECT 1; UPDATE items SET on_hand = 77; SELECT 2")
        raise KeyError("and then it fails")
    """),
)  # fmt: skip
