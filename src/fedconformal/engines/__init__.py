"""Who carries a question to the sites and brings the answers back."""
