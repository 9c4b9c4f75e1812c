"""What any node does for all: dead nodes, expired runs, plans that are due."""
