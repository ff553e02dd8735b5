INSERT INTO books (id, title, copies) VALUES (7, 'Rivers; a history', 1);
INSERT INTO books (id, title, copies) VALUES (8, 'Clouds', 0);
INSERT INTO loans (book_id, member, due) VALUES (8, 'Ada', date('now', '+7 days'));
INSERT INTO desks (place) VALUES ('by the window');
