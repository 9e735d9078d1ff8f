"""The doorbell: tells a node that a row is worth a look. The row is the truth; a lost ring costs a
poll, a doubled one nothing."""
