"""File formats of networks and models, read and written without torch; each imports its library when it is used."""
