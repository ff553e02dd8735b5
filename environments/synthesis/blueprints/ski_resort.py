"""A ski resort: lifts open by the danger of avalanches, lessons by skill, and skis are fitted to people."""

from environments.synthesis.blueprint import (
    Action,
    Attribute,
    Blueprint,
    Entity,
    Feature,
    add,
    arg,
    choice,
    code,
    day,
    drop_all,
    flag,
    integer,
    made,
    money,
    need,
    person,
    phone,
    put,
    put_all,
    ref,
    the,
    via,
    when,
)  # fmt: skip
from environments.synthesis.blueprints.features import (
    charges,
    complaints,
    groups,
    inspections,
    notes,
    reviews,
)

_SKILL = integer(1, 5)

BLUEPRINT = Blueprint(
    domain="ski_resort",
    titles=("{surname}horn Ski Resort", "{city} Alps"),
    summary="Open and close lifts, sell passes, fill lessons and hand out skis.",
    role="You are on duty at the valley office of {title}.",
    words={"peak": ("Raven", "Marmot", "Glacier", "Thunder", "Silver", "Eagle", "Chamois", "North", "Crystal", "Pine"), "form": ("Ridge", "Bowl", "Face", "Col", "Gully", "Terrace")},
    constants={"CLOSE_DANGER": (3, 4), "CLASS_SIZE": (4, 5, 6), "LATEST_START": (2, 3), "REFUND_DAYS": (1, 2)},
    entities=(
        Entity("sector", (Attribute("name", made("{peak} {form}")), Attribute("danger", integer(1, 5), least="safest", most="most dangerous", doc="avalanche danger"), Attribute("altitude", integer(1200, 3100, 50), least="lowest", most="highest", unit="metres")), rows=(6, 9), label="name", said="the {} sector"),
        Entity("lift", (
            Attribute("name", code("L-##")), Attribute("sector", ref("sector"), after="in {}"), Attribute("kind", choice("chair", "gondola", "drag"), before=True), Attribute("seats", integer(1, 10), least="smallest", most="largest", unit="seats"), Attribute("state", choice("open", "closed", "repairing"), after="that is {}", given=False),
        ), rows=(16, 24), label="name", said="lift {}"),
        Entity("guest", (
            Attribute("name", person()), Attribute("skill", integer(1, 5), least="least skilled", most="most skilled", editable=True), Attribute("weight", integer(40, 105), least="lightest", most="heaviest", editable=True, unit="kg"), Attribute("phone", phone(), editable=True), Attribute("language", choice("English", "German", "French"), after="speaking {}"),
        ), rows=(30, 42), label="name", creatable=True),
        Entity("lift_pass", (
            Attribute("number", code("P-#####")), Attribute("guest", ref("guest"), after="of {}"), Attribute("starts_on", day(-6, 8), least="earliest starting", most="latest starting"), Attribute("days", integer(1, 7), least="shortest", most="longest", unit="days"), Attribute("price", money(50, 350, 10), least="cheapest", most="most expensive"), Attribute("state", choice("valid", "blocked", "refunded"), before=True, given=False),
        ), rows=(34, 48), plural="passes", noun="pass", label="number", said="pass {}"),
        Entity("lesson", (
            Attribute("teacher", choice("Anna Kofler", "Luc Favre", "Ben Hart", "Mia Gruber", "Jon Lie"), after="with {}"), Attribute("sector", ref("sector"), after="in {}"), Attribute("day", day(-3, 10), after="on {}", least="earliest", most="latest"), Attribute("level", integer(1, 5), least="easiest", most="hardest"), Attribute("state", choice("planned", "held", "cancelled"), before=True),
        ), rows=(26, 36)),
        Entity("enrolment", (Attribute("lesson", ref("lesson")), Attribute("guest", ref("guest")), Attribute("paid", flag(0.7))), rows=(40, 60), key=("lesson", "guest")),
    ),
    settle=(
        "UPDATE lifts SET state = 'closed' WHERE state = 'open' AND sector_id IN (SELECT id FROM sectors WHERE danger >= 4)",
        "UPDATE lessons SET state = 'held' WHERE state = 'planned' AND id NOT IN (SELECT min(id) FROM lessons WHERE state = 'planned' GROUP BY teacher, day)",
        "DELETE FROM enrolments WHERE (SELECT skill FROM guests WHERE id = guest_id) < (SELECT level FROM lessons WHERE id = lesson_id) - 1",
        "DELETE FROM enrolments WHERE (SELECT count(*) FROM enrolments e WHERE e.lesson_id = enrolments.lesson_id AND e.guest_id <= enrolments.guest_id) > 4",
        "DELETE FROM enrolments WHERE lesson_id IN (SELECT id FROM lessons WHERE state = 'cancelled')",
        "UPDATE passes SET price = 30 + days * 40",
    ),
    invariants=(
        "SELECT l.id FROM lifts l JOIN sectors s ON s.id = l.sector_id WHERE l.state = 'open' AND s.danger > 4",
        "SELECT lesson_id FROM enrolments GROUP BY lesson_id HAVING count(*) > 6",
        "SELECT teacher FROM lessons WHERE state = 'planned' GROUP BY teacher, day HAVING count(*) > 1",
    ),
    actions=(
        Action("sell_pass", "Sell a guest a lift pass of some days.", (the("guest"), arg("number", code("P-#####"), "the number it gets"), arg("starts_on", day(0, 6), "its first day"), arg("days", integer(1, 7), "how many days")),
               (need("not exists(lift_pass, number=number)", "NUMBER_TAKEN", "there is a pass {number}"), need("starts_on >= today()", "DAY_PASSED", "{starts_on} is over"), need("days <= 7", "TOO_LONG", "passes are for a week at most"), need("not exists(lift_pass, guest_id=guest.id, state='valid', starts_on__ge=starts_on)", "HAS_PASS", "{guest.name} has a pass from then on"), add("lift_pass", number="number", guest_id="guest.id", starts_on="starts_on", days="days", price="30 + days * 40", state="'valid'")),
               asks=("sell {guest} pass {number} for {days} days, from {starts_on}", "issue pass {number} to {guest}, starting on {starts_on}, for {days} days"), policy="Passes run seven days at most; a guest with a valid pass that starts later or on that day gets no other."),
        Action("block_pass", "Block a pass that was misused.", (the("lift_pass"),), (need("lift_pass.state == 'valid'", "NOT_VALID", "it is {lift_pass.state}"), put("lift_pass", state="'blocked'")), asks=("block {lift_pass}",)),
        Action("refund_pass", "Refund a pass well before it starts.", (the("lift_pass"),), (need("lift_pass.state == 'valid'", "NOT_VALID", "it is {lift_pass.state}"), need("days_between(today(), lift_pass.starts_on) >= REFUND_DAYS", "TOO_LATE", "it starts on {lift_pass.starts_on}"), put("lift_pass", state="'refunded'", price="0")), asks=("refund {lift_pass}", "take {lift_pass} back for its price"), policy="Passes are refunded up to {REFUND_DAYS} days before they start."),
        Action("set_danger", "Enter the avalanche danger of a sector; lifts close where it is too high.", (the("sector"), arg("danger", integer(1, 5), "1 to 5")), (need("danger <= 5", "NO_SUCH_LEVEL", "levels run from 1 to 5"), need("danger != sector.danger", "NOTHING_TO_CHANGE", "it is {danger} already"), put("sector", danger="danger"), when("danger > CLOSE_DANGER", put_all("lift", {"sector_id": "sector.id", "state": "'open'"}, state="'closed'"))), asks=("enter avalanche danger {danger} for {sector}", "set the danger in {sector} to level {danger}"), policy="Above danger {CLOSE_DANGER} all lifts of a sector close."),
        Action("open_lift", "Open a closed lift.", (the("lift"), via("sector", "lift.sector_id")), (need("lift.state == 'closed'", "NOT_CLOSED", "{lift.name} is {lift.state}"), need("sector.danger <= CLOSE_DANGER", "TOO_DANGEROUS", "danger {sector.danger} in {sector.name}"), put("lift", state="'open'")), asks=("open {lift}", "let {lift} run")),
        Action("close_lift", "Close a lift, unless it is the last one open in its sector with lessons today.", (the("lift"),), (need("lift.state == 'open'", "NOT_OPEN", "{lift.name} is {lift.state}"), need("count(lift, sector_id=lift.sector_id, state='open') > 1 or not exists(lesson, sector_id=lift.sector_id, day=today(), state='planned')", "LESSON_NEEDS_IT", "a lesson needs it today"), put("lift", state="'closed'")), asks=("close {lift}", "shut {lift} down"), policy="The last open lift of a sector stays open while a lesson needs it."),
        Action("plan_lesson", "Plan a lesson.", (the("sector"), arg("teacher", choice("Anna Kofler", "Luc Favre", "Ben Hart", "Mia Gruber", "Jon Lie"), "who teaches"), arg("day", day(1, 9), "the day"), arg("level", _SKILL, "1 to 5")), (need("day > today()", "DAY_PASSED", "{day} is not ahead"), need("level <= 5", "NO_SUCH_LEVEL", "levels run from 1 to 5"), need("not exists(lesson, teacher=teacher, day=day, state='planned')", "TEACHER_BUSY", "{teacher} has a lesson on {day}"), need("exists(lift, sector_id=sector.id, state='open')", "NO_LIFT", "no lift is open in {sector.name}"), add("lesson", teacher="teacher", sector_id="sector.id", day="day", level="level", state="'planned'")), asks=("plan a lesson of level {level} with {teacher} in {sector} on {day}", "put {teacher} down for a level {level} lesson in {sector} on {day}"), policy="A teacher has one lesson a day, in a sector where a lift is open."),
        Action("enrol_guest", "Put a guest into a planned lesson.", (the("lesson"), the("guest")), (need("lesson.state == 'planned'", "NOT_PLANNED", "it is {lesson.state}"), need("guest.skill >= lesson.level - 1", "NOT_SKILLED_ENOUGH", "{guest.name} has skill {guest.skill}, the lesson is of level {lesson.level}"), need("not exists(enrolment, lesson_id=lesson.id, guest_id=guest.id)", "ENROLLED_ALREADY", "{guest.name} is in it"), need("count(enrolment, lesson_id=lesson.id) < CLASS_SIZE", "LESSON_FULL", "it has {CLASS_SIZE} guests"), add("enrolment", lesson_id="lesson.id", guest_id="guest.id", paid="0")), asks=("put {guest} into {lesson}", "enrol {guest} in {lesson}"), policy="A lesson takes {CLASS_SIZE} guests who are at most one level below it."),
        Action("cancel_lesson", "Cancel a planned lesson with all enrolments.", (the("lesson"),), (need("lesson.state == 'planned'", "NOT_PLANNED", "it is {lesson.state}"), need("count(enrolment, lesson_id=lesson.id, paid=1) <= 2", "TOO_MANY_PAID", "three have paid for it"), put("lesson", state="'cancelled'"), drop_all("enrolment", lesson_id="lesson.id")), asks=("cancel {lesson}", "call {lesson} off"), policy="A lesson three guests have paid for is held."),
    ),
    features=(
        Feature("rental", entities=(Entity("ski", (Attribute("name", code("SKI-###")), Attribute("length", integer(140, 190, 5), least="shortest", most="longest", unit="cm"), Attribute("carries", integer(60, 120, 5), least="weakest", most="strongest", doc="weight it carries", unit="kg"), Attribute("lent_to", ref("guest", missing=0.6), after="lent to {}", given=False)), rows=(20, 28), label="name", said="{}"),),
                settle=("UPDATE skis SET lent_to_id = NULL WHERE id NOT IN (SELECT min(id) FROM skis WHERE lent_to_id IS NOT NULL GROUP BY lent_to_id)", "UPDATE skis SET lent_to_id = NULL WHERE carries < (SELECT weight FROM guests WHERE id = lent_to_id)"), invariants=("SELECT s.id FROM skis s JOIN guests g ON g.id = s.lent_to_id GROUP BY g.id HAVING count(*) > 1",),
                actions=(Action("lend_ski", "Hand a pair of skis to a guest it carries.", (the("ski"), the("guest")), (need("ski.lent_to_id is None", "LENT_ALREADY", "{ski.name} is out"), need("not exists(ski, lent_to_id=guest.id)", "HAS_SKIS", "{guest.name} has skis"), need("guest.weight <= ski.carries", "TOO_HEAVY", "{ski.name} carries {ski.carries} kg"), need("ski.length < 175 or guest.skill >= 3", "TOO_LONG", "long skis are for skill 3 and more"), put("ski", lent_to_id="guest.id")), asks=("lend {ski} to {guest}", "hand {ski} out to {guest}"), policy="Skis carry their guest, one pair each; long ones (175 cm) take skill 3."), Action("take_back_ski", "Take skis back.", (the("ski"),), (need("ski.lent_to_id is not None", "NOT_LENT", "{ski.name} is here"), put("ski", lent_to_id="None")), asks=("take {ski} back", "enter {ski} as returned")))),
        Feature("rescues", entities=(Entity("rescue", (Attribute("sector", ref("sector"), after="in {}"), Attribute("guest", ref("guest"), after="of {}"), Attribute("cause", choice("fall", "avalanche", "exhaustion"), after="after {}"), Attribute("fee", money(80, 900, 20), least="cheapest", most="most expensive"), Attribute("state", choice("running", "done", "billed"), before=True)), rows=(16, 24)),), constants={"FREE_RESCUE": (150, 200)},
                actions=(Action("start_rescue", "Send the rescue out for a guest.", (the("sector"), the("guest"), arg("cause", choice("fall", "avalanche", "exhaustion"), "what happened")), (need("not exists(rescue, guest_id=guest.id, state='running')", "RESCUE_RUNNING", "a rescue of {guest.name} is running"), need("cause != 'avalanche' or sector.danger >= 2", "NO_AVALANCHE", "danger {sector.danger} makes no avalanche"), add("rescue", sector_id="sector.id", guest_id="guest.id", cause="cause", fee="0", state="'running'")), asks=("send the rescue to {sector} for {guest}, because of {cause}", "start a rescue of {guest} in {sector} (cause: {cause})")),
                         Action("end_rescue", "End a running rescue with its fee.", (the("rescue"), arg("fee", money(100, 800, 20), "what it costs")), (need("rescue.state == 'running'", "NOT_RUNNING", "it is {rescue.state}"), put("rescue", state="'done'", fee="fee")), asks=("end {rescue} with a fee of {fee}",)), Action("bill_rescue", "Bill a rescue that costs more than the free amount.", (the("rescue"),), (need("rescue.state == 'done'", "NOT_DONE", "it is {rescue.state}"), need("rescue.fee > FREE_RESCUE", "FREE", "up to {FREE_RESCUE} nothing is billed"), put("rescue", state="'billed'")), asks=("bill {rescue}",), policy="Rescues up to {FREE_RESCUE} {currency} are free."))),
        Feature("snowmaking", attributes={"sector": (Attribute("snow_cm", integer(5, 160, 5), least="barest", most="snowiest", given=False, start=0, doc="depth of snow in cm"), Attribute("guns", flag(0.6), doc="equipped with snow guns"))}, constants={"LEAST_SNOW": (20, 30)}, extends={"open_lift": (need("sector.snow_cm >= LEAST_SNOW", "TOO_LITTLE_SNOW", "{sector.snow_cm} cm lie in {sector.name}"),)},
                actions=(Action("make_snow", "Make snow in a sector with guns.", (the("sector"), arg("centimetres", integer(5, 30, 5), "how much")), (need("sector.guns", "NO_GUNS", "{sector.name} has no guns"), need("sector.snow_cm + centimetres <= 100", "ENOUGH_SNOW", "more than a metre is not made"), put("sector", snow_cm="sector.snow_cm + centimetres")), asks=("make {centimetres} cm of snow in {sector}",), policy="A lift opens on {LEAST_SNOW} cm of snow; no more than a metre is made."),)),
        Feature("huts", entities=(Entity("hut", (Attribute("name", made("{peak} Hut", "{surname} Hut")), Attribute("sector", ref("sector"), after="in {}"), Attribute("beds", integer(3, 8), least="smallest", most="largest", unit="beds"), Attribute("kitchen", flag(0.7), editable=True, doc="serving meals")), rows=(5, 8), label="name", said="the {}"), Entity("stay", (Attribute("hut", ref("hut"), after="at {}"), Attribute("guest", ref("guest"), after="of {}"), Attribute("night", day(-6, 10), after="for the night of {}", least="earliest", most="latest"), Attribute("state", choice("booked", "slept", "cancelled"), before=True)), rows=(22, 32))),
                settle=("UPDATE stays SET state = 'slept' WHERE state = 'booked' AND id NOT IN (SELECT min(id) FROM stays WHERE state = 'booked' GROUP BY guest_id, night)",), invariants=("SELECT hut_id FROM stays WHERE state = 'booked' GROUP BY hut_id, night HAVING count(*) > (SELECT beds FROM huts WHERE id = hut_id)",),
                actions=(Action("book_hut", "Book a bed in a hut for a night.", (the("hut"), the("guest"), via("sector", "hut.sector_id"), arg("night", day(1, 9), "the night")), (need("night > today()", "DAY_PASSED", "{night} is not ahead"), need("sector.danger <= 3", "TOO_DANGEROUS", "danger {sector.danger} on the way"), need("not exists(stay, guest_id=guest.id, night=night, state='booked')", "BED_ELSEWHERE", "{guest.name} has a bed that night"), need("count(stay, hut_id=hut.id, night=night, state='booked') < hut.beds", "HUT_FULL", "{hut.name} has {hut.beds} beds"), add("stay", hut_id="hut.id", guest_id="guest.id", night="night", state="'booked'")), asks=("book {guest} a bed in {hut} for {night}", "reserve a bed in {hut} on {night} for {guest}"), policy="Nobody is sent to a hut through danger above 3."), Action("cancel_stay", "Cancel a booked stay.", (the("stay"),), (need("stay.state == 'booked'", "NOT_BOOKED", "it is {stay.state}"), put("stay", state="'cancelled'")), asks=("cancel {stay}",)))),
        Feature("repairs", attributes={"lift": (Attribute("ready_on", day(1, 20, missing=0.8), given=False, doc="day it will be ready"),)}, actions=(Action("start_repair", "Take a closed lift into repair.", (the("lift"), arg("ready_on", day(2, 20), "when it will be ready")), (need("lift.state == 'closed'", "NOT_CLOSED", "{lift.name} is {lift.state}"), need("ready_on > today()", "DAY_PASSED", "{ready_on} is not ahead"), need("count(lift, state='repairing') < 8", "NO_MECHANIC", "the mechanics are busy"), put("lift", state="'repairing'", ready_on="ready_on")), asks=("take {lift} into repair until {ready_on}", "start repairing {lift}, ready on {ready_on}")), Action("end_repair", "Note that a lift is repaired; it stays closed for now.", (the("lift"),), (need("lift.state == 'repairing'", "NOT_REPAIRING", "{lift.name} is {lift.state}"), put("lift", state="'closed'", ready_on="None")), asks=("note that {lift} is repaired", "end the repair of {lift}")))),
        notes("guest", "skis with a monoboard", "is a mountain guide", "has a knee brace", "travels with a dog"), complaints("guest"), charges("guest"), groups("guest", "Powder Hunters", "Snow Kids", "Silver Skiers", "Night Sledgers"), reviews("guest", "sector"), inspections("lift"),
    ),
)
