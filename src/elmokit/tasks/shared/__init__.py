"""Building blocks shared by the task networks, common settings, and the task base class."""
