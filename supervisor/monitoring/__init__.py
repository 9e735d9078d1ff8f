"""What people watch it with: rules, alerts, routes and dashboards as data, written out as files."""
