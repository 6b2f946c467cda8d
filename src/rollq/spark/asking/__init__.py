"""Questions about what happened, put to the tables of the pipeline; answers as plain rows."""
