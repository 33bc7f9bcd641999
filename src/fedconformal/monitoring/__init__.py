"""Is the promise still kept? Watches over outcomes and scores, at a site and over sites."""
