"""The importers on the real public sets, against what the originals do: by hand, with the files at
a path (none of them lies here). The originals run unconfined, in processes of their own."""
