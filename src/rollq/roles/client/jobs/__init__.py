"""What an application submits, and its encoding. To be read in this order:

1. `options`: each option, checked and converted. `specs`: a job as the application gives it, and
   its body.
2. `inputs`: reads input files; `supply`: a job whose files are read, and its submit message.
3. `parts`: jobs of a staged batch, encoded column by column; `alike`: the same for jobs that
   differ only in arguments. `tracing`: the span of a submit.

Nothing here knows of a session or a connection.
"""
