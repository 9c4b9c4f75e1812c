"""What every verb needs to run: its database, help, errors and waiting."""
