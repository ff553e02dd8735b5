INSERT INTO bikes (id, owner, model, received_at) VALUES (1, 'Ada', 'Tourer', datetime('now', '-2 days'));
INSERT INTO bikes (id, owner, model, received_at) VALUES (2, 'Ben', 'Racer', datetime('now'));
INSERT INTO bikes (id, owner, model) VALUES (3, 'Cy's', 'Folder');
INSERT INTO jobs (id, bike_id, what, price, opened_at) VALUES (1, 1, 'True the front wheel', 30, datetime('now'));
INSERT INTO jobs (id, bike_id, what, price, status) VALUES (2, 2, 'New chain; fit it', 45.5, 'done');
INSERT INTO jobs (id, bike_id, what, price) VALUES (3, 77, 'A job of nobody', 1);
INSERT INTO parts (code, stock) VALUES ('chain', 2);
INSERT INTO parts (code, stock) VALUES ('bell', 0);
INSERT INTO parts (code, stock) VALUES (NULL, 5);
