"""A clinic: appointments need a doctor who is in, free and of the right speciality."""

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
    flag,
    integer,
    let,
    made,
    money,
    need,
    person,
    phone,
    put,
    put_all,
    ref,
    text,
    the,
    via,
)  # fmt: skip
from environments.synthesis.blueprints.features import (
    charges,
    complaints,
    documents,
    groups,
    reminders,
    tags,
)

_PLANNED = need("appointment.status == 'planned'", "NOT_PLANNED",
                "the appointment is {appointment.status}")  # fmt: skip

BLUEPRINT = Blueprint(
    domain="clinic",
    titles=("{city} Family Clinic", "{surname} Health Centre"),
    summary="Book, move and close appointments, and keep what patients are treated for.",
    role="You work at the reception of {title}.",
    constants={"DAY_LIMIT": (3, 4, 5), "BOOK_AHEAD": (21, 30, 45), "NO_SHOWS": (2, 3)},
    entities=(
        Entity(
            "department",
            (
                Attribute(
                    "name",
                    choice("Cardiology", "Dermatology", "Paediatrics", "Orthopaedics", "Neurology"),
                ),
                Attribute("floor", integer(0, 4), chance=0.6, editable=True),
            ),
            rows=(5, 5),
            label="name",
            said="the {} department",
        ),
        Entity(
            "doctor",
            (
                Attribute("name", person()),
                Attribute("department", ref("department"), after="in {}"),
                Attribute("grade", choice("junior", "senior", "consulting"), before=True),
                Attribute("on_leave_until", day(-10, 14, missing=0.75), given=False),
                Attribute(
                    "fee",
                    money(30, 120, 5),
                    least="least expensive",
                    most="most expensive",
                    editable=True,
                ),
            ),
            rows=(12, 18),
            label="name",
            said="Dr {}",
        ),
        Entity(
            "patient",
            (
                Attribute("name", person()),
                Attribute("born_on", day(-29000, -1500), least="eldest", most="youngest"),
                Attribute("phone", phone(), editable=True),
                Attribute(
                    "insurer",
                    choice("Helvia", "Nordcare", "Unisalus"),
                    after="insured with {}",
                    editable=True,
                ),
                Attribute("no_shows", integer(0, 3), most="least reliable", given=False, start=0),
                Attribute("address", made("{street}"), chance=0.5, editable=True),
            ),
            rows=(30, 46),
            label="name",
            creatable=True,
        ),
        Entity(
            "appointment",
            (
                Attribute("patient", ref("patient"), after="of {}"),
                Attribute("doctor", ref("doctor"), after="with {}"),
                Attribute("day", day(-20, 25), after="on {}", least="earliest", most="latest"),
                Attribute("status", choice("planned", "kept", "missed", "cancelled"), before=True),
                Attribute(
                    "reason", choice("check-up", "complaint", "follow-up"), chance=0.6, given=False
                ),
            ),
            rows=(60, 80),
        ),
        Entity(
            "diagnosis",
            (
                Attribute("patient", ref("patient"), after="of {}"),
                Attribute("doctor", ref("doctor"), after="made by {}"),
                Attribute(
                    "condition",
                    choice("hypertension", "eczema", "migraine", "arthritis", "asthma"),
                    after="of {}",
                ),
                Attribute("made_on", day(-400, -5), least="oldest", most="most recent"),
                Attribute("state", choice("active", "resolved"), before=True),
            ),
            rows=(30, 45),
            plural="diagnoses",
        ),
    ),
    settle=(
        "UPDATE appointments SET status = 'kept' WHERE status = 'planned' AND day < (SELECT max(made_on)"
        " FROM diagnoses)",
        "UPDATE appointments SET status = 'planned' WHERE status IN ('kept', 'missed') AND day >="
        " (SELECT date(max(made_on), '+6 days') FROM diagnoses)",
        "UPDATE appointments SET status = 'cancelled' WHERE status = 'planned' AND id NOT IN (SELECT"
        " min(id) FROM appointments WHERE status = 'planned' GROUP BY patient_id, day)",
    ),
    invariants=(
        "SELECT patient_id FROM appointments WHERE status = 'planned' GROUP BY patient_id, day"
        " HAVING count(*) > 1",
    ),
    actions=(
        Action(
            "book_appointment",
            "Book a patient with a doctor on a day.",
            (the("patient"), the("doctor"), arg("day", day(1, 30), "the day of the appointment")),
            (
                need("day > today()", "DAY_PASSED", "{day} is not ahead"),
                need(
                    "days_between(today(), day) <= BOOK_AHEAD",
                    "TOO_FAR_AHEAD",
                    "bookings run {BOOK_AHEAD} days ahead",
                ),
                need(
                    "doctor.on_leave_until is None or doctor.on_leave_until < day",
                    "DOCTOR_ON_LEAVE",
                    "Dr {doctor.name} is on leave until {doctor.on_leave_until}",
                ),
                need(
                    "patient.no_shows < NO_SHOWS",
                    "TOO_MANY_NO_SHOWS",
                    "{patient.name} has missed {patient.no_shows} appointments",
                ),
                need(
                    "not exists(appointment, patient_id=patient.id, day=day, status='planned')",
                    "PATIENT_BUSY",
                    "{patient.name} has an appointment on {day} already",
                ),
                let("booked", "count(appointment, doctor_id=doctor.id, day=day, status='planned')"),
                need(
                    "booked < DAY_LIMIT",
                    "DOCTOR_FULL",
                    "Dr {doctor.name} sees {booked} patients on {day} already",
                ),
                add(
                    "appointment",
                    patient_id="patient.id",
                    doctor_id="doctor.id",
                    day="day",
                    status="'planned'",
                ),
            ),
            asks=(
                "book {patient} with {doctor} on {day}",
                "make an appointment for {patient} with {doctor} on {day}",
            ),
            policy="Doctors see at most {DAY_LIMIT} booked patients a day. Bookings run {BOOK_AHEAD} days"
            " ahead, one a day for each patient; whoever missed {NO_SHOWS} appointments books"
            " no more.",
        ),
        Action(
            "move_appointment",
            "Move a planned appointment to another day with the same doctor.",
            (
                the("appointment"),
                via("doctor", "appointment.doctor_id"),
                arg("day", day(1, 30), "the new day"),
            ),
            (
                _PLANNED,
                need("day > today()", "DAY_PASSED", "{day} is not ahead"),
                need("day != appointment.day", "SAME_DAY", "it is on {day} already"),
                need(
                    "doctor.on_leave_until is None or doctor.on_leave_until < day",
                    "DOCTOR_ON_LEAVE",
                    "Dr {doctor.name} is on leave until {doctor.on_leave_until}",
                ),
                need(
                    "not exists(appointment, patient_id=appointment.patient_id, day=day, "
                    "status='planned')",
                    "PATIENT_BUSY",
                    "the patient is booked on {day} already",
                ),
                need(
                    "count(appointment, doctor_id=doctor.id, day=day, status='planned') < DAY_LIMIT",
                    "DOCTOR_FULL",
                    "Dr {doctor.name} is full on {day}",
                ),
                put("appointment", day="day"),
            ),
            asks=("move {appointment} to {day}", "put {appointment} off to {day}"),
            policy="Moving follows the rules of booking.",
        ),
        Action(
            "cancel_appointment",
            "Cancel a planned appointment.",
            (the("appointment"),),
            (_PLANNED, put("appointment", status="'cancelled'")),
            asks=("cancel {appointment}", "call off {appointment}"),
        ),
        Action(
            "mark_missed",
            "Note that a patient did not come; it counts against them.",
            (the("appointment"), via("patient", "appointment.patient_id")),
            (
                _PLANNED,
                put("appointment", status="'missed'"),
                put("patient", no_shows="patient.no_shows + 1"),
            ),
            asks=("mark {appointment} as missed", "note that nobody came to {appointment}"),
        ),
        Action(
            "record_diagnosis",
            "Record what a doctor has found.",
            (
                the("patient"),
                the("doctor"),
                arg(
                    "condition",
                    choice("hypertension", "eczema", "migraine", "arthritis", "asthma"),
                    "what was found",
                ),
            ),
            (
                need(
                    "not exists(diagnosis, patient_id=patient.id, condition=condition, "
                    "state='active')",
                    "ALREADY_DIAGNOSED",
                    "{patient.name} is treated for {condition} already",
                ),
                need(
                    "doctor.grade != 'junior'",
                    "NOT_ENTITLED",
                    "Dr {doctor.name} is a junior doctor",
                ),
                add(
                    "diagnosis",
                    patient_id="patient.id",
                    doctor_id="doctor.id",
                    condition="condition",
                    made_on="today()",
                    state="'active'",
                ),
            ),
            asks=(
                "record that {doctor} diagnosed {condition} in {patient}",
                "add a diagnosis of {condition} for {patient}, made by {doctor}",
            ),
            policy="Junior doctors make no diagnoses on their own.",
        ),
        Action(
            "resolve_diagnosis",
            "Note that a condition has been dealt with.",
            (the("diagnosis"),),
            (
                need("diagnosis.state == 'active'", "ALREADY_RESOLVED", "it is resolved already"),
                put("diagnosis", state="'resolved'"),
            ),
            asks=("mark {diagnosis} as resolved", "close {diagnosis}"),
        ),
        Action(
            "set_leave",
            "Enter a doctor's leave; appointments planned in it are cancelled.",
            (the("doctor"), arg("until", day(2, 12), "the last day of leave")),
            (
                need("until > today()", "DAY_PASSED", "{until} is not ahead"),
                need(
                    "doctor.on_leave_until is None or doctor.on_leave_until < today()",
                    "ON_LEAVE_ALREADY",
                    "Dr {doctor.name} is on leave until {doctor.on_leave_until}",
                ),
                put("doctor", on_leave_until="until"),
                put_all(
                    "appointment",
                    {"doctor_id": "doctor.id", "status": "'planned'", "day__le": "until"},
                    status="'cancelled'",
                ),
            ),
            asks=(
                "enter leave until {until} for {doctor}",
                "put {doctor} on leave until {until}, calling off what is planned till then",
            ),
            policy="When a doctor goes on leave, what is planned until its last day is cancelled.",
        ),
    ),
    features=(
        Feature(
            "rooms",
            entities=(
                Entity(
                    "room",
                    (
                        Attribute("name", code("R###")),
                        Attribute("department", ref("department"), after="of {}"),
                        Attribute(
                            "beds", integer(1, 4), least="smallest", most="largest", unit="beds"
                        ),
                        Attribute("closed", flag(0.15), editable=True, given=False),
                    ),
                    rows=(10, 16),
                    label="name",
                    said="room {}",
                ),
                Entity(
                    "stay",
                    (
                        Attribute("patient", ref("patient"), after="of {}"),
                        Attribute("room", ref("room"), after="in {}"),
                        Attribute("since", day(-9, -1), least="longest", most="shortest"),
                        Attribute("status", choice("current", "past"), before=True),
                    ),
                    rows=(16, 24),
                ),
            ),
            settle=(
                "UPDATE stays SET status = 'past' WHERE id NOT IN (SELECT min(id) FROM stays WHERE status"
                " = 'current' GROUP BY patient_id)",
                "UPDATE stays SET status = 'past' WHERE status = 'current' AND (SELECT count(*) FROM stays"
                " s WHERE s.room_id = stays.room_id AND s.status = 'current' AND s.id <= stays.id) >"
                " (SELECT beds FROM rooms WHERE id = room_id)",
            ),
            invariants=(
                "SELECT r.id FROM rooms r WHERE (SELECT count(*) FROM stays WHERE room_id = r.id AND"
                " status = 'current') > r.beds",
            ),
            actions=(
                Action(
                    "admit_patient",
                    "Give a patient a bed.",
                    (the("patient"), the("room")),
                    (
                        need("not room.closed", "ROOM_CLOSED", "room {room.name} is closed"),
                        need(
                            "not exists(stay, patient_id=patient.id, status='current')",
                            "ALREADY_ADMITTED",
                            "{patient.name} has a bed already",
                        ),
                        need(
                            "count(stay, room_id=room.id, status='current') < room.beds",
                            "ROOM_FULL",
                            "room {room.name} has {room.beds} beds, all taken",
                        ),
                        add(
                            "stay",
                            patient_id="patient.id",
                            room_id="room.id",
                            since="today()",
                            status="'current'",
                        ),
                    ),
                    asks=("admit {patient} to {room}", "give {patient} a bed in {room}"),
                    policy="A room takes no more patients than it has beds.",
                ),
                Action(
                    "discharge",
                    "End a stay.",
                    (the("stay"),),
                    (
                        need("stay.status == 'current'", "STAY_OVER", "that stay is over"),
                        put("stay", status="'past'"),
                    ),
                    asks=("end {stay}", "discharge the patient of {stay}"),
                ),
            ),
        ),
        Feature(
            "prescriptions",
            entities=(
                Entity(
                    "drug",
                    (
                        Attribute("name", made("{stem}{end}")),
                        Attribute("max_days", integer(7, 60, 7), most="longest-lasting"),
                        Attribute(
                            "treats",
                            choice("hypertension", "eczema", "migraine", "arthritis", "asthma"),
                            after="against {}",
                        ),
                    ),
                    rows=(12, 16),
                    label="name",
                ),
                Entity(
                    "prescription",
                    (
                        Attribute("patient", ref("patient"), after="for {}"),
                        Attribute("drug", ref("drug"), after="of {}"),
                        Attribute("days", integer(7, 28, 7), most="longest", unit="days"),
                        Attribute("status", choice("current", "stopped"), before=True),
                    ),
                    rows=(20, 30),
                ),
            ),
            settle=(
                "UPDATE prescriptions SET days = min(days, (SELECT max_days FROM drugs WHERE id = drug_id))",
                "UPDATE prescriptions SET status = 'stopped' WHERE id NOT IN (SELECT min(id) FROM"
                " prescriptions GROUP BY patient_id, drug_id)",
            ),
            actions=(
                Action(
                    "prescribe",
                    "Prescribe a drug to a patient who is treated for what it is against.",
                    (
                        the("patient"),
                        the("drug"),
                        arg("days", integer(7, 28, 7), "for how many days"),
                    ),
                    (
                        need(
                            "exists(diagnosis, patient_id=patient.id, condition=drug.treats, "
                            "state='active')",
                            "NO_DIAGNOSIS",
                            "{patient.name} is not treated for {drug.treats}",
                        ),
                        need(
                            "days <= drug.max_days",
                            "TOO_LONG",
                            "{drug.name} is given for {drug.max_days} days at most",
                        ),
                        need(
                            "not exists(prescription, patient_id=patient.id, drug_id=drug.id, "
                            "status='current')",
                            "ALREADY_PRESCRIBED",
                            "{patient.name} takes {drug.name} already",
                        ),
                        add(
                            "prescription",
                            patient_id="patient.id",
                            drug_id="drug.id",
                            days="days",
                            status="'current'",
                        ),
                    ),
                    asks=(
                        "prescribe {drug} to {patient} for {days} days",
                        "write {patient} a prescription of {drug} for {days} days",
                    ),
                    policy="A drug is prescribed only against an active diagnosis it treats, and no longer"
                    " than its limit.",
                ),
                Action(
                    "stop_prescription",
                    "Stop a prescription.",
                    (the("prescription"),),
                    (
                        need(
                            "prescription.status == 'current'", "ALREADY_STOPPED", "it was stopped"
                        ),
                        put("prescription", status="'stopped'"),
                    ),
                    asks=("stop {prescription}", "discontinue {prescription}"),
                ),
            ),
        ),
        Feature(
            "invoices",
            entities=(
                Entity(
                    "invoice",
                    (
                        Attribute("appointment", ref("appointment")),
                        Attribute("patient", ref("patient"), after="for {}"),
                        Attribute("amount", money(30, 120, 5), least="smallest", most="largest"),
                        Attribute("issued_on", day(-20, -1), least="oldest", most="latest"),
                        Attribute("status", choice("unpaid", "paid", "waived"), before=True),
                    ),
                    rows=(18, 28),
                ),
            ),
            settle=(
                "DELETE FROM invoices WHERE id NOT IN (SELECT min(id) FROM invoices GROUP BY"
                " appointment_id)",
                "UPDATE invoices SET patient_id = (SELECT patient_id FROM appointments WHERE id ="
                " appointment_id), amount = (SELECT fee FROM doctors d JOIN appointments a ON a.doctor_id"
                " = d.id WHERE a.id = appointment_id)",
                "UPDATE appointments SET status = 'kept' WHERE id IN (SELECT appointment_id FROM invoices)",
            ),
            constants={"WAIVER": (40, 60, 80)},
            actions=(
                Action(
                    "close_appointment",
                    "Note that a planned appointment was kept, and bill the doctor's fee.",
                    (the("appointment"), via("doctor", "appointment.doctor_id")),
                    (
                        _PLANNED,
                        put("appointment", status="'kept'"),
                        add(
                            "invoice",
                            appointment_id="appointment.id",
                            patient_id="appointment.patient_id",
                            amount="doctor.fee",
                            issued_on="today()",
                            status="'unpaid'",
                        ),
                    ),
                    asks=("close {appointment} as kept and bill it", "bill {appointment} as kept"),
                    policy="Each appointment kept is billed with the fee of its doctor.",
                ),
                Action(
                    "pay_invoice",
                    "Book the payment of an invoice.",
                    (the("invoice"),),
                    (
                        need("invoice.status == 'unpaid'", "NOT_UNPAID", "it is {invoice.status}"),
                        put("invoice", status="'paid'"),
                    ),
                    asks=("book {invoice} as paid", "mark {invoice} as paid"),
                ),
                Action(
                    "waive_invoice",
                    "Waive a small unpaid invoice.",
                    (the("invoice"),),
                    (
                        need("invoice.status == 'unpaid'", "NOT_UNPAID", "it is {invoice.status}"),
                        need(
                            "invoice.amount <= WAIVER",
                            "AMOUNT_TOO_HIGH",
                            "invoices over {WAIVER} are not waived",
                        ),
                        put("invoice", status="'waived'"),
                    ),
                    asks=("waive {invoice}",),
                    policy="Only invoices up to {WAIVER} {currency} may be waived.",
                ),
            ),
        ),
        Feature(
            "referrals",
            entities=(
                Entity(
                    "referral",
                    (
                        Attribute("patient", ref("patient"), after="of {}"),
                        Attribute("department", ref("department"), after="to {}"),
                        Attribute("urgency", choice("routine", "urgent"), before=True),
                        Attribute("state", choice("open", "closed"), after="that is {}"),
                    ),
                    rows=(14, 22),
                ),
            ),
            settle=(
                "UPDATE referrals SET state = 'closed' WHERE id NOT IN (SELECT min(id) FROM referrals GROUP"
                " BY patient_id, department_id)",
            ),
            actions=(
                Action(
                    "refer_patient",
                    "Refer a patient to another department.",
                    (
                        the("patient"),
                        the("department"),
                        arg("urgency", choice("routine", "urgent"), "how soon"),
                    ),
                    (
                        need(
                            "not exists(referral, patient_id=patient.id, department_id=department.id, "
                            "state='open')",
                            "ALREADY_REFERRED",
                            "{patient.name} is referred to {department.name} already",
                        ),
                        need(
                            "exists(diagnosis, patient_id=patient.id, state='active')",
                            "NO_DIAGNOSIS",
                            "{patient.name} has no active diagnosis",
                        ),
                        add(
                            "referral",
                            patient_id="patient.id",
                            department_id="department.id",
                            urgency="urgency",
                            state="'open'",
                        ),
                    ),
                    asks=(
                        "refer {patient} to {department} as {urgency}",
                        "make a referral of {patient} to {department}, urgency {urgency}",
                    ),
                    policy="Only patients with an active diagnosis are referred.",
                ),
                Action(
                    "close_referral",
                    "Close an open referral.",
                    (the("referral"),),
                    (
                        need("referral.state == 'open'", "ALREADY_CLOSED", "it is closed"),
                        put("referral", state="'closed'"),
                    ),
                    asks=("close {referral}",),
                ),
            ),
        ),
        Feature(
            "remarks",
            entities=(
                Entity(
                    "remark",
                    (
                        Attribute("patient", ref("patient")),
                        Attribute(
                            "body",
                            text(
                                "prefers mornings",
                                "needs an interpreter",
                                "is allergic to latex",
                                "comes in a wheelchair",
                            ),
                        ),
                        Attribute("made_on", day(-200, -1)),
                    ),
                    rows=(15, 25),
                    log=True,
                ),
            ),
            actions=(
                Action(
                    "add_remark",
                    "Add a remark to a patient's file.",
                    (
                        the("patient"),
                        arg(
                            "body",
                            text(
                                "prefers afternoons",
                                "asks to be rung first",
                                "has moved house",
                                "is hard of hearing",
                            ),
                            "the remark",
                        ),
                    ),
                    (add("remark", patient_id="patient.id", body="body", made_on="today()"),),
                    asks=(
                        "add the remark “{body}” to the file of {patient}",
                        "note “{body}” in the file of {patient}",
                    ),
                ),
            ),
        ),
        reminders("patient"),
        documents("patient"),
        complaints("patient"),
        charges("patient"),
        groups("patient", "Back School", "Quit Smoking", "Diabetes Evening", "Grief Circle"),
        tags("patient", "translator needed", "chronic", "study participant", "step-free access"),
    ),
    words={
        "stem": ("Cardi", "Derma", "Pulmo", "Neura", "Arthri", "Hista"),
        "end": ("zol", "vent", "pril", "xin", "mab"),
    },
)
