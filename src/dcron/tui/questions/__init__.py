"""Questions to the person: they need nothing of the app, so the app can ask them itself."""
