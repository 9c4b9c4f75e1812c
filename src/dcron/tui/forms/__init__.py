"""Writing in the TUI: tasks as forms and as text, and the questions before an act."""
