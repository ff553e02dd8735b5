INSERT INTO products VALUES
  ('TEA-100', 'Assam tea, 100 g', 450, 12),
  ('TEA-250', 'Assam tea, 250 g', 990, 0),
  ('CUP-01', 'Stoneware cup', 1200, 5);
