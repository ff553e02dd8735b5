"""EnvScaler's files with an environment of our own, and some that cannot be one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CODE = (Path(__file__).parent / "samples" / "envscaler" / "clinic.py").read_text()


def tool(name: str, /, **parameters: str) -> dict[str, Any]:
    properties = {each: {"type": kind} for each, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    told = {"name": name, "description": f"{name} of the clinic", "parameters": schema}
    return {"type": "function", "function": told}


def environment(env_id: str, code: str = CODE, of_class: str = "Clinic") -> dict[str, Any]:
    return {
        "env_id": env_id,
        "environment_summary": "A clinic that books rooms.",
        "environment_introduction": "You work at the desk of a clinic.",
        "constraints_rules": ["Nobody is booked on a closed day."],
        "operation_list": [{"operation_name": "free_rooms", "operation_type": "query"}],
        "env_class_name": of_class,
        "env_class_code": code,
        "tools": [
            tool("get_patient", patient_id="string"),
            tool("free_rooms"),
            tool("book", patient_id="string", day="string", room="integer"),
            tool("close_day", day="string"),
            tool("open_room", number="integer", name="string"),
            tool("cancel", id="string"),
            tool("admit", patient_id="string", name="string"),
            tool("last"),
        ],
    }


def scenario(env_id: str, task_id: str, task: str, *checks: str, **config: Any) -> dict[str, Any]:
    listed = [{"check_item": f"check {number}", "check_func": c} for number, c in enumerate(checks)]
    return {
        "env_id": env_id,
        "env_class_name": "Clinic",
        "task_id": task_id,
        "task": task,
        "init_config": config,
        "checklist": [],
        "checklist_with_func": listed,
    }


BOOKED = """def check_func(final_state):
    new = set(final_state["appointments"]) - set(initial_state["appointments"])
    return [final_state["appointments"][n]["patient"] for n in new] == ["p-1"]
"""
COUNTED = """def check_func(final_state):
    return final_state["patients"]["p-1"]["visits"] == 3 and 2 in final_state["rooms"]
"""
RAISES = """def check_func(final_state):
    return final_state["nothing"] is None
"""
LOCKED = """import threading


class Clinic:
    def __init__(self):
        self.x = threading.Lock()

    def free_rooms(self):
        return {}
"""
PATIENTS = {"p-1": {"name": "Åsa", "visits": 2}, "p-2": {"name": "Bo", "visits": 0}}
CONFIG: dict[str, Any] = {
    "patients": PATIENTS,
    "room_names": {"2": "Blue", "3": "Red"},
    "holidays": ["Sun"],
}


def write_envscaler(folder: Path) -> Path:
    """Fill ``folder`` with both kinds of file."""
    environments = {
        "env_1_rl": environment("env_1_rl"),
        "env_2_rl": environment("env_2_rl", "class Clinic(:"),
        "env_3_rl": environment("env_3_rl", of_class="Hospital"),
        "env_4_rl": environment("env_4_rl", LOCKED),
    }
    scenarios = [
        scenario("env_1_rl", "t-1", "Book Blue for Åsa on Monday.", BOOKED, COUNTED, **CONFIG),
        scenario("env_1_rl", "t-2", "Book anything for Åsa.", BOOKED, RAISES, patients=PATIENTS),
        scenario("env_1_rl", "t-3", "Say hello."),
        scenario("env_1_rl", "t-4", "Begin badly.", BOOKED, room_names={"one": "Blue"}),
    ]
    (folder / "191_env_metadata.json").write_text(json.dumps(environments, ensure_ascii=False))
    (folder / "rl_scenario_metadata.json").write_text(json.dumps(scenarios, indent=1))
    (folder / "LICENSE").write_text("MIT License\n\nCopyright\n")
    return folder
