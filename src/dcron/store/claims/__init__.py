"""How an agent takes due runs, keeps them and ends them."""
