"""Features that suit many domains: what offices do beside their business.

Each takes the entities it is about, which must have a label. A blueprint mixes some of them with
features of its own.
"""

from __future__ import annotations

from environments.synthesis.blueprint import (
    Action,
    Attribute,
    Entity,
    Feature,
    add,
    arg,
    choice,
    code,
    day,
    drop,
    find,
    flag,
    integer,
    let,
    made,
    money,
    need,
    person,
    put,
    put_all,
    ref,
    text,
    the,
    via,
    when,
)


def _said(entity: str) -> str:
    return entity.replace("_", " ")


def notes(entity: str, *sentences: str) -> Feature:
    """Remarks in a file that only grows."""
    note = f"{entity}_note"
    return Feature(
        "notes",
        entities=(
            Entity(
                note,
                (
                    Attribute(entity, ref(entity)),
                    Attribute("body", text(*sentences)),
                    Attribute("written_on", day(-200, -1)),
                ),
                rows=(14, 26),
                log=True,
            ),
        ),
        actions=(
            Action(
                f"add_{note}",
                f"Add a note to the file of a {_said(entity)}.",
                (the(entity), arg("body", text(*sentences), "what the note says")),
                (
                    need(
                        f"not exists({note}, {entity}_id={entity}.id, body=body)",
                        "NOTE_EXISTS",
                        "the file says so already",
                    ),
                    add(
                        note, **{f"{entity}_id": f"{entity}.id"}, body="body", written_on="today()"
                    ),
                ),
                asks=(
                    f"add the note “{{body}}” to the file of {{{entity}}}",
                    f"note “{{body}}” for {{{entity}}}",
                ),
                policy="The same note is not written twice into one file.",
            ),
        ),
    )


def tags(entity: str, *names: str) -> Feature:
    """Tags, many on a row, each once; no more than a few."""
    link = f"{entity}_tag"
    where = {f"{entity}_id": f"{entity}.id", "tag_id": "tag.id"}
    return Feature(
        "tags",
        entities=(
            Entity(
                "tag",
                (
                    Attribute("name", choice(*names)),
                    Attribute("retired", flag(0.2), given=False),
                ),
                rows=(len(names), len(names)),
                label="name",
                said="the tag “{}”",
            ),
            Entity(
                link,
                (Attribute(entity, ref(entity)), Attribute("tag", ref("tag"))),
                rows=(24, 36),
                key=(entity, "tag"),
            ),
        ),
        constants={"TAG_LIMIT": (3, 4, 5)},
        actions=(
            Action(
                f"tag_{entity}",
                f"Put a tag on a {_said(entity)}.",
                (the(entity), the("tag")),
                (
                    need("not tag.retired", "TAG_RETIRED", "{tag.name} is not used any more"),
                    need(
                        f"not exists({link}, {entity}_id={entity}.id, tag_id=tag.id)",
                        "ALREADY_TAGGED",
                        "it has the tag {tag.name} already",
                    ),
                    need(
                        f"count({link}, {entity}_id={entity}.id) < TAG_LIMIT",
                        "TOO_MANY_TAGS",
                        "it has {TAG_LIMIT} tags already",
                    ),
                    add(link, **where),
                ),
                asks=(f"put {{tag}} on {{{entity}}}", f"give {{{entity}}} {{tag}}"),
                policy=f"A {_said(entity)} has at most {{TAG_LIMIT}} tags; retired ones are not "
                "given any more.",
            ),
            Action(
                f"untag_{entity}",
                f"Take a tag off a {_said(entity)}.",
                (the(entity), the("tag")),
                (
                    find(
                        "link", link, "NOT_TAGGED", "it does not have the tag {tag.name}", **where
                    ),
                    drop("link"),
                ),
                asks=(f"take {{tag}} off {{{entity}}}", f"remove {{tag}} from {{{entity}}}"),
            ),
        ),
    )


def reminders(entity: str) -> Feature:
    """Things to come back to, a few at a time, on a day that lies ahead."""
    return Feature(
        "reminders",
        entities=(
            Entity(
                "reminder",
                (
                    Attribute(entity, ref(entity), after="about {}"),
                    Attribute("due_on", day(-10, 30), after="due on {}", least="earliest",
                              most="latest"),
                    Attribute("urgency", choice("normal", "high"), after="of {} urgency"),
                    Attribute("status", choice("open", "done", "dropped"), before=True),
                ),
                rows=(18, 28),
            ),
        ),
        constants={"REMINDER_LIMIT": (2, 3), "REMINDER_DAYS": (30, 60, 90)},
        actions=(
            Action(
                "set_reminder",
                f"Set a reminder about a {_said(entity)}.",
                (the(entity), arg("due_on", day(1, 28), "when it is due"),
                 arg("urgency", choice("normal", "high"), "how urgent it is")),
                (
                    need("due_on > today()", "DAY_PASSED", "{due_on} is not ahead"),
                    need("days_between(today(), due_on) <= REMINDER_DAYS", "TOO_FAR_AHEAD",
                         "reminders reach {REMINDER_DAYS} days ahead"),
                    let("open_ones", f"count(reminder, {entity}_id={entity}.id, status='open')"),
                    need("open_ones < REMINDER_LIMIT", "TOO_MANY_REMINDERS",
                         "there are {open_ones} open reminders about it"),
                    add("reminder", **{f"{entity}_id": f"{entity}.id"}, due_on="due_on",
                        urgency="urgency", status="'open'"),
                ),
                asks=(f"set a reminder of {{urgency}} urgency about {{{entity}}} for {{due_on}}",
                      f"remind us of {{{entity}}} on {{due_on}}, with {{urgency}} urgency"),
                policy=f"At most {{REMINDER_LIMIT}} reminders about one {_said(entity)} are open, "
                "none further ahead than {REMINDER_DAYS} days.",
            ),
            Action(
                "close_reminder",
                "Close an open reminder as done or dropped.",
                (the("reminder"), arg("outcome", choice("done", "dropped"), "what became of it")),
                (
                    need("reminder.status == 'open'", "REMINDER_CLOSED",
                         "it is {reminder.status} already"),
                    put("reminder", status="outcome"),
                ),
                asks=("close {reminder} as {outcome}", "mark {reminder} as {outcome}"),
            ),
            Action(
                "postpone_reminder",
                "Put an open reminder off; an urgent one by a week at most.",
                (the("reminder"), arg("days", integer(1, 14), "by how many days")),
                (
                    need("reminder.status == 'open'", "REMINDER_CLOSED",
                         "it is {reminder.status} already"),
                    need("reminder.urgency != 'high' or days <= 7", "TOO_URGENT",
                         "an urgent reminder is put off by 7 days at most"),
                    put("reminder", due_on="days_after(reminder.due_on, days)"),
                ),
                asks=("postpone {reminder} by {days} days", "put {reminder} off by {days} days"),
                policy="Reminders of high urgency are put off by a week at most.",
                chance=0.6,
            ),
        ),
    )  # fmt: skip


def documents(entity: str) -> Feature:
    """Files with a size, drafts until they are final, within a quota."""
    return Feature(
        "documents",
        entities=(
            Entity(
                "document",
                (
                    Attribute("name", code("DOC-####")),
                    Attribute(entity, ref(entity), after="on {}"),
                    Attribute("kind", choice("letter", "scan", "form", "photo"), before=True),
                    Attribute("size_kb", integer(40, 900, 20), least="smallest", most="largest",
                              unit="kB", doc="size in kB"),
                    Attribute("status", choice("draft", "final", "void"), after="that is {}",
                              given=False),
                ),
                rows=(20, 32),
                label="name",
                said="document {}",
            ),
        ),
        constants={"QUOTA_KB": (1500, 2000, 3000)},
        actions=(
            Action(
                "file_document",
                f"File a document with a {_said(entity)}, as a draft.",
                (the(entity), arg("name", code("DOC-####"), "the number it gets"),
                 arg("kind", choice("letter", "scan", "form", "photo"), "what it is"),
                 arg("size_kb", integer(100, 900, 50), "its size in kB")),
                (
                    need("not exists(document, name=name)", "NUMBER_TAKEN",
                         "there is a document {name} already"),
                    let("used", f"total(document, 'size_kb', {entity}_id={entity}.id)"),
                    need("used + size_kb <= QUOTA_KB", "QUOTA_EXCEEDED",
                         "{used} kB of {QUOTA_KB} are used"),
                    add("document", name="name", **{f"{entity}_id": f"{entity}.id"}, kind="kind",
                        size_kb="size_kb", status="'draft'"),
                ),
                asks=(f"file a {{kind}} of {{size_kb}} kB as {{name}} with {{{entity}}}",
                      f"file {{name}}, a {{kind}} of {{size_kb}} kB, with {{{entity}}}"),
                policy=f"The documents of a {_said(entity)} take {{QUOTA_KB}} kB at most.",
            ),
            Action(
                "finalise_document",
                "Make a draft final.",
                (the("document"),),
                (
                    need("document.status == 'draft'", "NOT_A_DRAFT",
                         "{document.name} is {document.status}"),
                    put("document", status="'final'"),
                ),
                asks=("finalise {document}", "make {document} final"),
            ),
            Action(
                "void_document",
                "Declare a document void; scans cannot be.",
                (the("document"),),
                (
                    need("document.status != 'void'", "ALREADY_VOID", "{document.name} is void"),
                    need("document.kind != 'scan'", "SCANS_STAY", "scans are kept as evidence"),
                    put("document", status="'void'"),
                ),
                asks=("declare {document} void", "void {document}"),
                policy="Scans are evidence and never void.",
                chance=0.6,
            ),
        ),
    )  # fmt: skip


def staff(entity: str, *roles: str) -> Feature:
    """People who take care of rows, each of only so many at a time."""
    return Feature(
        "staff",
        entities=(
            Entity(
                "colleague",
                (
                    Attribute("name", person()),
                    Attribute("role", choice(*roles), after="working as {}"),
                    Attribute("capacity", integer(1, 4), editable=True),
                    Attribute("away", flag(0.2), editable=True, given=False),
                ),
                rows=(8, 13),
                label="name",
                creatable=True,
            ),
            Entity(
                "assignment",
                (
                    Attribute("colleague", ref("colleague"), after="of {}"),
                    Attribute(entity, ref(entity), after="to {}"),
                    Attribute("since", day(-60, -1), least="oldest", most="latest"),
                    Attribute("status", choice("current", "ended"), before=True),
                ),
                rows=(18, 28),
            ),
        ),
        settle=(
            "UPDATE assignments SET status = 'ended' WHERE status = 'current' AND (SELECT count(*) FROM "
            "assignments a WHERE a.colleague_id = assignments.colleague_id AND a.status = 'current' AND "
            "a.id <= assignments.id) > (SELECT capacity FROM colleagues WHERE id = colleague_id)",
            f"UPDATE assignments SET status = 'ended' WHERE id NOT IN (SELECT min(id) FROM assignments "
            f"WHERE status = 'current' GROUP BY {entity}_id)",
        ),
        invariants=(
            f"SELECT {entity}_id FROM assignments WHERE status = 'current' GROUP BY {entity}_id "
            "HAVING count(*) > 1",
        ),
        actions=(
            Action(
                f"assign_{entity}",
                f"Have a colleague take care of a {_said(entity)} that nobody has.",
                (the(entity), the("colleague")),
                (
                    need("not colleague.away", "COLLEAGUE_AWAY", "{colleague.name} is away"),
                    need(f"not exists(assignment, {entity}_id={entity}.id, status='current')",
                         "ALREADY_ASSIGNED", "somebody takes care of it already"),
                    let("busy", "count(assignment, colleague_id=colleague.id, status='current')"),
                    need("busy < colleague.capacity", "COLLEAGUE_BUSY",
                         "{colleague.name} has {busy} already, of at most {colleague.capacity}"),
                    add("assignment", colleague_id="colleague.id", **{f"{entity}_id": f"{entity}.id"},
                        since="today()", status="'current'"),
                ),
                asks=(f"assign {{{entity}}} to {{colleague}}",
                      f"have {{colleague}} take care of {{{entity}}}"),
                policy=f"One colleague takes care of a {_said(entity)}, and of no more at a time "
                "than their capacity.",
            ),
            Action(
                "end_assignment",
                "End a current assignment.",
                (the("assignment"),),
                (
                    need("assignment.status == 'current'", "ASSIGNMENT_ENDED", "it has ended"),
                    put("assignment", status="'ended'"),
                ),
                asks=("end {assignment}", "relieve the colleague of {assignment}"),
            ),
            Action(
                "hand_over",
                "Hand a current assignment over to another colleague with room for it.",
                (the("assignment"), the("colleague")),
                (
                    need("assignment.status == 'current'", "ASSIGNMENT_ENDED", "it has ended"),
                    need("assignment.colleague_id != colleague.id", "SAME_COLLEAGUE",
                         "{colleague.name} has it already"),
                    need("not colleague.away", "COLLEAGUE_AWAY", "{colleague.name} is away"),
                    need("count(assignment, colleague_id=colleague.id, status='current') < "
                         "colleague.capacity", "COLLEAGUE_BUSY", "{colleague.name} has no room"),
                    put("assignment", colleague_id="colleague.id", since="today()"),
                ),
                asks=("hand {assignment} over to {colleague}",
                      "let {colleague} take over {assignment}"),
                chance=0.6,
            ),
        ),
    )  # fmt: skip


def reviews(author: str, entity: str) -> Feature:
    """Opinions in stars, one a person and thing, hidden or shown."""
    return Feature(
        "reviews",
        entities=(
            Entity(
                "review",
                (
                    Attribute(author, ref(author), after="by {}"),
                    Attribute(entity, ref(entity), after="of {}"),
                    Attribute("stars", integer(1, 5), least="worst", most="best"),
                    Attribute("written_on", day(-150, -1), least="oldest", most="latest"),
                    Attribute("state", choice("published", "hidden"), before=True),
                ),
                rows=(22, 34),
            ),
        ),
        settle=(
            f"DELETE FROM reviews WHERE id NOT IN (SELECT min(id) FROM reviews GROUP BY {author}_id, "
            f"{entity}_id)",
        ),
        invariants=(
            f"SELECT 1 FROM reviews GROUP BY {author}_id, {entity}_id HAVING count(*) > 1",
        ),
        actions=(
            Action(
                "publish_review",
                f"Publish what a {_said(author)} thinks of a {_said(entity)}.",
                (the(author), the(entity), arg("stars", integer(1, 5), "how many stars, 1 to 5")),
                (
                    need("stars <= 5", "TOO_MANY_STARS", "there are 5 stars at most"),
                    need(f"not exists(review, {author}_id={author}.id, {entity}_id={entity}.id)",
                         "REVIEW_EXISTS", "there is a review of it by the same person"),
                    add("review", **{f"{author}_id": f"{author}.id", f"{entity}_id": f"{entity}.id"},
                        stars="stars", written_on="today()", state="'published'"),
                ),
                asks=(f"publish a review of {{{entity}}} by {{{author}}} with a rating of {{stars}}",
                      f"enter that {{{author}}} rates {{{entity}}} {{stars}} out of 5"),
                policy=f"A {_said(author)} reviews a {_said(entity)} once.",
            ),
            Action(
                "hide_review",
                "Hide a published review with few stars.",
                (the("review"),),
                (
                    need("review.state == 'published'", "ALREADY_HIDDEN", "it is hidden"),
                    need("review.stars <= 2", "NOT_ABUSIVE", "it gives {review.stars} stars"),
                    put("review", state="'hidden'"),
                ),
                asks=("hide {review}", "take {review} out of sight"),
                policy="Only reviews of one or two stars are hidden.",
            ),
            Action(
                "revise_review",
                "Change the stars of a published review.",
                (the("review"), arg("stars", integer(1, 5), "how many stars, 1 to 5")),
                (
                    need("stars <= 5", "TOO_MANY_STARS", "there are 5 stars at most"),
                    need("review.state == 'published'", "REVIEW_HIDDEN", "it is hidden"),
                    need("review.stars != stars", "NOTHING_TO_CHANGE", "it has {stars} stars"),
                    put("review", stars="stars"),
                ),
                asks=("change {review} to a rating of {stars}", "revise {review} to {stars} of 5"),
                chance=0.6,
            ),
        ),
    )  # fmt: skip


def charges(who: str) -> Feature:
    """Small sums that people owe: paid in full, waived if small, capped in all."""
    return Feature(
        "charges",
        entities=(
            Entity(
                "charge",
                (
                    Attribute(who, ref(who), after="for {}"),
                    Attribute("amount", money(3, 60), least="smallest", most="largest"),
                    Attribute("reason", choice("late", "damage", "service"), before=True),
                    Attribute("raised_on", day(-80, -1), least="oldest", most="latest"),
                    Attribute("state", choice("due", "settled", "waived"), after="that is {}"),
                ),
                rows=(20, 32),
            ),
        ),
        constants={"WAIVER_LIMIT": (15, 20, 25), "DEBT_LIMIT": (80, 100, 120)},
        actions=(
            Action(
                "raise_charge",
                f"Charge a {_said(who)} an amount.",
                (the(who), arg("amount", money(5, 50), "how much"),
                 arg("reason", choice("late", "damage", "service"), "what for")),
                (
                    let("owed", f"total(charge, 'amount', {who}_id={who}.id, state='due')"),
                    need("owed + amount <= DEBT_LIMIT", "DEBT_TOO_HIGH",
                         "{owed} are owed already, {DEBT_LIMIT} is the most"),
                    add("charge", **{f"{who}_id": f"{who}.id"}, amount="amount", reason="reason",
                        raised_on="today()", state="'due'"),
                ),
                asks=(f"charge {{{who}}} {{amount}} (reason: {{reason}})",
                      f"raise a charge of {{amount}} for {{{who}}}, the reason being “{{reason}}”"),
                policy="Nobody is charged beyond {DEBT_LIMIT} {currency} in all.",
            ),
            Action(
                "settle_charge",
                "Book a charge as paid.",
                (the("charge"),),
                (
                    need("charge.state == 'due'", "NOT_DUE", "it is {charge.state}"),
                    put("charge", state="'settled'"),
                ),
                asks=("book {charge} as paid", "settle {charge}"),
            ),
            Action(
                "waive_charge",
                "Waive a small charge that was not for damage.",
                (the("charge"),),
                (
                    need("charge.state == 'due'", "NOT_DUE", "it is {charge.state}"),
                    need("charge.reason != 'damage'", "DAMAGE_IS_PAID", "damage is paid for"),
                    need("charge.amount <= WAIVER_LIMIT", "AMOUNT_TOO_HIGH",
                         "charges over {WAIVER_LIMIT} are not waived"),
                    put("charge", state="'waived'"),
                ),
                asks=("waive {charge}", "let {charge} go unpaid"),
                policy="Charges up to {WAIVER_LIMIT} {currency} may be waived, but never for damage.",
            ),
        ),
    )  # fmt: skip


def inspections(entity: str) -> Feature:
    """Visits planned ahead, one at a time; two failures put the thing under watch."""
    return Feature(
        "inspections",
        attributes={entity: (Attribute("under_watch", flag(0.15), given=False),)},
        entities=(
            Entity(
                "inspection",
                (
                    Attribute(entity, ref(entity), after="of {}"),
                    Attribute("planned_for", day(-60, 20), after="planned for {}",
                              least="earliest", most="latest"),
                    Attribute("inspector", person()),
                    Attribute("result", choice("pending", "passed", "failed"), before=True),
                ),
                rows=(18, 30),
            ),
        ),
        settle=(
            f"UPDATE inspections SET result = 'passed' WHERE result = 'pending' AND id NOT IN (SELECT "
            f"min(id) FROM inspections WHERE result = 'pending' GROUP BY {entity}_id)",
        ),
        invariants=(
            f"SELECT {entity}_id FROM inspections WHERE result = 'pending' GROUP BY {entity}_id "
            "HAVING count(*) > 1",
        ),
        actions=(
            Action(
                "plan_inspection",
                f"Plan an inspection of a {_said(entity)}.",
                (the(entity), arg("planned_for", day(1, 25), "the day of it"),
                 arg("inspector", person(), "who is to come")),
                (
                    need("planned_for > today()", "DAY_PASSED", "{planned_for} is not ahead"),
                    need(f"not exists(inspection, {entity}_id={entity}.id, result='pending')",
                         "INSPECTION_PENDING", "one is pending already"),
                    need("count(inspection, planned_for=planned_for, result='pending') < 2",
                         "DAY_FULL", "two inspections are planned for {planned_for} already"),
                    add("inspection", **{f"{entity}_id": f"{entity}.id"}, planned_for="planned_for",
                        inspector="inspector", result="'pending'"),
                ),
                asks=(f"plan an inspection of {{{entity}}} for {{planned_for}} by {{inspector}}",
                      f"have {{inspector}} inspect {{{entity}}} on {{planned_for}}"),
                policy="One inspection of a thing is pending at a time, two on one day.",
            ),
            Action(
                "record_inspection",
                "Record how an inspection went; after a second failure the thing is watched.",
                (the("inspection"), via(entity, f"inspection.{entity}_id"),
                 arg("result", choice("passed", "failed"), "how it went")),
                (
                    need("inspection.result == 'pending'", "ALREADY_RECORDED",
                         "it {inspection.result} already"),
                    let("failures", f"count(inspection, {entity}_id={entity}.id, result='failed')"),
                    put("inspection", result="result"),
                    when("result == 'failed' and failures >= 1", put(entity, under_watch="1")),
                ),
                asks=("record {inspection} as {result}", "enter that {inspection} was {result}"),
                policy="Whatever fails a second time is put under watch.",
            ),
            Action(
                f"clear_{entity}",
                f"Lift the watch on a {_said(entity)} that has passed an inspection.",
                (the(entity),),
                (
                    need(f"{entity}.under_watch", "NOT_UNDER_WATCH", "it is not under watch"),
                    need(f"exists(inspection, {entity}_id={entity}.id, result='passed')",
                         "NEVER_PASSED", "it has never passed an inspection"),
                    put(entity, under_watch="0"),
                ),
                asks=(f"lift the watch on {{{entity}}}", f"clear {{{entity}}} of being watched"),
            ),
        ),
    )  # fmt: skip


def groups(who: str, *names: str) -> Feature:
    """Groups with places; who leaves gives up a place, a closed group takes nobody."""
    return Feature(
        "groups",
        entities=(
            Entity(
                "circle",
                (
                    Attribute("name", choice(*names)),
                    Attribute("places", integer(2, 6), least="smallest", most="largest",
                              editable=False, unit="places"),
                    Attribute("closed", flag(0.2), given=False),
                ),
                rows=(len(names), len(names)),
                label="name",
                said="the {} group",
                noun="group",
            ),
            Entity(
                "membership",
                (
                    Attribute("circle", ref("circle")),
                    Attribute(who, ref(who)),
                    Attribute("joined_on", day(-300, -1)),
                ),
                rows=(16, 26),
                key=("circle", who),
            ),
        ),
        settle=(
            "UPDATE circles SET places = max(places, (SELECT count(*) FROM memberships WHERE circle_id ="
            " circles.id))",
        ),
        invariants=(
            "SELECT id FROM circles c WHERE places < (SELECT count(*) FROM memberships WHERE circle_id ="
            " c.id)",
        ),
        constants={"GROUP_LIMIT": (2, 3)},
        actions=(
            Action(
                "join_group",
                f"Let a {_said(who)} join a group that has a place.",
                (the(who), the("circle")),
                (
                    need("not circle.closed", "GROUP_CLOSED", "{circle.name} takes nobody"),
                    need(f"not exists(membership, circle_id=circle.id, {who}_id={who}.id)",
                         "ALREADY_IN_GROUP", "{circle.name} has them already"),
                    need("count(membership, circle_id=circle.id) < circle.places", "GROUP_FULL",
                         "{circle.name} has {circle.places} places"),
                    need(f"count(membership, {who}_id={who}.id) < GROUP_LIMIT", "TOO_MANY_GROUPS",
                         "nobody is in more than {GROUP_LIMIT} groups"),
                    add("membership", circle_id="circle.id", **{f"{who}_id": f"{who}.id"},
                        joined_on="today()"),
                ),
                asks=(f"let {{{who}}} join {{circle}}", f"add {{{who}}} to {{circle}}"),
                policy="A group has so many places; nobody is in more than {GROUP_LIMIT} groups.",
            ),
            Action(
                "leave_group",
                f"Take a {_said(who)} out of a group.",
                (the(who), the("circle")),
                (
                    find("membership", "membership", "NOT_IN_GROUP", "they are not in {circle.name}",
                         circle_id="circle.id", **{f"{who}_id": f"{who}.id"}),
                    drop("membership"),
                ),
                asks=(f"take {{{who}}} out of {{circle}}", f"remove {{{who}}} from {{circle}}"),
            ),
            Action(
                "close_group",
                "Close a group to newcomers.",
                (the("circle"),),
                (
                    need("not circle.closed", "GROUP_CLOSED", "{circle.name} is closed already"),
                    put("circle", closed="1"),
                ),
                asks=("close {circle} to newcomers",),
                chance=0.5,
            ),
        ),
    )  # fmt: skip


def complaints(who: str) -> Feature:
    """Complaints that rise in level until somebody settles them, all at once if need be."""
    return Feature(
        "complaints",
        entities=(
            Entity(
                "complaint",
                (
                    Attribute(who, ref(who), after="of {}"),
                    Attribute("subject", choice("delay", "conduct", "quality", "billing"),
                              after="about {}"),
                    Attribute("level", integer(1, 3), least="lowest", most="highest", given=False,
                              start=1),
                    Attribute("received_on", day(-45, -1), least="oldest", most="latest"),
                    Attribute("state", choice("open", "settled", "rejected"), before=True),
                ),
                rows=(18, 28),
            ),
        ),
        constants={"COMPLAINT_DAYS": (3, 5, 7)},
        actions=(
            Action(
                "receive_complaint",
                f"Enter a complaint of a {_said(who)}.",
                (the(who), arg("subject", choice("delay", "conduct", "quality", "billing"),
                               "what it is about")),
                (
                    need(f"not exists(complaint, {who}_id={who}.id, subject=subject, state='open')",
                         "COMPLAINT_OPEN", "there is an open one about {subject}"),
                    add("complaint", **{f"{who}_id": f"{who}.id"}, subject="subject", level="1",
                        received_on="today()", state="'open'"),
                ),
                asks=(f"enter a complaint of {{{who}}} about {{subject}}",
                      f"record that {{{who}}} complains about {{subject}}"),
                policy="Nobody has two open complaints about the same subject.",
            ),
            Action(
                "escalate_complaint",
                "Raise an open complaint by a level, once it has waited.",
                (the("complaint"),),
                (
                    need("complaint.state == 'open'", "NOT_OPEN", "it is {complaint.state}"),
                    need("days_between(complaint.received_on, today()) >= COMPLAINT_DAYS",
                         "TOO_EARLY", "it was received on {complaint.received_on}"),
                    need("complaint.level < 3", "TOP_LEVEL", "it is on level 3 already"),
                    put("complaint", level="complaint.level + 1"),
                ),
                asks=("escalate {complaint}", "raise {complaint} by a level"),
                policy="A complaint rises a level only after waiting {COMPLAINT_DAYS} days.",
            ),
            Action(
                "answer_complaint",
                "Settle or reject an open complaint; those on level 3 are not rejected.",
                (the("complaint"), arg("verdict", choice("settled", "rejected"), "the outcome")),
                (
                    need("complaint.state == 'open'", "NOT_OPEN", "it is {complaint.state}"),
                    need("verdict != 'rejected' or complaint.level < 3", "MUST_BE_SETTLED",
                         "complaints on level 3 are settled"),
                    put("complaint", state="verdict"),
                ),
                asks=("close {complaint} as {verdict}", "answer {complaint}: it is {verdict}"),
                policy="On level 3 a complaint can only be settled.",
            ),
            Action(
                "settle_complaints",
                f"Settle all open complaints of a {_said(who)} at once.",
                (the(who),),
                (
                    need(f"exists(complaint, {who}_id={who}.id, state='open')", "NONE_OPEN",
                         "there is no open complaint"),
                    put_all("complaint", {f"{who}_id": f"{who}.id", "state": "'open'"},
                            state="'settled'"),
                ),
                asks=(f"settle all open complaints of {{{who}}} at one go",),
                chance=0.5,
            ),
        ),
    )  # fmt: skip


def depots(entity: str) -> Feature:
    """Places to keep things, with room for only so many."""
    return Feature(
        "depots",
        attributes={entity: (Attribute("depot", ref("depot", missing=0.4), after="kept in {}",
                                       given=False),)},
        entities=(
            Entity(
                "depot",
                (
                    Attribute("name", made("{city}", "{street}")),
                    Attribute("room", integer(2, 9), least="smallest", most="largest"),
                    Attribute("heated", flag(0.5), chance=0.6, editable=True),
                ),
                rows=(4, 7),
                label="name",
                said="the {} depot",
            ),
        ),
        settle=(
            f"UPDATE depots SET room = max(room, (SELECT count(*) FROM {{{entity}}} WHERE depot_id ="
            f" depots.id))",
        ),
        actions=(
            Action(
                f"store_{entity}",
                f"Move a {_said(entity)} to a depot that has room.",
                (the(entity), the("depot")),
                (
                    need(f"{entity}.depot_id is None or {entity}.depot_id != depot.id",
                         "ALREADY_THERE", "it is in {depot.name} already"),
                    need(f"count({entity}, depot_id=depot.id) < depot.room", "DEPOT_FULL",
                         "{depot.name} has room for {depot.room}"),
                    put(entity, depot_id="depot.id"),
                ),
                asks=(f"move {{{entity}}} to {{depot}}", f"store {{{entity}}} in {{depot}}"),
                policy="A depot holds no more than it has room for.",
            ),
            Action(
                f"fetch_{entity}",
                f"Take a {_said(entity)} out of its depot.",
                (the(entity),),
                (
                    need(f"{entity}.depot_id is not None", "NOT_STORED", "it is in no depot"),
                    put(entity, depot_id="None"),
                ),
                asks=(f"take {{{entity}}} out of its depot", f"fetch {{{entity}}} from its depot"),
            ),
        ),
    )  # fmt: skip
