CREATE TABLE parcels (
  id TEXT PRIMARY KEY NOT NULL,
  addressee TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('held', 'handed_out'))
);
CREATE TABLE notes (
  id INTEGER PRIMARY KEY NOT NULL,
  parcel_id TEXT NOT NULL REFERENCES parcels(id),
  body TEXT NOT NULL
);
