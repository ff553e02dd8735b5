"""A public library: copies of titles go out to members and come back, late or not."""

from environments.synthesis.blueprint import (
    Action,
    Attribute,
    Blueprint,
    Entity,
    Feature,
    add,
    arg,
    choice,
    day,
    email,
    integer,
    let,
    made,
    money,
    need,
    person,
    phone,
    put,
    ref,
    the,
    via,
    when,
)  # fmt: skip
from environments.synthesis.blueprints.features import (
    complaints,
    groups,
    inspections,
    notes,
    reviews,
    staff,
    tags,
)

_LATE = "max(0, days_between(loan.due_on, today()))"

BLUEPRINT = Blueprint(
    domain="library",
    titles=("{city} Public Library", "{surname} Memorial Library"),
    summary="Lend copies, take them back, settle fines and look after members.",
    role="You work at the lending desk of {title}.",
    words={
        "what": (
            "Harbour",
            "Orchard",
            "Winter",
            "Lantern",
            "Glass",
            "Salt",
            "Meadow",
            "River",
            "Paper",
            "Silent",
            "Copper",
            "Distant",
            "Hollow",
            "Crimson",
        ),
        "thing": (
            "House",
            "Season",
            "Letters",
            "Road",
            "Garden",
            "Atlas",
            "Tide",
            "Company",
            "Hours",
            "Bridge",
            "Inheritance",
            "Music",
        ),
    },
    constants={
        "LOAN_LIMIT": (3, 4, 5),
        "FINE_LIMIT": (8, 10, 15),
        "LOAN_DAYS": (14, 21, 28),
        "LOST_FEE": (12, 18, 25),
    },
    entities=(
        Entity(
            "branch",
            (
                Attribute("name", made("{city}")),
                Attribute("opened_on", day(-9000, -700), chance=0.5),
                Attribute("phone", phone(), chance=0.5, editable=True),
            ),
            rows=(3, 5),
            label="name",
            said="the {} branch",
        ),
        Entity(
            "title",
            (
                Attribute("name", made("The {what} {thing}", "{what} {thing}")),
                Attribute("author", person(), after="by {}"),
                Attribute("genre", choice("novel", "biography", "history", "travel", "poetry")),
                Attribute("published", integer(1955, 2025), least="oldest", most="newest"),
            ),
            rows=(22, 34),
            label="name",
            said="“{}”",
            creatable=True,
        ),
        Entity(
            "copy",
            (
                Attribute("title", ref("title"), after="of {}"),
                Attribute("branch", ref("branch"), after="at {}"),
                Attribute("status", choice("available", "on_loan", "lost"), given=False),
                Attribute("condition", choice("good", "worn", "new"), editable=True, chance=0.7),
            ),
            rows=(50, 80),
            plural="copies",
        ),
        Entity(
            "member",
            (
                Attribute("name", person()),
                Attribute("email", email(), editable=True),
                Attribute("status", choice("active", "blocked"), before=True, given=False),
                Attribute("home_branch", ref("branch"), after="of {}", editable=True),
                Attribute("fines", money(0, 20), most="most indebted", given=False, start=0),
                Attribute("phone", phone(), chance=0.4, editable=True),
                Attribute("joined_on", day(-2500, -20), chance=0.6, least="longest-standing"),
            ),
            rows=(28, 44),
            label="name",
            creatable=True,
        ),
        Entity(
            "loan",
            (
                Attribute("copy", ref("copy")),
                Attribute("member", ref("member"), after="of {}"),
                Attribute("lent_on", day(-60, -2), least="oldest", most="most recent"),
                Attribute("due_on", day(-20, 25)),
                Attribute("returned_on", day(-20, -1, missing=0.6)),
                Attribute("status", choice("open", "returned", "lost"), before=True),
            ),
            rows=(50, 80),
        ),
    ),
    settle=(
        "UPDATE loans SET due_on = date(lent_on, '+21 days')",
        "UPDATE loans SET status = CASE WHEN returned_on IS NULL THEN 'open' ELSE 'returned' END",
        "UPDATE loans SET returned_on = date(lent_on, '+' || (1 + abs(random() % 3)) || ' days')"
        " WHERE returned_on < lent_on",
        "UPDATE loans SET status = 'returned', returned_on = due_on WHERE status = 'open' AND id NOT IN"
        " (SELECT min(id) FROM loans WHERE status = 'open' GROUP BY copy_id)",
        "UPDATE copies SET status = CASE WHEN id IN (SELECT copy_id FROM loans WHERE status = 'open')"
        " THEN 'on_loan' WHEN status = 'on_loan' THEN 'available' ELSE status END",
    ),
    invariants=(
        "SELECT id FROM copies WHERE status = 'on_loan' AND id NOT IN"
        " (SELECT copy_id FROM loans WHERE status = 'open')",
        "SELECT copy_id FROM loans WHERE status = 'open' GROUP BY copy_id HAVING count(*) > 1",
        "SELECT id FROM members WHERE fines < 0",
    ),
    actions=(
        Action(
            "lend_copy",
            "Lend an available copy to a member. It is due after the usual loan period.",
            (the("copy"), the("member")),
            (
                need("member.status == 'active'", "MEMBER_BLOCKED", "{member.name} is blocked"),
                need(
                    "copy.status == 'available'",
                    "COPY_NOT_AVAILABLE",
                    "copy {copy.id} is {copy.status}",
                ),
                need(
                    "member.fines < FINE_LIMIT",
                    "FINES_TOO_HIGH",
                    "{member.name} owes {member.fines}, the limit is {FINE_LIMIT}",
                ),
                let("open_loans", "count(loan, member_id=member.id, status='open')"),
                need(
                    "open_loans < LOAN_LIMIT",
                    "LOAN_LIMIT_REACHED",
                    "{member.name} has {open_loans} open loans of at most {LOAN_LIMIT}",
                ),
                put("copy", status="'on_loan'"),
                add(
                    "loan",
                    copy_id="copy.id",
                    member_id="member.id",
                    lent_on="today()",
                    due_on="days_after(today(), LOAN_DAYS)",
                    returned_on="None",
                    status="'open'",
                ),
            ),
            asks=("lend {copy} to {member}", "check out {copy} for {member}"),
            policy="A member may have {LOAN_LIMIT} open loans, and borrows nothing while blocked or "
            "while owing {FINE_LIMIT} {currency} or more. Loans run {LOAN_DAYS} days.",
        ),
        Action(
            "return_loan",
            "Take a copy back. Days late are fined to the member.",
            (the("loan"), via("copy", "loan.copy_id"), via("member", "loan.member_id")),
            (
                need("loan.status == 'open'", "LOAN_NOT_OPEN", "loan {loan.id} is {loan.status}"),
                let("days_late", _LATE),
                put("loan", status="'returned'", returned_on="today()"),
                put("copy", status="'available'"),
                when("days_late > 0", put("member", fines="member.fines + days_late * 0.5")),
            ),
            asks=("take back {loan}", "book {loan} as returned today"),
            policy="Every day late costs 0.50 {currency}; the fine is booked when the copy comes back.",
        ),
        Action(
            "pay_fine",
            "Book a payment towards a member's fines.",
            (the("member"), arg("amount", money(1, 12), "what is paid")),
            (
                need("member.fines > 0", "NO_FINES", "{member.name} owes nothing"),
                need(
                    "amount <= member.fines",
                    "AMOUNT_TOO_HIGH",
                    "{member.name} owes only {member.fines}",
                ),
                put("member", fines="member.fines - amount"),
            ),
            asks=(
                "book a fine payment of {amount} for {member}",
                "take {amount} from {member} towards the outstanding fines",
            ),
            policy="Nobody pays more than they owe.",
        ),
        Action(
            "report_lost",
            "Write off a copy that a member has lost; the member is fined and blocked.",
            (the("loan"), via("copy", "loan.copy_id"), via("member", "loan.member_id")),
            (
                need("loan.status == 'open'", "LOAN_NOT_OPEN", "loan {loan.id} is {loan.status}"),
                put("loan", status="'lost'"),
                put("copy", status="'lost'"),
                put("member", fines="member.fines + LOST_FEE", status="'blocked'"),
            ),
            asks=("report {loan} as lost", "write off the book in {loan} as lost"),
            policy="A lost copy costs {LOST_FEE} {currency} and blocks the member.",
        ),
        Action(
            "unblock_member",
            "Let a blocked member borrow again, once the fines are low enough.",
            (the("member"),),
            (
                need("member.status == 'blocked'", "NOT_BLOCKED", "{member.name} is not blocked"),
                need(
                    "member.fines < FINE_LIMIT",
                    "FINES_TOO_HIGH",
                    "{member.name} still owes {member.fines}",
                ),
                put("member", status="'active'"),
            ),
            asks=("unblock {member}", "lift the block on {member}"),
            policy="A block is lifted once less than {FINE_LIMIT} {currency} is owed.",
        ),
    ),
    features=(
        Feature(
            "renewals",
            attributes={"loan": (Attribute("renewals", integer(0, 2), given=False, start=0),)},
            constants={"RENEWALS": (2, 3)},
            actions=(
                Action(
                    "renew_loan",
                    "Extend an open loan that is not overdue.",
                    (the("loan"), arg("days", integer(7, 21, 7), "how many more days")),
                    (
                        need(
                            "loan.status == 'open'",
                            "LOAN_NOT_OPEN",
                            "loan {loan.id} is {loan.status}",
                        ),
                        need("loan.due_on >= today()", "OVERDUE", "it was due on {loan.due_on}"),
                        need(
                            "loan.renewals < RENEWALS",
                            "RENEWED_TOO_OFTEN",
                            "it was renewed {loan.renewals} times already",
                        ),
                        put(
                            "loan",
                            due_on="days_after(loan.due_on, days)",
                            renewals="loan.renewals + 1",
                        ),
                    ),
                    asks=("renew {loan} for {days} days", "extend {loan} by {days} days"),
                    policy="A loan is renewed at most {RENEWALS} times, and never once overdue.",
                ),
            ),
        ),
        Feature(
            "holds",
            entities=(
                Entity(
                    "hold",
                    (
                        Attribute("title", ref("title"), after="on {}"),
                        Attribute("member", ref("member"), after="of {}"),
                        Attribute("placed_on", day(-30, -1), least="oldest", most="latest"),
                        Attribute(
                            "status", choice("waiting", "fulfilled", "cancelled"), before=True
                        ),
                    ),
                    rows=(18, 30),
                ),
            ),
            settle=(
                "UPDATE holds SET status = 'cancelled' WHERE status = 'waiting' AND id NOT IN (SELECT"
                " min(id) FROM holds WHERE status = 'waiting' GROUP BY title_id, member_id)",
            ),
            invariants=(
                "SELECT title_id FROM holds WHERE status = 'waiting' GROUP BY title_id, member_id"
                " HAVING count(*) > 1",
            ),
            constants={"HOLD_LIMIT": (2, 3)},
            actions=(
                Action(
                    "place_hold",
                    "Put a member on the waiting list of a title none of whose copies is available.",
                    (the("title"), the("member")),
                    (
                        need(
                            "not exists(copy, title_id=title.id, status='available')",
                            "COPY_AVAILABLE",
                            "a copy of {title.name} is available",
                        ),
                        need(
                            "not exists(hold, title_id=title.id, member_id=member.id, "
                            "status='waiting')",
                            "ALREADY_WAITING",
                            "{member.name} waits for {title.name} already",
                        ),
                        need(
                            "count(hold, member_id=member.id, status='waiting') < HOLD_LIMIT",
                            "HOLD_LIMIT_REACHED",
                            "{member.name} has {HOLD_LIMIT} holds",
                        ),
                        add(
                            "hold",
                            title_id="title.id",
                            member_id="member.id",
                            placed_on="today()",
                            status="'waiting'",
                        ),
                    ),
                    asks=(
                        "put a hold on {title} for {member}",
                        "add {member} to the waiting list of {title}",
                    ),
                    policy="Holds are for titles with no copy on the shelf; at most {HOLD_LIMIT} each.",
                ),
                Action(
                    "cancel_hold",
                    "Take a member off a waiting list.",
                    (the("hold"),),
                    (
                        need(
                            "hold.status == 'waiting'",
                            "HOLD_NOT_WAITING",
                            "hold {hold.id} is {hold.status}",
                        ),
                        put("hold", status="'cancelled'"),
                    ),
                    asks=("cancel {hold}",),
                ),
            ),
        ),
        Feature(
            "transfers",
            entities=(
                Entity(
                    "transfer",
                    (
                        Attribute("copy", ref("copy")),
                        Attribute("to_branch", ref("branch"), after="to {}"),
                        Attribute("sent_on", day(-12, -1), least="oldest", most="latest"),
                        Attribute("status", choice("pending", "completed"), before=True),
                    ),
                    rows=(14, 22),
                ),
            ),
            settle=(
                "UPDATE transfers SET status = 'completed' WHERE copy_id NOT IN (SELECT id FROM copies"
                " WHERE status = 'available') OR id NOT IN (SELECT max(id) FROM transfers GROUP BY"
                " copy_id)",
                "UPDATE copies SET branch_id = (SELECT to_branch_id FROM transfers t WHERE t.copy_id ="
                " copies.id AND t.status = 'completed' ORDER BY sent_on DESC, id DESC LIMIT 1) WHERE id IN"
                " (SELECT copy_id FROM transfers WHERE status = 'completed')",
            ),
            actions=(
                Action(
                    "send_copy",
                    "Send an available copy to another branch.",
                    (the("copy"), the("branch")),
                    (
                        need(
                            "copy.status == 'available'",
                            "COPY_NOT_AVAILABLE",
                            "copy {copy.id} is {copy.status}",
                        ),
                        need(
                            "copy.branch_id != branch.id",
                            "SAME_BRANCH",
                            "the copy is at {branch.name} already",
                        ),
                        need(
                            "not exists(transfer, copy_id=copy.id, status='pending')",
                            "UNDER_WAY",
                            "copy {copy.id} is under way already",
                        ),
                        add(
                            "transfer",
                            copy_id="copy.id",
                            to_branch_id="branch.id",
                            sent_on="today()",
                            status="'pending'",
                        ),
                    ),
                    asks=("send {copy} to {branch}",),
                    policy="Only copies on the shelf travel between branches.",
                ),
                Action(
                    "receive_transfer",
                    "Book a copy that was sent as arrived at its new branch.",
                    (the("transfer"), via("copy", "transfer.copy_id")),
                    (
                        need(
                            "transfer.status == 'pending'",
                            "NOT_UNDER_WAY",
                            "it has arrived already",
                        ),
                        put("transfer", status="'completed'"),
                        put("copy", branch_id="transfer.to_branch_id"),
                    ),
                    asks=("book {transfer} as arrived", "confirm that {transfer} has arrived"),
                ),
            ),
        ),
        notes("member", "prefers large print", "collects on Saturdays", "is visually impaired",
              "has a second card", "lives next door"),
        tags("title", "classic", "local author", "for schools", "prize winner", "out of print",
             "reading group"),
        reviews("member", "title"),
        groups("member", "Crime Club", "Poetry Circle", "Book Swap", "Young Readers", "Memoir"),
        complaints("member"),
        staff("branch", "librarian", "archivist", "page"),
        inspections("branch"),
    ),
)
