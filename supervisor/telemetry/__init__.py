"""What the product says about itself: events (log lines with a contract) and metrics."""
