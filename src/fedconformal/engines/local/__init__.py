"""Sites that are all on this machine: worker processes train them in parallel."""
