-- How far an index has followed what it is derived from.

ALTER TABLE change ADD COLUMN mark TEXT;
