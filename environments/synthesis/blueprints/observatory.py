"""An observatory: nights are given to approved proposals, as long as targets are up."""

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
    put,
    put_all,
    ref,
    text,
    the,
    via,
    when,
)  # fmt: skip

_PLANNED = need("observation.status == 'planned'", "NOT_PLANNED",
                "the observation is {observation.status}")  # fmt: skip
_TONIGHT_OR_LATER = need("night >= today()", "NIGHT_PASSED", "{night} is over")
_OPEN_DOME = need("telescope.status == 'working'", "TELESCOPE_CLOSED",
                  "{telescope.name} is {telescope.status}")  # fmt: skip
_ROOM_IN_NIGHT = need(
    "taken + hours <= NIGHT_HOURS", "NIGHT_FULL",
    "{taken} hours of {night} are taken at {telescope.name}, a night has {NIGHT_HOURS}",
)  # fmt: skip

BLUEPRINT = Blueprint(
    domain="observatory",
    titles=("{surname} Peak Observatory", "{city} Southern Observatory"),
    summary="Judge proposals, plan the nights of the telescopes and keep count of their hours.",
    role="You are on duty in the scheduling office of {title}.",
    words={
        "greek": ("Alpha", "Beta", "Gamma", "Delta", "Epsilon", "Zeta", "Theta", "Kappa", "Sigma"),
        "beast": ("Draconis", "Cygni", "Lyrae", "Orionis", "Tauri", "Hydrae", "Pavonis", "Lupi"),
        "device": ("Camera", "Spectrograph", "Imager", "Polarimeter"),
        "bird": ("Heron", "Kestrel", "Osprey", "Merlin", "Avocet", "Plover", "Dunlin", "Curlew"),
    },
    constants={"NIGHT_HOURS": (8, 9, 10), "PLAN_AHEAD": (30, 45), "SEMESTER_HOURS": (260, 300)},
    entities=(
        Entity(
            "telescope",
            (
                Attribute("name", made("{surname} Telescope")),
                Attribute(
                    "mirror_cm", integer(80, 820, 10), least="smallest", most="largest", unit="cm"
                ),
                Attribute("status", choice("working", "closed"), before=True, given=False),
                Attribute("altitude_m", integer(900, 2800, 50), chance=0.5, unit="m"),
            ),
            rows=(4, 6),
            label="name",
            said="the {}",
        ),
        Entity(
            "instrument",
            (
                Attribute("name", made("{bird} {device}")),
                Attribute("telescope", ref("telescope"), after="of {}"),
                Attribute("mounted", flag(0.6), given=False),
                Attribute(
                    "setup_minutes",
                    integer(10, 90, 5),
                    least="quickest",
                    most="slowest",
                    editable=True,
                    unit="minutes",
                ),
            ),
            rows=(10, 14),
            label="name",
            said="the {}",
        ),
        Entity(
            "astronomer",
            (
                Attribute("name", person()),
                Attribute(
                    "institute",
                    choice("Leiden", "Durham", "Turin", "Granada", "Bonn"),
                    after="from {}",
                    editable=True,
                ),
                Attribute("grade", choice("junior", "senior"), before=True, editable=True),
                Attribute("joined_on", day(-4000, -30), chance=0.5, least="longest-serving"),
            ),
            rows=(22, 32),
            label="name",
            creatable=True,
        ),
        Entity(
            "proposal",
            (
                Attribute("number", code("P26-####")),
                Attribute("leader", ref("astronomer"), after="led by {}"),
                Attribute("status", choice("submitted", "approved", "rejected"), before=True),
                Attribute(
                    "hours_asked", integer(6, 40, 2), least="smallest", most="largest", unit="hours"
                ),
                Attribute("hours_granted", integer(0, 0), given=False, start=0, unit="hours"),
                Attribute("hours_used", integer(0, 0), given=False, start=0, unit="hours"),
                Attribute(
                    "submitted_on", day(-120, -15), least="oldest", most="latest", chance=0.7
                ),
            ),
            rows=(26, 36),
            label="number",
            said="proposal {}",
        ),
        Entity(
            "target",
            (
                Attribute("name", made("{greek} {beast}")),
                Attribute("sort_of", choice("star", "binary", "nebula", "cluster"), chance=0.7),
                Attribute("up_from", day(-60, 5), least="earliest"),
                Attribute("up_until", day(8, 80), most="longest visible"),
                Attribute("magnitude", integer(4, 19), least="brightest", most="faintest"),
            ),
            rows=(26, 38),
            label="name",
        ),
        Entity(
            "observation",
            (
                Attribute("proposal", ref("proposal"), after="for {}"),
                Attribute("target", ref("target"), after="of {}"),
                Attribute("instrument", ref("instrument"), after="with {}"),
                Attribute("night", day(-25, 20), after="on {}", least="earliest", most="latest"),
                Attribute("hours", integer(1, 4), unit="hours"),
                Attribute(
                    "status", choice("planned", "completed", "lost", "cancelled"), before=True
                ),
            ),
            rows=(55, 75),
        ),
    ),
    settle=(
        "UPDATE instruments SET mounted = 0 WHERE id NOT IN (SELECT min(id) FROM instruments WHERE"
        " mounted = 1 GROUP BY telescope_id)",
        "UPDATE telescopes SET status = 'working' WHERE id NOT IN (SELECT max(id) FROM telescopes)",
        "UPDATE observations SET proposal_id = (SELECT p.id FROM proposals p WHERE p.status ="
        " 'approved' AND observations.id > 0 ORDER BY random() LIMIT 1)",
        "UPDATE observations SET status = 'completed' WHERE status IN ('planned') AND night <"
        " (SELECT max(submitted) FROM (SELECT date(min(night), '+25 days') AS submitted FROM"
        " observations))",
        "UPDATE observations SET status = 'planned' WHERE status IN ('completed', 'lost') AND"
        " night > (SELECT date(min(night), '+26 days') FROM observations)",
        "UPDATE observations SET status = 'cancelled' WHERE status = 'planned' AND (instrument_id"
        " NOT IN (SELECT id FROM instruments WHERE mounted = 1) OR id NOT IN (SELECT min(id) FROM"
        " observations WHERE status = 'planned' GROUP BY instrument_id, night))",
        "UPDATE proposals SET hours_used = coalesce((SELECT sum(hours) FROM observations WHERE"
        " proposal_id = proposals.id AND status = 'completed'), 0)",
        "UPDATE proposals SET hours_granted = hours_used + coalesce((SELECT sum(hours) FROM"
        " observations WHERE proposal_id = proposals.id AND status = 'planned'), 0) + id % 5"
        " WHERE status = 'approved'",
        "UPDATE proposals SET hours_asked = max(hours_asked, hours_granted)",
    ),
    invariants=(
        "SELECT id FROM proposals WHERE hours_used > hours_granted",
        "SELECT telescope_id FROM instruments WHERE mounted = 1 GROUP BY telescope_id HAVING"
        " count(*) > 1",
        "SELECT id FROM proposals WHERE status <> 'approved' AND hours_granted > 0",
    ),
    actions=(
        Action(
            "schedule_observation",
            "Give hours of a night to an approved proposal, with a mounted instrument.",
            (
                the("proposal"),
                the("target"),
                the("instrument"),
                via("telescope", "instrument.telescope_id"),
                arg("night", day(1, 28), "the night, by the date of its evening"),
                arg("hours", integer(1, 4), "how many hours"),
            ),
            (
                need(
                    "proposal.status == 'approved'",
                    "NOT_APPROVED",
                    "proposal {proposal.number} is {proposal.status}",
                ),
                _OPEN_DOME,
                need("instrument.mounted", "NOT_MOUNTED", "the {instrument.name} is not mounted"),
                _TONIGHT_OR_LATER,
                need(
                    "days_between(today(), night) <= PLAN_AHEAD",
                    "TOO_FAR_AHEAD",
                    "nights are planned {PLAN_AHEAD} days ahead",
                ),
                need(
                    "night >= target.up_from and night <= target.up_until",
                    "TARGET_NOT_UP",
                    "{target.name} is up from {target.up_from} until {target.up_until}",
                ),
                let(
                    "promised",
                    "total(observation, 'hours', proposal_id=proposal.id, status='planned')",
                ),
                need(
                    "proposal.hours_used + promised + hours <= proposal.hours_granted",
                    "NO_HOURS_LEFT",
                    "{proposal.number} has {proposal.hours_granted} hours, of which "
                    "{proposal.hours_used} are used and {promised} planned",
                ),
                let(
                    "taken",
                    "total(observation, 'hours', instrument_id=instrument.id, night=night,"
                    " status='planned')",
                ),
                _ROOM_IN_NIGHT,
                add(
                    "observation",
                    proposal_id="proposal.id",
                    target_id="target.id",
                    instrument_id="instrument.id",
                    night="night",
                    hours="hours",
                    status="'planned'",
                ),
            ),
            asks=(
                "schedule {hours} hours on {target} for {proposal} with {instrument} on {night}",
                "plan an observation of {target} with {instrument} for {proposal}, {hours} hours"
                " on {night}",
            ),
            policy="Only approved proposals are given time, with instruments that are mounted on"
            " working telescopes, at most {PLAN_AHEAD} days ahead, while the target is up, and"
            " never more than the hours they were granted. A night has {NIGHT_HOURS} hours.",
        ),
        Action(
            "complete_observation",
            "Note that an observation was made; its hours are charged to the proposal.",
            (the("observation"), via("proposal", "observation.proposal_id")),
            (
                _PLANNED,
                put("observation", status="'completed'"),
                put("proposal", hours_used="proposal.hours_used + observation.hours"),
            ),
            asks=("mark {observation} as completed", "book {observation} as made"),
            policy="Hours are charged when an observation is completed, not when it is planned.",
        ),
        Action(
            "report_weather_loss",
            "Note that an observation was lost to the weather; nobody is charged.",
            (the("observation"),),
            (_PLANNED, put("observation", status="'lost'")),
            asks=(
                "report {observation} as lost to clouds",
                "write {observation} off as lost to the weather",
            ),
            policy="What the weather takes is not charged.",
        ),
        Action(
            "move_observation",
            "Move a planned observation to another night.",
            (
                the("observation"),
                via("target", "observation.target_id"),
                arg("night", day(1, 28), "the new night"),
            ),
            (
                _PLANNED,
                _TONIGHT_OR_LATER,
                need("night != observation.night", "SAME_NIGHT", "it is planned for {night} now"),
                need(
                    "night >= target.up_from and night <= target.up_until",
                    "TARGET_NOT_UP",
                    "{target.name} is up from {target.up_from} until {target.up_until}",
                ),
                need(
                    "total(observation, 'hours', instrument_id=observation.instrument_id,"
                    " night=night, status='planned') + observation.hours <= NIGHT_HOURS",
                    "NIGHT_FULL",
                    "{night} has not {observation.hours} hours left",
                ),
                put("observation", night="night"),
            ),
            asks=("move {observation} to {night}", "put {observation} off to {night}"),
            policy="A moved observation must find its target up and its night not full.",
        ),
        Action(
            "approve_proposal",
            "Approve a submitted proposal and grant it hours.",
            (the("proposal"), arg("hours", integer(4, 20, 2), "the hours granted")),
            (
                need(
                    "proposal.status == 'submitted'",
                    "ALREADY_JUDGED",
                    "proposal {proposal.number} is {proposal.status}",
                ),
                need(
                    "hours <= proposal.hours_asked",
                    "MORE_THAN_ASKED",
                    "{proposal.number} asks for {proposal.hours_asked} hours",
                ),
                let("granted", "total(proposal, 'hours_granted')"),
                need(
                    "granted + hours <= SEMESTER_HOURS",
                    "SEMESTER_FULL",
                    "{granted} of {SEMESTER_HOURS} hours of the semester are granted",
                ),
                put("proposal", status="'approved'", hours_granted="hours"),
            ),
            asks=("approve {proposal} with {hours} hours", "grant {proposal} {hours} hours"),
            policy="Nobody is granted more hours than they asked for, and all together not more"
            " than the {SEMESTER_HOURS} hours of the semester.",
        ),
        Action(
            "reject_proposal",
            "Reject a submitted proposal.",
            (the("proposal"),),
            (
                need(
                    "proposal.status == 'submitted'",
                    "ALREADY_JUDGED",
                    "proposal {proposal.number} is {proposal.status}",
                ),
                put("proposal", status="'rejected'"),
            ),
            asks=("reject {proposal}", "turn down {proposal}"),
        ),
        Action(
            "mount_instrument",
            "Mount an instrument in place of the one its telescope has now.",
            (the("instrument"), via("telescope", "instrument.telescope_id")),
            (
                need(
                    "not instrument.mounted", "ALREADY_MOUNTED", "the {instrument.name} is mounted"
                ),
                _OPEN_DOME,
                put_all(
                    "instrument", {"telescope_id": "telescope.id", "mounted": "1"}, mounted="0"
                ),
                put("instrument", mounted="1"),
            ),
            asks=("mount {instrument}", "have {instrument} mounted on its telescope"),
            policy="A telescope carries one instrument; mounting one takes the other down.",
        ),
        Action(
            "close_telescope",
            "Close a telescope; what is planned for what it carries is cancelled by hand.",
            (the("telescope"),),
            (
                need(
                    "telescope.status == 'working'", "ALREADY_CLOSED", "{telescope.name} is closed"
                ),
                put("telescope", status="'closed'"),
            ),
            asks=("close {telescope}", "take {telescope} out of service"),
        ),
        Action(
            "reopen_telescope",
            "Put a closed telescope back to work.",
            (the("telescope"),),
            (
                need("telescope.status == 'closed'", "NOT_CLOSED", "{telescope.name} works"),
                put("telescope", status="'working'"),
            ),
            asks=("reopen {telescope}", "put {telescope} back to work"),
            chance=0.7,
        ),
    ),
    features=(
        Feature(
            "teams",
            entities=(
                Entity(
                    "co_investigator",
                    (
                        Attribute("proposal", ref("proposal"), after="of {}"),
                        Attribute("astronomer", ref("astronomer")),
                        Attribute("part", choice("data", "theory", "software"), after="for {}"),
                    ),
                    rows=(30, 45),
                    key=("proposal", "astronomer"),
                ),
            ),
            constants={"TEAM_SIZE": (3, 4)},
            settle=(
                "DELETE FROM co_investigators WHERE astronomer_id = (SELECT leader_id FROM"
                " proposals WHERE id = proposal_id)",
                "DELETE FROM co_investigators WHERE (SELECT count(*) FROM co_investigators c WHERE"
                " c.proposal_id = co_investigators.proposal_id AND c.astronomer_id <="
                " co_investigators.astronomer_id) > 3",
            ),
            invariants=(
                "SELECT c.proposal_id FROM co_investigators c JOIN proposals p ON p.id ="
                " c.proposal_id WHERE c.astronomer_id = p.leader_id",
            ),
            actions=(
                Action(
                    "add_co_investigator",
                    "Add an astronomer to a proposal's team.",
                    (
                        the("proposal"),
                        the("astronomer"),
                        arg("part", choice("data", "theory", "software"), "what they do"),
                    ),
                    (
                        need(
                            "astronomer.id != proposal.leader_id",
                            "LEADS_IT",
                            "{astronomer.name} leads {proposal.number}",
                        ),
                        need(
                            "not exists(co_investigator, proposal_id=proposal.id,"
                            " astronomer_id=astronomer.id)",
                            "IN_TEAM",
                            "{astronomer.name} is in the team already",
                        ),
                        need(
                            "count(co_investigator, proposal_id=proposal.id) < TEAM_SIZE",
                            "TEAM_FULL",
                            "{proposal.number} has {TEAM_SIZE} co-investigators",
                        ),
                        add(
                            "co_investigator",
                            proposal_id="proposal.id",
                            astronomer_id="astronomer.id",
                            part="part",
                        ),
                    ),
                    asks=(
                        "add {astronomer} to the team of {proposal} for {part}",
                        "make {astronomer} a co-investigator of {proposal}, for {part}",
                    ),
                    policy="A team has at most {TEAM_SIZE} co-investigators beside its leader.",
                ),
                Action(
                    "remove_co_investigator",
                    "Take an astronomer off a proposal's team.",
                    (the("proposal"), the("astronomer")),
                    (
                        find(
                            "member",
                            "co_investigator",
                            "NOT_IN_TEAM",
                            "{astronomer.name} is not in the team of {proposal.number}",
                            proposal_id="proposal.id",
                            astronomer_id="astronomer.id",
                        ),
                        drop("member"),
                    ),
                    asks=("take {astronomer} off the team of {proposal}",),
                ),
            ),
        ),
        Feature(
            "calibration",
            entities=(
                Entity(
                    "calibration",
                    (
                        Attribute("instrument", ref("instrument"), after="of {}"),
                        Attribute("frames", choice("bias", "dark", "flat"), before=True),
                        Attribute(
                            "valid_until",
                            day(-12, 35),
                            least="first to expire",
                            most="longest valid",
                        ),
                    ),
                    rows=(20, 30),
                ),
            ),
            constants={"CALIBRATION_DAYS": (14, 21, 28)},
            settle=(
                "INSERT INTO calibrations (id, instrument_id, frames, valid_until) SELECT"
                " (SELECT max(id) FROM calibrations) + id, id, 'flat', (SELECT max(valid_until)"
                " FROM calibrations) FROM instruments WHERE id % 3 > 0",
            ),
            extends={
                "schedule_observation": (
                    need(
                        "exists(calibration, instrument_id=instrument.id, valid_until__ge=night)",
                        "NOT_CALIBRATED",
                        "no calibration of the {instrument.name} is valid on {night}",
                    ),
                )
            },
            actions=(
                Action(
                    "take_calibration",
                    "Take calibration frames with a mounted instrument; they are valid for a while.",
                    (
                        the("instrument"),
                        arg("frames", choice("bias", "dark", "flat"), "the sort of frames"),
                    ),
                    (
                        need(
                            "instrument.mounted",
                            "NOT_MOUNTED",
                            "the {instrument.name} is not mounted",
                        ),
                        need(
                            "not exists(calibration, instrument_id=instrument.id, frames=frames,"
                            " valid_until__ge=today())",
                            "STILL_VALID",
                            "its {frames} frames are still valid",
                        ),
                        add(
                            "calibration",
                            instrument_id="instrument.id",
                            frames="frames",
                            valid_until="days_after(today(), CALIBRATION_DAYS)",
                        ),
                    ),
                    asks=(
                        "take {frames} frames with {instrument}",
                        "calibrate {instrument} with {frames} frames",
                    ),
                    policy="Nothing is observed with an instrument that has no valid calibration"
                    " that night; one is valid {CALIBRATION_DAYS} days.",
                ),
            ),
        ),
        Feature(
            "referees",
            entities=(
                Entity(
                    "review",
                    (
                        Attribute("proposal", ref("proposal"), after="of {}"),
                        Attribute("referee", ref("astronomer"), after="by {}"),
                        Attribute("grade", integer(1, 5), least="worst", most="best"),
                    ),
                    rows=(28, 40),
                ),
            ),
            constants={"REVIEWS_NEEDED": (1, 2)},
            settle=(
                "DELETE FROM reviews WHERE referee_id = (SELECT leader_id FROM proposals WHERE id ="
                " proposal_id) OR id NOT IN (SELECT min(id) FROM reviews GROUP BY proposal_id,"
                " referee_id)",
            ),
            invariants=(
                "SELECT proposal_id FROM reviews GROUP BY proposal_id, referee_id HAVING count(*)"
                " > 1",
            ),
            extends={
                "approve_proposal": (
                    let("reviews", "count(review, proposal_id=proposal.id)"),
                    need(
                        "reviews >= REVIEWS_NEEDED",
                        "TOO_FEW_REVIEWS",
                        "{proposal.number} has {reviews} reviews, it needs {REVIEWS_NEEDED}",
                    ),
                )
            },
            actions=(
                Action(
                    "add_review",
                    "Record a referee's grade of a submitted proposal.",
                    (
                        the("proposal"),
                        the("astronomer", "referee"),
                        arg("grade", integer(1, 5), "from 1 (poor) to 5 (excellent)"),
                    ),
                    (
                        need(
                            "proposal.status == 'submitted'",
                            "ALREADY_JUDGED",
                            "proposal {proposal.number} is {proposal.status}",
                        ),
                        need(
                            "referee.id != proposal.leader_id",
                            "OWN_PROPOSAL",
                            "{referee.name} leads {proposal.number}",
                        ),
                        need(
                            "referee.grade == 'senior'",
                            "NOT_SENIOR",
                            "{referee.name} is a junior astronomer",
                        ),
                        need(
                            "not exists(review, proposal_id=proposal.id, referee_id=referee.id)",
                            "REVIEWED_ALREADY",
                            "{referee.name} has reviewed {proposal.number} already",
                        ),
                        add(
                            "review",
                            proposal_id="proposal.id",
                            referee_id="referee.id",
                            grade="grade",
                        ),
                    ),
                    asks=(
                        "record that {referee} grades {proposal} {grade}",
                        "enter a review of {proposal} by {referee} with grade {grade}",
                    ),
                    policy="A proposal needs {REVIEWS_NEEDED} reviews by senior astronomers who"
                    " do not lead it before it is approved.",
                ),
            ),
        ),
        Feature(
            "data_archive",
            entities=(
                Entity(
                    "dataset",
                    (
                        Attribute("observation", ref("observation"), after="from {}"),
                        Attribute(
                            "size_gb", integer(2, 90), least="smallest", most="largest", unit="GB"
                        ),
                        Attribute(
                            "state", choice("raw", "reduced", "public"), before=True, given=False
                        ),
                        Attribute("stored_on", day(-25, -1), least="oldest", most="latest"),
                    ),
                    rows=(18, 28),
                ),
            ),
            settle=(
                "DELETE FROM datasets WHERE observation_id NOT IN (SELECT id FROM observations"
                " WHERE status = 'completed') OR id NOT IN (SELECT min(id) FROM datasets GROUP BY"
                " observation_id)",
            ),
            invariants=(
                "SELECT observation_id FROM datasets GROUP BY observation_id HAVING count(*) > 1",
            ),
            actions=(
                Action(
                    "store_dataset",
                    "Store the data of a completed observation.",
                    (the("observation"), arg("size_gb", integer(2, 60), "size in GB")),
                    (
                        need(
                            "observation.status == 'completed'",
                            "NOT_COMPLETED",
                            "the observation is {observation.status}",
                        ),
                        need(
                            "not exists(dataset, observation_id=observation.id)",
                            "STORED_ALREADY",
                            "its data are stored already",
                        ),
                        add(
                            "dataset",
                            observation_id="observation.id",
                            size_gb="size_gb",
                            state="'raw'",
                            stored_on="today()",
                        ),
                    ),
                    asks=(
                        "store {size_gb} GB of data from {observation}",
                        "archive the data of {observation}, {size_gb} GB",
                    ),
                ),
                Action(
                    "reduce_dataset",
                    "Note that raw data were reduced.",
                    (the("dataset"),),
                    (
                        need("dataset.state == 'raw'", "NOT_RAW", "the data are {dataset.state}"),
                        put("dataset", state="'reduced'"),
                    ),
                    asks=("mark {dataset} as reduced",),
                ),
                Action(
                    "publish_dataset",
                    "Make reduced data public.",
                    (the("dataset"),),
                    (
                        need(
                            "dataset.state == 'reduced'",
                            "NOT_REDUCED",
                            "the data are {dataset.state}",
                        ),
                        put("dataset", state="'public'"),
                    ),
                    asks=("make {dataset} public", "publish {dataset}"),
                    policy="Data are reduced before they are made public.",
                ),
            ),
        ),
        Feature(
            "night_assistants",
            entities=(
                Entity(
                    "assistant",
                    (
                        Attribute("name", person()),
                        Attribute("trained_until", day(-20, 120), least="first to need training"),
                    ),
                    rows=(8, 12),
                    label="name",
                    creatable=True,
                ),
                Entity(
                    "shift",
                    (
                        Attribute("assistant", ref("assistant"), after="of {}"),
                        Attribute("telescope", ref("telescope"), after="at {}"),
                        Attribute(
                            "night", day(-6, 14), after="on {}", least="earliest", most="latest"
                        ),
                    ),
                    rows=(24, 36),
                ),
            ),
            constants={"SHIFTS_AHEAD": (4, 5, 6)},
            settle=(
                "DELETE FROM shifts WHERE id NOT IN (SELECT min(id) FROM shifts GROUP BY"
                " assistant_id, night)",
                "DELETE FROM shifts WHERE id NOT IN (SELECT min(id) FROM shifts GROUP BY"
                " telescope_id, night)",
            ),
            invariants=(
                "SELECT night FROM shifts GROUP BY assistant_id, night HAVING count(*) > 1",
                "SELECT night FROM shifts GROUP BY telescope_id, night HAVING count(*) > 1",
            ),
            actions=(
                Action(
                    "assign_shift",
                    "Put an assistant on duty at a telescope for a night.",
                    (the("assistant"), the("telescope"), arg("night", day(1, 20), "the night")),
                    (
                        _TONIGHT_OR_LATER,
                        need(
                            "assistant.trained_until >= night",
                            "TRAINING_EXPIRED",
                            "{assistant.name} is trained until {assistant.trained_until}",
                        ),
                        need(
                            "not exists(shift, assistant_id=assistant.id, night=night)",
                            "ON_DUTY_ALREADY",
                            "{assistant.name} is on duty on {night}",
                        ),
                        need(
                            "not exists(shift, telescope_id=telescope.id, night=night)",
                            "TELESCOPE_STAFFED",
                            "{telescope.name} has an assistant on {night}",
                        ),
                        need(
                            "count(shift, assistant_id=assistant.id, night__ge=today()) <"
                            " SHIFTS_AHEAD",
                            "TOO_MANY_SHIFTS",
                            "{assistant.name} has {SHIFTS_AHEAD} shifts ahead",
                        ),
                        add(
                            "shift",
                            assistant_id="assistant.id",
                            telescope_id="telescope.id",
                            night="night",
                        ),
                    ),
                    asks=(
                        "put {assistant} on duty at {telescope} on {night}",
                        "give {assistant} the shift at {telescope} on {night}",
                    ),
                    policy="An assistant must be trained until the night, is at one telescope a"
                    " night and has at most {SHIFTS_AHEAD} shifts ahead; one does for a"
                    " telescope.",
                ),
                Action(
                    "swap_shift",
                    "Give a shift to another assistant.",
                    (the("shift"), the("assistant")),
                    (
                        need("shift.night >= today()", "NIGHT_PASSED", "{shift.night} is over"),
                        need(
                            "shift.assistant_id != assistant.id",
                            "SAME_ASSISTANT",
                            "it is the shift of {assistant.name}",
                        ),
                        need(
                            "assistant.trained_until >= shift.night",
                            "TRAINING_EXPIRED",
                            "{assistant.name} is trained until {assistant.trained_until}",
                        ),
                        need(
                            "not exists(shift, assistant_id=assistant.id, night=shift.night)",
                            "ON_DUTY_ALREADY",
                            "{assistant.name} is on duty that night",
                        ),
                        put("shift", assistant_id="assistant.id"),
                    ),
                    asks=("hand {shift} over to {assistant}",),
                ),
            ),
        ),
        Feature(
            "filters",
            entities=(
                Entity(
                    "light_filter",
                    (
                        Attribute("name", code("F-???#")),
                        Attribute(
                            "instrument", ref("instrument", missing=0.3), after="in {}", given=False
                        ),
                        Attribute(
                            "wavelength_nm",
                            integer(350, 950, 10),
                            least="bluest",
                            most="reddest",
                            unit="nm",
                        ),
                    ),
                    rows=(18, 26),
                    label="name",
                    noun="filter",
                    said="filter {}",
                    creatable=True,
                ),
            ),
            constants={"FILTER_SLOTS": (3, 4, 5)},
            settle=(
                "UPDATE light_filters SET instrument_id = NULL WHERE instrument_id IS NOT NULL AND"
                " (SELECT count(*) FROM light_filters f WHERE f.instrument_id ="
                " light_filters.instrument_id AND f.id <= light_filters.id) > 3",
            ),
            actions=(
                Action(
                    "install_filter",
                    "Put a filter that lies in the cabinet into an instrument's wheel.",
                    (the("light_filter"), the("instrument")),
                    (
                        need(
                            "light_filter.instrument_id is None",
                            "FILTER_IN_USE",
                            "{light_filter.name} is in an instrument",
                        ),
                        need(
                            "count(light_filter, instrument_id=instrument.id) < FILTER_SLOTS",
                            "WHEEL_FULL",
                            "the wheel of the {instrument.name} has {FILTER_SLOTS} slots",
                        ),
                        need(
                            "not instrument.mounted",
                            "INSTRUMENT_MOUNTED",
                            "the {instrument.name} is mounted: its wheel cannot be opened",
                        ),
                        put("light_filter", instrument_id="instrument.id"),
                    ),
                    asks=(
                        "install {light_filter} in {instrument}",
                        "put {light_filter} into the wheel of {instrument}",
                    ),
                    policy="Filters are changed while an instrument is not mounted; a wheel has"
                    " {FILTER_SLOTS} slots.",
                ),
                Action(
                    "remove_filter",
                    "Put a filter back into the cabinet.",
                    (the("light_filter"),),
                    (
                        need(
                            "light_filter.instrument_id is not None",
                            "IN_CABINET",
                            "{light_filter.name} lies in the cabinet",
                        ),
                        put("light_filter", instrument_id="None"),
                    ),
                    asks=("take {light_filter} out and put it into the cabinet",),
                ),
            ),
        ),
        Feature(
            "time_trading",
            entities=(
                Entity(
                    "hour_transfer",
                    (
                        Attribute("giver", ref("proposal"), after="from {}"),
                        Attribute("taker", ref("proposal"), after="to {}"),
                        Attribute("hours", integer(1, 3), unit="hours"),
                        Attribute("made_on", day(-40, -1), least="oldest", most="latest"),
                    ),
                    rows=(6, 12),
                    log=True,
                    noun="transfer of hours",
                ),
            ),
            settle=(
                "DELETE FROM hour_transfers WHERE giver_id = taker_id OR taker_id NOT IN (SELECT id"
                " FROM proposals WHERE status = 'approved')",
            ),
            actions=(
                Action(
                    "transfer_hours",
                    "Pass unused hours from one approved proposal to another.",
                    (
                        the("proposal", "giver"),
                        the("proposal", "taker"),
                        arg("hours", integer(1, 3), "how many hours"),
                    ),
                    (
                        need("giver.id != taker.id", "SAME_PROPOSAL", "that is one proposal"),
                        need(
                            "giver.status == 'approved' and taker.status == 'approved'",
                            "NOT_APPROVED",
                            "hours pass between approved proposals only",
                        ),
                        let(
                            "free",
                            "giver.hours_granted - giver.hours_used - total(observation,"
                            " 'hours', proposal_id=giver.id, status='planned')",
                        ),
                        need(
                            "hours <= free",
                            "HOURS_SPOKEN_FOR",
                            "{giver.number} has {free} hours to spare",
                        ),
                        put("giver", hours_granted="giver.hours_granted - hours"),
                        put("taker", hours_granted="taker.hours_granted + hours"),
                        add(
                            "hour_transfer",
                            giver_id="giver.id",
                            taker_id="taker.id",
                            hours="hours",
                            made_on="today()",
                        ),
                    ),
                    asks=(
                        "transfer {hours} hours from {giver} to {taker}",
                        "let {giver} give {hours} hours to {taker}",
                    ),
                    policy="Hours that are neither used nor planned may be passed on.",
                ),
            ),
        ),
        Feature(
            "fault_reports",
            entities=(
                Entity(
                    "fault",
                    (
                        Attribute("telescope", ref("telescope"), after="at {}"),
                        Attribute("severity", choice("minor", "major"), before=True),
                        Attribute("opened_on", day(-30, -1), least="oldest", most="latest"),
                        Attribute("status", choice("open", "fixed"), before=True),
                        Attribute(
                            "about",
                            text(
                                "The dome shutter sticks.",
                                "Tracking drifts to the east.",
                                "The guide camera drops frames.",
                            ),
                            chance=0.6,
                            given=False,
                        ),
                    ),
                    rows=(12, 20),
                ),
            ),
            settle=(
                "UPDATE faults SET status = 'fixed' WHERE severity = 'major' AND telescope_id IN"
                " (SELECT id FROM telescopes WHERE status = 'working')",
            ),
            invariants=(
                "SELECT f.id FROM faults f JOIN telescopes t ON t.id = f.telescope_id WHERE"
                " f.severity = 'major' AND f.status = 'open' AND t.status = 'working'",
            ),
            extends={
                "reopen_telescope": (
                    need(
                        "not exists(fault, telescope_id=telescope.id, severity='major',"
                        " status='open')",
                        "FAULT_OPEN",
                        "{telescope.name} has a major fault that is open",
                    ),
                )
            },
            actions=(
                Action(
                    "report_fault",
                    "Report a fault of a telescope; a major one closes it.",
                    (the("telescope"), arg("severity", choice("minor", "major"), "how bad it is")),
                    (
                        need(
                            "not exists(fault, telescope_id=telescope.id, severity=severity,"
                            " status='open')",
                            "REPORTED_ALREADY",
                            "a {severity} fault of {telescope.name} is open",
                        ),
                        add(
                            "fault",
                            telescope_id="telescope.id",
                            severity="severity",
                            opened_on="today()",
                            status="'open'",
                        ),
                        when("severity == 'major'", put("telescope", status="'closed'")),
                    ),
                    asks=("report a {severity} fault at {telescope}",),
                    policy="A major fault closes the telescope until it is fixed.",
                ),
                Action(
                    "fix_fault",
                    "Note that a fault was fixed.",
                    (the("fault"),),
                    (
                        need("fault.status == 'open'", "FIXED_ALREADY", "it is fixed already"),
                        put("fault", status="'fixed'"),
                    ),
                    asks=("mark {fault} as fixed",),
                ),
            ),
        ),
        Feature(
            "priorities",
            attributes={
                "proposal": (
                    Attribute("priority", choice("ordinary", "high"), before=True, given=False),
                )
            },
            constants={"HIGH_PRIORITY": (4, 5, 6)},
            settle=(
                "UPDATE proposals SET priority = 'ordinary' WHERE id NOT IN (SELECT id FROM"
                " proposals WHERE priority = 'high' AND status = 'approved' ORDER BY id LIMIT 3)",
            ),
            invariants=("SELECT 1 WHERE (SELECT count(*) FROM proposals WHERE priority = 'high') > 6",),
            actions=(
                Action(
                    "raise_priority",
                    "Give an approved proposal high priority.",
                    (the("proposal"),),
                    (
                        need(
                            "proposal.status == 'approved'",
                            "NOT_APPROVED",
                            "proposal {proposal.number} is {proposal.status}",
                        ),
                        need(
                            "proposal.priority == 'ordinary'",
                            "HIGH_ALREADY",
                            "{proposal.number} has high priority",
                        ),
                        need(
                            "count(proposal, priority='high') < HIGH_PRIORITY",
                            "TOO_MANY_HIGH",
                            "{HIGH_PRIORITY} proposals have high priority already",
                        ),
                        put("proposal", priority="'high'"),
                    ),
                    asks=("give {proposal} high priority",),
                    policy="At most {HIGH_PRIORITY} proposals have high priority at a time.",
                ),
                Action(
                    "lower_priority",
                    "Take a proposal's high priority away.",
                    (the("proposal"),),
                    (
                        need(
                            "proposal.priority == 'high'",
                            "NOT_HIGH",
                            "{proposal.number} has ordinary priority",
                        ),
                        put("proposal", priority="'ordinary'"),
                    ),
                    asks=("put {proposal} back to ordinary priority",),
                ),
            ),
        ),
        Feature(
            "alerts",
            entities=(
                Entity(
                    "alert",
                    (
                        Attribute("target", ref("target"), after="about {}"),
                        Attribute("raised_on", day(-10, 0), least="oldest", most="latest"),
                        Attribute("status", choice("open", "followed", "dismissed"), before=True),
                        Attribute(
                            "urgency", integer(1, 9), most="most urgent", least="least urgent"
                        ),
                    ),
                    rows=(14, 22),
                ),
            ),
            settle=(
                "UPDATE alerts SET status = 'dismissed' WHERE status = 'open' AND id NOT IN"
                " (SELECT min(id) FROM alerts WHERE status = 'open' GROUP BY target_id)",
            ),
            actions=(
                Action(
                    "raise_alert",
                    "Tell everybody that something happens to a target now.",
                    (the("target"), arg("urgency", integer(1, 9), "from 1 to 9")),
                    (
                        need(
                            "not exists(alert, target_id=target.id, status='open')",
                            "ALERT_OPEN",
                            "an alert about {target.name} is open",
                        ),
                        need(
                            "target.up_from <= today()",
                            "TARGET_NOT_UP",
                            "{target.name} is up from {target.up_from}",
                        ),
                        add(
                            "alert",
                            target_id="target.id",
                            raised_on="today()",
                            status="'open'",
                            urgency="urgency",
                        ),
                    ),
                    asks=("raise an alert about {target} with urgency {urgency}",),
                    policy="There is one open alert a target, and none about what is not up.",
                ),
                Action(
                    "close_alert",
                    "Close an open alert as followed up or dismissed.",
                    (
                        the("alert"),
                        arg("outcome", choice("followed", "dismissed"), "what came of it"),
                    ),
                    (
                        need(
                            "alert.status == 'open'", "ALERT_CLOSED", "the alert is {alert.status}"
                        ),
                        put("alert", status="outcome"),
                    ),
                    asks=("close {alert} as {outcome}",),
                ),
            ),
        ),
        Feature(
            "target_lists",
            entities=(
                Entity(
                    "listed_target",
                    (
                        Attribute("proposal", ref("proposal"), after="of {}"),
                        Attribute("target", ref("target")),
                        Attribute("rank", integer(1, 9), least="first", most="last"),
                    ),
                    rows=(45, 60),
                    key=("proposal", "target"),
                    noun="listed target",
                ),
            ),
            settle=(
                "INSERT OR IGNORE INTO listed_targets (proposal_id, target_id, rank) SELECT"
                " proposal_id, target_id, 1 FROM observations GROUP BY proposal_id, target_id",
            ),
            extends={
                "schedule_observation": (
                    need(
                        "exists(listed_target, proposal_id=proposal.id, target_id=target.id)",
                        "NOT_ON_LIST",
                        "{target.name} is not on the list of {proposal.number}",
                    ),
                )
            },
            actions=(
                Action(
                    "list_target",
                    "Put a target on a proposal's list.",
                    (
                        the("proposal"),
                        the("target"),
                        arg("rank", integer(1, 9), "how soon it is wanted"),
                    ),
                    (
                        need(
                            "proposal.status != 'rejected'",
                            "REJECTED",
                            "proposal {proposal.number} is rejected",
                        ),
                        need(
                            "not exists(listed_target, proposal_id=proposal.id,"
                            " target_id=target.id)",
                            "LISTED_ALREADY",
                            "{target.name} is on the list of {proposal.number}",
                        ),
                        add(
                            "listed_target",
                            proposal_id="proposal.id",
                            target_id="target.id",
                            rank="rank",
                        ),
                    ),
                    asks=("put {target} on the list of {proposal} with rank {rank}",),
                    policy="Only targets on a proposal's list are observed for it.",
                ),
                Action(
                    "unlist_target",
                    "Take a target off a proposal's list; nothing may be planned for it.",
                    (the("proposal"), the("target")),
                    (
                        find(
                            "entry",
                            "listed_target",
                            "NOT_ON_LIST",
                            "{target.name} is not on the list of {proposal.number}",
                            proposal_id="proposal.id",
                            target_id="target.id",
                        ),
                        need(
                            "not exists(observation, proposal_id=proposal.id,"
                            " target_id=target.id, status='planned')",
                            "STILL_PLANNED",
                            "an observation of {target.name} is planned",
                        ),
                        drop("entry"),
                    ),
                    asks=("take {target} off the list of {proposal}",),
                ),
            ),
        ),
    ),
)
