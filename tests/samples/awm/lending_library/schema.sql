CREATE TABLE books (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, copies INTEGER NOT NULL);
CREATE TABLE loans (book_id INT, member TEXT, due TEXT NOT NULL, -- the key, may be NULL
  PRIMARY KEY (book_id, member), FOREIGN KEY (book_id) REFERENCES books(id));
CREATE TABLE desks (id INT PRIMARY KEY, place TEXT DEFAULT 'hall, left (door)');
