from typing import Any, Dict

VISITS = {"count": 0}


class Clinic:
    served = 0

    def __init__(self, init_config: dict):
        self.patients: Dict[str, Dict[str, Any]] = {}
        self.appointments: Dict[str, Dict[str, Any]] = init_config.get("appointments", {})
        self.rooms = {int(number): name for number, name in init_config.get("room_names", {}).items()}
        self.closed = set(init_config.get("holidays", []))
        self.log = []

    def get_patient(self, patient_id: str) -> dict:
        """One patient."""
        if patient_id not in self.patients:
            return {"success": False, "error": "no such patient"}
        return {"success": True, "data": self.patients[patient_id]}

    def free_rooms(self) -> dict:
        taken = {each["room"] for each in self.appointments.values()}
        return {"success": True, "data": [[n, r] for n, r in self.rooms.items() if n not in taken]}

    def book(self, patient_id: str, day: str, room: int) -> dict:
        """Book a room for a patient."""
        VISITS["count"] += 1
        self.log.append([patient_id, day])
        if day in self.closed:
            return {"success": False, "error": "closed"}
        self.patients[patient_id]["visits"] += 1
        number = f"a-{len(self.appointments) + 1}"
        self.appointments[number] = {"patient": patient_id, "day": day, "room": room}
        return {"success": True, "id": number, "today": VISITS["count"]}

    def close_day(self, day: str) -> dict:
        """Take no more bookings on a day."""
        self.closed.add(day)
        return {"success": True}

    def open_room(self, number: int, name: str) -> dict:
        self.rooms[number] = name
        self.rooms[str(number)] = name
        raise TypeError("half done")

    def admit(self, patient_id: str, name: str) -> dict:
        """Admit a patient, who waits."""
        global LAST
        LAST = name
        Clinic.served += 1
        patient = {"name": name, "visits": 0}
        self.patients[patient_id] = patient
        self.log.append(patient)
        return {"success": True}

    def last(self) -> dict:
        return {"success": True, "data": self.log[-1], "name": LAST, "served": Clinic.served}
