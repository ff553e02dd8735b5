INSERT INTO parcels VALUES
  ('P-31', 'Ann Lee', 'held'), ('P-32', 'Bo Lind', 'held'), ('P-33', 'Cy Orr', 'handed_out');
INSERT INTO notes (parcel_id, body) VALUES ('P-32', 'Fragile');
