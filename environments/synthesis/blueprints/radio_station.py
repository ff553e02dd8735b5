"""A radio station: shows fill slots of a week, hosts are cleared for live work, spots are sold by the second."""

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
    drop,
    email,
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
    the,
    via,
)  # fmt: skip
from environments.synthesis.blueprints.features import (
    complaints,
    groups,
    notes,
    reminders,
    reviews,
    tags,
)

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PARTS = ("morning", "noon", "evening", "night")

BLUEPRINT = Blueprint(
    domain="radio_station",
    titles=("Radio {surname}", "{city} FM"),
    summary="Plan shows into the week, put hosts on them, clear music and sell spots.",
    role="You are the programme manager of {title}.",
    words={"adj": ("Late", "Blue", "Electric", "Slow", "Open", "Wild", "Second"), "noun": ("Hour", "Letters", "Groove", "Table", "Roads", "Kitchen", "Waves", "Wire"),
           "song": ("Lanterns", "Paper Boats", "Old Town", "Falling Up", "Copper Moon", "Northbound", "Seven Doors", "Salt", "Hollow", "Brass Sky", "Undertow", "Glasshouse"), "band": ("The Larks", "Mono Club", "Ivory Coastline", "Nine Harbours", "Fern & Co", "The Quiet Ones")},
    constants={"HOST_SLOTS": (2, 3, 4), "BREAK_SECONDS": (120, 150, 180), "REST_DAYS": (3, 5, 7)},
    entities=(
        Entity("show", (
            Attribute("name", made("{adj} {noun}")), Attribute("genre", choice("talk", "jazz", "indie", "classical"), before=True), Attribute("minutes", choice("60", "120", "180"), after="of {} minutes"), Attribute("live", flag(0.6), editable=True), Attribute("state", choice("running", "paused", "ended"), after="that is {}", given=False), Attribute("since", integer(2004, 2025), least="oldest", most="youngest", chance=0.7, doc="first year"),
        ), rows=(18, 24), label="name", said="“{}”", creatable=True),
        Entity("host", (
            Attribute("name", person()), Attribute("email", email(), editable=True), Attribute("cleared", flag(0.7), given=False, doc="cleared for live work"), Attribute("fee", money(60, 300, 10), least="cheapest", most="most expensive", editable=True), Attribute("away_until", day(-10, 20, missing=0.75), given=False),
        ), rows=(16, 24), label="name", creatable=True),
        Entity("slot", (
            Attribute("weekday", choice(*_WEEKDAYS), before=True), Attribute("part", choice(*_PARTS), after="in the {}"), Attribute("show", ref("show"), after="of {}"), Attribute("host", ref("host", missing=0.35), after="hosted by {}"),
        ), rows=(24, 27)),
        Entity("track", (
            Attribute("name", made("{song}", "{song} ({adj} Mix)")), Attribute("artist", choice("The Larks", "Mono Club", "Ivory Coastline", "Nine Harbours", "Fern & Co", "The Quiet Ones"), after="by {}"), Attribute("seconds", integer(120, 420, 5), least="shortest", most="longest", unit="seconds"), Attribute("explicit", flag(0.25), editable=True), Attribute("last_played_on", day(-30, 0, missing=0.2), least="longest unplayed", given=False, doc="day it was last played"),
        ), rows=(30, 42), label="name", said="“{}”", creatable=True),
        Entity("spot", (
            Attribute("client", made("{company}")), Attribute("slot", ref("slot"), after="for {}"), Attribute("seconds", integer(10, 60, 5), least="shortest", most="longest", unit="seconds"), Attribute("price", money(40, 400, 10), least="cheapest", most="most expensive"), Attribute("state", choice("booked", "aired", "withdrawn"), before=True),
        ), rows=(30, 44)),
    ),
    settle=(
        "DELETE FROM spots WHERE slot_id NOT IN (SELECT min(id) FROM slots GROUP BY weekday, part)",
        "DELETE FROM slots WHERE id NOT IN (SELECT min(id) FROM slots GROUP BY weekday, part)",
        "UPDATE slots SET host_id = NULL WHERE host_id IS NOT NULL AND (SELECT count(*) FROM slots s WHERE s.host_id = slots.host_id AND s.id <= slots.id) > 2",
        "UPDATE slots SET host_id = NULL WHERE host_id IN (SELECT id FROM hosts WHERE cleared = 0) AND show_id IN (SELECT id FROM shows WHERE live = 1)",
        "DELETE FROM spots WHERE state = 'booked' AND (SELECT sum(seconds) FROM spots s WHERE s.slot_id = spots.slot_id AND s.state = 'booked' AND s.id <= spots.id) > 120",
        "UPDATE shows SET state = 'running' WHERE id IN (SELECT show_id FROM slots)",
    ),
    invariants=(
        "SELECT 1 FROM slots GROUP BY weekday, part HAVING count(*) > 1",
        "SELECT id FROM slots WHERE show_id IN (SELECT id FROM shows WHERE state = 'ended')",
    ),
    actions=(
        Action("schedule_show", "Give a show a slot of the week that is empty.", (the("show"), arg("weekday", choice(*_WEEKDAYS), "the day"), arg("part", choice(*_PARTS), "the part of the day")),
               (need("show.state == 'running'", "NOT_RUNNING", "{show.name} is {show.state}"), need("not exists(slot, weekday=weekday, part=part)", "SLOT_TAKEN", "{weekday} {part} is taken"), need("not exists(slot, show_id=show.id, weekday=weekday)", "TWICE_A_DAY", "{show.name} is on {weekday} already"), need("part != 'noon' or show.minutes != '180'", "TOO_LONG", "there are two hours at noon"), add("slot", weekday="weekday", part="part", show_id="show.id", host_id="None")),
               asks=("put {show} on {weekday} in the {part}", "schedule {show} for {weekday}, {part}"), policy="A part of a day has one show, a show is on once a day, and at noon there are two hours."),
        Action("put_host", "Put a host on a slot.", (the("slot"), the("host"), via("show", "slot.show_id")),
               (need("slot.host_id is None", "HAS_HOST", "the slot has a host"), need("host.away_until is None or host.away_until < today()", "HOST_AWAY", "{host.name} is away until {host.away_until}"), need("not show.live or host.cleared", "NOT_CLEARED", "{host.name} is not cleared for live work"), need("count(slot, host_id=host.id) < HOST_SLOTS", "HOST_BUSY", "{host.name} has {HOST_SLOTS} slots"), need("not exists(slot, host_id=host.id, weekday=slot.weekday)", "TWICE_A_DAY", "{host.name} is on {slot.weekday} already"), put("slot", host_id="host.id")),
               asks=("put {host} on {slot}", "let {host} take {slot}"), policy="A host has {HOST_SLOTS} slots at most, one a day; live shows take hosts who are cleared."),
        Action("take_off_host", "Take the host off a slot.", (the("slot"),), (need("slot.host_id is not None", "NO_HOST", "the slot has no host"), put("slot", host_id="None")), asks=("take the host off {slot}", "leave {slot} without a host")),
        Action("pause_show", "Pause a show that has no slot, or let it run again.", (the("show"),), (need("show.state == 'running'", "NOT_RUNNING", "{show.name} is {show.state}"), need("not exists(slot, show_id=show.id)", "HAS_SLOTS", "{show.name} is in the week"), put("show", state="'paused'")), asks=("pause {show}",), policy="Shows are paused when they have no slot in the week."),
        Action("resume_show", "Let a paused show run again.", (the("show"),), (need("show.state == 'paused'", "NOT_PAUSED", "{show.name} is {show.state}"), put("show", state="'running'")), asks=("resume {show}", "let {show} run again")),
        Action("clear_host", "Clear a host for live work after enough slots.", (the("host"),), (need("not host.cleared", "ALREADY_CLEARED", "{host.name} is cleared"), need("exists(slot, host_id=host.id)", "NO_PRACTICE", "{host.name} has no slot yet"), put("host", cleared="1")), asks=("clear {host} for live work",), policy="Hosts are cleared for live work once they have a slot."),
        Action("book_spot", "Sell a client seconds in a slot.", (the("slot"), arg("client", made("{company}"), "who buys"), arg("seconds", integer(10, 60, 5), "how long"), arg("price", money(50, 400, 10), "for how much")),
               (let("sold", "total(spot, 'seconds', slot_id=slot.id, state='booked')"), need("sold + seconds <= BREAK_SECONDS", "BREAK_FULL", "{sold} of {BREAK_SECONDS} seconds are sold"), need("price >= seconds * 2", "TOO_CHEAP", "a second costs 2 at least"), add("spot", client="client", slot_id="slot.id", seconds="seconds", price="price", state="'booked'")),
               asks=("book {client} a spot of {seconds} seconds in {slot} for {price}", "sell {seconds} seconds of {slot} to {client} for {price}"), policy="A slot has {BREAK_SECONDS} seconds of spots, at no less than 2 {currency} a second."),
        Action("withdraw_spot", "Withdraw a booked spot.", (the("spot"),), (need("spot.state == 'booked'", "NOT_BOOKED", "it is {spot.state}"), put("spot", state="'withdrawn'")), asks=("withdraw {spot}",)),
        Action("play_track", "Note that a track was played in a slot today.", (the("track"), the("slot")), (need("track.last_played_on is None or days_between(track.last_played_on, today()) >= REST_DAYS", "PLAYED_LATELY", "it was played on {track.last_played_on}"), need("not track.explicit or slot.part == 'night'", "EXPLICIT", "explicit tracks are for the night"), put("track", last_played_on="today()")), asks=("note that {track} was played in {slot}", "enter {track} as played in {slot}"), policy="A track rests {REST_DAYS} days; explicit ones are played at night."),
    ),
    features=(
        Feature("guests", entities=(Entity("guest", (Attribute("name", person()), Attribute("field", choice("author", "musician", "politician", "scientist"), before=True), Attribute("banned", flag(0.15), given=False)), rows=(14, 20), label="name", creatable=True), Entity("visit", (Attribute("guest", ref("guest"), after="of {}"), Attribute("show", ref("show"), after="to {}"), Attribute("day", day(-15, 20), after="on {}", least="earliest", most="latest"), Attribute("state", choice("invited", "came", "cancelled"), before=True)), rows=(18, 28))),
                actions=(Action("invite_guest", "Invite a guest to a show on a day.", (the("guest"), the("show"), arg("day", day(2, 20), "the day")), (need("not guest.banned", "GUEST_BANNED", "{guest.name} is banned"), need("show.genre == 'talk' or guest.field == 'musician'", "WRONG_SHOW", "{show.name} takes musicians only"), need("day > today()", "DAY_PASSED", "{day} is not ahead"), need("not exists(visit, show_id=show.id, day=day, state='invited')", "SHOW_HAS_GUEST", "{show.name} has a guest on {day}"), add("visit", guest_id="guest.id", show_id="show.id", day="day", state="'invited'")), asks=("invite {guest} to {show} on {day}",  "have {guest} on {show} on {day}"), policy="Music shows take musicians only; a show has one guest a day."),
                         Action("cancel_visit", "Cancel an invitation.", (the("visit"),), (need("visit.state == 'invited'", "NOT_INVITED", "it is {visit.state}"), put("visit", state="'cancelled'")), asks=("cancel {visit}",)), Action("ban_guest", "Ban a guest; invitations fall.", (the("guest"),), (need("not guest.banned", "ALREADY_BANNED", "{guest.name} is banned"), put("guest", banned="1"), put_all("visit", {"guest_id": "guest.id", "state": "'invited'"}, state="'cancelled'")), asks=("ban {guest} from the station",)))),
        Feature("rotation", entities=(Entity("rotation_entry", (Attribute("show", ref("show")), Attribute("track", ref("track")), Attribute("weight", integer(1, 5))), rows=(30, 44), key=("show", "track"), plural="rotation"),), constants={"ROTATION": (5, 6, 8)},
                actions=(Action("add_to_rotation", "Put a track into a show's rotation.", (the("show"), the("track"), arg("weight", integer(1, 5), "1 to 5")), (need("weight <= 5", "WEIGHT_TOO_HIGH", "weights run from 1 to 5"), need("show.genre != 'talk'", "TALK_SHOW", "{show.name} plays no music"), need("not exists(rotation_entry, show_id=show.id, track_id=track.id)", "IN_ROTATION", "it is in rotation"), need("count(rotation_entry, show_id=show.id) < ROTATION", "ROTATION_FULL", "{ROTATION} tracks are the most"), add("rotation_entry", show_id="show.id", track_id="track.id", weight="weight")), asks=("put {track} into the rotation of {show} with weight {weight}", "add {track} to the rotation of {show}, weight {weight}"), policy="A show has {ROTATION} tracks in rotation, a talk show none."),
                         Action("reweigh_track", "Change the weight of a track in rotation.", (the("show"), the("track"), arg("weight", integer(1, 5), "1 to 5")), (need("weight <= 5", "WEIGHT_TOO_HIGH", "weights run from 1 to 5"), find("entry", "rotation_entry", "NOT_IN_ROTATION", "it is not in rotation", show_id="show.id", track_id="track.id"), need("entry.weight != weight", "NOTHING_TO_CHANGE", "it has {weight}"), put("entry", weight="weight")), asks=("change the weight of {track} in the rotation of {show} to {weight}",)),
                         Action("drop_from_rotation", "Take a track out of rotation.", (the("show"), the("track")), (find("entry", "rotation_entry", "NOT_IN_ROTATION", "it is not in rotation", show_id="show.id", track_id="track.id"), drop("entry")), asks=("take {track} out of the rotation of {show}",)))),
        Feature("royalties", attributes={"track": (Attribute("rate", money(1, 12, 0.5), least="cheapest", most="dearest", editable=True, doc="royalty rate"), Attribute("due", money(0, 90, 1), most="most owed for", given=False, start=0, doc="royalties due"))}, extends={"play_track": (put("track", due="track.due + track.rate"),)},
                actions=(Action("pay_royalties", "Pay the royalties due for a track.", (the("track"), arg("amount", money(1, 40, 1), "how much")), (need("track.due > 0", "NOTHING_DUE", "nothing is due"), need("amount <= track.due", "MORE_THAN_DUE", "{track.due} are due"), put("track", due="track.due - amount")), asks=("pay {amount} of royalties for {track}",), policy="Each playing of a track adds its rate to the royalties due."),)),
        Feature("studios", entities=(Entity("studio", (Attribute("name", code("Studio ?#")), Attribute("seats", integer(2, 8), least="smallest", most="largest", unit="seats"), Attribute("broken", flag(0.2), editable=True)), rows=(4, 6), label="name"), Entity("recording", (Attribute("studio", ref("studio"), after="in {}"), Attribute("host", ref("host"), after="by {}"), Attribute("day", day(-10, 15), after="on {}", least="earliest", most="latest"), Attribute("people", integer(1, 4), most="largest"), Attribute("state", choice("booked", "done", "cancelled"), before=True)), rows=(20, 30))),
                settle=("UPDATE recordings SET state = 'done' WHERE state = 'booked' AND id NOT IN (SELECT min(id) FROM recordings WHERE state = 'booked' GROUP BY studio_id, day)",), invariants=("SELECT 1 FROM recordings WHERE state = 'booked' GROUP BY studio_id, day HAVING count(*) > 1",),
                actions=(Action("book_studio", "Book a studio for a recording.", (the("studio"), the("host"), arg("day", day(1, 14), "the day"), arg("people", integer(1, 6), "how many people")), (need("not studio.broken", "STUDIO_BROKEN", "{studio.name} is out of order"), need("day > today()", "DAY_PASSED", "{day} is not ahead"), need("people <= studio.seats", "TOO_MANY_PEOPLE", "{studio.name} has {studio.seats} seats"), need("not exists(recording, studio_id=studio.id, day=day, state='booked')", "STUDIO_TAKEN", "{studio.name} is booked on {day}"), add("recording", studio_id="studio.id", host_id="host.id", day="day", people="people", state="'booked'")), asks=("book {studio} for {host} on {day} for a party of {people}", "reserve {studio} on {day} for a recording by {host} with a party of {people}"), policy="A studio has one recording a day and so many seats."),
                         Action("cancel_recording", "Cancel a booked recording.", (the("recording"),), (need("recording.state == 'booked'", "NOT_BOOKED", "it is {recording.state}"), put("recording", state="'cancelled'")), asks=("cancel {recording}", "call off {recording}")))),
        Feature("leave", actions=(Action("send_away", "Enter that a host is away; their slots are left without a host.", (the("host"), arg("until", day(2, 15), "the last day")), (need("until > today()", "DAY_PASSED", "{until} is not ahead"), need("host.away_until is None or host.away_until < today()", "AWAY_ALREADY", "{host.name} is away until {host.away_until}"), put("host", away_until="until"), put_all("slot", {"host_id": "host.id"}, host_id="None")), asks=("enter that {host} is away until {until}", "note the absence of {host} until {until}"), policy="A host who goes away gives up all slots."), Action("swap_hosts", "Give the slots of one host to another who has none.", (the("host", "leaving"), the("host", "coming")), (need("leaving.id != coming.id", "SAME_HOST", "that is the same host"), need("exists(slot, host_id=leaving.id)", "NO_SLOTS", "{leaving.name} has no slot"), need("not exists(slot, host_id=coming.id)", "HAS_SLOTS", "{coming.name} has slots"), need("coming.cleared", "NOT_CLEARED", "{coming.name} is not cleared"), put_all("slot", {"host_id": "leaving.id"}, host_id="coming.id")), asks=("give all slots of {leaving} to {coming}", "let {coming} take over every slot of {leaving}")))),
        notes("host", "has no car", "prefers pre-recorded shows", "brings own records", "speaks Welsh"), reviews("host", "show"), tags("show", "award winner", "podcast", "student run", "sponsored"), complaints("host"), groups("host", "Night Team", "Newsroom", "Outdoor Crew", "Archive"), reminders("show"),
    ),
)
