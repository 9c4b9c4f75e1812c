"""Every SQL statement of dcron. Functions take a connection and `now`; they neither begin nor commit."""
