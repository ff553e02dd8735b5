"""A blood bank: donors rest between donations, units expire, and groups must be compatible."""

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
    find,
    flag,
    integer,
    let,
    made,
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

_GROUPS = choice("O-", "O+", "A-", "A+", "B-", "B+")
_OPEN = need("request.status == 'open'", "REQUEST_CLOSED", "request {request.number} is {request.status}")
_SHELVED = need("unit.status == 'shelved'", "NOT_SHELVED", "unit {unit.number} is {unit.status}")

BLUEPRINT = Blueprint(
    domain="blood_bank",
    titles=("{city} Blood Service", "{surname} Donation Centre"),
    summary="Take donations, keep units fresh and give hospitals what their patients can take.",
    role="You run the issue desk of {title}.",
    words={"ward": ("Royal", "General", "Saint Mary", "Northern", "Victoria", "Queen Anne", "Trinity")},
    constants={"REST_DAYS": (56, 70, 84), "SHELF_DAYS": (35, 42), "MIN_HAEMOGLOBIN": (125, 130)},
    entities=(
        Entity(
            "donor",
            (
                Attribute("name", person()),
                Attribute("blood_group", _GROUPS, after="with group {}"),
                Attribute("last_donation_on", day(-200, -5, missing=0.2), given=False),
                Attribute("status", choice("active", "deferred"), before=True, given=False),
                Attribute("phone", phone(), editable=True, chance=0.7),
                Attribute("donations", integer(0, 30), least="newest", most="most faithful",
                          given=False, start=0),
                Attribute("town", choice("Ashby", "Corley", "Harwick", "Lyme"), after="from {}",
                          editable=True, chance=0.7),
            ),
            rows=(36, 50),
            label="name",
            creatable=True,
        ),
        Entity(
            "hospital",
            (
                Attribute("name", made("{ward} Hospital {city}")),
                Attribute("distance_km", integer(2, 90), least="nearest", most="farthest", unit="km"),
                Attribute("contact", person(), editable=True),
            ),
            rows=(6, 9),
            label="name",
            said="the {}",
        ),
        Entity(
            "fridge",
            (
                Attribute("name", code("FR-##")),
                Attribute("slots", integer(14, 24), least="smallest", most="largest", unit="slots"),
                Attribute("locked", flag(0.15), given=False),
            ),
            rows=(5, 7),
            label="name",
            said="fridge {}",
        ),
        Entity(
            "unit",
            (
                Attribute("number", code("U####?")),
                Attribute("donor", ref("donor"), after="from {}"),
                Attribute("blood_group", _GROUPS, after="of group {}"),
                Attribute("fridge", ref("fridge"), after="in {}"),
                Attribute("expires_on", day(-10, 38), least="first to expire", most="freshest"),
                Attribute("status", choice("shelved", "reserved", "issued", "discarded"),
                          before=True, given=False),
            ),
            rows=(62, 78),
            label="number",
            said="unit {}",
        ),
        Entity(
            "request",
            (
                Attribute("number", code("RQ-####")),
                Attribute("hospital", ref("hospital"), after="of {}"),
                Attribute("blood_group", _GROUPS, after="for group {}"),
                Attribute("wanted", integer(1, 4), least="smallest", most="largest", unit="units"),
                Attribute("status", choice("open", "filled", "cancelled"), before=True, given=False),
                Attribute("needed_on", day(-8, 12), least="most urgent", most="least urgent"),
            ),
            rows=(26, 36),
            label="number",
            said="request {}",
            creatable=True,
        ),
        Entity(
            "allocation",
            (
                Attribute("request", ref("request"), after="for {}"),
                Attribute("unit", ref("unit"), after="of {}"),
                Attribute("status", choice("held", "delivered", "released"), before=True),
            ),
            rows=(20, 30),
        ),
    ),
    settle=(
        "UPDATE units SET blood_group = (SELECT blood_group FROM donors WHERE id = donor_id)",
        "DELETE FROM allocations WHERE id NOT IN (SELECT min(id) FROM allocations GROUP BY unit_id)",
        "DELETE FROM allocations WHERE (SELECT count(*) FROM allocations a WHERE a.request_id ="
        " allocations.request_id AND a.id <= allocations.id) > (SELECT wanted FROM requests WHERE"
        " id = request_id)",
        "UPDATE units SET blood_group = (SELECT r.blood_group FROM allocations a JOIN requests r ON"
        " r.id = a.request_id WHERE a.unit_id = units.id) WHERE id IN (SELECT unit_id FROM"
        " allocations)",
        "UPDATE units SET donor_id = coalesce((SELECT id FROM donors d WHERE d.blood_group ="
        " units.blood_group ORDER BY id LIMIT 1), donor_id)",
        "UPDATE allocations SET status = 'held' WHERE status = 'delivered' AND request_id IN (SELECT"
        " id FROM requests WHERE status = 'open')",
        "UPDATE allocations SET status = 'delivered' WHERE request_id IN (SELECT id FROM requests"
        " WHERE status = 'filled')",
        "UPDATE allocations SET status = 'released' WHERE request_id IN (SELECT id FROM requests"
        " WHERE status = 'cancelled')",
        "UPDATE units SET status = CASE WHEN id IN (SELECT unit_id FROM allocations WHERE status ="
        " 'held') THEN 'reserved' WHEN id IN (SELECT unit_id FROM allocations WHERE status ="
        " 'delivered') THEN 'issued' WHEN status IN ('reserved', 'issued') THEN 'shelved' ELSE"
        " status END",
        "UPDATE units SET expires_on = (SELECT max(expires_on) FROM units) WHERE status = 'reserved'",
    ),
    invariants=(
        "SELECT unit_id FROM allocations WHERE status <> 'released' GROUP BY unit_id HAVING count(*)"
        " > 1",
        "SELECT u.id FROM units u WHERE u.status = 'reserved' AND u.id NOT IN (SELECT unit_id FROM"
        " allocations WHERE status = 'held')",
        "SELECT r.id FROM requests r WHERE (SELECT count(*) FROM allocations WHERE request_id = r.id"
        " AND status <> 'released') > r.wanted",
    ),
    actions=(
        Action(
            "take_donation",
            "Record a donation; the unit goes into a fridge.",
            (
                the("donor"),
                the("fridge"),
                arg("unit_number", code("U####?"), "the number on the bag"),
                arg("haemoglobin", integer(112, 160), "measured before, in g/l"),
            ),
            (
                need("donor.status == 'active'", "DONOR_DEFERRED", "{donor.name} is deferred"),
                need("donor.last_donation_on is None or days_between(donor.last_donation_on, today())"
                     " >= REST_DAYS", "TOO_SOON",
                     "{donor.name} gave on {donor.last_donation_on}; it takes {REST_DAYS} days"),
                need("haemoglobin >= MIN_HAEMOGLOBIN", "HAEMOGLOBIN_LOW",
                     "{haemoglobin} is below {MIN_HAEMOGLOBIN}"),
                need("not fridge.locked", "FRIDGE_LOCKED", "fridge {fridge.name} is locked"),
                need("count(unit, fridge_id=fridge.id, status='shelved') + count(unit,"
                     " fridge_id=fridge.id, status='reserved') < fridge.slots", "FRIDGE_FULL",
                     "fridge {fridge.name} has {fridge.slots} slots, all taken"),
                need("not exists(unit, number=unit_number)", "NUMBER_TAKEN",
                     "there is a unit {unit_number}"),
                add("unit", number="unit_number", donor_id="donor.id", fridge_id="fridge.id",
                    blood_group="donor.blood_group", status="'shelved'",
                    expires_on="days_after(today(), SHELF_DAYS)"),
                put("donor", last_donation_on="today()", donations="donor.donations + 1"),
            ),
            asks=("record a donation by {donor}, unit {unit_number} with haemoglobin {haemoglobin},"
                  " and put it into {fridge}",
                  "take a donation from {donor} (bag {unit_number}, haemoglobin {haemoglobin}) and"
                  " store it in {fridge}"),
            policy="Donors rest {REST_DAYS} days between donations and need a haemoglobin of"
            " {MIN_HAEMOGLOBIN}. Units keep {SHELF_DAYS} days; a fridge takes no more than it has"
            " slots.",
        ),
        Action(
            "allocate_unit",
            "Hold a unit for a request of the same group, or give O- to anybody.",
            (the("unit"), the("request")),
            (
                _OPEN,
                _SHELVED,
                need("unit.expires_on > today()", "EXPIRED", "it expired on {unit.expires_on}"),
                need("unit.blood_group == request.blood_group or unit.blood_group == 'O-'",
                     "INCOMPATIBLE",
                     "{unit.blood_group} cannot be given where {request.blood_group} is wanted"),
                let("held", "count(allocation, request_id=request.id, status='held')"),
                need("held < request.wanted", "ENOUGH_HELD",
                     "{request.number} wants {request.wanted} units and has them"),
                put("unit", status="'reserved'"),
                add("allocation", request_id="request.id", unit_id="unit.id", status="'held'"),
            ),
            asks=("hold {unit} for {request}", "allocate {unit} to {request}"),
            policy="A unit is held only for its own group (O- for anybody), only before it expires,"
            " and a request never has more units than it wants.",
        ),
        Action(
            "release_unit",
            "Put a held unit back on the shelf.",
            (the("allocation"), via("unit", "allocation.unit_id")),
            (
                need("allocation.status == 'held'", "NOT_HELD", "it is {allocation.status}"),
                put("allocation", status="'released'"),
                put("unit", status="'shelved'"),
            ),
            asks=("release {allocation}", "put the unit of {allocation} back on the shelf"),
        ),
        Action(
            "deliver_unit",
            "Send a held unit to the hospital.",
            (the("allocation"), via("unit", "allocation.unit_id")),
            (
                need("allocation.status == 'held'", "NOT_HELD", "it is {allocation.status}"),
                need("unit.expires_on > today()", "EXPIRED", "it expired on {unit.expires_on}"),
                put("allocation", status="'delivered'"),
                put("unit", status="'issued'"),
            ),
            asks=("deliver {allocation}", "send {allocation} to the hospital"),
            policy="Nothing expired leaves the house.",
        ),
        Action(
            "cancel_request",
            "Cancel an open request; what is held for it goes back on the shelf by hand.",
            (the("request"),),
            (
                _OPEN,
                need("not exists(allocation, request_id=request.id, status='held')", "UNITS_HELD",
                     "units are held for {request.number}"),
                put("request", status="'cancelled'"),
            ),
            asks=("cancel {request}", "call {request} off"),
            policy="A request is cancelled only once nothing is held for it.",
        ),
        Action(
            "fill_request",
            "Close a request that was delivered whole.",
            (the("request"),),
            (
                _OPEN,
                let("delivered", "count(allocation, request_id=request.id, status='delivered')"),
                need("delivered >= request.wanted", "NOT_COMPLETE",
                     "{delivered} of {request.wanted} units were delivered"),
                put("request", status="'filled'"),
            ),
            asks=("close {request} as filled",),
            chance=0.7,
        ),
        Action(
            "discard_unit",
            "Discard a shelved unit that has expired.",
            (the("unit"),),
            (
                _SHELVED,
                need("unit.expires_on <= today()", "STILL_GOOD", "it is good until {unit.expires_on}"),
                put("unit", status="'discarded'"),
            ),
            asks=("discard {unit}", "throw {unit} away"),
            policy="Only expired units are thrown away.",
        ),
        Action(
            "defer_donor",
            "Defer an active donor.",
            (the("donor"),),
            (
                need("donor.status == 'active'", "DEFERRED_ALREADY", "{donor.name} is deferred"),
                put("donor", status="'deferred'"),
            ),
            asks=("defer {donor}", "take {donor} off the list of active donors"),
        ),
        Action(
            "readmit_donor",
            "Let a deferred donor give again.",
            (the("donor"),),
            (
                need("donor.status == 'deferred'", "NOT_DEFERRED", "{donor.name} is active"),
                put("donor", status="'active'"),
            ),
            asks=("readmit {donor}", "let {donor} give again"),
            chance=0.7,
        ),
    ),
    features=(
        Feature(
            "drives",
            entities=(
                Entity(
                    "drive",
                    (
                        Attribute("name", made("{street} drive")),
                        Attribute("held_on", day(-12, 40), after="on {}", least="next", most="last"),
                        Attribute("places", integer(4, 9), unit="places", least="smallest", most="largest"),
                        Attribute("state", choice("announced", "finished"), before=True, given=False),
                    ),
                    rows=(8, 12),
                    label="name",
                    said="the {}",
                    creatable=True,
                ),
                Entity(
                    "signup",
                    (
                        Attribute("drive", ref("drive"), after="for {}"),
                        Attribute("donor", ref("donor"), after="of {}"),
                        Attribute("status", choice("booked", "attended", "absent"), before=True),
                    ),
                    rows=(28, 42),
                ),
            ),
            settle=(
                "DELETE FROM signups WHERE id NOT IN (SELECT min(id) FROM signups GROUP BY drive_id,"
                " donor_id)",
                "DELETE FROM signups WHERE (SELECT count(*) FROM signups s WHERE s.drive_id ="
                " signups.drive_id AND s.id <= signups.id) > (SELECT places FROM drives WHERE id ="
                " drive_id)",
                "UPDATE drives SET state = CASE WHEN held_on <= (SELECT date(min(held_on), '+12"
                " days') FROM drives) THEN 'finished' ELSE 'announced' END",
                "UPDATE signups SET status = 'booked' WHERE drive_id IN (SELECT id FROM drives WHERE"
                " state = 'announced')",
            ),
            invariants=("SELECT drive_id FROM signups GROUP BY drive_id, donor_id HAVING count(*) > 1",),
            actions=(
                Action(
                    "sign_up",
                    "Sign a donor up for a drive.",
                    (the("donor"), the("drive")),
                    (
                        need("drive.state == 'announced'", "DRIVE_OVER", "{drive.name} is over"),
                        need("donor.status == 'active'", "DONOR_DEFERRED", "{donor.name} is deferred"),
                        need("not exists(signup, drive_id=drive.id, donor_id=donor.id)", "SIGNED_UP",
                             "{donor.name} is signed up already"),
                        need("count(signup, drive_id=drive.id) < drive.places", "DRIVE_FULL",
                             "{drive.name} has {drive.places} places, all taken"),
                        add("signup", drive_id="drive.id", donor_id="donor.id", status="'booked'"),
                    ),
                    asks=("sign {donor} up for {drive}", "give {donor} a place at {drive}"),
                    policy="Drives have so many places; deferred donors get none.",
                ),
                Action(
                    "withdraw_signup",
                    "Take a donor off a drive.",
                    (the("signup"),),
                    (
                        need("signup.status == 'booked'", "NOT_BOOKED", "it is {signup.status}"),
                        drop("signup"),
                    ),
                    asks=("withdraw {signup}",),
                ),
            ),
        ),
        Feature(
            "couriers",
            entities=(
                Entity(
                    "courier",
                    (
                        Attribute("name", person()),
                        Attribute("range_km", integer(20, 120, 5), least="shortest-ranged", most="longest-ranged", unit="km"),
                        Attribute("cold_box", flag(0.7), editable=True),
                    ),
                    rows=(6, 9),
                    label="name",
                    creatable=True,
                ),
                Entity(
                    "trip",
                    (
                        Attribute("courier", ref("courier"), after="by {}"),
                        Attribute("hospital", ref("hospital"), after="to {}"),
                        Attribute("day", day(-6, 6), after="on {}", least="earliest", most="latest"),
                        Attribute("status", choice("planned", "done"), before=True),
                    ),
                    rows=(16, 24),
                ),
            ),
            constants={"TRIPS_A_DAY": (2, 3)},
            settle=("UPDATE trips SET status = 'planned' WHERE day > (SELECT date(min(day), '+7 days') FROM trips)",),
            actions=(
                Action(
                    "plan_trip",
                    "Send a courier to a hospital on a day.",
                    (the("courier"), the("hospital"), arg("day", day(0, 7), "the day")),
                    (
                        need("day >= today()", "DAY_PASSED", "{day} is over"),
                        need("courier.cold_box", "NO_COLD_BOX", "{courier.name} has no cold box"),
                        need("hospital.distance_km <= courier.range_km", "TOO_FAR",
                             "{hospital.name} is {hospital.distance_km} km away, {courier.name} drives {courier.range_km}"),
                        need("count(trip, courier_id=courier.id, day=day) < TRIPS_A_DAY", "COURIER_BUSY",
                             "{courier.name} has {TRIPS_A_DAY} trips on {day}"),
                        add("trip", courier_id="courier.id", hospital_id="hospital.id", day="day", status="'planned'"),
                    ),
                    asks=("send {courier} to {hospital} on {day}", "plan a trip by {courier} to {hospital} on {day}"),
                    policy="Couriers need a cold box, keep to their range and make {TRIPS_A_DAY} trips a day.",
                ),
                Action(
                    "finish_trip",
                    "Note that a trip was made.",
                    (the("trip"),),
                    (
                        need("trip.status == 'planned'", "DONE_ALREADY", "it was made already"),
                        put("trip", status="'done'"),
                    ),
                    asks=("mark {trip} as done",),
                ),
            ),
        ),
        Feature(
            "testing",
            entities=(
                Entity(
                    "screening",
                    (
                        Attribute("unit", ref("unit"), after="of {}"),
                        Attribute("virus", choice("hepatitis", "HIV", "syphilis"), after="for {}"),
                        Attribute("result", choice("negative", "positive"), before=True),
                        Attribute("done_on", day(-30, -1), least="oldest", most="latest"),
                    ),
                    rows=(60, 76),
                ),
            ),
            settle=(
                "UPDATE screenings SET result = 'negative' WHERE unit_id IN (SELECT id FROM units WHERE status IN ('reserved', 'issued'))",
                "DELETE FROM screenings WHERE id NOT IN (SELECT min(id) FROM screenings GROUP BY unit_id, virus)",
                "INSERT INTO screenings (id, unit_id, virus, result, done_on) SELECT 'SC-' || replace(id, '-', ''), id, 'HIV',"
                " 'negative', (SELECT max(done_on) FROM screenings) FROM units WHERE status = 'reserved' AND id NOT IN (SELECT unit_id"
                " FROM screenings)",
            ),
            extends={
                "allocate_unit": (
                    need("exists(screening, unit_id=unit.id, result='negative')", "NOT_SCREENED", "unit {unit.number} has no clean screening"),
                    need("not exists(screening, unit_id=unit.id, result='positive')", "POSITIVE", "unit {unit.number} was screened positive"),
                ),
            },
            actions=(
                Action(
                    "record_screening",
                    "Record the result of a screening; a positive unit is discarded.",
                    (
                        the("unit"),
                        arg("virus", choice("hepatitis", "HIV", "syphilis"), "what it was screened for"),
                        arg("result", choice("negative", "positive"), "what came of it"),
                    ),
                    (
                        _SHELVED,
                        need("not exists(screening, unit_id=unit.id, virus=virus)", "SCREENED_ALREADY", "unit {unit.number} was screened for {virus}"),
                        add("screening", unit_id="unit.id", virus="virus", result="result", done_on="today()"),
                        when("result == 'positive'", put("unit", status="'discarded'")),
                    ),
                    asks=("record a {result} screening of {unit} for {virus}",),
                    policy="A unit is held only with a clean screening; one that tests positive is discarded at once.",
                ),
            ),
        ),
        Feature(
            "thank_yous",
            entities=(
                Entity(
                    "badge",
                    (
                        Attribute("donor", ref("donor"), after="of {}"),
                        Attribute("grade", choice("bronze", "silver", "gold"), before=True),
                        Attribute("given_on", day(-300, -3), least="oldest", most="latest"),
                    ),
                    rows=(12, 20),
                ),
            ),
            constants={"BADGE_AT": (5, 8, 10)},
            settle=(
                "DELETE FROM badges WHERE id NOT IN (SELECT min(id) FROM badges GROUP BY donor_id, grade)",
                "UPDATE donors SET donations = max(donations, 10) WHERE id IN (SELECT donor_id FROM badges)",
            ),
            actions=(
                Action(
                    "award_badge",
                    "Give a faithful donor a badge.",
                    (the("donor"), arg("grade", choice("bronze", "silver", "gold"), "which")),
                    (
                        need("donor.donations >= BADGE_AT", "TOO_FEW_DONATIONS", "{donor.name} gave {donor.donations} times, it takes {BADGE_AT}"),
                        need("not exists(badge, donor_id=donor.id, grade=grade)", "HAS_IT", "{donor.name} has the {grade} badge"),
                        need("grade == 'bronze' or exists(badge, donor_id=donor.id, grade='bronze')", "BRONZE_FIRST", "bronze comes first"),
                        add("badge", donor_id="donor.id", grade="grade", given_on="today()"),
                    ),
                    asks=("award the {grade} badge to {donor}",),
                    policy="Badges begin at {BADGE_AT} donations, and with bronze.",
                ),
            ),
        ),
        Feature(
            "cold_chain",
            entities=(
                Entity(
                    "reading",
                    (
                        Attribute("fridge", ref("fridge"), after="of {}"),
                        Attribute("celsius", integer(1, 9), least="coldest", most="warmest", unit="degrees"),
                        Attribute("read_on", day(-10, -1), least="oldest", most="latest"),
                    ),
                    rows=(24, 36),
                    log=True,
                ),
            ),
            constants={"WARMEST": (6, 7)},
            actions=(
                Action(
                    "log_temperature",
                    "Write down a fridge's temperature; one that is too warm is locked.",
                    (the("fridge"), arg("celsius", integer(2, 9), "in degrees")),
                    (
                        need("not exists(reading, fridge_id=fridge.id, read_on=today())", "READ_TODAY", "fridge {fridge.name} was read today"),
                        add("reading", fridge_id="fridge.id", celsius="celsius", read_on="today()"),
                        when("celsius > WARMEST", put("fridge", locked="1")),
                    ),
                    asks=("log {celsius} degrees for {fridge}", "write down that {fridge} has {celsius} degrees"),
                    policy="A fridge above {WARMEST} degrees is locked.",
                ),
                Action(
                    "unlock_fridge",
                    "Put a locked fridge back to use.",
                    (the("fridge"),),
                    (
                        need("fridge.locked", "NOT_LOCKED", "fridge {fridge.name} is in use"),
                        put("fridge", locked="0"),
                    ),
                    asks=("unlock {fridge}",),
                ),
                Action(
                    "empty_fridge",
                    "Move everything on the shelf of one fridge to another.",
                    (the("fridge"), the("fridge", "other")),
                    (
                        need("fridge.id != other.id", "SAME_FRIDGE", "that is one fridge"),
                        need("not other.locked", "FRIDGE_LOCKED", "fridge {other.name} is locked"),
                        let("moving", "count(unit, fridge_id=fridge.id, status='shelved')"),
                        need("moving > 0", "NOTHING_THERE", "nothing is on the shelf of {fridge.name}"),
                        need("count(unit, fridge_id=other.id, status='shelved') + count(unit, fridge_id=other.id, status='reserved') + moving"
                             " <= other.slots", "FRIDGE_FULL", "{other.name} has no {moving} slots left"),
                        put_all("unit", {"fridge_id": "fridge.id", "status": "'shelved'"}, fridge_id="other.id"),
                    ),
                    asks=("move what is on the shelf of {fridge} to {other}",),
                ),
            ),
        ),
        Feature(
            "emergency",
            attributes={"request": (Attribute("emergency", flag(0.2), given=False, start=0),)},
            constants={"EMERGENCIES": (9, 12)},
            actions=(
                Action(
                    "declare_emergency",
                    "Mark an open request as an emergency.",
                    (the("request"),),
                    (
                        _OPEN,
                        need("not request.emergency", "DECLARED_ALREADY", "{request.number} is an emergency"),
                        need("count(request, emergency=1) < EMERGENCIES", "TOO_MANY_EMERGENCIES", "there are {EMERGENCIES} emergencies"),
                        put("request", emergency="1"),
                    ),
                    asks=("declare {request} an emergency",),
                    policy="At most {EMERGENCIES} requests are emergencies.",
                ),
            ),
        ),
        Feature(
            "contracts",
            entities=(
                Entity(
                    "contract",
                    (
                        Attribute("hospital", ref("hospital"), after="with {}"),
                        Attribute("yearly_units", integer(100, 900, 50), least="smallest", most="largest", unit="units", editable=True),
                        Attribute("ends_on", day(-30, 300), least="first to end", most="last to end"),
                        Attribute("state", choice("signed", "ended"), before=True),
                    ),
                    rows=(8, 12),
                ),
            ),
            settle=(
                "UPDATE contracts SET state = 'ended' WHERE id NOT IN (SELECT max(id) FROM contracts GROUP BY hospital_id)",
            ),
            constants={"RENEWAL_DAYS": (90, 180, 365)},
            actions=(
                Action(
                    "renew_contract",
                    "Renew a contract that is running.",
                    (the("contract"),),
                    (
                        need("contract.state == 'signed'", "ENDED", "it has ended"),
                        need("days_between(today(), contract.ends_on) <= 120", "TOO_EARLY", "it runs until {contract.ends_on}"),
                        put("contract", ends_on="days_after(contract.ends_on, RENEWAL_DAYS)"),
                    ),
                    asks=("renew {contract}",),
                    policy="Contracts are renewed by {RENEWAL_DAYS} days, not earlier than 120 days before they end.",
                ),
                Action(
                    "end_contract",
                    "End a contract; open requests of the hospital come first.",
                    (the("contract"), via("hospital", "contract.hospital_id")),
                    (
                        need("contract.state == 'signed'", "ENDED", "it has ended"),
                        need("not exists(request, hospital_id=hospital.id, status='open')", "REQUESTS_OPEN", "{hospital.name} has open requests"),
                        put("contract", state="'ended'"),
                    ),
                    asks=("end {contract}",),
                ),
            ),
        ),
        Feature(
            "restrictions",
            entities=(
                Entity(
                    "deferral",
                    (
                        Attribute("donor", ref("donor"), after="of {}"),
                        Attribute("reason", choice("travel", "tattoo", "surgery", "medication"), after="for {}"),
                        Attribute("until", day(-40, 90), least="first to lapse", most="longest"),
                    ),
                    rows=(14, 22),
                ),
            ),
            extends={
                "take_donation": (
                    need("not exists(deferral, donor_id=donor.id, until__gt=today())", "UNDER_DEFERRAL", "{donor.name} may not give yet"),
                ),
            },
            actions=(
                Action(
                    "note_deferral",
                    "Note why a donor may not give for some days.",
                    (
                        the("donor"),
                        arg("reason", choice("travel", "tattoo", "surgery", "medication"), "why"),
                        arg("days", integer(14, 120, 7), "for how many days"),
                    ),
                    (
                        need("not exists(deferral, donor_id=donor.id, reason=reason, until__gt=today())", "NOTED_ALREADY", "that is noted"),
                        add("deferral", donor_id="donor.id", reason="reason", until="days_after(today(), days)"),
                    ),
                    asks=("note a deferral of {donor} for {reason}, {days} days long",),
                    policy="Nobody gives while a deferral runs.",
                ),
                Action(
                    "lift_deferral",
                    "Strike a deferral that runs.",
                    (the("deferral"),),
                    (
                        need("deferral.until > today()", "LAPSED", "it lapsed on {deferral.until}"),
                        drop("deferral"),
                    ),
                    asks=("lift {deferral}",),
                ),
            ),
        ),
        Feature(
            "returns",
            constants={"RETURN_MARGIN": (3, 5, 7)},
            actions=(
                Action(
                    "take_back_unit",
                    "Take back a delivered unit that is still fresh.",
                    (the("allocation"), via("unit", "allocation.unit_id")),
                    (
                        need("allocation.status == 'delivered'", "NOT_DELIVERED", "it is {allocation.status}"),
                        need("days_between(today(), unit.expires_on) >= RETURN_MARGIN", "TOO_OLD", "it is good until {unit.expires_on} only"),
                        put("allocation", status="'released'"),
                        put("unit", status="'shelved'"),
                    ),
                    asks=("take back {allocation}",),
                    policy="Units come back only if they are good for {RETURN_MARGIN} more days.",
                ),
            ),
        ),
        Feature(
            "rare_register",
            entities=(
                Entity(
                    "antigen",
                    (Attribute("name", made("{surname} factor")), Attribute("rarity", integer(1, 90), least="rarest", most="commonest")),
                    rows=(5, 7),
                    label="name",
                    said="the {}",
                ),
                Entity(
                    "typing",
                    (
                        Attribute("donor", ref("donor"), after="of {}"),
                        Attribute("antigen", ref("antigen"), after="for {}"),
                        Attribute("finding", choice("present", "absent"), before=True),
                    ),
                    rows=(30, 44),
                    key=("donor", "antigen"),
                ),
            ),
            actions=(
                Action(
                    "record_typing",
                    "Record whether a donor has an antigen.",
                    (the("donor"), the("antigen"), arg("finding", choice("present", "absent"), "whether it was found")),
                    (
                        need("not exists(typing, donor_id=donor.id, antigen_id=antigen.id)", "TYPED_ALREADY", "{donor.name} was typed for {antigen.name}"),
                        add("typing", donor_id="donor.id", antigen_id="antigen.id", finding="finding"),
                    ),
                    asks=("record that {antigen} is {finding} in {donor}",),
                ),
                Action(
                    "strike_typing",
                    "Strike a typing that was wrong.",
                    (the("donor"), the("antigen")),
                    (
                        find("entry", "typing", "NOT_TYPED", "{donor.name} was not typed for {antigen.name}", donor_id="donor.id", antigen_id="antigen.id"),
                        drop("entry"),
                    ),
                    asks=("strike the typing of {donor} for {antigen}",),
                ),
            ),
        ),
    ),
)
