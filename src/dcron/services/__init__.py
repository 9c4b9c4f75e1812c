"""What people ask of a crontab: a service for each matter, shared by every face."""
