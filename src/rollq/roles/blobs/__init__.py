"""Moving blobs: one machine for each end of a link, the server and the client around them."""
