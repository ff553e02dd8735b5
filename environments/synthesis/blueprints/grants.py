"""A foundation: applications are scored by independent reviewers and funded from a fund's budget."""

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
    drop_all,
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
    ref,
    the,
    via,
    when,
)  # fmt: skip
from environments.synthesis.blueprints.features import complaints, documents, notes, reminders, tags

_SUBMITTED = need("application.status == 'submitted'", "NOT_SUBMITTED",
                  "{application.number} is {application.status}")  # fmt: skip

BLUEPRINT = Blueprint(
    domain="grants",
    titles=("The {surname} Foundation", "{city} Fund for the Arts"),
    summary="Register applications, have them reviewed, decide on them and pay what is awarded.",
    role="You work in the grants office of {title}.",
    words={"theme": ("Heritage", "Young Talent", "Rural", "Open Science", "Music", "Craft", "Coastal",
                     "Inclusion"),
           "what": ("archive", "festival", "workshop", "garden", "choir", "film", "survey", "exhibition",
                    "residency", "radio play"),
           "kind": ("Mobile", "Community", "Night", "Travelling", "Digital", "Forgotten", "First",
                    "Winter", "Harbour", "Village")},
    constants={"REVIEWS_NEEDED": (1, 2), "PASS_SCORE": (6, 7), "REVIEWER_LOAD": (4, 5, 6),
               "MAX_SHARE": (30, 40, 50)},
    entities=(
        Entity(
            "fund",
            (
                Attribute("name", made("{theme} fund")),
                Attribute("budget", money(60000, 200000, 5000), least="smallest", most="largest",
                          unit="EUR"),
                Attribute("closes_on", day(-20, 90), least="earliest closing", most="latest closing"),
                Attribute("frozen", flag(0.15), given=False),
            ),
            rows=(5, 7), label="name", said="the {}",
        ),
        Entity(
            "applicant",
            (
                Attribute("name", made("{company}", "{city} {what} society")),
                Attribute("form", choice("charity", "company", "individual"), before=True),
                Attribute("email", email(), editable=True),
                Attribute("barred_until", day(-100, 100, missing=0.8), given=False),
                Attribute("founded", integer(1950, 2024), least="oldest", most="youngest", chance=0.6),
            ),
            rows=(22, 32), label="name", creatable=True,
        ),
        Entity(
            "application",
            (
                Attribute("number", code("AP-####")),
                Attribute("title", made("{kind} {what}")),
                Attribute("applicant", ref("applicant"), after="of {}"),
                Attribute("fund", ref("fund"), after="to {}"),
                Attribute("asked", money(2000, 40000, 500), least="smallest", most="largest",
                          doc="amount asked for"),
                Attribute("status", choice("submitted", "approved", "declined", "withdrawn"),
                          before=True),
                Attribute("awarded", money(0, 0), most="best funded", given=False,
                          doc="amount awarded"),
            ),
            rows=(36, 50), label="number", said="application {}",
        ),
        Entity(
            "reviewer",
            (
                Attribute("name", person()),
                Attribute("field", choice("arts", "science", "education", "environment"),
                          after="for {}"),
                Attribute("retired", flag(0.15), editable=True, given=False),
            ),
            rows=(10, 14), label="name",
        ),
        Entity(
            "assessment",
            (
                Attribute("application", ref("application"), after="of {}"),
                Attribute("reviewer", ref("reviewer"), after="by {}"),
                Attribute("score", integer(1, 10), least="lowest", most="highest"),
                Attribute("state", choice("pending", "given"), before=True),
                Attribute("due_on", day(-10, 25), least="most urgent"),
            ),
            rows=(50, 70),
        ),
    ),
    settle=(
        "DELETE FROM assessments WHERE id NOT IN (SELECT min(id) FROM assessments GROUP BY application_id,"
        " reviewer_id)",
        "UPDATE assessments SET score = 0 WHERE state = 'pending'",
        "UPDATE assessments SET state = 'given', score = 7 WHERE state = 'pending' AND reviewer_id IN"
        " (SELECT reviewer_id FROM assessments WHERE state = 'pending' GROUP BY reviewer_id HAVING"
        " count(*) > 4)",
        "UPDATE applications SET awarded = round(asked * 0.8, 2) WHERE status = 'approved'",
        "UPDATE applications SET status = 'declined', awarded = 0 WHERE status = 'approved' AND (SELECT"
        " sum(awarded) FROM applications a WHERE a.fund_id = applications.fund_id AND a.id <="
        " applications.id) > (SELECT budget FROM funds WHERE id = fund_id) * 0.8",
    ),
    invariants=(
        "SELECT f.id FROM funds f WHERE (SELECT coalesce(sum(awarded), 0) FROM applications WHERE fund_id"
        " = f.id) > f.budget + 0.001",
        "SELECT id FROM applications WHERE awarded > 0 AND status <> 'approved'",
        "SELECT 1 FROM assessments GROUP BY application_id, reviewer_id HAVING count(*) > 1",
    ),
    actions=(
        Action(
            "register_application",
            "Register an application to an open fund.",
            (the("applicant"), the("fund"), arg("number", code("AP-####"), "the number it gets"),
             arg("title", made("{kind} {what}"), "what it is for"),
             arg("asked", money(2000, 30000, 500), "how much is asked for")),
            (
                need("not exists(application, number=number)", "NUMBER_TAKEN",
                     "there is an application {number}"),
                need("fund.closes_on >= today()", "FUND_CLOSED", "{fund.name} closed on {fund.closes_on}"),
                need("applicant.barred_until is None or applicant.barred_until < today()",
                     "APPLICANT_BARRED", "{applicant.name} is barred until {applicant.barred_until}"),
                need("not exists(application, applicant_id=applicant.id, fund_id=fund.id, "
                     "status='submitted')", "APPLIED_ALREADY",
                     "{applicant.name} has an application to {fund.name} under way"),
                need("asked * 100 <= fund.budget * MAX_SHARE", "ASKS_TOO_MUCH",
                     "nobody gets more than {MAX_SHARE} percent of {fund.budget}"),
                add("application", number="number", title="title", applicant_id="applicant.id",
                    fund_id="fund.id", asked="asked", status="'submitted'", awarded="0"),
            ),
            asks=("register an application of {applicant} to {fund} as {number}, titled “{title}”, asking for {asked}",
                  "enter application {number} by {applicant} to {fund}: “{title}”, for {asked}"),
            policy="An applicant has one application under way with a fund and asks for at most {MAX_SHARE}"
                   " percent of its budget. Closed funds take none.",
        ),
        Action(
            "ask_reviewer",
            "Ask a reviewer for an assessment of a submitted application.",
            (the("application"), the("reviewer"), arg("due_on", day(5, 25), "when it is due")),
            (
                _SUBMITTED,
                need("not reviewer.retired", "REVIEWER_RETIRED", "{reviewer.name} is retired"),
                need("due_on > today()", "DAY_PASSED", "{due_on} is not ahead"),
                need("not exists(assessment, application_id=application.id, reviewer_id=reviewer.id)",
                     "ALREADY_ASKED", "{reviewer.name} was asked already"),
                let("load", "count(assessment, reviewer_id=reviewer.id, state='pending')"),
                need("load < REVIEWER_LOAD", "REVIEWER_BUSY",
                     "{reviewer.name} has {load} assessments to give"),
                add("assessment", application_id="application.id", reviewer_id="reviewer.id", score="0",
                    state="'pending'", due_on="due_on"),
            ),
            asks=("ask {reviewer} to assess {application} by {due_on}",
                  "have {application} assessed by {reviewer}, due on {due_on}"),
            policy="A reviewer has at most {REVIEWER_LOAD} pending assessments and sees an application once.",
        ),
        Action(
            "enter_score",
            "Enter the score of a pending assessment.",
            (the("assessment"), arg("score", integer(1, 10), "1 to 10")),
            (
                need("assessment.state == 'pending'", "ALREADY_GIVEN", "it was given: {assessment.score}"),
                need("score <= 10", "SCORE_TOO_HIGH", "scores run from 1 to 10"),
                put("assessment", score="score", state="'given'"),
            ),
            asks=("enter a score of {score} for {assessment}", "record {score} points for {assessment}"),
        ),
        Action(
            "approve_application",
            "Approve a submitted application and award an amount from its fund.",
            (the("application"), via("fund", "application.fund_id"),
             arg("amount", money(1000, 20000, 500), "what is awarded")),
            (
                _SUBMITTED,
                need("not fund.frozen", "FUND_FROZEN", "{fund.name} is frozen"),
                need("amount <= application.asked", "MORE_THAN_ASKED",
                     "{application.asked} were asked for"),
                let("given", "count(assessment, application_id=application.id, state='given')"),
                need("given >= REVIEWS_NEEDED", "TOO_FEW_ASSESSMENTS",
                     "it has {given} of {REVIEWS_NEEDED} assessments"),
                need("not exists(assessment, application_id=application.id, state='given', "
                     "score__lt=PASS_SCORE - 3)", "SCORED_TOO_LOW", "an assessment is far below {PASS_SCORE}"),
                let("spent", "total(application, 'awarded', fund_id=fund.id)"),
                need("spent + amount <= fund.budget", "BUDGET_EXCEEDED",
                     "{spent} of {fund.budget} are spent"),
                put("application", status="'approved'", awarded="amount"),
            ),
            asks=("approve {application} with {amount}", "award {amount} to {application}"),
            policy="Approval takes {REVIEWS_NEEDED} assessments, none more than three points below"
                   " {PASS_SCORE}, and money left in the fund.",
        ),
        Action(
            "decline_application",
            "Decline a submitted application; what reviewers still owe falls away.",
            (the("application"),),
            (
                _SUBMITTED,
                put("application", status="'declined'"),
                drop_all("assessment", application_id="application.id", state="'pending'"),
            ),
            asks=("decline {application}", "turn down {application}"),
            policy="Pending assessments of an application that is declined or withdrawn are struck.",
        ),
        Action(
            "withdraw_application",
            "Withdraw a submitted application at the applicant's wish.",
            (the("application"),),
            (
                _SUBMITTED,
                need("not exists(assessment, application_id=application.id, state='given')",
                     "ASSESSED_ALREADY", "it has been assessed"),
                put("application", status="'withdrawn'"),
                drop_all("assessment", application_id="application.id", state="'pending'"),
            ),
            asks=("withdraw {application}",),
            policy="Once assessed, an application is not withdrawn any more.",
        ),
        Action(
            "move_budget",
            "Move money from one fund to another.",
            (the("fund", "source"), the("fund", "target"), arg("amount", money(1000, 15000, 1000), "how much")),
            (
                need("source.id != target.id", "SAME_FUND", "that is the same fund"),
                let("free", "source.budget - total(application, 'awarded', fund_id=source.id)"),
                need("amount <= free", "NOT_ENOUGH_FREE", "{free} of {source.name} are free"),
                put("source", budget="source.budget - amount"),
                put("target", budget="target.budget + amount"),
            ),
            asks=("move {amount} of budget from {source} to {target}",
                  "shift {amount} from {source} to {target}"),
            policy="Only money that is not awarded moves between funds.",
        ),
    ),
    features=(
        Feature(
            "instalments",
            entities=(
                Entity(
                    "payout",
                    (
                        Attribute("application", ref("application"), after="for {}"),
                        Attribute("amount", money(500, 6000, 250), least="smallest", most="largest"),
                        Attribute("planned_on", day(-60, 60), least="earliest", most="latest"),
                        Attribute("state", choice("planned", "paid", "stopped"), before=True),
                    ),
                    rows=(16, 26),
                ),
            ),
            settle=(
                "DELETE FROM payouts WHERE application_id NOT IN (SELECT id FROM applications WHERE status ="
                " 'approved') OR (SELECT sum(amount) FROM payouts p WHERE p.application_id ="
                " payouts.application_id AND p.id <= payouts.id) > (SELECT awarded FROM applications WHERE"
                " id = application_id)",
            ),
            invariants=(
                "SELECT a.id FROM applications a WHERE (SELECT coalesce(sum(amount), 0) FROM payouts WHERE"
                " application_id = a.id AND state <> 'stopped') > a.awarded + 0.001",
            ),
            actions=(
                Action(
                    "plan_payout",
                    "Plan the payout of a part of what was awarded.",
                    (the("application"), arg("amount", money(500, 5000, 250), "how much"),
                     arg("planned_on", day(3, 60), "when")),
                    (
                        need("application.status == 'approved'", "NOT_APPROVED",
                             "{application.number} is {application.status}"),
                        let("planned", "total(payout, 'amount', application_id=application.id, "
                                       "state__ne='stopped')"),
                        need("planned + amount <= application.awarded", "MORE_THAN_AWARDED",
                             "{planned} of {application.awarded} are planned or paid"),
                        add("payout", application_id="application.id", amount="amount",
                            planned_on="planned_on", state="'planned'"),
                    ),
                    asks=("plan a payout of {amount} for {application} on {planned_on}",
                          "schedule {amount} of {application} for {planned_on}"),
                    policy="Payouts never come to more than was awarded.",
                ),
                Action(
                    "pay_out",
                    "Pay a planned payout.",
                    (the("payout"),),
                    (
                        need("payout.state == 'planned'", "NOT_PLANNED", "it is {payout.state}"),
                        put("payout", state="'paid'"),
                    ),
                    asks=("pay out {payout}", "release {payout}"),
                ),
                Action(
                    "stop_payout",
                    "Stop a planned payout.",
                    (the("payout"),),
                    (
                        need("payout.state == 'planned'", "NOT_PLANNED", "it is {payout.state}"),
                        put("payout", state="'stopped'"),
                    ),
                    asks=("stop {payout}",),
                ),
            ),
        ),
        Feature(
            "conflicts",
            entities=(
                Entity(
                    "conflict",
                    (Attribute("reviewer", ref("reviewer")), Attribute("applicant", ref("applicant")),
                     Attribute("declared_on", day(-300, -10))),
                    rows=(14, 22), key=("reviewer", "applicant"),
                ),
            ),
            settle=(
                "DELETE FROM conflicts WHERE EXISTS (SELECT 1 FROM assessments s JOIN applications a ON a.id"
                " = s.application_id WHERE s.reviewer_id = conflicts.reviewer_id AND a.applicant_id ="
                " conflicts.applicant_id)",
            ),
            extends={
                "ask_reviewer": (
                    need("not exists(conflict, reviewer_id=reviewer.id, "
                         "applicant_id=application.applicant_id)", "CONFLICT_OF_INTEREST",
                         "{reviewer.name} has declared a conflict of interest"),
                ),
            },
            actions=(
                Action(
                    "declare_conflict",
                    "Note that a reviewer is too close to an applicant to judge.",
                    (the("reviewer"), the("applicant")),
                    (
                        need("not exists(conflict, reviewer_id=reviewer.id, applicant_id=applicant.id)",
                             "ALREADY_DECLARED", "that is on file"),
                        add("conflict", reviewer_id="reviewer.id", applicant_id="applicant.id",
                            declared_on="today()"),
                    ),
                    asks=("declare a conflict of interest of {reviewer} with {applicant}",
                          "put on file that {reviewer} has a conflict with {applicant}"),
                    policy="Reviewers judge nobody they have declared a conflict with.",
                ),
                Action(
                    "lift_conflict",
                    "Strike a conflict of interest from the file.",
                    (the("reviewer"), the("applicant")),
                    (
                        find("conflict", "conflict", "NOT_ON_FILE", "no conflict is on file",
                             reviewer_id="reviewer.id", applicant_id="applicant.id"),
                        drop("conflict"),
                    ),
                    asks=("strike the conflict of interest of {reviewer} with {applicant}",),
                ),
            ),
        ),
        Feature(
            "barring",
            entities=(
                Entity(
                    "offence",
                    (
                        Attribute("applicant", ref("applicant")),
                        Attribute("what", choice("late report", "misuse", "false statement")),
                        Attribute("noted_on", day(-400, -5)),
                    ),
                    rows=(12, 18), log=True,
                ),
            ),
            constants={"BARRED_DAYS": (90, 180, 365)},
            actions=(
                Action(
                    "note_offence",
                    "Note an offence; a second one bars the applicant for a while.",
                    (the("applicant"), arg("what", choice("late report", "misuse", "false statement"), "what")),
                    (
                        let("before", "count(offence, applicant_id=applicant.id)"),
                        add("offence", applicant_id="applicant.id", what="what", noted_on="today()"),
                        when("before >= 1",
                             put("applicant", barred_until="days_after(today(), BARRED_DAYS)")),
                    ),
                    asks=("note an offence of {applicant}: {what}", "put a {what} of {applicant} on file"),
                    policy="The second offence bars an applicant for {BARRED_DAYS} days.",
                ),
                Action(
                    "lift_bar",
                    "Lift the bar on an applicant without misuse on file.",
                    (the("applicant"),),
                    (
                        need("applicant.barred_until is not None", "NOT_BARRED",
                             "{applicant.name} is not barred"),
                        need("not exists(offence, applicant_id=applicant.id, what='misuse')",
                             "MISUSE_ON_FILE", "{applicant.name} has misuse on file"),
                        put("applicant", barred_until="None"),
                    ),
                    asks=("lift the bar on {applicant}", "let {applicant} apply again"),
                    policy="Whoever misused money stays barred.",
                ),
            ),
        ),
        Feature(
            "freezing",
            actions=(
                Action(
                    "freeze_fund",
                    "Freeze a fund: nothing is approved from it.",
                    (the("fund"),),
                    (
                        need("not fund.frozen", "ALREADY_FROZEN", "{fund.name} is frozen"),
                        need("count(application, fund_id=fund.id, status='submitted') <= 8", "TOO_MANY_WAITING",
                             "too many applications wait for {fund.name}"),
                        put("fund", frozen="1"),
                    ),
                    asks=("freeze {fund}",),
                    policy="A fund for which more than eight applications wait is not frozen.",
                ),
                Action(
                    "thaw_fund",
                    "Lift the freeze on a fund.",
                    (the("fund"),),
                    (
                        need("fund.frozen", "NOT_FROZEN", "{fund.name} is not frozen"),
                        put("fund", frozen="0"),
                    ),
                    asks=("lift the freeze on {fund}", "thaw {fund}"),
                ),
                Action(
                    "extend_fund",
                    "Let a fund close later.",
                    (the("fund"), arg("days", integer(7, 42, 7), "by how many days")),
                    (
                        need("not fund.frozen", "FUND_FROZEN", "{fund.name} is frozen"),
                        put("fund", closes_on="days_after(fund.closes_on, days)"),
                    ),
                    asks=("extend the deadline of {fund} by {days} days", "let {fund} close {days} days later"),
                ),
            ),
        ),
        Feature(
            "partners",
            entities=(
                Entity(
                    "partnership",
                    (
                        Attribute("application", ref("application")),
                        Attribute("applicant", ref("applicant")),
                        Attribute("share", integer(5, 25, 5)),
                    ),
                    rows=(16, 24), key=("application", "applicant"),
                ),
            ),
            settle=(
                "DELETE FROM partnerships WHERE applicant_id = (SELECT applicant_id FROM applications WHERE id"
                " = application_id) OR (SELECT sum(share) FROM partnerships p WHERE p.application_id ="
                " partnerships.application_id) > 45",
            ),
            invariants=(
                "SELECT application_id FROM partnerships GROUP BY application_id HAVING sum(share) > 49",
            ),
            actions=(
                Action(
                    "add_partner",
                    "Enter another applicant as partner of an application.",
                    (the("application"), the("applicant"), arg("share", integer(5, 25, 5), "percent of the money")),
                    (
                        need("application.applicant_id != applicant.id", "OWN_APPLICATION",
                             "it is {applicant.name}'s own"),
                        need("not exists(partnership, application_id=application.id, "
                             "applicant_id=applicant.id)", "PARTNER_ALREADY", "they are a partner already"),
                        let("shared", "total(partnership, 'share', application_id=application.id)"),
                        need("shared + share < 50", "SHARE_TOO_LARGE",
                             "{shared} percent are with partners already"),
                        add("partnership", application_id="application.id", applicant_id="applicant.id",
                            share="share"),
                    ),
                    asks=("enter {applicant} as a partner in {application} with a share of {share} percent",
                          "give {applicant} {share} percent of {application} as a partner"),
                    policy="Partners together have less than half of an application.",
                ),
                Action(
                    "change_share",
                    "Change the share of a partner.",
                    (the("application"), the("applicant"), arg("share", integer(5, 25, 5), "percent")),
                    (
                        find("partnership", "partnership", "NO_PARTNER", "they are no partner in it",
                             application_id="application.id", applicant_id="applicant.id"),
                        need("share != partnership.share", "NOTHING_TO_CHANGE", "it is {share} already"),
                        let("others", "total(partnership, 'share', application_id=application.id) - "
                                      "partnership.share"),
                        need("others + share < 50", "SHARE_TOO_LARGE", "others have {others} percent"),
                        put("partnership", share="share"),
                    ),
                    asks=("change the share of {applicant} in {application} to {share} percent",),
                ),
                Action(
                    "remove_partner",
                    "Take a partner out of an application that is not approved.",
                    (the("application"), the("applicant")),
                    (
                        need("application.status != 'approved'", "ALREADY_APPROVED",
                             "partners stay once it is approved"),
                        find("partnership", "partnership", "NO_PARTNER", "they are no partner in it",
                             application_id="application.id", applicant_id="applicant.id"),
                        drop("partnership"),
                    ),
                    asks=("take {applicant} out of {application}",
                          "remove {applicant} as a partner from {application}"),
                ),
            ),
        ),
        notes("applicant", "asks for paper forms", "has a new treasurer", "was visited in spring",
              "reports on time"),
        reminders("application"),
        documents("application"),
        tags("application", "flagship", "first-timer", "cross-border", "match funded", "pilot"),
        complaints("applicant"),
    ),
)
