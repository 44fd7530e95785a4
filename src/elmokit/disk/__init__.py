"""Files and folders: atomic writes, locks, and validation on reading. Imports no other subpackage."""
