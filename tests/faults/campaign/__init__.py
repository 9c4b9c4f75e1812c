"""Campaigns: real agents and jobs under one seeded fault, judged by what the jobs themselves wrote down."""
