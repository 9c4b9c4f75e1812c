"""The tables of the shared crontab, as queries name them and as a new database gets them."""
